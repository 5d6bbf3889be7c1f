/** Doubles of JSON as a tensor of the model's dtype, without a look at each where the array's own conversion is right. */
import { TENSOR_ELEMENTS } from '../../contract/client-limits.ts';
import { JsonNumbers } from '../../contract/json-numbers.ts';
import { allocate, type DType, elementCount, type Tensor } from '../../contract/tensor.ts';
import { nestedTensor } from './nested.ts';

/** `nestedTensor` of a value that was read from JSON, whose numbers may be JsonNumbers. */
export function jsonTensor(content: unknown, dtype: DType, mayMiss = false): Tensor {
  if (!(content instanceof JsonNumbers)) return nestedTensor(content, dtype, mayMiss);
  return numbersTensor(content, dtype) ?? nestedTensor(content.nested(), dtype, mayMiss);
}

/** Undefined where a number does not fit, and for a dtype that stores none: nestedTensor says what is wrong. @throws too_large */
function numbersTensor(numbers: JsonNumbers, dtype: DType): Tensor | undefined {
  if (dtype === 'string' || dtype === 'bool' || dtype === 'float16') return undefined;
  const { shape } = numbers;
  const count = elementCount(shape, TENSOR_ELEMENTS);
  const parts = numbers.parts(dtype === 'float32' ? dtype : 'float64');
  const [only] = parts;
  if (dtype === 'float32' && only instanceof Float32Array && parts.length === 1)
    return { dtype, shape, data: only };
  const data = allocate(dtype, count);
  let start = 0;
  for (const part of parts) {
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
      if (!storeBigInts(part, data, start)) return undefined;
    } else {
      data.set(part, start);
      // A double beyond the range of float32 has become an infinity; every double is a float64.
      if (data instanceof Float32Array) {
        if (part instanceof Float64Array && !areFinite(data, start, part.length)) return undefined;
      } else if (dtype !== 'float64' && !areSame(part, data, start)) return undefined;
    }
    start += part.length;
  }
  return { dtype, shape, data };
}

function areFinite(data: Float32Array, start: number, count: number): boolean {
  // Not Number.isFinite, which is called until the loop is optimized: 0.25 ms for 3x96x96.
  for (let i = start; i < start + count; i++) if (Math.abs(data[i] as number) === Infinity) return false;
  return true;
}

function areSame(part: ArrayLike<number>, data: ArrayLike<number>, start: number): boolean {
  for (let i = 0; i < part.length; i++) if (data[start + i] !== part[i]) return false;
  return true;
}

function storeBigInts(part: ArrayLike<number>, data: BigInt64Array | BigUint64Array, start: number): boolean {
  const least = data instanceof BigInt64Array ? Number.MIN_SAFE_INTEGER : 0;
  for (let i = 0; i < part.length; i++) {
    const number = part[i] as number;
    if (!Number.isSafeInteger(number) || number < least) return false;
    data[start + i] = BigInt(number);
  }
  return true;
}
