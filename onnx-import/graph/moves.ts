/** Moves the elements of constants, of any dtype: what folding is made of. */
import { allocate, elementCount, type Tensor, type TypedArray } from '../../lib/contract/tensor.ts';
import { MAX_FOLDED_ELEMENTS } from './numbers.ts';
import { axisOf } from './shapes.ts';

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

export function stridesOf(shape: readonly number[]): number[] {
  const strides = shape.map(() => 1);
  for (let i = shape.length - 2; i >= 0; i--)
    strides[i] = (strides[i + 1] as number) * (shape[i + 1] as number);
  return strides;
}

/** Maps element i of a result to its source index, by the source's stride for each axis of the result. */
export function walker(
  shape: readonly number[],
  steps: readonly number[],
  offset = 0,
): (i: number) => number {
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
