/** Opens small real models in onnxruntime by name, once per test file, each with an instance that it accepts. */
import type { OnnxRunner } from '../../../lib/compose/onnx.ts';
import { type Element, identityModel, onnxModel, type ValueSpec } from '../../support/onnx.ts';
import { type Hooks, openModelBytes } from '../../support/runner.ts';

const of = (dtype: Element, ...row: (number | string)[]): ValueSpec => ({
  name: 'x',
  dtype,
  shape: ['N', ...row],
});

/** The outputs of each model are its inputs, except for `anyImage` (the mean of its pixels) and `lookup`. */
const MODELS = {
  pair: [of('float32', 2)],
  double: [of('float64', 2)],
  half: [of('float16', 2)],
  int8: [of('int8', 2)],
  int16: [of('int16', 2)],
  int32: [of('int32', 2)],
  int64: [of('int64', 2)],
  uint8: [of('uint8', 2)],
  uint16: [of('uint16', 2)],
  uint32: [of('uint32', 2)],
  uint64: [of('uint64', 2)],
  bool: [of('bool', 2)],
  texts: [of('string', 'n')],
  vector: [of('float32', 'n')],
  matrix: [of('float32', 2, 3)],
  grid: [of('float32', 'h', 'w')],
  square: [of('float32', 3, 3)],
  cube: [of('float32', 2, 2, 2)],
  fixed: [{ name: 'x', dtype: 'float32', shape: [4, 2] }],
  two: [
    { name: 'a', dtype: 'float32', shape: ['N', 2] },
    { name: 'b', dtype: 'int64', shape: ['N', 1] },
  ],
  /** As `two`, but its callers send the batch dimension. */
  whole: [
    { name: 'a', dtype: 'float32', shape: ['N', 2] },
    { name: 'b', dtype: 'int64', shape: ['N', 1] },
  ],
  image: [of('float32', 3, 8, 8)],
  grey: [of('float32', 1, 8, 8)],
  pixels: [of('uint8', 8, 8, 3)],
  flags: [of('bool', 3, 8, 8)],
  anyImage: [of('float32', 3, 'h', 'w')],
  /** Looks up one of three rows. */
  lookup: [of('int64', 1)],
} as const satisfies Record<string, readonly ValueSpec[]>;

export type ModelName = keyof typeof MODELS;

/** A 1x1 PNG. */
export const DOT =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==';

export const GOOD: Readonly<Record<ModelName, string>> = {
  pair: '{"x":[1,2]}',
  double: '{"x":[1,2]}',
  half: '{"x":[1,2]}',
  int8: '{"x":[1,2]}',
  int16: '{"x":[1,2]}',
  int32: '{"x":[1,2]}',
  int64: '{"x":[1,2]}',
  uint8: '{"x":[1,2]}',
  uint16: '{"x":[1,2]}',
  uint32: '{"x":[1,2]}',
  uint64: '{"x":[1,2]}',
  bool: '{"x":[true,0]}',
  texts: '{"x":["a","wörld"]}',
  vector: '{"x":[1,2,3]}',
  matrix: '{"x":[[1,2,3],[4,5,6]]}',
  grid: '{"x":[[1,2,3],[4,5,6]]}',
  square: '{"x":{"shape":[3,3],"data":[5],"indices":[[1,2]]}}',
  cube: '{"x":{"shape":[2,2,2],"data":[5,6],"indices":[[1,0,1],[0,0,0]]}}',
  fixed: '{"x":[1,2]}',
  two: '{"a":[1,2],"b":[3]}',
  whole: '{"a":[[1,2],[3,4]],"b":[[5],[6]]}',
  image: `{"x":"${DOT}"}`,
  grey: `{"x":"${DOT}"}`,
  pixels: `{"x":"${DOT}"}`,
  flags: `{"x":${JSON.stringify(Array(3).fill(Array(8).fill(Array(8).fill(true))))}}`,
  anyImage: `{"x":"${DOT}"}`,
  lookup: '{"x":[2]}',
};

export class Models {
  readonly #t: Hooks;
  readonly #open = new Map<ModelName, Promise<OnnxRunner>>();

  /** Closed after `t`. */
  constructor(t: Hooks) {
    this.#t = t;
  }

  runner(name: ModelName): Promise<OnnxRunner> {
    let open = this.#open.get(name);
    if (!open) {
      const settings = { inputAlreadyBatched: name === 'whole' };
      open = openModelBytes(this.#t, modelBytes(name), settings);
      this.#open.set(name, open);
    }
    return open;
  }
}

export function modelBytes(name: ModelName): Uint8Array {
  const specs: readonly ValueSpec[] = MODELS[name];
  if (name === 'lookup') return lookupModel(specs);
  if (name !== 'anyImage') return identityModel(specs);
  return onnxModel({
    inputs: specs,
    outputs: [{ name: 'sum', dtype: 'float32', shape: ['N', 1, 1, 1] }],
    nodes: [
      { op: 'GlobalAveragePool', inputs: ['x'], outputs: ['mean'] },
      { op: 'ReduceMean', inputs: ['mean'], outputs: ['sum'], attributes: { axes: [1], keepdims: 1 } },
    ],
  });
}

function lookupModel(inputs: readonly ValueSpec[]): Uint8Array {
  return onnxModel({
    inputs,
    outputs: [{ name: 'row', dtype: 'float32', shape: ['N', 1, 2] }],
    nodes: [{ op: 'Gather', inputs: ['table', 'x'], outputs: ['row'] }],
    weights: [{ name: 'table', dtype: 'float32', shape: [3, 2], data: Float32Array.of(1, 2, 3, 4, 5, 6) }],
  });
}
