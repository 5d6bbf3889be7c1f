/**
 * Operations that change shapes. A file with a static batch has it in the constants of its reshapes; while the batch
 * is free they are rewritten, where it is certain which size it is.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { BATCH, BatchBound } from '../../../graph/batch.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { axisOf, known, product } from '../../../graph/shapes.ts';
import type { Dim, Shape, Value } from '../../../graph/value.ts';
import { cast, int64, type OpTable, type OvNode, type Rule } from '../node.ts';
import { dtypeNamed } from '../weights.ts';

/** Constant axes as 0..rank-1. */
export function axesOf(node: OvNode, i: number, rank: number): number[] {
  return constantNumbers(node.input(i), 'list of axes').map((axis) => axisOf(axis, rank));
}

const reshape: Rule = (node) => reshaped(node, node.input(0), node.input(1), node.flag('special_zero', true));

export function reshaped(node: OvNode, x: Value, target: Value, isZeroKept: boolean): Value {
  const list = int64(node, target);
  const numbers = list.elements?.every((each) => typeof each === 'number') ? list.elements : undefined;
  const { freedBatch } = node.net;
  const at = x.shape?.indexOf(BATCH) ?? -1;
  if (freedBatch !== undefined && numbers && at >= 0)
    return node.one('Reshape', [x, node.g.ints(freed(known(x), at, numbers, freedBatch, isZeroKept))]);
  const hasZero = numbers?.includes(0) ?? true;
  return node.one('Reshape', [x, list], isZeroKept || !hasZero ? {} : { allowzero: 1 });
}

/** The target of a reshape with -1 at the batch. */
function freed(
  from: Shape,
  at: number,
  target: readonly number[],
  batch: number,
  isZeroKept: boolean,
): number[] {
  const own = from.map((dim) => (dim === BATCH ? batch : dim));
  if (!own.every((dim) => typeof dim === 'number') || from.indexOf(BATCH, at + 1) >= 0)
    throw new BatchBound();
  if (target.includes(0) && !isZeroKept) throw new BatchBound();
  const whole = size(own);
  const full = target.map((dim, i) => (dim === 0 ? (own[i] as number) : dim));
  const open = full.indexOf(-1);
  if (open >= 0) full[open] = whole / size(full.toSpliced(open, 1));
  if (size(full) !== whole) throw badModel(`reshapes ${own.join('x')} to ${full.join('x')}`);
  const before = size(own.slice(0, at));
  const fits = (i: number) => full[i] === batch && size(full.slice(0, i)) === before;
  const place = fits(at) ? at : full.findIndex((_, i) => fits(i));
  if (place < 0) throw new BatchBound();
  return full.with(place, -1);
}

export function size(dims: readonly number[]): number {
  return dims.reduce((all, dim) => all * dim, 1);
}

const squeeze: Rule = (node) => {
  const x = node.input(0);
  node.ignore('allow_axis_skip');
  const shape = known(x);
  const listed = node.optional(1)
    ? axesOf(node, 1, shape.length)
    : shape.flatMap((dim, i) => (dim === 1 ? [i] : []));
  if (!node.optional(1) && shape.some((dim) => typeof dim === 'string')) {
    node.bindBatch();
    throw badModel('removes axes of size 1 of a free shape; give it with --input');
  }
  return listed.length === 0 ? node.one('Identity', [x]) : withoutAxes(node, x, listed);
};

function withoutAxes(node: OvNode, x: Value, axes: readonly number[]): Value {
  if (axes.some((axis) => known(x)[axis] === BATCH)) node.bindBatch();
  return node.one('Squeeze', [x, node.g.ints(axes)]);
}

const unsqueeze: Rule = (node) => {
  const [x, axes] = [node.input(0), constantNumbers(node.input(1), 'list of axes')];
  return axes.length === 0 ? node.one('Identity', [x]) : node.one('Unsqueeze', [x, node.g.ints(axes)]);
};

const transpose: Rule = (node) => {
  const [x, order] = [node.input(0), node.optional(1)];
  const perm = order && constantNumbers(order, 'order');
  return node.one('Transpose', [x], {
    perm: perm && perm.length > 0 ? perm : [...known(x).keys()].reverse(),
  });
};

/** A tensor with a batch, next to a constant that has that of the file: the constant is repeated. */
const concat: Rule = (node) => {
  const parts = node.all();
  const axis = axisOf(node.whole('axis'), known(parts[0] as Value).length);
  if (parts.some(({ shape }) => shape?.[axis] === BATCH)) node.bindBatch();
  return node.one('Concat', repeated(node, parts, axis), { axis });
};

function repeated(node: OvNode, parts: readonly Value[], axis: number): readonly Value[] {
  const model = parts.find(({ shape }) => shape?.includes(BATCH));
  const at = model?.shape?.indexOf(BATCH) ?? -1;
  if (!model || at === axis) return parts;
  return parts.map((part) => (part.shape?.[at] === BATCH ? part : alongBatch(node, part, model, at)));
}

/** Repeats a value of one row as often as `model` has rows. */
export function alongBatch(node: OvNode, value: Value, model: Value, axis: number): Value {
  const shape = known(value);
  const batchAxis = known(model).indexOf(BATCH);
  if (shape[axis] === BATCH || batchAxis < 0) return value;
  if (shape[axis] !== 1) {
    node.bindBatch();
    throw badModel(`joins ${shape[axis]} rows with a free batch`);
  }
  const rows = node.g.one('Shape', [model], { start: batchAxis, end: batchAxis + 1 });
  const ones = (count: number) => node.g.ints(new Array<number>(count).fill(1));
  const target = [ones(axis), rows, ones(shape.length - axis - 1)].filter((part) => part.shape?.[0] !== 0);
  const results = [{ dtype: value.dtype, shape: shape.with(axis, BATCH) }];
  return node.g.add(
    'Expand',
    [value, node.g.one('Concat', target, { axis: 0 })],
    {},
    { results },
  )[0] as Value;
}

function splitInto(node: OvNode, x: Value, axis: number, sizes: readonly number[]): Value[] {
  if (known(x)[axis] === BATCH) node.bindBatch();
  return node.g.add('Split', [x, node.g.ints(sizes)], { axis }, { outputs: sizes.length, hint: node.hint });
}

const split: Rule = (node) => {
  const x = node.input(0);
  const [axis] = axesOf(node, 1, known(x).length) as [number];
  return evenly(node, x, axis, node.whole('num_splits'));
};

export function evenly(node: OvNode, x: Value, axis: number, count: number): Value[] {
  const dim = known(x)[axis];
  if (dim === BATCH) node.bindBatch();
  if (typeof dim !== 'number' || count < 1 || dim % count !== 0)
    throw badModel(`splits ${dim} into ${count} equal parts`);
  return splitInto(node, x, axis, new Array<number>(count).fill(dim / count));
}

const variadicSplit: Rule = (node) => {
  const x = node.input(0);
  const [axis] = axesOf(node, 1, known(x).length) as [number];
  const sizes = constantNumbers(node.input(2), 'list of sizes');
  const open = sizes.indexOf(-1);
  const dim = known(x)[axis];
  if (open < 0) return splitInto(node, x, axis, sizes);
  if (typeof dim !== 'number') throw badModel('splits a free size; give it with --input');
  return splitInto(
    node,
    x,
    axis,
    sizes.with(open, dim - size(sizes.length > 1 ? [sizes.reduce((a, b) => a + b, 1)] : [0])),
  );
};

const tile: Rule = (node) => {
  const [x, repeats] = [node.input(0), int64(node, node.input(1))];
  const count = repeats.shape?.[0];
  if (typeof count !== 'number') throw badModel('has a number of repeats that is not known');
  const own = known(x).length;
  const ones = node.g.ints(new Array<number>(Math.abs(own - count)).fill(1));
  if (count >= own) return node.one('Tile', [lifted(node, x, count), repeats]);
  return node.one('Tile', [x, node.g.one('Concat', [ones, repeats], { axis: 0 })]);
};

/** With axes of size 1 in front, up to this rank. */
export function lifted(node: OvNode, x: Value, rank: number): Value {
  const missing = rank - known(x).length;
  if (missing <= 0) return x;
  return node.g.one('Unsqueeze', [x, node.g.ints(Array.from({ length: missing }, (_, i) => i))]);
}

const broadcast: Rule = (node) => {
  const x = node.input(0);
  const mode = node.choice('mode', ['numpy', 'explicit', 'bidirectional'], 'numpy');
  const target = int64(node, node.input(1));
  const at = node.optional(2);
  if (mode !== 'explicit') return node.one('Expand', [x, target]);
  const axes = at ? constantNumbers(at, 'axes mapping') : [];
  const rank = target.shape?.[0];
  if (typeof rank !== 'number' || axes.length !== known(x).length)
    throw badModel('needs one axis for each of its input');
  if (axes.some((axis, i) => axis <= (axes[i - 1] ?? -1))) throw badModel(`maps its axes to ${axes.join()}`);
  const added = Array.from({ length: rank }, (_, i) => i).filter((i) => !axes.includes(i));
  const widened = added.length > 0 ? node.g.one('Unsqueeze', [x, node.g.ints(added)]) : x;
  return node.one('Expand', [widened, target]);
};

const PAD_MODES = { constant: 'constant', edge: 'edge', reflect: 'reflect' } as const;

const pad: Rule = (node) => {
  const x = node.input(0);
  const mode = node.choice('pad_mode', ['constant', 'edge', 'reflect', 'symmetric']);
  const pads = node.g.one('Concat', [int64(node, node.input(1)), int64(node, node.input(2))], { axis: 0 });
  const value = node.optional(3);
  if (mode === 'symmetric') return symmetric(node, x, pads);
  const inputs = mode === 'constant' && value ? [x, pads, cast(node, value, x.dtype)] : [x, pads];
  if (mode === 'constant' || !pads.constant) return node.one('Pad', inputs, { mode: PAD_MODES[mode] });
  return node.one('Pad', inputs, { mode: PAD_MODES[mode] });
};

/** The border is repeated: a row before the first is the first. */
function symmetric(node: OvNode, x: Value, pads: Value): Value {
  const amounts = constantNumbers(pads, 'padding');
  const shape = known(x);
  return shape.reduce<Value>((value, dim, axis) => {
    const [before, after] = [amounts[axis] as number, amounts[axis + shape.length] as number];
    if (before === 0 && after === 0) return value;
    if (typeof dim !== 'number' || before < 0 || after < 0 || before > dim || after > dim)
      throw badModel(`pads ${dim} by ${before} and ${after}`);
    const front = Array.from({ length: before }, (_, i) => before - 1 - i);
    const back = Array.from({ length: after }, (_, i) => dim - 1 - i);
    const rows = [...front, ...Array.from({ length: dim }, (_, i) => i), ...back];
    return node.one('Gather', [value, node.g.ints(rows)], { axis });
  }, x);
}

const shapeOf: Rule = (node) => {
  const made = node.one('Shape', [node.input()]);
  return cast(node, made, dtypeNamed(node.text('output_type', 'i64')));
};

const range: Rule = (node) => {
  const type = dtypeNamed(node.text('output_type', node.layer.outputs[0]?.precision || 'f32'));
  const parts = node.all().map((part) => node.g.one('Reshape', [part, node.g.ints([])]));
  // Fractional bounds of a range of whole numbers are cut off first.
  return node.one(
    'Range',
    parts.map((part) => cast(node, part, type)),
  );
};

/** A free batch of the shape; other shapes as they are. */
export function reshapeKnown(node: OvNode, x: Value, shape: readonly Dim[]): Value {
  const free = shape.filter((dim) => typeof dim === 'string');
  if (free.length > 1) throw badModel('needs fixed sizes; give them with --input');
  const target = node.g.ints(shape.map((dim) => (typeof dim === 'string' ? -1 : dim)));
  return node.g.add(
    'Reshape',
    [x, target],
    {},
    { hint: node.hint, results: [{ dtype: x.dtype, shape }] },
  )[0] as Value;
}

/** The dimensions from `from` on as one. */
export function flattened(node: OvNode, x: Value, from: number): Value {
  const shape = known(x);
  return reshapeKnown(node, x, [...shape.slice(0, from), product(shape.slice(from)) ?? node.g.fresh()]);
}

export function numbersIn(x: Value): number[] {
  return known(x).map((dim) => {
    if (typeof dim === 'number') return dim;
    throw badModel('needs fixed sizes; give them with --input');
  });
}

export const SHAPINGS: OpTable = {
  Broadcast: broadcast,
  Concat: concat,
  Identity: (node) => node.one('Identity', [node.input()]),
  Pad: pad,
  Range: range,
  Reshape: reshape,
  ShapeOf: shapeOf,
  Split: split,
  Squeeze: squeeze,
  Tile: tile,
  Transpose: transpose,
  Unsqueeze: unsqueeze,
  VariadicSplit: variadicSplit,
};
