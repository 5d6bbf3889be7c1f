/**
 * Torch's type promotion: a tensor with dimensions decides over one without, and both over a Python number, unless
 * the other is of a higher kind (bool, int, float).
 */
import type { DType } from '../../../../lib/contract/tensor.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { TensorRef } from '../run/tensor.ts';
import { Float, type Py, refuse, Scalar } from '../run/values.ts';

const ORDER: readonly DType[] = ['bool', 'uint8', 'int8', 'int16', 'int32', 'int64', 'float32', 'float64'];

export function kind(dtype: DType): 0 | 1 | 2 {
  if (dtype === 'bool') return 0;
  return isFloat(dtype) ? 2 : 1;
}

export function isFloat(dtype: DType): boolean {
  return dtype === 'float32' || dtype === 'float64';
}

export function promote(a: DType, b: DType): DType {
  if ((a === 'uint8' && b === 'int8') || (a === 'int8' && b === 'uint8')) return 'int16';
  const [one, other] = [ORDER.indexOf(a), ORDER.indexOf(b)];
  if (one < 0 || other < 0) return refuse(`${a} and ${b} have no common type`);
  return one > other ? a : b;
}

function numberType(value: Py): DType {
  if (value instanceof Float) return 'float32';
  if (value instanceof Scalar)
    return value.type === 'float' ? 'float32' : value.type === 'bool' ? 'bool' : 'int64';
  return typeof value === 'boolean' ? 'bool' : 'int64';
}

export function resultType(operands: readonly Py[]): DType {
  let [large, small, bare]: (DType | undefined)[] = [];
  for (const each of operands) {
    if (!(each instanceof TensorRef)) {
      const type = numberType(each);
      bare = bare === undefined ? type : promote(bare, type);
    } else if (each.shape.length > 0) large = large === undefined ? each.dtype : promote(large, each.dtype);
    else small = small === undefined ? each.dtype : promote(small, each.dtype);
  }
  const over = (strong: DType | undefined, weak: DType | undefined) => {
    if (strong === undefined || weak === undefined) return strong ?? weak;
    return kind(weak) > kind(strong) ? weak : strong;
  };
  return over(over(large, small), bare) ?? refuse('has no operands');
}

/** The type that onnxruntime computes in: it has no kernels for small integers. */
export function computed(dtype: DType): DType {
  return dtype === 'bool' || dtype === 'uint8' || dtype === 'int8' || dtype === 'int16' ? 'int32' : dtype;
}

/** Integers become float32, as for exp or a division. */
export function floating(c: Context, value: Value): Value {
  return isFloat(value.dtype) ? value : c.cast(value, 'float32');
}
