/** Cuts the result of a batch into the answers of its items. */
import { isTensorLike } from '../codecs/values/tensor-like.ts';
import { elementCount, type NumericDType, type Tensor } from '../contract/tensor.ts';
import { float16Value } from '../pipeline/bind/cast.ts';

/** @returns the items of an array, or the rows of a tensor along its first axis; undefined for anything else */
export function rowsOf(result: unknown): readonly unknown[] | undefined {
  if (Array.isArray(result)) return Array.from<unknown>(result);
  if (!isTensorLike(result)) return undefined;
  const [length, ...shape] = result.shape;
  if (length === undefined) return undefined;
  return Array.from({ length }, (_, i) => rowOf(result, shape, i));
}

/** As in numpy, an element of a tensor with one axis is a scalar. */
function rowOf({ dtype, data }: Tensor, shape: readonly number[], index: number): unknown {
  if (shape.length === 0) return dtype === 'string' ? data[index] : scalarOf(dtype, data[index]);
  const size = elementCount(shape);
  const [from, to] = [index * size, (index + 1) * size];
  return { dtype, shape, data: ArrayBuffer.isView(data) ? data.subarray(from, to) : data.slice(from, to) };
}

function scalarOf(dtype: NumericDType, element: unknown): unknown {
  if (dtype === 'bool') return element === 1;
  return dtype === 'float16' ? float16Value(Number(element)) : element;
}
