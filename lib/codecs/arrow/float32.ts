/**
 * Casts numbers of any dtype to float32, the only number type of the old wire format. As in the old client, this cast
 * loses precision silently: integers beyond 2^24 are rounded, floats beyond 3.4e38 become infinite.
 * lib/pipeline/bind/cast.ts treats a loss as an error.
 */
import type { NumericDType, TypedArray } from '../../contract/tensor.ts';

/** Returns the same array if it is float32 already. */
export function toFloat32(data: TypedArray, dtype: NumericDType): Float32Array {
  if (data instanceof Float32Array) return data;
  if (dtype === 'float16') return Float32Array.from(data as Uint16Array, float16Value);
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
    const floats = new Float32Array(data.length);
    for (let i = 0; i < data.length; i++) floats[i] = Number(data[i]);
    return floats;
  }
  return Float32Array.from(data);
}

/** IEEE 754 half bits -> number, without getFloat16, because the client runs on Node 20, which lacks it. */
function float16Value(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
