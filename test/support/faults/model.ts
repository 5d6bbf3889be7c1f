/**
 * The model of the fault tests: `y = 2 x + 1`. It must be able to fail for one record of a run, so `k` is an index
 * into a table of ten, and 99 is out of range.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RecordInputs } from '../../../sdk/inputs.ts';
import { onnxModel } from '../onnx.ts';

const INPUTS = [
  { name: 'x', dtype: 'float32', shape: ['N', 1] },
  { name: 'k', dtype: 'int64', shape: ['N', 1] },
] as const;

export function lineModel(): Uint8Array {
  return onnxModel({
    inputs: INPUTS,
    outputs: [
      { name: 'y', dtype: 'float32', shape: ['N', 1] },
      { name: 'z', dtype: 'float32', shape: ['N', 1] },
    ],
    nodes: [
      { op: 'Mul', inputs: ['x', 'two'], outputs: ['double'] },
      { op: 'Add', inputs: ['double', 'one'], outputs: ['y'] },
      { op: 'Gather', inputs: ['table', 'k'], outputs: ['looked'] },
      { op: 'Add', inputs: ['looked', 'x'], outputs: ['z'] },
    ],
    weights: WEIGHTS,
  });
}

const WEIGHTS = [
  { name: 'two', dtype: 'float32', shape: [1], data: Float32Array.of(2) },
  { name: 'one', dtype: 'float32', shape: [1], data: Float32Array.of(1) },
  { name: 'table', dtype: 'float32', shape: [10], data: new Float32Array(10) },
] as const;

const WIDTH = 1024;
/** About 0.2 s a run on one core: long enough to be caught in. */
const LAYERS = 300;

/** The same answers, slowly: a long way from x to y whose product with zero is added. */
export function slowModel(): Uint8Array {
  const layers = Array.from({ length: LAYERS }, (_, i) => ({
    op: 'MatMul',
    inputs: [`h${i}`, 'weights'],
    outputs: [`h${i + 1}`],
  }));
  return onnxModel({
    inputs: INPUTS,
    outputs: [
      { name: 'y', dtype: 'float32', shape: ['N', 1] },
      { name: 'z', dtype: 'float32', shape: ['N', 1] },
    ],
    nodes: [
      { op: 'Mul', inputs: ['x', 'ones'], outputs: ['h0'] },
      ...layers,
      { op: 'MatMul', inputs: [`h${LAYERS}`, 'nothing'], outputs: ['zero'] },
      { op: 'Mul', inputs: ['x', 'two'], outputs: ['double'] },
      { op: 'Add', inputs: ['double', 'one'], outputs: ['line'] },
      { op: 'Add', inputs: ['line', 'zero'], outputs: ['y'] },
      { op: 'Gather', inputs: ['table', 'k'], outputs: ['looked'] },
      { op: 'Add', inputs: ['looked', 'x'], outputs: ['z'] },
    ],
    weights: [
      ...WEIGHTS,
      { name: 'ones', dtype: 'float32', shape: [1, WIDTH], data: new Float32Array(WIDTH).fill(1) },
      { name: 'nothing', dtype: 'float32', shape: [WIDTH, 1], data: new Float32Array(WIDTH) },
      {
        name: 'weights',
        dtype: 'float32',
        shape: [WIDTH, WIDTH],
        data: new Float32Array(WIDTH * WIDTH).fill(1 / WIDTH),
      },
    ],
  });
}

/** A folder with this one model, as `publishModel` wants it. */
export async function modelFolder(parent: string, bytes: Uint8Array): Promise<string> {
  const folder = join(parent, 'model');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'model.onnx'), bytes);
  return folder;
}

export const lineOf = (x: number): number => 2 * x + 1;

/** A record the model answers with `lineOf(x)`. */
export function record(x: number): RecordInputs {
  return { x: Float32Array.of(x), k: BigInt64Array.of(BigInt(x % 10)) };
}

/** A record the model itself refuses, in the middle of a run: `model_failed`. */
export function poison(x: number): RecordInputs {
  return { x: Float32Array.of(x), k: BigInt64Array.of(99n) };
}

/** A record that does not fit the model: `bad_input`. */
export function mismatched(x: number): RecordInputs {
  return { x: [[x, x, x]], k: BigInt64Array.of(0n) };
}
