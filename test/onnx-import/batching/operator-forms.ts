/**
 * Models of a single operator, over all axes and operator sets: where the rule follows the rows, onnxruntime answers each
 * row in company as it does alone.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { valuesOf } from '../../../lib/contract/tensor-values.ts';
import { AS_WRITTEN } from '../../../lib/contract/verification.ts';
import { openSession, type Session } from '../../../lib/inference/session.ts';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { proofOf } from '../../../onnx-import/batching/proof.ts';
import { rowAt, stackRows } from '../../../onnx-import/samples/rows.ts';
import { type NodeSpec, onnxModel, type WeightSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { random } from './random-graphs.ts';

/** How an operator is called: x, and constants behind it. */
interface Form {
  readonly attributes?: NodeSpec['attributes'];
  /** Lists of int64; undefined is an input left out. */
  readonly ints?: readonly (readonly number[] | undefined)[];
  /** Shapes of float32, in front of the lists. */
  readonly floats?: readonly (readonly number[])[];
  readonly outputs?: number;
  /** x is the second input, behind the first of the floats. */
  readonly isSecond?: boolean;
}

export interface Operator {
  readonly op: string;
  readonly opsets: readonly number[];
  /** Of x, the rows included. */
  readonly ranks: readonly number[];
  /** @param shape of x where a run has three rows */
  readonly forms: (rank: number, opset: number, shape: readonly number[]) => readonly Form[];
}

const ALL = [7, 9, 11, 12, 13, 17, 18, 20];

function axesOf(rank: number): number[] {
  return Array.from({ length: 2 * rank }, (_, i) => i - rank);
}

/** Each axis as an attribute, and none. */
const byAxis = (rank: number): Form[] => [{}, ...axesOf(rank).map((axis) => ({ attributes: { axis } }))];

/** Lists of axes: each alone, two, none; as an attribute or as an input. */
function axisLists(rank: number, isInput: boolean, attributes: NodeSpec['attributes'] = {}): Form[] {
  const lists = [[], ...axesOf(rank).map((axis) => [axis]), [0, rank - 1], [-1, -rank]];
  return [
    { attributes },
    ...lists.map((axes) =>
      isInput ? { attributes, ints: [axes] } : { attributes: { ...attributes, axes } },
    ),
  ];
}

const reduction = (op: string): Operator => ({
  op,
  opsets: ALL,
  ranks: [1, 2, 3],
  forms: (rank, opset) => {
    const isInput = opset >= (op === 'ReduceSum' ? 13 : 18);
    return [{}, { keepdims: 0 }, ...(isInput ? [{ noop_with_empty_axes: 1 }] : [])].flatMap((attributes) =>
      axisLists(rank, isInput, attributes),
    );
  },
});

const along = (op: string, opsets = ALL): Operator => ({ op, opsets, ranks: [1, 2, 3], forms: byAxis });

const plain = (op: string, ranks: readonly number[], ...forms: Form[]): Operator => ({
  op,
  opsets: ALL,
  ranks,
  forms: () => forms,
});

export const OPERATORS: readonly Operator[] = [
  ...['Softmax', 'LogSoftmax', 'Hardmax', 'LpNormalization', 'Flatten'].map((op) => along(op)),
  ...['ArgMax', 'ArgMin'].map((op) => along(op)),
  ...['ReduceSum', 'ReduceMean', 'ReduceMax', 'ReduceL2', 'ReduceProd', 'ReduceLogSumExp'].map(reduction),
  {
    op: 'Squeeze',
    opsets: ALL,
    ranks: [2, 3],
    forms: (rank, opset) => axisLists(rank, opset >= 13),
  },
  { op: 'Unsqueeze', opsets: ALL, ranks: [1, 2], forms: (rank, opset) => axisLists(rank + 1, opset >= 13) },
  {
    op: 'Split',
    opsets: ALL,
    ranks: [1, 2, 3],
    forms: (rank, opset, shape) =>
      [undefined, ...axesOf(rank)].flatMap((axis): Form[] => {
        const size = shape.at(axis ?? 0) as number;
        const attributes = axis === undefined ? {} : { axis };
        const uneven = [1, size - 1];
        const given =
          opset >= 13 ? { attributes, ints: [uneven] } : { attributes: { ...attributes, split: uneven } };
        const even = opset >= 18 ? { attributes: { ...attributes, num_outputs: 2 } } : { attributes };
        return [
          { ...even, outputs: 2 },
          { ...given, outputs: 2 },
        ];
      }),
  },
  {
    op: 'Concat',
    opsets: ALL,
    ranks: [1, 2, 3],
    forms: (rank, _, shape) =>
      axesOf(rank).flatMap((axis) => [{ attributes: { axis } }, { attributes: { axis }, floats: [shape] }]),
  },
  {
    op: 'Slice',
    opsets: [7, 9],
    ranks: [1, 2, 3],
    forms: (rank) =>
      axesOf(rank).flatMap((axis) =>
        [
          [0, 2 ** 31 - 1],
          [1, 2 ** 31 - 1],
          [0, 1],
          [-1, 100],
        ].map(([start, end]) => ({
          attributes: { axes: [axis], starts: [start as number], ends: [end as number] },
        })),
      ),
  },
  {
    op: 'Slice',
    opsets: [10, 11, 13, 17],
    ranks: [1, 2, 3],
    forms: (rank) =>
      axesOf(rank).flatMap((axis) =>
        [
          [0, 2 ** 31 - 1, 1],
          [0, 2 ** 62, 1],
          [1, 100, 1],
          [-1, 2 ** 31 - 1, -1],
          [-1, -100, -1],
          [0, 100, 2],
        ].map(([start, end, step]) => ({ ints: [[start], [end], [axis], [step]] as number[][] })),
      ),
  },
  {
    op: 'Transpose',
    opsets: [7, 13],
    ranks: [1, 2, 3],
    forms: (rank) => [
      {},
      ...(rank === 3
        ? [
            [0, 2, 1],
            [1, 0, 2],
            [2, 0, 1],
            [1, 2, 0],
          ].map((perm) => ({ attributes: { perm } }))
        : []),
    ],
  },
  {
    op: 'Reshape',
    opsets: [7, 14],
    ranks: [1, 2, 3],
    forms: (_, opset) =>
      [
        [-1],
        [0, -1],
        [-1, 0],
        [-1, 4],
        [4, -1],
        [0, 0, -1],
        [1, -1, 4],
        [-1, 2, 2],
        [2, -1, 2],
        [0, 2, -1, 2],
      ].flatMap((shape) => [
        { ints: [shape] },
        ...(opset >= 14 ? [{ ints: [shape], attributes: { allowzero: 1 } }] : []),
      ]),
  },
  {
    op: 'CumSum',
    opsets: [11, 14],
    ranks: [1, 2, 3],
    forms: (rank) =>
      axesOf(rank).flatMap((axis) => [
        { ints: [[axis]] },
        { ints: [[axis]], attributes: { exclusive: 1, reverse: 1 } },
      ]),
  },
  {
    op: 'TopK',
    opsets: [7, 10, 11],
    ranks: [1, 2, 3],
    forms: (rank, opset) =>
      (opset < 10 ? [undefined, ...Array(rank).keys()] : [undefined, ...axesOf(rank)]).map((axis) => ({
        attributes: { ...(axis === undefined ? {} : { axis }), ...(opset < 10 ? { k: 1 } : {}) },
        ...(opset < 10 ? {} : { ints: [[1]] }),
        outputs: 2,
      })),
  },
  {
    op: 'Gather',
    opsets: [7, 13],
    ranks: [1, 2, 3],
    forms: (rank) =>
      axesOf(rank).flatMap((axis) => [[0], [0, -1]].map((at) => ({ attributes: { axis }, ints: [at] }))),
  },
  {
    op: 'Pad',
    opsets: [11, 13, 18, 19],
    ranks: [1, 2, 3],
    forms: (rank, opset) =>
      Array.from({ length: 2 * rank }, (_, at) =>
        Array.from({ length: 2 * rank }, (__, i) => (i === at ? 1 : 0)),
      ).flatMap((pads) => [
        { ints: [pads] },
        { ints: [pads], attributes: { mode: 'edge' } },
        ...(opset >= 18 ? [{ ints: [[1, 0], undefined, [-1]] }, { ints: [[1, 0], undefined, [-rank]] }] : []),
      ]),
  },
  {
    op: 'Tile',
    opsets: [7, 13],
    ranks: [1, 2, 3],
    forms: (rank) =>
      Array.from({ length: rank }, (_, at) => ({
        ints: [Array.from({ length: rank }, (__, i) => (i === at ? 2 : 1))],
      })),
  },
  {
    op: 'Expand',
    opsets: [8, 13],
    ranks: [1, 2, 3],
    forms: () => [[1], [3], [4], [3, 1], [2, 1, 4], [2, 1, 1, 1]].map((shape) => ({ ints: [shape] })),
  },
  {
    op: 'LayerNormalization',
    opsets: [17, 20],
    ranks: [1, 2, 3],
    forms: (rank, _, shape) =>
      [undefined, ...axesOf(rank)].flatMap((axis) => {
        const attributes = axis === undefined ? {} : { axis };
        const scales = [shape.slice(axis ?? -1), [1]];
        return scales.map((scale) => ({ attributes, floats: [scale], outputs: 3 }));
      }),
  },
  ...['MatMul', 'Gemm'].map(
    (op): Operator => ({
      op,
      opsets: [7, 13],
      ranks: [1, 2, 3],
      forms: (_, __, shape) => {
        const [last, before] = [shape.at(-1) as number, shape.at(-2) ?? 1];
        const sides = op === 'Gemm' ? [{}, { transA: 1 }, { transB: 1 }, { transA: 1, transB: 1 }] : [{}];
        return [
          [last, 2],
          [last],
          [2, before],
          [before, last],
          [3, last, 2],
          [3, 2, before],
          [2, 2, last, 3],
        ].flatMap((other) =>
          [false, true].flatMap((isSecond) =>
            sides.map((attributes) => ({ attributes, floats: [other], isSecond })),
          ),
        );
      },
    }),
  ),
  ...['Add', 'Mul', 'Max', 'Sum', 'PRelu'].map(
    (op): Operator => ({
      op,
      opsets: [8, 13],
      ranks: [1, 2, 3],
      forms: (_, __, shape) => [
        ...[[], [1], [3], [4], [3, 1], [1, 4], [3, 1, 1], [2, 1, 1, 1], shape].map((other) => ({
          floats: [other],
        })),
        ...[[4], [3, 1], shape].map((other) => ({ floats: [other], isSecond: true })),
      ],
    }),
  ),
  {
    op: 'Einsum',
    opsets: [12],
    ranks: [2],
    forms: (_, __, shape) =>
      [
        'ij,jk->ik',
        'ij,jk->ki',
        'ij,ik->jk',
        'ij,ij->ij',
        'ij,ij->i',
        'ij,ij->j',
        'ij,jk->k',
        'ij,kj->ki',
        'ij,kl->ijl',
      ].map((equation) => {
        const sizes: Record<string, number> = { i: shape[0] as number, j: shape[1] as number, k: 2, l: 2 };
        const term = equation.slice(3, equation.indexOf('-'));
        return { attributes: { equation }, floats: [Array.from(term, (letter) => sizes[letter] as number)] };
      }),
  },
  plain('GlobalAveragePool', [3, 4], {}),
  plain('InstanceNormalization', [3, 4], { floats: [[2], [2]] }, { floats: [[3], [3]] }),
  plain(
    'BatchNormalization',
    [2, 3],
    { floats: [[2], [2], [2], [2]] },
    { floats: [[4], [4], [4], [4]] },
    { floats: [[3], [3], [3], [3]] },
  ),
  plain('BatchNormalization', [2, 3], {
    floats: [[4], [4], [4], [4]],
    attributes: { training_mode: 1 },
    outputs: 3,
  }),
  plain(
    'MeanVarianceNormalization',
    [3, 4],
    {},
    { attributes: { axes: [1] } },
    { attributes: { axes: [0] } },
    { attributes: { axes: [-1] } },
  ),
  plain('LRN', [3, 4], { attributes: { size: 3 } }),
  plain('Trilu', [2, 3], {}, { attributes: { upper: 0 } }),
  plain('Conv', [3], { floats: [[2, 2, 1]] }, { floats: [[3, 3, 1]] }, { floats: [[1, 1, 3]] }),
  plain(
    'MaxPool',
    [3],
    { attributes: { kernel_shape: [2] } },
    { attributes: { kernel_shape: [2] }, outputs: 2 },
  ),
  plain('DepthToSpace', [4], { attributes: { blocksize: 2 } }),
  plain('SpaceToDepth', [4], { attributes: { blocksize: 2 } }),
];

const SIZES: Readonly<Record<number, readonly number[]>> = { 1: [], 2: [4], 3: [2, 4], 4: [4, 2, 2] };

function modelBytes({ operator: { op }, form, opset, axis, isFixed, shape: whole }: Model): Uint8Array {
  const shape = isFixed ? whole : whole.map((dim, at) => (at === axis ? 'N' : dim));
  const { attributes = {}, ints = [], floats = [], outputs = 1, isSecond = false } = form;
  const next = random(floats.length + 7);
  const weights: WeightSpec[] = [
    ...floats.map((dims, i): WeightSpec => {
      const count = dims.reduce((a, b) => a * b, 1);
      const data = Float32Array.from({ length: count }, () => 0.5 + next());
      return { name: `f${i}`, dtype: 'float32', shape: dims, data };
    }),
    ...ints.flatMap((list, i): WeightSpec[] =>
      list
        ? [{ name: `i${i}`, dtype: 'int64', shape: [list.length], data: BigInt64Array.from(list, BigInt) }]
        : [],
    ),
  ];
  const [first, ...rest] = floats.map((_, i) => `f${i}`);
  const inputs = isSecond ? [first as string, 'x', ...rest] : ['x', ...floats.map((_, i) => `f${i}`)];
  const names = Array.from({ length: outputs }, (_, i) => `y${i}`);
  const node: NodeSpec = {
    op,
    inputs: [...inputs, ...ints.map((list, i) => (list ? `i${i}` : ''))],
    outputs: names,
    attributes,
  };
  const made = names.map((name, i) => ({
    name,
    dtype:
      op.startsWith('Arg') || (op === 'TopK' && i === 1) || (op === 'MaxPool' && i === 1)
        ? ('int64' as const)
        : ('float32' as const),
    shape: undefined,
  }));
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape }],
    outputs: made,
    nodes: [node],
    weights,
    opset,
  });
}

const ROWS = 3;

/** A model whose proof holds. */
interface Proven {
  readonly session: Session;
  /** Of the rows of x. */
  readonly axis: number;
  readonly outputAxes: readonly number[];
  /** Of x, with three rows. */
  readonly shape: readonly number[];
  readonly isFixed: boolean;
}

/** The first row in company that is not what it is alone; undefined where none is, or the model takes no row. */
async function findDifference({
  session,
  axis,
  outputAxes,
  shape,
  isFixed,
}: Proven): Promise<string | undefined> {
  const next = random(shape.length);
  const row = shape.with(axis, 1);
  const rows = Array.from({ length: ROWS }, (_, number): Tensor => {
    const data = Float32Array.from(
      { length: row.reduce((a, b) => a * b, 1) },
      () => (2 * next() - 1) * 10 ** number,
    );
    return { dtype: 'float32', shape: row, data };
  });
  const run = (parts: readonly Tensor[]) =>
    session.run([stackRows(parts, axis, isFixed ? ROWS : parts.length)]);
  const alone: (readonly Tensor[])[] = [];
  for (const tensor of rows) {
    const outputs = await run([tensor]).catch(() => undefined);
    if (!outputs) return undefined;
    alone.push(outputs);
  }
  for (const order of [
    [0, 1, 2],
    [2, 0, 1],
  ]) {
    const together = await run(order.map((number) => rows[number] as Tensor)).catch(
      (error: Error) => error.message,
    );
    if (typeof together === 'string') return together.slice(0, 200);
    for (const [i, output] of together.entries()) {
      const at = outputAxes[i] as number;
      if (output.shape[at] !== ROWS) return `output ${i} has the shape ${output.shape.join()}`;
      for (const [place, number] of order.entries()) {
        const [got, want] = [rowAt(output, at, place), rowAt(alone[number]?.[i] as Tensor, at, 0)];
        if (!isNear(got, want))
          return `row ${number} of output ${i}: ${String(got.data)}, alone ${String(want.data)}`;
      }
    }
  }
  return undefined;
}

function isNear(got: Tensor, want: Tensor): boolean {
  const [a, b] = [got, want].map((tensor) => Array.from(valuesOf(tensor) as ArrayLike<unknown>, Number));
  return (
    a?.length === b?.length &&
    a?.every((value, i) => {
      const right = b?.[i] as number;
      return Object.is(value, right) || Math.abs(value - right) <= 1e-5 * Math.abs(right) + 1e-6;
    }) === true
  );
}

interface Model {
  readonly operator: Operator;
  readonly form: Form;
  readonly opset: number;
  readonly axis: number;
  readonly shape: readonly number[];
  readonly isFixed: boolean;
}

/** @param isWhole all operator sets, ranks and forms; else the newest, the largest, and every second form */
function* modelsOf(operator: Operator, isWhole: boolean): Generator<Model> {
  const [opsets, ranks] = [operator.opsets, operator.ranks].map((list) => (isWhole ? list : list.slice(-1)));
  for (const opset of opsets ?? [])
    for (const rank of ranks ?? [])
      for (const axis of Array(rank).keys())
        for (const isFixed of [false, true]) {
          const shape = (SIZES[rank] as readonly number[]).toSpliced(axis, 0, ROWS);
          const forms = operator.forms(rank, opset, shape).filter((_, i) => isWhole || i % 2 === 0);
          for (const form of forms) yield { operator, form, opset, axis, shape, isFixed };
        }
}

type Kind = 'proven' | 'ended' | 'refused';

async function check(
  file: string,
  model: Model,
): Promise<{ readonly kind: Kind; readonly problem?: string | undefined }> {
  const { axis, shape, isFixed } = model;
  writeFileSync(file, modelBytes(model));
  const { end, outputAxes } = proofOf(readModel(file), new Map([['x', axis]]), true);
  if (end) return { kind: 'ended' };
  const session = await openSession(file, { threads: 1, optimization: AS_WRITTEN }).catch(() => undefined);
  if (!session) return { kind: 'refused' };
  const axes = session.outputs.map(({ name }) => outputAxes.get(name) ?? 0);
  const problem = await findDifference({ session, axis, outputAxes: axes, shape, isFixed });
  await session.close();
  return { kind: 'proven', problem };
}

export async function assertOperatorHolds(
  t: TestContext,
  operator: Operator,
  isWhole: boolean,
): Promise<void> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const found = { proven: 0, ended: 0, refused: 0 };
  const problems: string[] = [];
  for (const model of modelsOf(operator, isWhole)) {
    const { kind, problem } = await check(file, model);
    found[kind] += 1;
    const { opset, axis, shape, form } = model;
    if (problem !== undefined)
      problems.push(
        `opset ${opset}, rows on axis ${axis} of ${shape.join()}, ${JSON.stringify(form)}: ${problem}`,
      );
  }
  t.diagnostic(JSON.stringify(found));
  assert.deepEqual(problems, []);
}
