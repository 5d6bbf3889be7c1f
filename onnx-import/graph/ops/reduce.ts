/** Operators that mix elements along some axes: sums, softmax, sorting, norms. The batch axis must not be one of them. */
import { elementCount, type Tensor } from '../../../lib/contract/tensor.ts';
import { int, ints } from '../attributes.ts';
import { MAX_COMPUTED, spread } from '../moves.ts';
import { holds, isFloat, numbersOf, tensorOf } from '../numbers.ts';
import { fits, known, settle } from '../rows/arithmetic.ts';
import type { Call, RowRule } from '../rows/call.ts';
import { broadcast } from '../rows/combine.ts';
import { listOf, type ShapeNode, type ShapeRule, sameShape } from '../rows/shape-node.ts';
import { numberOf, ONE, product, type Shape, type Size, size } from '../rows/size.ts';
import { type Data, elementsOf } from '../rows/value.ts';
import { axisOf, product as productOf } from '../shapes.ts';
import { all, FLOATS, type Fold, type Operator, type Operators, SMALL, WIDE } from './operator.ts';

/** The axes of a reduction: the attribute, or the second input. Without either, all. */
function reducedAxes(node: ShapeNode, rank: number, listed: readonly number[]): readonly number[] {
  const everyAxis = Array.from({ length: rank }, (_, i) => i);
  if (listed.length > 0) return [...new Set(listed.map((axis) => node.axis(axis, rank)))];
  return node.int('noop_with_empty_axes', 0) === 1 ? [] : everyAxis;
}

/** Without the axes, or with 1 in their places. */
function without(node: ShapeNode, shape: Shape, axes: readonly number[]): Shape {
  if (node.int('keepdims', 1) === 1) return shape.map((dim, axis): Size => (axes.includes(axis) ? ONE : dim));
  return shape.filter((_, axis) => !axes.includes(axis));
}

const reducedShape: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  if (!shape) return [undefined];
  const listed = listOf(node, 'axes', 1);
  if (listed || !node.has(1)) return [without(node, shape, reducedAxes(node, shape.length, listed ?? []))];
  return [node.int('keepdims', 1) === 1 ? shape.map(() => node.dim()) : undefined];
};

const argumentShape: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  return [shape && without(node, shape, [node.axis(node.int('axis', 0), shape.length)])];
};

/** @throws ProofEnd when the batch axis is among the axes */
export function apart(call: Call, x: Data, axes: readonly number[], what: string): void {
  if (x.kind === 'rows' && axes.includes(x.axis)) call.end(`it ${what} along the batch axis`);
}

/** What is left of the rows without the axes. */
function reduceRows(call: Call, x: Data, axes: readonly number[]): Data {
  const isKept = call.int('keepdims', 1) === 1;
  const before = x.kind === 'rows' && !isKept ? axes.filter((axis) => axis < x.axis).length : 0;
  return call.moved(x, call.result(), x.kind === 'rows' ? x.axis - before : 0);
}

const reduceRule: RowRule = (call) => {
  const x = call.data(0);
  const listed = call.ints('axes') ?? call.numbers(1, 'axes') ?? [];
  const axes = reducedAxes(call, call.shape(x).length, listed);
  apart(call, x, axes, 'reduces');
  return reduceRows(call, x, axes);
};

const argumentRule: RowRule = (call) => {
  const x = call.data(0);
  const axes = [call.axis(call.int('axis', 0), call.shape(x).length)];
  apart(call, x, axes, 'searches');
  return reduceRows(call, x, axes);
};

/** Of the elements of a shape. */
const reduceProd: RowRule = (call) => {
  const input = known(call.value(0));
  const axes = call.ints('axes') ?? (call.has(1) ? call.elements(1)?.map(numberOf) : undefined);
  const isWhole = input?.shape.length === 1 && (!axes || axes.every((axis) => axis === 0 || axis === -1));
  if (!input || !isWhole || call.int('noop_with_empty_axes', 0) === 1) return reduceRule(call);
  const { elements, type } = input;
  const isExact = elements.every((element): element is Size => element !== undefined && fits(element, type));
  const whole = settle(call, elements, isExact ? product(elements) : undefined, type);
  return elementsOf(call.int('keepdims', 1) === 1 ? [ONE] : [], [whole], type);
};

function foldReduction(start: number, step: (a: number, b: number) => number, mean = false): Fold {
  return ([x, axesInput], attributes) => {
    const tensor = x as Tensor;
    const numbers = tensor.data.length <= MAX_COMPUTED ? numbersOf(tensor) : undefined;
    const listed = axesInput ? numbersOf(axesInput) : (ints(attributes.axes) ?? []);
    if (!numbers || !listed || (listed.length === 0 && int(attributes.noop_with_empty_axes, 0) === 1))
      return undefined;
    const rank = tensor.shape.length;
    const gone = new Set(
      listed.length === 0 ? tensor.shape.keys() : Array.from(listed, (axis) => axisOf(axis, rank)),
    );
    const kept = tensor.shape.map((dim, i) => (gone.has(i) ? 1 : dim));
    const place = spread({ shape: kept }, tensor.shape);
    const values = new Float64Array(elementCount(kept)).fill(start);
    const isWhole = !isFloat(tensor.dtype);
    for (let i = 0; i < numbers.length; i++) {
      const at = place(i);
      const value = step(values[at] as number, numbers[i] as number);
      if (isWhole && !Number.isSafeInteger(value)) return undefined;
      values[at] = value;
    }
    // Runtimes differ in what a sum becomes that its type does not hold.
    if (isWhole && !values.every((value) => holds(tensor.dtype, value))) return undefined;
    const count = numbers.length / Math.max(1, values.length);
    const result = mean ? values.map((value) => value / count) : values;
    if (!result.every(Number.isFinite)) return undefined;
    const shape = int(attributes.keepdims, 1) === 1 ? kept : tensor.shape.filter((_, i) => !gone.has(i));
    return [tensorOf(tensor.dtype, shape, result)];
  };
}

/** Keeps the shape, and mixes along these axes. */
const mixing = (
  what: string,
  axesOf: (call: Call, rank: number) => readonly number[],
  rest: Operator = {},
): Operator => ({
  shapes: sameShape,
  rows: (call) => {
    const x = call.data(0);
    const shape = call.shape(x);
    apart(call, x, axesOf(call, shape.length), what);
    return call.moved(x, shape);
  },
  ...rest,
});

/** Before operator set 13 all axes from the given one on are one. */
export const softmaxAxes = (call: Call, rank: number, opset = call.opset) => {
  const axis = call.axis(call.int('axis', opset < 13 ? 1 : -1), rank);
  return opset < 13 ? Array.from({ length: rank - axis }, (_, i) => axis + i) : [axis];
};

const sortedAxes = (call: Call, rank: number) => {
  const [axis] = call.numbers(1, 'axis') ?? [];
  return [call.axis(axis ?? call.end('it has no axis'), rank)];
};

const topKShape: ShapeRule = (node) => {
  const shape = node.shapeAt(0);
  const axis = shape && node.axis(node.int('axis', -1), shape.length);
  const k = node.opset < 10 ? size(node.int('k', 1)) : node.listAt(1)?.[0];
  const cut = axis === undefined ? undefined : shape?.with(axis, k ?? node.dim());
  return [cut, cut];
};

const topK: RowRule = (call) => {
  const x = call.data(0);
  apart(call, x, [call.axis(call.int('axis', -1), call.shape(x).length)], 'sorts');
  if (call.opset >= 10) call.elements(1);
  const result = call.moved(x, call.result());
  return [result, result];
};

/** All axes from the given one on; the mean and the deviation have 1 in their places. */
const layerNormalization: RowRule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  const first = call.axis(call.int('axis', -1), shape.length);
  apart(call, x, shape.map((_, axis) => axis).slice(first), 'normalizes');
  const scaled = broadcast(call, [x, ...call.all(1)]);
  const reduced = call.moved(
    x,
    shape.map((dim, axis) => (axis < first ? dim : ONE)),
  );
  return [scaled, reduced, reduced];
};

/** Statistics of one image: rows first, channels second, with a scale for each channel. */
const perImage: RowRule = (call) => {
  const x = call.data(0);
  for (let i = 1; i < call.count; i++) call.fixed(i);
  if (x.kind === 'rows' && x.axis !== 0) call.end('the batch axis is not its first');
  return call.moved(x, call.shape(x));
};

/** Statistics that are constants, one for each channel. */
const batchNormalization: RowRule = (call) => {
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

/** The last axis is normalized, of the sum of what is skipped; the fourth output is that sum. */
const skipNormalization: RowRule = (call) => {
  const isSimple = call.operator.startsWith('SkipSimplified');
  for (const index of isSimple ? [2, 3] : [2, 3, 4]) call.fixed(index);
  const sum = broadcast(call, [call.data(0), call.data(1)]);
  const shape = call.shape(sum);
  apart(call, sum, [shape.length - 1], 'normalizes');
  const reduced = call.moved(sum, [...shape.slice(0, -1), ONE]);
  return [sum, reduced, reduced, sum];
};

const reduction: Operator = { shapes: reducedShape, dtypes: WIDE, typed: [0], rows: reduceRule };
const argument: Operator = {
  shapes: argumentShape,
  results: ['int64'],
  dtypes: [...WIDE, ...SMALL],
  typed: [0],
  rows: argumentRule,
};

export const REDUCE: Operators = {
  ...all('ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare', reduction),
  ReduceLogSum: { shapes: reducedShape, rows: reduceRule },
  ReduceProd: {
    ...reduction,
    elements: ([x]) => x?.elements && [productOf(x.elements)],
    fold: foldReduction(1, (a, b) => a * b),
    rows: reduceProd,
  },
  ReduceSum: { ...reduction, fold: foldReduction(0, (a, b) => a + b) },
  ReduceMean: { ...reduction, fold: foldReduction(0, (a, b) => a + b, true) },
  ReduceMax: { ...reduction, dtypes: [...WIDE, ...SMALL], fold: foldReduction(-Infinity, Math.max) },
  ReduceMin: { ...reduction, dtypes: [...WIDE, ...SMALL], fold: foldReduction(Infinity, Math.min) },
  ...all('ArgMax ArgMin', argument),
  ...all('Softmax LogSoftmax', mixing('normalizes', softmaxAxes, { dtypes: FLOATS })),
  Hardmax: mixing('normalizes', softmaxAxes),
  CumSum: mixing('adds up', sortedAxes, { dtypes: WIDE, typed: [0] }),
  TopK: {
    shapes: topKShape,
    results: [0, 'int64'],
    dtypes: [...WIDE, ...SMALL, 'int16'],
    typed: [0],
    rows: topK,
  },
  LpNormalization: mixing('normalizes', (call, rank) => [call.axis(call.int('axis', -1), rank)]),
  MeanVarianceNormalization: mixing('normalizes', (call, rank) =>
    (call.ints('axes') ?? [0, 2, 3]).map((axis) => call.axis(axis, rank)),
  ),
  LayerNormalization: { shapes: sameShape, rows: layerNormalization },
  // onnxruntime has the second one in the standard domain.
  ...all('RMSNormalization SimplifiedLayerNormalization', { rows: layerNormalization }),
  ...all('com.microsoft:SkipLayerNormalization com.microsoft:SkipSimplifiedLayerNormalization', {
    rows: skipNormalization,
  }),
  InstanceNormalization: { shapes: sameShape, rows: perImage },
  GroupNormalization: { rows: perImage },
  BatchNormalization: { shapes: sameShape, dtypes: FLOATS, rows: batchNormalization },
  // Over neighbouring channels.
  LRN: mixing('normalizes', () => [1], { dtypes: ['float32'] }),
};
