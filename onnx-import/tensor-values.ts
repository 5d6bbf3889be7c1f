/** The values of a tensor as numbers or texts, where float16 comes as bits. */
import { elementCount, type Tensor, type TypedArray } from '../lib/contract/tensor.ts';

/** All elements in row-major order: numbers, bigints for 64-bit integers, or texts. */
export function valuesOf({ dtype, data }: Tensor): TypedArray | Float16Array | readonly string[] {
  if (dtype !== 'float16') return data;
  const bits = data;
  return new Float16Array(bits.buffer as ArrayBuffer, bits.byteOffset, bits.length);
}

/** The elements as nested arrays of the tensor's shape, each as `leaf` makes it. */
export function nestedValues(tensor: Tensor, leaf: (value: number | bigint | string) => unknown): unknown {
  const values = valuesOf(tensor);
  const build = (axis: number, start: number): unknown => {
    if (axis === tensor.shape.length) return leaf(values[start] as number | bigint | string);
    const width = elementCount(tensor.shape.slice(axis + 1));
    return Array.from({ length: tensor.shape[axis] as number }, (_, i) => build(axis + 1, start + i * width));
  };
  return build(0, 0);
}
