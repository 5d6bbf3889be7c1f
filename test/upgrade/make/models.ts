/** Makes the models of the stored jobs, a few operations each. */
import { type ModelSpec, onnxModel } from '../../support/onnx.ts';
import type { Job } from '../jobs.ts';

/** ONNX's numbers of element types. */
const TYPES = { uint8: 2, int32: 6, int64: 7, bool: 9, float16: 10, float64: 11 } as const;

function line(factor: number): ModelSpec {
  const shape = ['N', 3, 2, 2];
  return {
    inputs: [{ name: 'x', dtype: 'float32', shape }],
    outputs: [{ name: 'y', dtype: 'float32', shape }],
    nodes: [
      { op: 'Mul', inputs: ['x', 'factor'], outputs: ['product'] },
      { op: 'Add', inputs: ['product', 'one'], outputs: ['y'] },
    ],
    weights: [
      { name: 'factor', dtype: 'float32', shape: [1], data: Float32Array.of(factor) },
      { name: 'one', dtype: 'float32', shape: [1], data: Float32Array.of(1) },
    ],
  };
}

/** Casts x to each dtype; the int64 output exceeds what a double can hold. */
function kinds(): ModelSpec {
  const shape = ['N', 3];
  const names = Object.keys(TYPES) as (keyof typeof TYPES)[];
  return {
    inputs: [{ name: 'x', dtype: 'float32', shape }],
    outputs: [
      { name: 'float32', dtype: 'float32', shape },
      ...names.map((name) => ({ name, dtype: name, shape })),
    ],
    nodes: [
      { op: 'Neg', inputs: ['x'], outputs: ['float32'] },
      ...names.map((name) => ({
        op: 'Cast',
        inputs: ['x'],
        outputs: [name === 'int64' ? 'small' : name],
        attributes: { to: TYPES[name] },
      })),
      { op: 'Mul', inputs: ['small', 'large'], outputs: ['int64'] },
    ],
    weights: [{ name: 'large', dtype: 'int64', shape: [1], data: BigInt64Array.of(2n ** 55n + 1n) }],
  };
}

/** Two outputs: the doubled row and its sum. */
function top(): ModelSpec {
  return {
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 4] }],
    outputs: [
      { name: 'doubled', dtype: 'float32', shape: ['N', 4] },
      { name: 'total', dtype: 'float32', shape: ['N', 1] },
    ],
    nodes: [
      { op: 'Add', inputs: ['x', 'x'], outputs: ['doubled'] },
      { op: 'ReduceSum', inputs: ['x', 'axes'], outputs: ['total'], attributes: { keepdims: 1 } },
    ],
    weights: [{ name: 'axes', dtype: 'int64', shape: [1], data: BigInt64Array.of(1n) }],
  };
}

function text(): ModelSpec {
  return {
    inputs: [{ name: 's', dtype: 'string', shape: ['N', 2] }],
    outputs: [{ name: 'same', dtype: 'string', shape: ['N', 2] }],
    nodes: [{ op: 'Identity', inputs: ['s'], outputs: ['same'] }],
  };
}

/** The models of each job, the oldest first. */
export function modelsOf(): Record<Job, Uint8Array[]> {
  return {
    line: [2, 3, 4].map((factor) => onnxModel(line(factor))),
    kinds: [onnxModel(kinds())],
    top: [onnxModel(top())],
    text: [onnxModel(text())],
  };
}
