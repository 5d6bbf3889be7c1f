/** Folds operations that only move the elements of constants, of any dtype: transposing, slicing, concatenating. */
import { allocate, elementCount, type Tensor, type TypedArray } from '../../lib/contract/tensor.ts';
import { int, ints } from './attributes.ts';
import { sliceBounds } from './elements.ts';
import { MAX_FOLDED_ELEMENTS, numbersOf } from './numbers.ts';
import { axisOf, broadcast } from './shapes.ts';
import type { Attributes } from './value.ts';

export type Fold = (
  inputs: readonly (Tensor | undefined)[],
  attributes: Attributes,
) => readonly Tensor[] | undefined;

/** Arithmetic is folded for small constants only; weights are only moved. */
export const MAX_COMPUTED = 1024 * 1024;

export type Elements = TypedArray | string[];

export function similar(tensor: Tensor, length: number): Elements {
  return tensor.dtype === 'string' ? new Array<string>(length).fill('') : allocate(tensor.dtype, length);
}

export function made(like: Tensor, shape: readonly number[], data: Elements): Tensor {
  return { dtype: like.dtype, shape, data } as Tensor;
}

/** Copies elements: `from(i)` is the source index of element i, -1 leaves it 0. */
export function pick(tensor: Tensor, shape: readonly number[], from: (i: number) => number): Tensor {
  const length = elementCount(shape, MAX_FOLDED_ELEMENTS);
  const data = similar(tensor, length) as unknown[];
  const source = tensor.data as unknown as readonly unknown[];
  for (let i = 0; i < length; i++) {
    const at = from(i);
    if (at >= 0) data[i] = source[at];
  }
  return made(tensor, shape, data as unknown as Elements);
}

function stridesOf(shape: readonly number[]): number[] {
  const strides = shape.map(() => 1);
  for (let i = shape.length - 2; i >= 0; i--)
    strides[i] = (strides[i + 1] as number) * (shape[i + 1] as number);
  return strides;
}

/** Maps element i of a result to its source index, by the source's stride for each axis of the result. */
function walker(shape: readonly number[], steps: readonly number[], offset = 0): (i: number) => number {
  const index = shape.map(() => 0);
  let at = offset;
  let next = 0;
  return (i) => {
    if (i !== next) throw new Error('a walker goes in order');
    next = i + 1;
    const here = at;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      index[axis] = (index[axis] as number) + 1;
      at += steps[axis] as number;
      if ((index[axis] as number) < (shape[axis] as number)) break;
      at -= (index[axis] as number) * (steps[axis] as number);
      index[axis] = 0;
    }
    return here;
  };
}

export function spread(x: Pick<Tensor, 'shape'>, shape: readonly number[]): (i: number) => number {
  const strides = stridesOf(x.shape);
  const lead = shape.length - x.shape.length;
  return walker(
    shape,
    shape.map((_, i) => (i < lead || x.shape[i - lead] === 1 ? 0 : (strides[i - lead] as number))),
  );
}

/** With the axes in another order, by default the opposite one. */
export function transposed(x: Tensor, order: readonly number[] = [...x.shape.keys()].reverse()): Tensor {
  const strides = stridesOf(x.shape);
  const shape = order.map((axis) => x.shape[axisOf(axis, x.shape.length)] as number);
  const steps = order.map((axis) => strides[axis] as number);
  return pick(x, shape, walker(shape, steps));
}

const expand: Fold = ([x, target]) => {
  const wanted = numbersOf(target as Tensor);
  const shape = wanted && broadcast((x as Tensor).shape, Array.from(wanted), () => '');
  if (!shape || elementCount(shape as number[]) > MAX_COMPUTED) return undefined;
  return [pick(x as Tensor, shape as number[], spread(x as Tensor, shape as number[]))];
};

const reshape: Fold = ([x, target], attributes) => {
  const tensor = x as Tensor;
  const wanted = numbersOf(target as Tensor);
  if (!wanted) return undefined;
  const keepZero = int(attributes.allowzero, 0) === 0;
  const shape = Array.from(wanted, (dim, i) => (dim === 0 && keepZero ? (tensor.shape[i] ?? 0) : dim));
  const at = shape.indexOf(-1);
  if (at >= 0) shape[at] = tensor.data.length / shape.reduce((a, b) => (b === -1 ? a : a * b), 1);
  if (!shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) return undefined;
  return elementCount(shape) === tensor.data.length ? [{ ...tensor, shape }] : undefined;
};

const squeeze: Fold = ([x, axes]) => {
  const tensor = x as Tensor;
  const listed = axes && numbersOf(axes);
  const gone = listed ? Array.from(listed, (axis) => axisOf(axis, tensor.shape.length)) : undefined;
  const shape = tensor.shape.filter((dim, i) => (gone ? !gone.includes(i) : dim !== 1));
  return [{ ...tensor, shape }];
};

const unsqueeze: Fold = ([x, axes]) => {
  const tensor = x as Tensor;
  const listed = axes && numbersOf(axes);
  if (!listed) return undefined;
  const size = tensor.shape.length + listed.length;
  const added = new Set(Array.from(listed, (axis) => axisOf(axis, size)));
  let next = 0;
  const shape = Array.from({ length: size }, (_, i) => (added.has(i) ? 1 : (tensor.shape[next++] as number)));
  return [{ ...tensor, shape }];
};

const concat: Fold = (inputs, attributes) => {
  const tensors = inputs as readonly Tensor[];
  const first = tensors[0] as Tensor;
  const axis = axisOf(int(attributes.axis, 0), first.shape.length);
  const shape = first.shape.with(
    axis,
    tensors.reduce((sum, tensor) => sum + (tensor.shape[axis] as number), 0),
  );
  const data = similar(first, elementCount(shape, MAX_FOLDED_ELEMENTS)) as unknown[];
  const inner = elementCount(shape.slice(axis + 1));
  const row = (shape[axis] as number) * inner;
  let column = 0;
  for (const tensor of tensors) {
    const width = (tensor.shape[axis] as number) * inner;
    const source = tensor.data as unknown as readonly unknown[];
    for (let i = 0; i < source.length; i++)
      data[Math.floor(i / width) * row + column + (i % width)] = source[i];
    column += width;
  }
  return [made(first, shape, data as unknown as Elements)];
};

const slice: Fold = ([x, starts, ends, axes, steps]) => {
  const tensor = x as Tensor;
  const [from, to, by] = [numbersOf(starts as Tensor), numbersOf(ends as Tensor), steps && numbersOf(steps)];
  const at = axes ? numbersOf(axes) : from && Array.from(from, (_, i) => i);
  if (!from || !to || !at) return undefined;
  const strides = stridesOf(tensor.shape);
  const shape = [...tensor.shape];
  let offset = 0;
  const moves = [...strides];
  for (let i = 0; i < at.length; i++) {
    const axis = axisOf(at[i] as number, shape.length);
    const step = by?.[i] ?? 1;
    const [start, end] = sliceBounds(from[i] as number, to[i] as number, step, tensor.shape[axis] as number);
    shape[axis] = Math.max(0, Math.ceil((end - start) / step));
    offset += start * (strides[axis] as number);
    moves[axis] = (strides[axis] as number) * step;
  }
  return [pick(tensor, shape, walker(shape, moves, offset))];
};

const gather: Fold = ([x, indices], attributes) => {
  const tensor = x as Tensor;
  const at = numbersOf(indices as Tensor);
  const axis = axisOf(int(attributes.axis, 0), tensor.shape.length);
  const size = tensor.shape[axis] as number;
  if (!at || Array.prototype.some.call(at, (i: number) => i < -size || i >= size)) return undefined;
  const inner = elementCount(tensor.shape.slice(axis + 1));
  const shape = [
    ...tensor.shape.slice(0, axis),
    ...(indices as Tensor).shape,
    ...tensor.shape.slice(axis + 1),
  ];
  if (elementCount(shape) > MAX_COMPUTED) return undefined;
  return [
    pick(tensor, shape, (i) => {
      const column = i % inner;
      const which = at[Math.floor(i / inner) % at.length] as number;
      const outer = Math.floor(i / (inner * at.length));
      return (outer * size + (which < 0 ? which + size : which)) * inner + column;
    }),
  ];
};

const tile: Fold = ([x, repeats]) => {
  const tensor = x as Tensor;
  const times = numbersOf(repeats as Tensor);
  if (times?.length !== tensor.shape.length) return undefined;
  const shape = tensor.shape.map((dim, i) => dim * (times[i] as number));
  if (elementCount(shape) > MAX_COMPUTED) return undefined;
  const [strides, own] = [stridesOf(shape), stridesOf(tensor.shape)];
  return [
    pick(tensor, shape, (i) =>
      shape.reduce(
        (at, dim, axis) =>
          at +
          ((Math.floor(i / (strides[axis] as number)) % dim) % (tensor.shape[axis] as number)) *
            (own[axis] as number),
        0,
      ),
    ),
  ];
};

export const FOLD_MOVES: Readonly<Record<string, Fold>> = {
  Identity: ([x]) => [x as Tensor],
  Transpose: ([x], { perm }) => [transposed(x as Tensor, ints(perm))],
  Reshape: reshape,
  Squeeze: squeeze,
  Unsqueeze: unsqueeze,
  Concat: concat,
  Slice: slice,
  Gather: gather,
  Expand: expand,
  Tile: tile,
};
