/**
 * Tells tensors from dicts. A tensor is any object with a dtype, a shape and data, as everywhere in this project, so a
 * dict from Python that happens to have these keys has to be remembered as a dict.
 */
import { isNumericDType, type Tensor } from '../../contract/tensor.ts';

const dicts = new WeakSet<object>();

export function isTensorLike(value: unknown): value is Tensor {
  if (typeof value !== 'object' || value === null) return false;
  if (!('dtype' in value && 'shape' in value && 'data' in value)) return false;
  const { dtype, shape, data } = value;
  return (
    typeof dtype === 'string' &&
    (dtype === 'string' ? Array.isArray(data) : isNumericDType(dtype) && ArrayBuffer.isView(data)) &&
    Array.isArray(shape) &&
    !dicts.has(value)
  );
}

/** @returns `dict`, which is then never taken for a tensor */
export function asDict<T extends object>(dict: T): T {
  if (isTensorLike(dict)) dicts.add(dict);
  return dict;
}
