/**
 * Random ONNX graphs on sequences of a free length, from a seed: what depends on the length, on arithmetic with it, and on
 * constants at the edges of their types. Some mix the rows, in a branch or behind a threshold that small values never
 * reach.
 */
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Attributes, Body, Node, Value } from '../../../onnx-import/graph/value.ts';
import { onnxBytes } from '../../../onnx-import/onnx/write.ts';
import { EDGES } from './expressions.ts';
import { bodyOf, Generator, random } from './random-graphs.ts';

/** Of the shape [N, length, channels]. */
interface Live {
  readonly value: Value;
  /** Values of one length have one name of it. */
  readonly length: string;
  readonly channels: number;
}

/** Undefined where it cannot be applied. */
type Step = (g: Generator, x: Live) => Live | undefined;

const UNARY = 'Relu Abs Neg Tanh Sigmoid Softsign Identity LeakyRelu HardSwish Floor'.split(' ');

const unary: Step = (g, x) => ({ ...x, value: g.one(g.pick(UNARY), [x.value]) });

const withConstant: Step = (g, x) => {
  const c = g.floats(...g.pick([[], [1], [x.channels], [1, 1, x.channels]]));
  return { ...x, value: g.one(g.pick(['Add', 'Sub', 'Mul', 'Max', 'Min']), [x.value, c]) };
};

const matMul: Step = (g, x) => {
  const channels = 2 + g.below(4);
  return { ...x, channels, value: g.one('MatMul', [x.value, g.floats(x.channels, channels)]) };
};

const normalize: Step = (g, x) => {
  const w = [g.floats(x.channels), g.floats(x.channels)];
  return { ...x, value: g.one('LayerNormalization', [x.value, ...w], { axis: -1 }) };
};

const alongAxis: Step = (g, x) => {
  const axis = g.pick([1, 2, -1, -2]);
  return g.next() < 0.5
    ? { ...x, value: g.one('Softmax', [x.value], { axis }) }
    : { ...x, value: g.one('CumSum', [x.value, g.scalar('int64', axis)]) };
};

const centred: Step = (g, x) => {
  const op = g.pick(['ReduceMean', 'ReduceMax', 'ReduceMin', 'ReduceL1']);
  const value = g.one(op, [x.value], { axes: [g.pick([1, 2, -1])], keepdims: 1 });
  return { ...x, value: g.one(g.pick(['Sub', 'Add']), [x.value, value]) };
};

const attention: Step = (g, x) => {
  const scores = g.one('MatMul', [x.value, g.one('Transpose', [x.value], { perm: [0, 2, 1] })]);
  const weights = g.one('Softmax', [g.one('Mul', [scores, g.scalar('float32', 0.1)])], { axis: -1 });
  return { ...x, value: g.one('MatMul', [weights, x.value]) };
};

const convolution: Step = (g, x) => {
  const channels = 2 + g.below(3);
  const turned = g.one('Transpose', [x.value], { perm: [0, 2, 1] });
  const made = g.one('Conv', [turned, g.floats(channels, x.channels, 3)], { pads: [1, 1] });
  return { ...x, channels, value: g.one('Transpose', [made], { perm: [0, 2, 1] }) };
};

const recurrent: Step = (g, x) => {
  const turned = g.one('Transpose', [x.value], { perm: [1, 0, 2] });
  const inputs = [turned, g.floats(1, 9, x.channels), g.floats(1, 9, 3)];
  const made = g.add('GRU', inputs, { hidden_size: 3 }, ['float32', 'float32'])[0] as Value;
  const flat = g.one('Squeeze', [made, g.ints(1)]);
  return { ...x, channels: 3, value: g.one('Transpose', [flat], { perm: [1, 0, 2] }) };
};

/** Bounds beyond the length, to the end in both ways to say it, and backwards. */
const slice: Step = (g, x) => {
  const [start, end, step] = g.pick([
    [1, 2 ** 31 - 1, 1],
    [-3, 2 ** 31 - 1, 1],
    [-1, 2 ** 31 - 1, -1],
    [-1, -(2 ** 31), -1],
    [100, 0, -2],
    [0, -1, 1],
  ] as const);
  const value = g.one('Slice', [x.value, g.ints(start), g.ints(end), g.ints(1), g.ints(step)]);
  return { ...x, length: g.name('length'), value };
};

const concat: Step = (g, x) => {
  const value = g.one('Concat', [x.value, g.one('Tanh', [x.value])], { axis: g.pick([1, -2]) });
  return { ...x, length: g.name('length'), value };
};

const gather: Step = (g, x) => {
  const value = g.one('Gather', [x.value, g.ints(0, -1, 1)], { axis: 1 });
  return { ...x, length: g.name('length'), value };
};

const pad: Step = (g, x) => ({
  ...x,
  length: g.name('length'),
  value: g.one('Pad', [x.value, g.ints(0, 1, 0, 0, 2, 0)], { mode: g.pick(['constant', 'edge']) }),
});

const split: Step = (g, x) => {
  if (x.channels % 2 === 1) return undefined;
  const parts = g.add('Split', [x.value], { axis: g.pick([2, -1]) }, ['float32', 'float32']);
  return { ...x, channels: x.channels / 2, value: g.one('Mul', parts) };
};

/** A size of the value, as a list of one. */
function sizeOf(g: Generator, x: Live, axis: number): Value {
  const shape = g.one('Shape', [x.value], {}, 'int64');
  return g.one('Gather', [shape, g.ints(axis)], { axis: 0 }, 'int64');
}

/** A list of one number that is not one any more; by types that hold it, and by some that round it. */
function cast(g: Generator, value: Value): Value {
  const through = g.pick([
    [6, 'int32'],
    [1, 'float32'],
    [7, 'int64'],
  ] as const);
  const made = g.one('Cast', [value], { to: through[0] }, through[1]);
  return g.one('Cast', [made], { to: 7 }, 'int64');
}

/** All rows or all steps as one axis, and back, by arithmetic on the shape. */
const fold: Step = (g, x) => {
  const [n, length, channels] = [0, 1, 2].map((axis) => sizeOf(g, x, axis)) as [Value, Value, Value];
  const isRows = g.next() < 0.5;
  const parts = isRows
    ? [g.one('Mul', [n, length], {}, 'int64'), channels]
    : [n, g.one('Mul', [length, channels], {}, 'int64')];
  const flat = g.one('Reshape', [x.value, g.one('Concat', parts, { axis: 0 }, 'int64')]);
  const mixed = g.one(g.pick(['Tanh', 'Softmax']), [flat]);
  const back = [n, g.next() < 0.3 ? cast(g, length) : length, g.ints(x.channels)];
  return { ...x, value: g.one('Reshape', [mixed, g.one('Concat', back, { axis: 0 }, 'int64')]) };
};

/** Divided by the length, or by the number of rows. */
const byCount: Step = (g, x) => {
  const count = g.one('Cast', [sizeOf(g, x, g.next() < 0.7 ? 1 : 0)], { to: 1 });
  return { ...x, value: g.one('Div', [x.value, count]) };
};

const positions: Step = (g, x) => {
  const length = g.one('Squeeze', [sizeOf(g, x, 1), g.ints(0)], {}, 'int64');
  const numbers = g.one('Range', [g.scalar('int64', 0), length, g.scalar('int64', 1)], {}, 'int64');
  const column = g.one('Unsqueeze', [g.one('Cast', [numbers], { to: 1 }), g.ints(1)]);
  return { ...x, value: g.one(g.pick(['Add', 'Mul']), [x.value, column]) };
};

/** The last steps are masked, by a number or by their place. */
const mask: Step = (g, x) => {
  const condition = g.one('Greater', [x.value, g.scalar('float32', 0.31)], {}, 'bool');
  return { ...x, value: g.one('Where', [condition, x.value, g.scalar('float32', 0.25)]) };
};

const expand: Step = (g, x) => {
  const shape = g.one('Shape', [x.value], {}, 'int64');
  return { ...x, value: g.one('Add', [x.value, g.one('Expand', [g.floats(1, 1, x.channels), shape])]) };
};

const quantize: Step = (g, x) => {
  const [scale, zero] = [g.scalar('float32', 0.05), g.scalar('uint8', 128)];
  const quantized = g.one('QuantizeLinear', [x.value, scale, zero], {}, 'uint8');
  return { ...x, value: g.one('Tanh', [g.one('DequantizeLinear', [quantized, scale, zero])]) };
};

/** What is added is 0 for rows below 20,000, and after that the largest of all rows. */
function thresholdNodes(g: Generator, x: Value): Node[] {
  const made: Node[] = [];
  const one = (op: string, inputs: readonly Value[], attributes: Attributes = {}): Value => {
    const value: Value = { name: g.name('v'), dtype: 'float32', shape: undefined };
    made.push({ op, inputs, outputs: [value], attributes });
    return value;
  };
  const limit = g.scalar('float32', 20_000);
  const over = one('Sub', [one('Max', [one('ReduceMax', [x], { axes: [0], keepdims: 1 }), limit]), limit]);
  one('Add', [x, over]);
  return made;
}

const lastOf = (nodes: readonly Node[]) => nodes.at(-1)?.outputs[0] as Value;

const threshold: Step = (g, x) => {
  const nodes = thresholdNodes(g, x.value);
  g.nodes.push(...nodes);
  return { ...x, value: lastOf(nodes) };
};

/** A condition on the length or on constants whose value depends on how their type rounds, wraps and overflows. */
function conditionOf(g: Generator, x: Live): Value {
  const type = g.pick(['int32', 'int64', 'float32'] as const);
  const code = { int32: 6, int64: 7, float32: 1 }[type];
  const edge = () => g.constant(type, [1], () => g.pick(EDGES[type]) as number);
  const from = g.next() < 0.6 ? g.one('Cast', [sizeOf(g, x, 1)], { to: code }, type) : edge();
  const by = g.constant(type, [1], () => g.pick([2, 3, 7, 133]));
  const there =
    g.next() < 0.5
      ? g.one('Mul', [from, g.next() < 0.5 ? by : edge()], {}, type)
      : g.one('Div', [from, by], {}, type);
  const back = g.next() < 0.6 ? g.one('Mul', [there, by], {}, type) : g.one('Div', [there, by], {}, type);
  const against = g.next() < 0.6 ? from : edge();
  const is = g.one(g.pick(['Equal', 'Less', 'Greater']), [back, against], {}, 'bool');
  return g.one('Squeeze', [is, g.ints(0)], {}, 'bool');
}

const branch: Step = (g, x) => {
  const plain: Value = { name: g.name('b'), dtype: 'float32', shape: undefined };
  const mixing = thresholdNodes(g, x.value);
  const bodies: Body[] = [
    bodyOf([], [plain], [{ op: 'Identity', inputs: [x.value], outputs: [plain], attributes: {} }]),
    bodyOf([], [lastOf(mixing)], mixing),
  ];
  if (g.next() < 0.5) bodies.reverse();
  const [then_branch, else_branch] = bodies.map((body) => ({ body }));
  return { ...x, value: g.one('If', [conditionOf(g, x)], { then_branch, else_branch }) };
};

/** The rows as a sequence, which mixes them. */
const overRows: Step = (g, x) => {
  if (g.next() < 0.5) return { ...x, value: g.one('Softmax', [x.value], { axis: g.pick([0, -3]) }) };
  return { ...x, value: g.one('CumSum', [x.value, g.scalar('int64', 0)]) };
};

/** Each with how often it is drawn. */
const STEPS: readonly (readonly [weight: number, step: Step])[] = [
  [3, unary],
  [3, withConstant],
  [2, matMul],
  [2, normalize],
  [3, alongAxis],
  [2, centred],
  [1, attention],
  [2, convolution],
  [1, recurrent],
  [3, slice],
  [1, concat],
  [1, gather],
  [1, pad],
  [1, split],
  [3, fold],
  [1, byCount],
  [2, positions],
  [1, mask],
  [1, expand],
  [1, quantize],
  [1, threshold],
  [5, branch],
  [1, overRows],
];
const DRAWN = STEPS.flatMap(([weight, step]) => new Array<Step>(weight).fill(step));

/** Lengths of which 133 and 7 divide some, and none. */
export const LENGTHS: readonly number[] = [4, 5, 14];
const CHANNELS = 4;

/** A model of x, float32 of the shape [N, L, 4], with one output. */
export function randomSequenceModel(seed: number): Uint8Array {
  const g = new Generator(seed + 50_000);
  const input: Value = { name: 'x', dtype: 'float32', shape: ['N', 'L', CHANNELS] };
  let last: Live = { value: input, length: 'L', channels: CHANNELS };
  const count = 2 + g.below(5);
  for (let step = 0; step < count; step++) last = g.pick(DRAWN)(g, last) ?? last;
  const value = g.one('Identity', [last.value]);
  const output = { ...value, shape: ['N', 'M', last.channels] };
  return onnxBytes({
    inputs: [input],
    outputs: [{ name: 'y', value: { ...output, name: value.name } }],
    nodes: g.nodes,
  });
}

/** Rows of scales from 1 to 1,000,000, and one of whole numbers. */
export function randomSequences(seed: number, length: number): Tensor[] {
  const next = random(seed + length);
  return [1, 100, 10_000, 1_000_000].map((scale, row) => {
    const data = Float32Array.from({ length: length * CHANNELS }, () => (2 * next() - 1) * scale);
    return { dtype: 'float32', shape: [1, length, CHANNELS], data: row === 2 ? data.map(Math.round) : data };
  });
}
