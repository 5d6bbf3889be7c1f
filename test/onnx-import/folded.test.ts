/** What converters compute of constants and sizes: what onnxruntime computes of them, or nothing. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { DType, Tensor, TypedArray } from '../../lib/contract/tensor.ts';
import { valuesOf } from '../../lib/contract/tensor-values.ts';
import { AS_WRITTEN } from '../../lib/contract/verification.ts';
import { openSession, type Session } from '../../lib/inference/session.ts';
import { ELEMENT_TYPES } from '../../onnx-import/graph/attributes.ts';
import { GraphBuilder } from '../../onnx-import/graph/builder.ts';
import { foldNode } from '../../onnx-import/graph/infer.ts';
import type { Value } from '../../onnx-import/graph/value.ts';
import { onnxBytes } from '../../onnx-import/onnx/write.ts';
import { type NodeSpec, onnxModel, type WeightSpec } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import {
  EDGES,
  type Expression,
  type Numeric,
  randomExpression,
  type Values,
  weightOf,
} from './batching/expressions.ts';
import { expressionModel, feedsOf, RUNS } from './batching/known-elements.ts';

interface Case {
  readonly op: string;
  /** Of each input: its elements, as many as the result has, or `rows` as many. */
  readonly inputs: readonly Values[];
  /** They are reduced along the first axis. Default 1, and no axis. */
  readonly rows?: number;
  readonly dtype: Numeric;
  readonly made: DType;
  readonly attributes?: Readonly<Record<string, number | readonly number[]>>;
}

const valueOf = ({ name, dtype, shape, data }: WeightSpec): Value => ({
  name,
  dtype,
  shape,
  constant: { dtype, shape, data: data as TypedArray },
});

function listOf(tensor: Tensor): readonly unknown[] {
  return Array.from(valuesOf(tensor) as ArrayLike<unknown>);
}

/** @param at the only element of the result; default all of them */
function weightsOf({ op, inputs, rows, dtype }: Case, at?: number): WeightSpec[] {
  const weights = inputs.map((values, i) => {
    const width = values.length / (rows ?? 1);
    const chosen = at === undefined ? values : values.filter((_, place) => place % width === at);
    const weight = weightOf(`w${i}`, dtype, chosen);
    return rows === undefined ? weight : { ...weight, shape: [rows, chosen.length / rows] };
  });
  return op === 'ReduceSum' ? [...weights, weightOf('axes', 'int64', [0n])] : weights;
}

/** Undefined where onnxruntime has no kernel. */
async function compute(file: string, one: Case): Promise<readonly unknown[] | undefined> {
  const { op, attributes = {}, made } = one;
  const weights = weightsOf(one);
  const node: NodeSpec = { op, inputs: weights.map(({ name }) => name), outputs: ['y'], attributes };
  const x = { name: 'x', dtype: 'float32' as const, shape: [1] };
  const outputs = [{ name: 'y', dtype: made, shape: undefined }];
  writeFileSync(file, onnxModel({ inputs: [x], outputs, nodes: [node], weights }));
  const session = await openSession(file, { threads: 1, optimization: AS_WRITTEN }).catch(() => undefined);
  const results = await session
    ?.run([{ dtype: 'float32', shape: [1], data: new Float32Array(1) }])
    .catch(() => []);
  await session?.close();
  return results?.[0] && listOf(results[0]);
}

function fold(one: Case, at?: number): Tensor | undefined {
  return foldNode(one.op, weightsOf(one, at).map(valueOf), one.attributes ?? {})?.[0];
}

/** They are right to the last place here, which kernels need not be: sums round at each step. */
const ROUNDED = new Set(['Exp', 'Log', 'Pow', 'ReduceSum', 'ReduceMean', 'ReduceProd']);

function isSame(got: unknown, right: unknown, { op, made }: Case): boolean {
  if (Object.is(got, right)) return true;
  const [a, b] = [Number(got), Number(right)];
  return ROUNDED.has(op) && made.startsWith('float') && Math.abs(a - b) <= 1e-6 * Math.abs(b);
}

/** @returns elements that were compared */
async function assertFolded(file: string, one: Case): Promise<number> {
  const right = await compute(file, one);
  if (!right) return 0;
  const all = fold(one);
  let compared = 0;
  for (const [at, want] of right.entries()) {
    // A list with an element that is left to the run is left to it; the others are computed alone.
    const folded = all ?? fold(one, at);
    if (!folded) continue;
    assert.equal(folded.dtype, one.made);
    const got = listOf(folded)[all ? at : 0];
    const values = one.inputs.map((list) =>
      list
        .filter((_, i) => i % right.length === at)
        .map(String)
        .join(),
    );
    assert.ok(
      isSame(got, want, one),
      `${one.op} of ${values.join(' and ')}: ${String(got)}, not ${String(want)}`,
    );
    compared += 1;
  }
  return compared;
}

const BINARY = 'Add Sub Mul Div Mod Pow Equal Greater GreaterOrEqual Less LessOrEqual And Or'.split(' ');
const UNARY = 'Not Neg Abs Sqrt Reciprocal Exp Log Floor Ceil'.split(' ');
const REDUCE = 'ReduceProd ReduceSum ReduceMean ReduceMax ReduceMin'.split(' ');
const BOOLEAN = new Set('Equal Greater GreaterOrEqual Less LessOrEqual And Or Not'.split(' '));

function* casesOf(dtype: Numeric): Generator<Case> {
  const values = EDGES[dtype];
  const pairs = values.flatMap((a) => values.map((b) => [a, b] as const));
  const inputs = [pairs.map(([a]) => a), pairs.map(([, b]) => b)] as const;
  for (const op of BINARY) yield { op, inputs, dtype, made: BOOLEAN.has(op) ? 'bool' : dtype };
  yield { op: 'Mod', inputs, dtype, made: dtype, attributes: { fmod: 1 } };
  // Of many int64 onnxruntime takes 1 for the larger of 1 and 2^31, of two it does not.
  for (const op of ['Max', 'Min'])
    for (const [a, b] of pairs) yield { op, inputs: [[a], [b]], dtype, made: dtype };
  for (const op of REDUCE) {
    const attributes = op === 'ReduceSum' ? { keepdims: 0 } : { keepdims: 0, axes: [0] };
    yield {
      op,
      inputs: [[...inputs[0], ...inputs[1], ...inputs[0]]],
      rows: 3,
      dtype,
      made: dtype,
      attributes,
    };
  }
  for (const op of UNARY) yield { op, inputs: [values], dtype, made: BOOLEAN.has(op) ? 'bool' : dtype };
  for (const to of Object.keys(EDGES) as Numeric[])
    yield { op: 'Cast', inputs: [values], dtype, made: to, attributes: { to: ELEMENT_TYPES[to] } };
}

async function check(t: TestContext, dtype: Numeric): Promise<void> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  let compared = 0;
  for (const one of casesOf(dtype)) compared += await assertFolded(file, one);
  t.diagnostic(`${compared} elements`);
  assert.ok(dtype === 'float16' || compared > 0);
}

for (const dtype of Object.keys(EDGES) as Numeric[]) {
  test(`converters compute constants of ${dtype} as onnxruntime does`, (t) => check(t, dtype));
}

/** The same expression as a converter builds it: with what it can compute as constants. */
function built({ nodes, weights, outputs }: Expression): Uint8Array {
  const graph = new GraphBuilder();
  const values = new Map<string, Value>([
    ['x', graph.input('x', 'uint8', ['N', 'a'])],
    ['z', graph.input('z', 'uint8', ['N', 'b'])],
    ...weights.map((weight) => [weight.name, graph.constant(valueOf(weight).constant as Tensor)] as const),
  ]);
  for (const { op, inputs, outputs: made, attributes = {} } of nodes) {
    const [value] = graph.add(
      op,
      inputs.map((name) => values.get(name) as Value),
      attributes as Parameters<GraphBuilder['add']>[2],
    );
    values.set(made[0] as string, value as Value);
  }
  for (const [name] of outputs) graph.output(name, values.get(name) as Value);
  return onnxBytes(graph.finish());
}

const EXPRESSIONS = 150;

test(`${EXPRESSIONS} random expressions of sizes and constants, as converters write them, answer as they do unfolded at three lengths`, async (t) => {
  const folder = await temporaryFolder(t);
  const found = { folded: 0, equal: 0 };
  for (let seed = 0; seed < EXPRESSIONS; seed++) {
    const expression = randomExpression(seed);
    const [plain, folded] = [join(folder, 'plain.onnx'), join(folder, 'folded.onnx')];
    writeFileSync(plain, expressionModel(expression));
    writeFileSync(folded, built(expression));
    const sessions: Session[] = [];
    for (const file of [plain, folded])
      sessions.push(await openSession(file, { threads: 1, optimization: AS_WRITTEN }));
    for (const sizes of RUNS) {
      const [want, got] = await Promise.all(sessions.map((session) => session.run(feedsOf(sizes))));
      for (const [i, right] of (want ?? []).entries()) {
        const what = `seed ${seed}, ${right.name} at ${JSON.stringify(sizes)}: ${JSON.stringify(expression.nodes)}`;
        const isFloat = right.dtype === 'float32';
        const [a, b] = [got?.[i], right].map((tensor) => listOf(tensor as Tensor));
        // Products of floats round in another order.
        const isNear =
          isFloat && (a ?? []).every((value, at) => Math.abs(Number(value) / Number(b?.[at]) - 1) < 1e-6);
        if (!isNear) assert.deepEqual(a, b, what);
        found.equal += 1;
      }
    }
    for (const session of sessions) await session.close();
    found.folded += expression.nodes.length;
  }
  t.diagnostic(JSON.stringify(found));
});

test('sizes that wrap in an int32 are those of the run', async (t) => {
  const nodes: NodeSpec[] = [
    { op: 'Shape', inputs: ['x'], outputs: ['s'] },
    { op: 'Concat', inputs: ['s', 'large'], outputs: ['c'], attributes: { axis: 0 } },
    { op: 'Cast', inputs: ['c'], outputs: ['i'], attributes: { to: ELEMENT_TYPES.int32 } },
    { op: 'Add', inputs: ['i', 'one'], outputs: ['sum'] },
    { op: 'Cast', inputs: ['sum'], outputs: ['y'], attributes: { to: ELEMENT_TYPES.int64 } },
    { op: 'Slice', inputs: ['y', 'two', 'four', 'zero'], outputs: ['last'] },
  ];
  const weights = [
    weightOf('large', 'int64', [2n ** 31n - 1n, 2n ** 32n]),
    weightOf('one', 'int32', [1]),
    ...[0n, 2n, 4n].map((value, i) => weightOf(['zero', 'two', 'four'][i] as string, 'int64', [value])),
  ];
  const file = join(await temporaryFolder(t), 'model.onnx');
  writeFileSync(file, built({ nodes, weights, outputs: [['last', 'int64']] }));
  const session = await openSession(file, { threads: 1, optimization: AS_WRITTEN });
  const [last] = await session.run(feedsOf({ n: 1, a: 1, b: 1 }));
  await session.close();
  assert.deepEqual(listOf(last as Tensor), [-(2n ** 31n), 1n]);
});

test('a constant of 1,048,576 elements is computed, and a larger one is left to the run', () => {
  const wide = 1024 * 1024;
  const list = (...sizes: readonly number[]) => valueOf(weightOf('n', 'int64', sizes.map(BigInt)));
  const scalar = (value: number) => valueOf({ ...weightOf('s', 'int64', [BigInt(value)]), shape: [] });
  const many = (length: number, dtype: 'int64' | 'bool' = 'int64') => ({
    name: 'm',
    dtype,
    shape: [length],
    constant: {
      dtype,
      shape: [length],
      data: dtype === 'int64' ? new BigInt64Array(length) : new Uint8Array(length),
    },
  });
  const folds: Readonly<Record<string, (length: number) => readonly Value[]>> = {
    Add: (length) => [many(length), list(1)],
    Neg: (length) => [many(length)],
    Range: (length) => [scalar(0), scalar(length), scalar(1)],
    ConstantOfShape: (length) => [list(length)],
    ReduceSum: (length) => [many(length), list(0)],
    Where: (length) => [many(length, 'bool'), list(1), list(2)],
    Expand: (length) => [list(7), list(length)],
    Gather: (length) => [list(7), many(length)],
    Tile: (length) => [list(7), list(length)],
  };
  for (const [op, inputsOf] of Object.entries(folds)) {
    const [made] = foldNode(op, inputsOf(wide), {}) ?? [];
    assert.equal(made?.data.length, op === 'ReduceSum' ? 1 : wide, op);
    assert.equal(foldNode(op, inputsOf(wide + 1), {}), undefined, op);
  }
});

test('the largest of three sizes is not taken for that of the first two', () => {
  const graph = new GraphBuilder();
  const sizes = [2, 9, 20].map((size) => graph.ints([size]));
  assert.equal(graph.one('Max', sizes).elements, undefined);
  assert.deepEqual(graph.one('Max', sizes.slice(0, 2)).elements, [9]);
});
