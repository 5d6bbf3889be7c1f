/** Operators that mix elements along some axes: sums, softmax, sorting, norms. The batch axis must not be one of them. */
import type { Call, Rule } from '../call.ts';
import { numberOf, ONE, type Size } from '../size.ts';
import { type Data, fixedOf } from '../value.ts';
import { broadcast } from './elementwise.ts';
import { reduceProd } from './shapes.ts';

/** @throws ProofEnd when the batch axis is among the axes */
function apart(call: Call, x: Data, axes: readonly number[], what: string): void {
  if (x.kind === 'rows' && axes.includes(x.axis)) call.end(`it ${what} along the batch axis`);
}

/** Without the axes, or with 1 in their places. */
function without(call: Call, x: Data, axes: readonly number[], keep: boolean): Data {
  const shape = call.shape(x);
  if (keep)
    return call.moved(
      x,
      shape.map((dim, axis): Size => (axes.includes(axis) ? ONE : dim)),
    );
  const left = shape.filter((_, axis) => !axes.includes(axis));
  return x.kind === 'rows'
    ? call.moved(x, left, x.axis - axes.filter((axis) => axis < x.axis).length)
    : fixedOf(left);
}

const reduce: Rule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  const listed = call.ints('axes') ?? call.numbers(1, 'axes') ?? [];
  if (listed.length === 0 && call.int('noop_with_empty_axes', 0) === 1) return call.moved(x, shape);
  const axes = listed.length === 0 ? [...shape.keys()] : listed.map((axis) => call.axis(axis, shape.length));
  apart(call, x, axes, 'reduces');
  return without(call, x, [...new Set(axes)], call.int('keepdims', 1) === 1);
};

const argument: Rule = (call) => {
  const x = call.data(0);
  const axes = [call.axis(call.int('axis', 0), call.shape(x).length)];
  apart(call, x, axes, 'searches');
  return without(call, x, axes, call.int('keepdims', 1) === 1);
};

/** Keeps the shape, and mixes along these axes. */
const mixing =
  (what: string, axesOf: (call: Call, rank: number) => readonly number[]): Rule =>
  (call) => {
    const x = call.data(0);
    const shape = call.shape(x);
    apart(call, x, axesOf(call, shape.length), what);
    return call.moved(x, shape);
  };

/** Before operator set 13 all axes from the given one on are one. */
const softmax = mixing('normalizes', (call, rank) => {
  const axis = call.axis(call.int('axis', call.opset < 13 ? 1 : -1), rank);
  return call.opset < 13 ? Array.from({ length: rank - axis }, (_, i) => axis + i) : [axis];
});

const cumSum = mixing('adds up', (call, rank) => {
  const [axis] = call.numbers(1, 'axis') ?? [];
  return [call.axis(axis ?? call.end('it has no axis'), rank)];
});

const meanVariance = mixing('normalizes', (call, rank) =>
  (call.ints('axes') ?? [0, 2, 3]).map((axis) => call.axis(axis, rank)),
);

const topK: Rule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  const axis = call.axis(call.int('axis', -1), shape.length);
  apart(call, x, [axis], 'sorts');
  const count = call.opset < 10 ? call.int('k', 1) : numberOf(call.elements(1)?.[0]);
  const result = call.moved(x, shape.with(axis, call.dimOr(count)));
  return [result, result];
};

/** All axes from the given one on; the mean and the deviation have 1 in their places. */
const layerNormalization: Rule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  const first = call.axis(call.int('axis', -1), shape.length);
  const axes = shape.map((_, axis) => axis).slice(first);
  apart(call, x, axes, 'normalizes');
  const scaled = broadcast(call, [x, ...call.all(1)]);
  const reduced = without(call, x, axes, true);
  return [scaled, reduced, reduced];
};

/** Statistics of one image: rows first, channels second, with a scale for each channel. */
const perImage: Rule = (call) => {
  const x = call.data(0);
  for (let i = 1; i < call.count; i++) call.fixed(i);
  if (x.kind === 'rows' && x.axis !== 0) call.end('the batch axis is not its first');
  return call.moved(x, call.shape(x));
};

/** Statistics that are constants, one for each channel. */
const batchNormalization: Rule = (call) => {
  const x = call.data(0);
  for (let i = 1; i < call.count; i++) call.fixed(i);
  const isTraining =
    call.opset >= 14
      ? call.int('training_mode', 0) === 1
      : call.node.outputs.filter((name) => name !== '').length > 1;
  if (isTraining) call.end('it is in training mode and normalizes with the mean of all rows');
  apart(call, x, [1], 'has a scale for each place');
  return call.moved(x, call.shape(x));
};

const REDUCE =
  'ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare';

export const REDUCTIONS: Readonly<Record<string, Rule>> = {
  ...Object.fromEntries(REDUCE.split(' ').map((name) => [name, reduce])),
  ReduceProd: (call) => reduceProd(call, reduce),
  ArgMax: argument,
  ArgMin: argument,
  Softmax: softmax,
  LogSoftmax: softmax,
  Hardmax: softmax,
  CumSum: cumSum,
  TopK: topK,
  LpNormalization: mixing('normalizes', (call, rank) => [call.axis(call.int('axis', -1), rank)]),
  MeanVarianceNormalization: meanVariance,
  LayerNormalization: layerNormalization,
  RMSNormalization: layerNormalization,
  InstanceNormalization: perImage,
  GroupNormalization: perImage,
  BatchNormalization: batchNormalization,
  // Over neighbouring channels.
  LRN: mixing('normalizes', () => [1]),
};
