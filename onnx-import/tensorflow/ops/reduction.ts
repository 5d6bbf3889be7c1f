/**
 * Converts reductions, ArgMax, ArgMin and TopK. An empty list of axes means no axes in TensorFlow and all axes in
 * ONNX.
 */
import { reduce } from '../../emit/reduce.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber, constantNumbers } from '../../graph/numbers.ts';
import { axisOf, rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, intAttribute, type TfNode, typeAttribute } from '../graph.ts';
import { cast, emit, emitAll, int64, makerOf, oneNumber } from './kernels.ts';
import { axisInTwin } from './layout.ts';
import { type Context, type OpTable, type Rule, takes } from './rule.ts';

interface Reduction {
  readonly op: string;
  readonly x: Value;
  readonly axes: readonly number[];
  readonly keep: boolean;
}

/** The mean of an empty axis is NaN in TensorFlow and 0 in onnxruntime. */
function emitMean(g: GraphBuilder, { op, x, axes, keep }: Reduction, hint: string): Value {
  const made = reduce(makerOf(g, hint), op, x, axes, keep);
  const { shape } = x;
  if (!x.dtype.startsWith('float')) return made;
  const dims = axes.map((axis) => shape?.[axisOf(axis, shape.length)]);
  if (dims.every((dim) => typeof dim === 'number' && dim > 0)) return made;
  const sizes = g.one('Gather', [g.one('Shape', [x]), g.ints(axes)], { axis: 0 });
  const count = emit(g, 'ReduceProd', [sizes], { axes: [0], keepdims: 0 });
  // 0 / count is NaN for a count of 0, else 0.
  const none = g.one('Div', [g.scalar(x.dtype, 0), cast(g, count, x.dtype)]);
  return g.one('Add', [made, none], {}, hint);
}

function emitReduction(g: GraphBuilder, wanted: Reduction, hint: string): Value {
  const { op, x, axes, keep } = wanted;
  return op === 'ReduceMean' ? emitMean(g, wanted, hint) : reduce(makerOf(g, hint), op, x, axes, keep);
}

function reduceAxes(wanted: Reduction, node: TfNode, g: GraphBuilder, context: Context): Value {
  const { x, axes, keep } = wanted;
  const pair = context.layouts.pair(x);
  const size = x.shape?.length;
  if (!pair || size === undefined) return emitReduction(g, wanted, node.name);
  const gone = new Set(axes.map((axis) => axisOf(axis, size)));
  const moved = [...gone].map((axis) => axisInTwin(axis, size));
  if (keep) {
    const made = emitReduction(g, { ...wanted, x: pair, axes: moved }, node.name);
    return context.layouts.last(g, made, node.name);
  }
  // The order of the remaining axes is the same if the channels or the whole image are reduced.
  const image = Array.from({ length: size - 2 }, (_, i) => i + 1);
  const ordered = gone.has(size - 1) || image.every((axis) => gone.has(axis));
  return emitReduction(g, ordered ? { ...wanted, x: pair, axes: moved } : wanted, node.name);
}

function reduction(op: string): Rule {
  return (node, [x, axesValue], g, context) => {
    const keep = flagAttribute(node, 'keep_dims', false);
    if (op === 'ReduceSum' && !axesValue.constant && !axesValue.elements)
      return emit(
        g,
        op,
        [x, oneList(g, axesValue)],
        { keepdims: keep ? 1 : 0, noop_with_empty_axes: 1 },
        node.name,
      );
    const axes = constantNumbers(axesValue, 'list of axes');
    if (axes.length === 0 || x.shape?.length === 0) return x;
    return reduceAxes({ op, x, axes, keep }, node, g, context);
  };
}

function oneList(g: GraphBuilder, axes: Value): Value {
  return axes.shape?.length === 0 ? oneNumber(g, axes, 'int64') : int64(g, axes);
}

/**
 * all and any as reductions of numbers, because there are no kernels for bool. `any` is a sum, because the maximum of
 * nothing is undefined.
 */
function logical(op: 'ReduceMin' | 'ReduceSum'): Rule {
  const numeric = reduction(op);
  return (node, inputs, g, context) => {
    const numbers = cast(g, inputs[0], 'int32');
    const made = numeric(node, inputs.with(0, numbers) as unknown as typeof inputs, g, context) as Value;
    return cast(g, made, 'bool');
  };
}

function places(op: 'ArgMax' | 'ArgMin'): Rule {
  return (node, inputs, g, context) => {
    const [x] = inputs;
    const axis = inputs.length > 1 ? constantNumber(inputs[1], 'axis') : 0;
    const type = typeAttribute(node, 'output_type', 'int64');
    const dtype = typeof type === 'string' ? type : 'int64';
    const pair = context.layouts.pair(x);
    const size = x.shape?.length;
    const own = size === undefined ? axis : axisOf(axis, size);
    // Along the channels the order of the other axes does not change.
    const found =
      pair && size !== undefined && own === size - 1
        ? emit(g, op, [pair], { axis: 1, keepdims: 0 }, node.name)
        : emit(g, op, [x], { axis, keepdims: 0 }, node.name);
    return cast(g, found, dtype);
  };
}

/** Sorts even if the node requests no order; TensorFlow's order then depends on its version and the machine. */
function topK(node: TfNode, x: Value, k: Value, g: GraphBuilder, { notes }: Context): Value[] {
  if (!flagAttribute(node, 'sorted', true) && k.elements?.[0] !== 1) {
    notes.push(
      `node "${node.name}" (${node.op}) asks for no order (sorted is false): here the largest comes first, in TensorFlow it may not`,
    );
  }
  const type = typeAttribute(node, 'index_type', 'int32');
  const [values, indices] = emitAll(
    g,
    'TopK',
    [x, oneNumber(g, k, 'int64')],
    { axis: -1, sorted: 1 },
    { outputs: 2, hint: node.name },
  ) as [Value, Value];
  return [values, cast(g, indices, typeof type === 'string' ? type : 'int32')];
}

/** Whether the score of the target is among the k largest, ties included. */
function inTopK(node: TfNode, predictions: Value, targets: Value, k: Value, g: GraphBuilder): Value {
  const at = g.one('Unsqueeze', [int64(g, targets), g.ints([1])]);
  const own = g.one('GatherElements', [predictions, at], { axis: 1 });
  const better = cast(g, emit(g, 'Greater', [predictions, own]), 'int64');
  const count = g.one('ReduceSum', [better, g.ints([1])], { keepdims: 0 });
  return g.one('Less', [count, int64(g, k)], {}, node.name);
}

/** The n-th smallest (or largest) element along the last axis. */
const nthElement: Rule = (node, [x, n], g) => {
  const index = constantNumber(n, 'n');
  const largest = flagAttribute(node, 'reverse', false) ? 1 : 0;
  const [values] = emitAll(
    g,
    'TopK',
    [x, g.ints([index + 1])],
    { axis: -1, largest },
    { outputs: 2, hint: node.name },
  ) as [Value, Value];
  return g.one('Gather', [values, g.scalar('int64', index)], { axis: rank(x) - 1 });
};

export const REDUCTION: OpTable = {
  ...takes(1, {
    ArgMax: places('ArgMax'),
    ArgMin: places('ArgMin'),
    TopK: (node, [x], g, context) => topK(node, x, g.scalar('int32', intAttribute(node, 'k')), g, context),
  }),
  ...takes(2, {
    All: logical('ReduceMin'),
    Any: logical('ReduceSum'),
    EuclideanNorm: reduction('ReduceL2'),
    Max: reduction('ReduceMax'),
    Mean: reduction('ReduceMean'),
    Min: reduction('ReduceMin'),
    NthElement: nthElement,
    Prod: reduction('ReduceProd'),
    Sum: reduction('ReduceSum'),
    TopKV2: (node, [x, k], g, context) => topK(node, x, k, g, context),
    InTopK: (node, [predictions, targets], g) =>
      inTopK(node, predictions, targets, g.scalar('int64', intAttribute(node, 'k')), g),
  }),
  ...takes(3, {
    InTopKV2: (node, [predictions, targets, k], g) => inTopK(node, predictions, targets, k, g),
  }),
};
