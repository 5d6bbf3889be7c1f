/**
 * Triton's classification extension: an output as the k largest values of each row, each a text "value:index" or
 * "value:index:label". Values have the digits that JSON outputs have, where Triton writes six places and loses small ones.
 */

import { quoteName } from '../../codecs/quote.ts';
import { badRequest, ServingError } from '../../contract/errors.ts';
import { elementAt } from '../../contract/present.ts';
import { elementCount } from '../../contract/tensor.ts';
import type { NamedTensor, TensorSpec } from '../../contract/values.ts';
import { numberText, rankingOf } from '../../pipeline/answer/postprocess.ts';
import { batchAxisOf } from '../../pipeline/batch/batch-axes.ts';

/** Texts of one output: each costs a hundred times what a number does. */
const MOST_TEXTS = 1_000_000;

/**
 * True if the rows of an output can be ordered, judging by what the model declares.
 * @throws bad_request
 */
export function assertClassified(name: string, spec: TensorSpec | undefined): void {
  const refuse = (reason: string) => badRequest(`output ${quoteName(name)}: classification ${reason}`);
  if (spec === undefined) throw refuse('needs a model that declares its outputs; this job runs a worker');
  if (spec.dtype === 'string' || spec.dtype === 'bool') throw refuse(`orders numbers, not ${spec.dtype}`);
  const axis = batchAxisOf(spec);
  if (axis !== 0 && axis !== 'none')
    throw refuse(`needs the batch dimension in front; here it is axis ${axis}`);
}

/**
 * The k largest of each row, [rows, k], or of the whole output where it has no batch dimension, [k]; fewer where there are
 * fewer values. Labels are those of a row that has as many values.
 */
export function classified(output: NamedTensor, spec: TensorSpec, k: number): NamedTensor {
  const { name, dtype, shape, data, labels } = output;
  const isBatched = batchAxisOf(spec) === 0 && shape.length > 0;
  const rows = isBatched ? elementAt(shape, 0, 'shape') : 1;
  const width = elementCount(isBatched ? shape.slice(1) : shape);
  const count = Math.min(k, width);
  if (rows * count > MOST_TEXTS) {
    throw new ServingError(
      'too_large',
      `output ${quoteName(name)}: ${rows * count} classes are over the limit of ${MOST_TEXTS}; ask for fewer, or send fewer rows`,
    );
  }
  const named = labels?.length === width ? labels : undefined;
  const largest = rankingOf(output);
  const texts: string[] = [];
  for (let start = 0; start < rows * width; start += width) {
    for (const index of largest(count, start, width)) {
      const text = `${valueText(data[start + index] as number | bigint, dtype)}:${index}`;
      texts.push(named ? `${text}:${named[index]}` : text);
    }
  }
  return { name, dtype: 'string', shape: isBatched ? [rows, count] : [count], data: texts };
}

/** Values that JSON has no number for have the name that C and Python read. */
function valueText(value: number | bigint, dtype: NamedTensor['dtype']): string {
  const text = numberText(value, dtype);
  if (text !== 'null') return text;
  return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
}
