/** Operators that join, repeat, pad and reorder elements into a new tensor. */
import { reversed } from '../../emit/gather.ts';
import type { Value } from '../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { add, type Int, multiply, subtract } from '../run/sizes.ts';
import { Float, List, type Py, refuse } from '../run/values.ts';
import type { Args, Rule, Table } from './schema.ts';
import { cut, expand, permute, reshape } from './shaping.ts';
import { resultType } from './types.ts';

/** Joins values of one type; the joined axis is the sum. */
export function concat(c: Context, parts: readonly Value[], axis: number): Value {
  if (parts.length === 1) return parts[0] as Value;
  const made = c.one('Concat', parts, { axis });
  if (made.constant) return made;
  const length = parts.map((part) => c.sizeOf(part, axis)).reduce<Int>(add, 0);
  return { ...made, shape: made.shape?.with(axis, c.sizes.dim(length)) };
}

const cat: Rule = (c, a) => {
  // Torch lets an empty list of rank 1 stand for nothing.
  const tensors = a.tensors('tensors').filter(({ shape }) => !(shape.length === 1 && shape[0] === 0));
  const [first] = tensors;
  if (!first) return a.tensors('tensors')[0] ?? refuse('joins an empty list');
  const dtype = resultType(a.tensors('tensors'));
  const axis = a.axis('dim', first);
  for (const { shape } of tensors)
    if (shape.length !== first.shape.length) refuse('joins tensors of different ranks');
  return concat(
    c,
    tensors.map((tensor) => c.number(tensor, dtype)),
    axis,
  );
};

const stack: Rule = (c, a) => {
  const tensors = a.tensors('tensors');
  const [first] = tensors;
  if (!first) return refuse('stacks an empty list');
  const axis = a.axis('dim', first, 1);
  const dtype = resultType(tensors);
  const parts = tensors.map((tensor) => c.one('Unsqueeze', [c.number(tensor, dtype), c.g.ints([axis])]));
  return concat(c, parts, axis);
};

/** hstack and vstack join along one axis after giving every part that rank. */
const stacked =
  (rank: number): Rule =>
  (c, a) => {
    const tensors = a.tensors('tensors');
    const dtype = resultType(tensors);
    const parts = tensors.map((tensor) => {
      const value = c.number(tensor, dtype);
      const missing = Math.max(0, rank - tensor.shape.length);
      return reshape(c, value, [...new Array<number>(missing).fill(1), ...c.shapeOf(value)]);
    });
    return concat(c, parts, rank === 1 && (parts[0]?.shape?.length ?? 0) > 1 ? 1 : 0);
  };

const repeat: Rule = (c, a) => {
  const x = a.v('x');
  const times = a.ints('repeats');
  const own = c.shapeOf(x);
  const lead = times.length - own.length;
  if (lead < 0) refuse('has fewer repeats than dimensions');
  const full = [...new Array<Int>(lead).fill(1), ...own];
  return tile(c, reshape(c, x, full), times);
};

function tile(c: Context, x: Value, times: readonly Int[]): Value {
  if (times.every((count) => count === 1)) return x;
  const own = c.shapeOf(x);
  const sizes = own.map((size, i) => multiply(size, times[i] as Int));
  if (own.every((size, i) => size === 1 || times[i] === 1)) return expand(c, x, sizes);
  return c.shaped(c.one('Tile', [x, c.sizes.list(c.g, times)]), sizes);
}

const repeatInterleave: Rule = (c, a) => {
  const x = a.isSet('dim') ? a.v('x') : reshape(c, a.v('x'), [-1]);
  const axis = a.isSet('dim') ? a.axis('dim', x) : 0;
  const own = c.shapeOf(x);
  const count = a.int('repeats');
  const wide = c.one('Unsqueeze', [x, c.g.ints([axis + 1])]);
  const shape = own.toSpliced(axis + 1, 0, count);
  return reshape(c, expand(c, wide, shape), own.with(axis, multiply(own[axis] as Int, count)));
};

/** Rolls an axis: the last `shift` elements come first. */
const roll: Rule = (c, a) => {
  const axes = a.axes('dims', a.tensor('x'));
  const shifts = a.ns('shifts', axes.length);
  if (axes.length === 0 && shifts.length === 1) {
    const flat = reshape(c, a.v('x'), [-1]);
    return reshape(c, rolled(c, flat, 0, shifts[0] as number), c.shapeOf(a.v('x')));
  }
  return axes.reduce((x, axis, i) => rolled(c, x, axis, shifts[i] as number), a.v('x'));
};

function rolled(c: Context, x: Value, axis: number, shift: number): Value {
  const size = c.sizeOf(x, axis);
  if (shift === 0) return x;
  const by = typeof size === 'number' ? ((shift % size) + size) % size : c.fixed(size, 'size to roll');
  if (by === 0) return x;
  const from = subtract(size, by);
  return { ...concat(c, [cut(c, x, axis, from, size), cut(c, x, axis, 0, from)], axis), shape: x.shape };
}

/** torch's name for reversing axes. */
const REVERSE = 'flip';

const flipped: Rule = (c, a) => {
  const x = a.tensor('x');
  const axes = a.axes('dims', x);
  return axes.length === 0 ? x.value : reversed(c, x.value, axes);
};

const MODES: Readonly<Record<string, string>> = {
  constant: 'constant',
  reflect: 'reflect',
  replicate: 'edge',
  circular: 'wrap',
};

/** Torch lists pads from the last axis to the first; negative ones cut. */
function padded(c: Context, x: Value, pads: readonly number[], mode: string, fill: Py): Value {
  const rank = x.shape?.length ?? refuse('needs a known rank');
  const count = pads.length / 2;
  const op = MODES[mode] ?? refuse(`mode ${mode} is not supported`);
  if (!Number.isInteger(count) || count > rank) refuse(`has ${pads.length} pads for ${rank} dimensions`);
  const before = new Array<number>(rank).fill(0);
  const after = new Array<number>(rank).fill(0);
  for (let i = 0; i < count; i++) {
    before[rank - 1 - i] = pads[2 * i] as number;
    after[rank - 1 - i] = pads[2 * i + 1] as number;
  }
  if (op === 'wrap') return circular(c, x, before, after);
  let own = x;
  for (let axis = 0; axis < rank; axis++) {
    const [from, to] = [Math.max(0, -(before[axis] as number)), Math.max(0, -(after[axis] as number))];
    if (from + to > 0) own = cut(c, own, axis, from, subtract(c.sizeOf(own, axis), to));
  }
  const kept = [...before, ...after].map((pad) => Math.max(0, pad));
  if (kept.every((pad) => pad === 0)) return own;
  const isBool = own.dtype === 'bool';
  const numbers = isBool ? c.cast(own, 'int32') : own;
  const value = op === 'constant' && fill !== null ? c.number(fill, numbers.dtype) : undefined;
  const made = c.one('Pad', [numbers, c.g.ints(kept), value], { mode: op });
  const sizes = c.shapeOf(own).map((size, i) => add(size, (kept[i] as number) + (kept[i + rank] as number)));
  return c.cast(made.constant ? made : c.shaped(made, sizes), x.dtype);
}

function circular(c: Context, x: Value, before: readonly number[], after: readonly number[]): Value {
  return before.reduce((value, front, axis) => {
    const back = after[axis] as number;
    const size = c.sizeOf(value, axis);
    if (front < 0 || back < 0) return refuse('negative circular pads are not supported');
    const parts = [
      ...(front > 0 ? [cut(c, value, axis, subtract(size, front), size)] : []),
      value,
      ...(back > 0 ? [cut(c, value, axis, 0, back)] : []),
    ];
    return concat(c, parts, axis);
  }, x);
}

const pad: Rule = (c, a) => padded(c, a.v('x'), a.ns('pad'), a.text('mode'), a.raw('value'));

const padAs =
  (mode: string): Rule =>
  (c, a) =>
    padded(c, a.v('x'), a.ns('pad'), mode, null);

export function triangle(c: Context, x: Value, diagonal: number, upper: 0 | 1): Value {
  const isSmall = x.dtype !== 'float32' && x.dtype !== 'float64' && x.dtype !== 'int64' && x.dtype !== 'bool';
  const own = isSmall ? c.cast(x, 'int64') : x;
  return c.cast(c.one('Trilu', [own, c.g.scalar('int64', diagonal)], { upper }), x.dtype);
}

/** Neighbouring channels become a block of pixels, in torch's order (CRD). */
const pixelShuffle: Rule = (c, a) => {
  const by = a.n('factor');
  const x = a.v('x');
  const [n, channels, h, w] = c.shapeOf(x);
  if (w === undefined || n === undefined || h === undefined) return refuse('needs 4 dimensions');
  const inner = c.sizes.divide(channels as Int, by * by);
  const wide = reshape(c, x, [n, inner, by, by, h, w]);
  return reshape(c, permute(c, wide, [0, 1, 4, 2, 5, 3]), [n, inner, multiply(h, by), multiply(w, by)]);
};

const pixelUnshuffle: Rule = (c, a) => {
  const by = a.n('factor');
  const x = a.v('x');
  const [n, channels, h, w] = c.shapeOf(x);
  if (w === undefined || n === undefined || h === undefined) return refuse('needs 4 dimensions');
  const [rows, columns] = [c.sizes.divide(h, by), c.sizes.divide(w, by)];
  const wide = reshape(c, x, [n, channels as Int, rows, by, columns, by]);
  return reshape(c, permute(c, wide, [0, 1, 3, 5, 2, 4]), [
    n,
    multiply(channels as Int, by * by),
    rows,
    columns,
  ]);
};

const channelShuffle: Rule = (c, a) => {
  const x = a.v('x');
  const groups = a.n('groups');
  const [n, channels, ...rest] = c.shapeOf(x) as [Int, Int, ...Int[]];
  const wide = reshape(c, x, [n, groups, c.sizes.divide(channels, groups), ...rest]);
  const order = [0, 2, 1, ...rest.map((_, i) => i + 3)];
  return reshape(c, permute(c, wide, order), [n, channels, ...rest]);
};

const meshgrid = (c: Context, a: Args): Py => {
  const axes = a.values('tensors');
  const isXy = a.raw('indexing') === 'xy' && axes.length > 1;
  const order = axes.map((_, i) => (isXy && i < 2 ? 1 - i : i));
  const sizes = order.map((i) => c.sizeOf(axes[i] as Value, 0));
  const grids = axes.map((axis, i) => {
    const at = order.indexOf(i);
    const shape = sizes.map((size, place) => (place === at ? size : 1));
    return c.tensor(expand(c, reshape(c, axis, shape), sizes));
  });
  return new List(grids);
};

export const MOVES: Table = {
  'cat(Tensor[] tensors, int dim=0) | concat(Tensor[] tensors, int dim=0) | concatenate(Tensor[] tensors, int dim=0)':
    cat,
  'stack(Tensor[] tensors, int dim=0)': stack,
  'hstack(Tensor[] tensors)': stacked(1),
  'vstack(Tensor[] tensors)': stacked(2),
  'repeat(Tensor x, int[] repeats)': repeat,
  'tile(Tensor x, int[] dims)': (c, a) => {
    const times = a.ints('dims');
    const x = a.v('x');
    const missing = Math.max(0, (x.shape?.length ?? 0) - times.length);
    const lead = Math.max(0, times.length - (x.shape?.length ?? 0));
    const full = [...new Array<Int>(lead).fill(1), ...c.shapeOf(x)];
    return tile(c, reshape(c, x, full), [...new Array<Int>(missing).fill(1), ...times]);
  },
  'repeat_interleave(Tensor x, int repeats, int? dim=None, any output_size=None)': repeatInterleave,
  'roll(Tensor x, int[] shifts, int[] dims)': roll,
  [`${REVERSE}(Tensor x, int[] dims)`]: flipped,
  "pad(Tensor x, int[] pad, str mode='constant', Scalar? value=None)": pad,
  'constant_pad_nd(Tensor x, int[] pad, Scalar value=0)': (c, a) =>
    padded(c, a.v('x'), a.ns('pad'), 'constant', a.raw('value') ?? new Float(0)),
  'reflection_pad1d(Tensor x, int[] pad) | reflection_pad2d(Tensor x, int[] pad) | reflection_pad3d(Tensor x, int[] pad)':
    padAs('reflect'),
  'replication_pad1d(Tensor x, int[] pad) | replication_pad2d(Tensor x, int[] pad) | replication_pad3d(Tensor x, int[] pad)':
    padAs('replicate'),
  'tril(Tensor x, int diagonal=0)': (c, a) => triangle(c, a.v('x'), a.n('diagonal'), 0),
  'triu(Tensor x, int diagonal=0)': (c, a) => triangle(c, a.v('x'), a.n('diagonal'), 1),
  'pixel_shuffle(Tensor x, int factor)': pixelShuffle,
  'pixel_unshuffle(Tensor x, int factor)': pixelUnshuffle,
  'channel_shuffle(Tensor x, int groups)': channelShuffle,
  "meshgrid(Tensor[] tensors, str? indexing='ij')": meshgrid,
};
