/** Sparse tensors as POST /predict takes them: `{"shape", "data", "indices"}`, indices counted from 0. */
import type { ErrorCode } from '../../../../lib/contract/errors.ts';
import type { InstanceCase, Text } from '../cases.ts';
import type { ModelName } from '../models.ts';
import { instanceCases } from '../rows.ts';

const sparse = (shape: string, data: string, indices: string) =>
  `{"x":{"shape":${shape},"data":${data},"indices":${indices}}}`;
const square = (
  name: string,
  instance: Text,
  message: RegExp,
  code: ErrorCode = 'bad_input',
  model: ModelName = 'square',
): InstanceCase => [name, model, instance, code, message];

export const SPARSE: readonly InstanceCase[] = [
  ...instanceCases('sparse.jsonl', 'sparse'),
  square(
    'a million dimensions',
    () => sparse(`[${'1,'.repeat(1e6)}1]`, '[1]', '[[0]]'),
    /1000001 dimensions are over the limit of 16/,
    'too_large',
  ),
  square(
    'values fifty thousand deep',
    () => sparse('[3,3]', '['.repeat(5e4) + ']'.repeat(5e4), '[[0,0]]'),
    /sparse data: arrays are nested deeper than 16/,
    'too_large',
  ),
  square(
    'values a million deep',
    () => sparse('[3,3]', '['.repeat(1e6) + ']'.repeat(1e6), '[[0,0]]'),
    /nested deeper than 16/,
    'too_large',
  ),
];
