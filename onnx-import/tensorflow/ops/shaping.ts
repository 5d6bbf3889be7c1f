/**
 * Converts operations that read or change shapes. A 0 in a shape is a size in TensorFlow's Reshape, but keeps the
 * input's size in ONNX's; TensorFlow's shapes are int32, ONNX's int64.
 */
import { pick, squeeze, unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber, constantNumbers } from '../../graph/numbers.ts';
import { axisOf, rank } from '../../graph/shapes.ts';
import type { Dim, Value } from '../../graph/value.ts';
import { intAttribute, listAttribute, shapeAttribute, type TfNode, typeAttribute } from '../graph.ts';
import { reshapeTo, transpose } from './dims.ts';
import { cast, emit, int64 } from './kernels.ts';
import { axisInTwin } from './layout.ts';
import { refuse } from './refuse.ts';
import { type Context, type OpTable, type Rule, takes } from './rule.ts';

function typed(node: TfNode, name: string, g: GraphBuilder, value: Value): Value {
  return cast(g, value, typeAttribute(node, name, 'int32') === 'int64' ? 'int64' : 'int32');
}

const shapeOf = (node: TfNode, x: Value, g: GraphBuilder) =>
  typed(node, 'out_type', g, g.one('Shape', [x], {}, node.name));

const reshape: Rule = (node, [x, shape], g) => {
  const { elements } = shape;
  if (elements?.includes(0) && elements.includes(-1))
    refuse('asks for the size that is left over beside a size of 0, which can be any');
  const unknown = elements?.filter((element) => element === undefined).length ?? 0;
  const negative = elements?.filter((element) => element === -1).length ?? 0;
  // A single unknown size follows from the others.
  if (!elements || unknown > 1 || (unknown === 1 && negative > 0) || elements.length === 0)
    return exact(node, x, shape, g);
  const dims = elements.map((element): Dim => element ?? -1);
  return reshapeTo(g, x, dims, () => int64(g, shape), node.name);
};

function exact(node: TfNode, x: Value, shape: Value, g: GraphBuilder): Value {
  return g.one('Reshape', [x, int64(g, shape)], {}, node.name);
}

const squeezeRule: Rule = (node, [x], g, { notes }) => {
  const listed = listAttribute(node, 'squeeze_dims').ints;
  const named = listed.length > 0 ? listed : listAttribute(node, 'axis').ints;
  if (named.length > 0) return g.one('Squeeze', [x, g.ints(named)], {}, node.name);
  // A free size is nearly always a batch. TensorFlow would drop it when it is 1, but a rank cannot depend on the run
  // here.
  const axes = x.shape?.flatMap((dim, i) => (dim === 1 ? [i] : []));
  if (!axes) return g.one('Squeeze', [x], {}, node.name);
  const free = x.shape?.filter((dim) => typeof dim === 'string') ?? [];
  if (free.length > 0)
    notes.push(
      `node "${node.name}" (Squeeze) keeps ${free.join(', ')}, which TensorFlow drops where it is 1; fix it with --input if it always is`,
    );
  return squeeze(g, x, axes);
};

const expandDims: Rule = (_node, [x, axis], g) => unsqueeze(g, x, [constantNumber(axis, 'axis')]);

const transposeRule: Rule = (node, [x, perm], g, context) => {
  const order = constantNumbers(perm, 'permutation');
  const size = order.length;
  const sorted = order.map((axis) => axisOf(axis, size));
  if (sorted.every((axis, i) => axis === i)) return x;
  const pair = context.layouts.pair(x);
  // A model that transposes to channels-first itself already has the pair.
  if (pair?.shape?.length === size) {
    const composed = sorted.map((axis) => axisInTwin(axis, size));
    return transpose(g, pair, composed, node.name);
  }
  return transpose(g, x, sorted, node.name);
};

const pack: Rule = (node, inputs, g) => {
  const axis = intAttribute(node, 'axis', 0);
  const { dtype } = inputs[0];
  const lifted = inputs.map((input) => unsqueeze(g, cast(g, input, dtype), [axis]));
  return g.one('Concat', lifted, { axis }, node.name);
};

const unpack: Rule = (node, [x], g) => {
  const axis = intAttribute(node, 'axis', 0);
  const count = intAttribute(node, 'num');
  const own = x.shape?.[axis < 0 ? axis + x.shape.length : axis];
  if (count < 0 || (typeof own === 'number' && own !== count))
    refuse(`splits into ${count} an axis of size ${String(own)}`);
  return Array.from({ length: count }, (_, i) => pick(g, x, i, axis));
};

function concat(
  node: TfNode,
  inputs: readonly Value[],
  axisValue: Value,
  g: GraphBuilder,
  context: Context,
): Value {
  const [first] = inputs;
  if (!first) return refuse('has nothing to join');
  const axis = constantNumber(axisValue, 'axis');
  const parts = inputs.map((input) => cast(g, input, first.dtype));
  if (parts.length === 1) return first;
  const { layouts } = context;
  const size = parts.find((part) => layouts.pair(part))?.shape?.length;
  if (size === undefined || !parts.every((part) => part.shape?.length === size))
    return g.one('Concat', parts, { axis }, node.name);
  const firsts = parts.map((part) => layouts.first(g, part));
  const made = g.one('Concat', firsts, { axis: axisInTwin(axisOf(axis, size), size) }, node.name);
  return layouts.last(g, made, node.name);
}

function splitInto(
  node: TfNode,
  x: Value,
  axis: number,
  parts: { count: number; sizes?: readonly number[] },
  g: GraphBuilder,
  context: Context,
): readonly Value[] {
  const { count, sizes } = parts;
  if (count === 1) return [x];
  const pair = context.layouts.pair(x);
  const size = x.shape?.length;
  const length = size === undefined ? undefined : x.shape?.[axisOf(axis, size)];
  if (!sizes && typeof length === 'number' && length % count !== 0)
    refuse(`splits ${length} into ${count} parts`);
  const list = sizes ? [g.ints(sizes)] : [];
  const options = { outputs: count, hint: node.name };
  if (!pair || size === undefined) return g.add('Split', [x, ...list], { axis }, options);
  const made = g.add('Split', [pair, ...list], { axis: axisInTwin(axisOf(axis, size), size) }, options);
  return made.map((part) => context.layouts.last(g, part, node.name));
}

const split: Rule = (node, [axis, x], g, context) =>
  splitInto(node, x, constantNumber(axis, 'axis'), { count: intAttribute(node, 'num_split') }, g, context);

const splitV: Rule = (node, [x, sizesValue, axisValue], g, context) => {
  const axis = constantNumber(axisValue, 'axis');
  const sizes = constantNumbers(sizesValue, 'list of sizes');
  const at = sizes.indexOf(-1);
  if (at >= 0) {
    const length = x.shape?.[axisOf(axis, rank(x))];
    if (typeof length !== 'number')
      return refuse('needs a fixed size for a part of size -1; give it with --input');
    sizes[at] = length - sizes.reduce((sum, size) => sum + size, 1);
  }
  return splitInto(node, x, axis, { count: sizes.length, sizes }, g, context);
};

const tile: Rule = (node, [x, repeats], g) => {
  const times = repeats.constant ? constantNumbers(repeats, 'repeats') : undefined;
  return times?.every((count) => count === 1) ? x : g.one('Tile', [x, int64(g, repeats)], {}, node.name);
};

const range: Rule = (node, [start, limit, step], g, { facts }) => {
  const scalars = [start, limit, step].map((value) =>
    value.shape?.length === 1 ? squeeze(g, value, [0]) : value,
  );
  const made = emit(g, 'Range', scalars, {}, node.name);
  if (start.elements?.[0] === 0 && step.elements?.[0] === 1) facts.counting.set(made, limit);
  return made;
};

const linSpace: Rule = (node, [start, stop, count], g) => {
  const total = constantNumber(count, 'number of steps');
  const { dtype } = start;
  if (total === 1) return unsqueeze(g, start, [0]);
  const steps = g.one('Range', [g.scalar(dtype, 0), g.scalar(dtype, total), g.scalar(dtype, 1)]);
  const step = emit(g, 'Div', [emit(g, 'Sub', [stop, start]), g.scalar(dtype, total - 1)]);
  return emit(g, 'Add', [start, emit(g, 'Mul', [steps, step])], {}, node.name);
};

function filled(value: number): Rule {
  return (node, [x], g) => {
    if (x.dtype === 'string') refuse('is not supported for texts');
    return g.one('Expand', [g.scalar(x.dtype, value), g.one('Shape', [x])], {}, node.name);
  };
}

const rankOf: Rule = (node, [x], g) => {
  if (x.shape) return g.scalar('int32', x.shape.length);
  return cast(g, g.one('Size', [g.one('Shape', [x])], {}, node.name), 'int32');
};

/** Adds a missing rank and missing sizes. */
const ensureShape: Rule = (node, [x], g) => {
  const wanted = shapeAttribute(node, 'shape');
  if (!wanted) return x;
  const shape = wanted.map((dim, i): Dim => (dim >= 0 ? dim : (x.shape?.[i] ?? g.fresh())));
  if (shape.every((dim, i) => dim === x.shape?.[i])) return x;
  return g.add('Identity', [x], {}, { results: [{ dtype: x.dtype, shape }], hint: node.name })[0] as Value;
};

/** The start of each part of a Concat, which its gradient uses and some graphs use to slice. */
const concatOffset: Rule = (_node, [axisValue, ...shapes], g) => {
  const axis = constantNumber(axisValue, 'axis');
  const lists = shapes.map((shape) => constantNumbers(shape, 'shape'));
  let offset = 0;
  return lists.map((list) => {
    const at = list.map((_, i) => (i === axis ? offset : 0));
    offset += list[axis] ?? 0;
    return cast(g, g.ints(at), 'int32');
  });
};

export const SHAPING: OpTable = {
  ...takes(1, {
    Concat: (node, [axis, ...parts], g, context) => concat(node, parts, axis, g, context),
    ConcatV2: (node, inputs, g, context) =>
      concat(node, inputs.slice(0, -1), inputs.at(-1) as Value, g, context),
    EnsureShape: ensureShape,
    OnesLike: filled(1),
    Pack: pack,
    ParallelConcat: (node, inputs, g, context) => concat(node, [...inputs], g.scalar('int32', 0), g, context),
    Rank: rankOf,
    Shape: (node, [x], g) => shapeOf(node, x, g),
    ShapeN: (node, inputs, g) => inputs.map((x) => shapeOf(node, x, g)),
    Size: (node, [x], g) => typed(node, 'out_type', g, g.one('Size', [x], {}, node.name)),
    Squeeze: squeezeRule,
    Unpack: unpack,
    ZerosLike: filled(0),
  }),
  ...takes(2, {
    ConcatOffset: concatOffset,
    ExpandDims: expandDims,
    Reshape: reshape,
    Split: split,
    Tile: tile,
    Transpose: transposeRule,
  }),
  ...takes(3, { LinSpace: linSpace, Range: range, SplitV: splitV }),
};
