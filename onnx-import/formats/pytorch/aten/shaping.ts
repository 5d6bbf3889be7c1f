/** How values are reshaped, reordered, cut and expanded, and how tensors become views of others by it. */
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { add, type Int, product, SizeBound, subtract, textOf } from '../run/sizes.ts';
import type { TensorRef } from '../run/tensor.ts';
import { refuse } from '../run/values.ts';

/** torch's "to the end" is the largest int64. */
export const END = 2 ** 62;

/** Reshapes to sizes of which one may be -1. @throws SizeBound when the elements cannot be the same for every size */
export function reshape(c: Context, x: Value, wanted: readonly Int[]): Value {
  const own = c.shapeOf(x);
  const sizes = [...wanted];
  const at = sizes.indexOf(-1);
  const all = product(own);
  if (at >= 0) sizes[at] = c.sizes.divide(all, product(sizes.toSpliced(at, 1)));
  const count = product(sizes);
  const difference = subtract(count, all);
  if (typeof difference !== 'number')
    throw new SizeBound(`reshapes ${textOf(all)} elements to [${sizes.map(textOf).join(',')}]`);
  if (difference !== 0) refuse(`reshapes [${own.map(textOf).join(',')}] to [${sizes.map(textOf).join(',')}]`);
  if (sizes.length === own.length && sizes.every((size, i) => same(size, own[i] as Int))) return x;
  const spare = sizes.filter((size, i) => typeof size !== 'number' && !same(size, own[i])).length;
  const target =
    spare > 1
      ? c.sizes.list(c.g, sizes)
      : c.g.ints(
          sizes.map((size, i) =>
            typeof size === 'number' && size !== 0 ? size : same(size, own[i]) ? 0 : -1,
          ),
        );
  if (sizes.includes(0)) refuse('reshapes a tensor without elements');
  const results = [{ dtype: x.dtype, shape: sizes.map((size) => c.sizes.dim(size)) }];
  return x.constant
    ? c.one('Reshape', [x, target])
    : (c.g.add('Reshape', [x, target], {}, { results })[0] as Value);
}

export function same(a: Int, b: Int | undefined): boolean {
  return b !== undefined && subtract(a, b) === 0;
}

export function permute(c: Context, x: Value, order: readonly number[]): Value {
  return order.every((axis, i) => axis === i) ? x : c.one('Transpose', [x], { perm: order });
}

/** The part [start, end) of an axis, with bounds that are in it. */
export function cut(c: Context, x: Value, axis: number, start: Int, end: Int, step = 1): Value {
  const size = c.sizeOf(x, axis);
  if (same(start, 0) && same(end, size) && step === 1) return x;
  const bound = (at: Int) => (same(at, size) ? c.g.ints([2 ** 31]) : c.sizes.list(c.g, [at]));
  const made = c.one('Slice', [x, bound(start), bound(end), c.g.ints([axis]), c.g.ints([step])]);
  const length = c.sizes.divide(add(subtract(end, start), step - 1), step);
  return made.constant ? made : { ...made, shape: made.shape?.with(axis, c.sizes.dim(length)) };
}

/** A bound of torch's slice as 0..size. */
export function clamped(c: Context, at: Int, size: Int): Int {
  if (typeof at === 'number' && at >= END) return size;
  const from = c.sizes.sign(at) === -1 ? add(at, size) : at;
  return c.sizes.extreme('max', c.sizes.extreme('min', from, size), 0);
}

/** Puts `value` in the place of [start, end). */
function put(
  c: Context,
  parent: Value,
  value: Value,
  axis: number,
  start: Int,
  end: Int,
  step: number,
): Value {
  const size = c.sizeOf(parent, axis);
  if (step !== 1) {
    const [from, to] = [c.fixed(start, 'start of a slice'), c.fixed(end, 'end of a slice')];
    const places = Array.from(
      { length: Math.max(0, Math.ceil((to - from) / step)) },
      (_, i) => from + i * step,
    );
    const shape = (value.shape ?? []).map((_, i) => (i === axis ? places.length : 1));
    const list = c.one('Reshape', [c.g.ints(places), c.g.ints(shape)]);
    const indices = c.one('Expand', [list, c.sizes.list(c.g, c.shapeOf(value))]);
    return c.one('ScatterElements', [parent, indices, value], { axis });
  }
  if (same(start, 0) && same(end, size)) return value;
  const parts = [
    ...(same(start, 0) ? [] : [cut(c, parent, axis, 0, start)]),
    value,
    ...(same(end, size) ? [] : [cut(c, parent, axis, end, size)]),
  ];
  return { ...c.one('Concat', parts, { axis }), shape: parent.shape };
}

export function slice(c: Context, x: TensorRef, axis: number, start: Int, end: Int, step = 1): TensorRef {
  if (step < 1) refuse(`a step of ${step} is not supported`);
  const size = c.sizeOf(x.value, axis);
  const from = clamped(c, start, size);
  const to = clamped(c, end, size);
  const isEmpty = c.sizes.sign(subtract(to, from)) === -1;
  const last = isEmpty ? from : to;
  if (same(from, 0) && same(last, size) && step === 1) return x;
  return c.view(x, {
    name: 'slice',
    read: (value) => cut(c, value, axis, from, last, step),
    write: (parent, value) => put(c, parent, value, axis, from, last, step),
  });
}

export function select(c: Context, x: TensorRef, axis: number, index: Int): TensorRef {
  const size = c.sizeOf(x.value, axis);
  const at = c.sizes.sign(index) === -1 ? add(index, size) : index;
  if (c.sizes.sign(at) === -1 || (c.sizes.sign(subtract(at, size)) ?? -1) >= 0)
    refuse(`index ${textOf(index)} is outside of an axis of ${textOf(size)}`);
  const isLast = typeof at !== 'number' && same(at, subtract(size, 1));
  return c.view(x, {
    name: 'select',
    read: (value) =>
      c.one('Gather', [value, isLast ? c.g.scalar('int64', -1) : c.sizes.value(c.g, at)], { axis }),
    write: (parent, value) => {
      const part = c.one('Unsqueeze', [value, c.g.ints([axis])]);
      return put(c, parent, part, axis, at, add(at, 1), 1);
    },
  });
}

export function squeezed(c: Context, x: TensorRef, axes: readonly number[]): TensorRef {
  const gone = axes.filter((axis) => {
    const dim = x.shape[axis];
    if (typeof dim === 'string') throw new SizeBound(`squeezes an axis of ${dim}`);
    return dim === 1;
  });
  if (gone.length === 0) return x;
  return c.view(x, {
    name: 'squeeze',
    read: (value) => c.one('Squeeze', [value, c.g.ints(gone)]),
    write: (parent, value) => reshape(c, value, c.shapeOf(parent)),
  });
}

export function expand(c: Context, x: Value, wanted: readonly Int[]): Value {
  const own = c.shapeOf(x);
  const lead = wanted.length - own.length;
  if (lead < 0) refuse(`expands [${own.map(textOf).join(',')}] to [${wanted.map(textOf).join(',')}]`);
  const sizes = wanted.map((size, i) => (size === -1 ? (own[i - lead] as Int) : size));
  const isSame = lead === 0 && sizes.every((size, i) => same(size, own[i] as Int));
  if (isSame) return x;
  for (const [i, size] of own.entries())
    if (!same(size, 1) && !same(size, sizes[i + lead]))
      throw new SizeBound(`expands ${textOf(size)} to ${textOf(sizes[i + lead] as Int)}`);
  return c.shaped(c.one('Expand', [x, c.sizes.list(c.g, sizes)]), sizes);
}
