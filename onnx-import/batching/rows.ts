/** Rows of tensors, put together and taken apart along any axis. */
import { allocate, elementCount, type Tensor, type TypedArray } from '../../lib/contract/tensor.ts';

/** Tensors of one row each (size 1 on the axis) as one; up to `total`, what is left is zeros or empty texts. */
export function stackRows(rows: readonly Tensor[], axis: number, total = rows.length): Tensor {
  const { dtype, shape } = rows[0] as Tensor;
  const [outer, inner] = [elementCount(shape.slice(0, axis)), elementCount(shape.slice(axis + 1))];
  const whole = shape.with(axis, total);
  if (dtype === 'string') {
    const data = new Array<string>(outer * total * inner).fill('');
    for (const [at, row] of rows.entries()) {
      for (let i = 0; i < outer * inner; i++) data[place(i, at, total, inner)] = row.data[i] as string;
    }
    return { dtype, shape: whole, data };
  }
  const data = allocate(dtype, outer * total * inner);
  for (const [at, row] of rows.entries()) {
    for (let i = 0; i < outer; i++) {
      const part = (row.data as TypedArray).subarray(i * inner, (i + 1) * inner);
      data.set(part as never, (i * total + at) * inner);
    }
  }
  return { dtype, shape: whole, data };
}

/** The row at one place, with size 1 on the axis. */
export function rowAt({ dtype, shape, data }: Tensor, axis: number, at: number): Tensor {
  const total = shape[axis] as number;
  const [outer, inner] = [elementCount(shape.slice(0, axis)), elementCount(shape.slice(axis + 1))];
  const own = shape.with(axis, 1);
  if (dtype === 'string') {
    const texts = Array.from({ length: outer * inner }, (_, i) => data[place(i, at, total, inner)] as string);
    return { dtype, shape: own, data: texts };
  }
  const row = allocate(dtype, outer * inner);
  for (let i = 0; i < outer; i++) {
    const from = (i * total + at) * inner;
    row.set(data.subarray(from, from + inner) as never, i * inner);
  }
  return { dtype, shape: own, data: row };
}

/** Where element `i` of a row lies among `total` rows. */
function place(i: number, at: number, total: number, inner: number): number {
  return (Math.floor(i / inner) * total + at) * inner + (i % inner);
}
