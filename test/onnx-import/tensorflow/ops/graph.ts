/**
 * Converts TensorFlow nodes written in a test and runs them in onnxruntime. An operation may be right for fixed sizes
 * and wrong for free ones, so `run` does both and compares them.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocate, type NumericDType, type Tensor } from '../../../../lib/contract/tensor.ts';
import { openSession } from '../../../../lib/inference/session.ts';
import type { Conversion } from '../../../../onnx-import/formats/conversion.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import type {
  TfAttribute,
  TfFunction,
  TfGraph,
  TfInput,
  TfList,
  TfNode,
  TfType,
} from '../../../../onnx-import/formats/tensorflow/graph.ts';
import { onnxBytes } from '../../../../onnx-import/onnx/write.ts';
import type { ConvertOptions } from '../../../../onnx-import/source/convert-options.ts';

export type AttributeSpec = Readonly<Record<string, TfAttribute>>;
export type NodeSpec = readonly [
  name: string,
  op: string,
  inputs: readonly string[],
  attributes?: AttributeSpec,
];

export function tensor(dtype: NumericDType, shape: readonly number[], values: ArrayLike<number>): Tensor {
  const data = allocate(dtype, values.length);
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    data[i] = data instanceof BigInt64Array || data instanceof BigUint64Array ? BigInt(value) : value;
  }
  return { dtype, shape, data };
}

export const floats = (shape: readonly number[], values: ArrayLike<number>): Tensor =>
  tensor('float32', shape, values);
export const int32s = (shape: readonly number[], values: ArrayLike<number>): Tensor =>
  tensor('int32', shape, values);

/** Numbers that look random and are the same every time, in [-1, 1). */
export function noise(count: number, seed = 1): number[] {
  let state = seed * 2654435761;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 3266489917) | 0;
    return Math.fround(((state >>> 8) / 2 ** 24) * 2 - 1);
  });
}

export function noisy(shape: readonly number[], seed = 1): Tensor {
  return floats(
    shape,
    noise(
      shape.reduce((a, b) => a * b, 1),
      seed,
    ),
  );
}

const EMPTY: TfList = {
  kind: 'list',
  ints: [],
  floats: [],
  bools: [],
  strings: [],
  types: [],
  shapes: [],
  tensors: [],
  functions: [],
};

export const attribute = {
  int: (value: number): TfAttribute => ({ kind: 'int', value }),
  float: (value: number): TfAttribute => ({ kind: 'float', value }),
  flag: (value: boolean): TfAttribute => ({ kind: 'bool', value }),
  text: (value: string): TfAttribute => ({ kind: 'string', value, bytes: Buffer.from(value) }),
  type: (value: TfType): TfAttribute => ({ kind: 'type', value }),
  shape: (value: readonly number[] | undefined): TfAttribute => ({ kind: 'shape', value }),
  tensor: (value: Tensor): TfAttribute => ({ kind: 'tensor', value }),
  func: (name: string): TfAttribute => ({ kind: 'func', name, attributes: {} }),
  funcs: (names: readonly string[]): TfAttribute => ({
    ...EMPTY,
    functions: names.map((name) => ({ name, attributes: {} })),
  }),
  ints: (ints: readonly number[]): TfAttribute => ({ ...EMPTY, ints }),
  floats: (values: readonly number[]): TfAttribute => ({ ...EMPTY, floats: values }),
  texts: (strings: readonly string[]): TfAttribute => ({ ...EMPTY, strings }),
};

export function constant(name: string, value: Tensor): NodeSpec {
  return [name, 'Const', [], { value: attribute.tensor(value) }];
}

function nodesOf(specs: readonly NodeSpec[]): ReadonlyMap<string, TfNode> {
  return new Map(
    specs.map(([name, op, inputs, attributes = {}]) => [
      name,
      {
        name,
        op,
        inputs: inputs
          .filter((input) => !input.startsWith('^'))
          .map((input) => (input.includes(':') ? input : `${input}:0`)),
        controlInputs: inputs.filter((input) => input.startsWith('^')).map((input) => input.slice(1)),
        attributes,
      },
    ]),
  );
}

export function makeFunction(
  name: string,
  inputs: Readonly<Record<string, TfType>>,
  nodes: readonly NodeSpec[],
  outputs: readonly string[],
): TfFunction {
  return {
    name,
    inputs: Object.entries(inputs).map(([key, dtype]) => ({ name: key, dtype })),
    outputs: outputs.map((output) => ({
      name: output,
      tensor: output.includes(':') ? output : `${output}:0`,
    })),
    nodes: nodesOf(nodes),
  };
}

export interface GraphSpec {
  readonly inputs: Readonly<Record<string, Tensor>>;
  readonly nodes: readonly NodeSpec[];
  readonly outputs: readonly string[];
  readonly functions?: readonly TfFunction[];
  readonly options?: ConvertOptions;
  /** Sizes of the inputs: fixed, all free, or only the first axis. Default: all three ways. */
  readonly sizes?: 'fixed' | 'free' | 'batch' | 'fixed and batch';
}

export function graphOf(spec: GraphSpec, sizes: 'fixed' | 'free' | 'batch'): TfGraph {
  const inputs = Object.entries(spec.inputs).map(([name, { dtype, shape }], k): TfInput => {
    const free = shape.map((dim, i) =>
      sizes === 'free' ? `d${k}_${i}` : sizes === 'batch' && i === 0 ? `N${shape[0]}` : dim,
    );
    return { name, tensor: `${name}:0`, dtype, shape: free };
  });
  return {
    file: 'test.pb',
    nodes: nodesOf(spec.nodes),
    inputs,
    outputs: spec.outputs.map((name) => ({ name, tensor: name.includes(':') ? name : `${name}:0` })),
    functions: new Map((spec.functions ?? []).map((each) => [each.name, each])),
  };
}

/** Runs a converted graph on tensors by input name. */
export async function runGraph(
  { graph }: Conversion,
  inputs: Readonly<Record<string, Tensor>>,
): Promise<Tensor[]> {
  const folder = mkdtempSync(join(tmpdir(), 'cs-tf-'));
  try {
    const path = join(folder, 'model.onnx');
    writeFileSync(path, onnxBytes(graph));
    const session = await openSession(path, { threads: 1 });
    try {
      return [...(await session.run(session.inputs.map(({ name }) => inputs[name] as Tensor)))];
    } finally {
      await session.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const WAYS = {
  fixed: ['fixed'],
  free: ['free'],
  batch: ['batch'],
  'fixed and batch': ['fixed', 'batch'],
} as const;

/** What the graph gives, the same for fixed and for free sizes. */
export async function run(spec: GraphSpec): Promise<Tensor[]> {
  const ways = spec.sizes ? WAYS[spec.sizes] : (['fixed', 'batch', 'free'] as const);
  let first: Tensor[] | undefined;
  for (const way of ways) {
    const outputs = await runGraph(convertTensorflow(graphOf(spec, way), spec.options ?? {}), spec.inputs);
    if (!first) first = outputs;
    else
      for (const [i, output] of outputs.entries())
        assertTensor(output, first[i] as Tensor, `with ${way} sizes output ${i}`);
  }
  return first as Tensor[];
}

/** Equal dtype and shape, numbers within 1e-5 of each other. */
export function assertTensor(actual: Tensor, expected: Tensor, what = 'output', tolerance = 1e-5): void {
  assert.equal(actual.dtype, expected.dtype, what);
  assert.deepEqual(actual.shape, expected.shape, what);
  assert.equal(actual.data.length, expected.data.length, what);
  for (let i = 0; i < expected.data.length; i++) {
    const [got, want] = [actual.data[i], expected.data[i]];
    if (typeof want === 'string') {
      assert.equal(got, want, `${what}[${i}]`);
      continue;
    }
    const [a, b] = [Number(got), Number(want)];
    const close = Object.is(a, b) || a === b || Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b));
    assert.ok(close, `${what}[${i}]: got ${a}, expected ${b}`);
  }
}
