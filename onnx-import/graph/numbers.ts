/**
 * Converts constants to doubles and back. Doubles cannot hold int64 values beyond 2^53; `numbersOf` then returns
 * undefined, and nothing is folded.
 */
import { badModel } from '../../lib/contract/errors.ts';
import {
  allocate,
  type DType,
  elementCount,
  isNumericDType,
  type Tensor,
} from '../../lib/contract/tensor.ts';
import type { Value } from './value.ts';

/** Limits constant folding, so that a malicious Expand or ConstantOfShape cannot fill the memory. */
export const MAX_FOLDED_ELEMENTS = 64 * 1024 * 1024;

export function numbersOf(tensor: Tensor): ArrayLike<number> | undefined {
  if (tensor.dtype === 'string' || tensor.dtype === 'float16') return undefined;
  const { data } = tensor;
  if (!(data instanceof BigInt64Array || data instanceof BigUint64Array)) return data;
  const numbers = new Float64Array(data.length);
  for (const [i, value] of data.entries()) {
    const number = Number(value);
    if (!Number.isSafeInteger(number)) return undefined;
    numbers[i] = number;
  }
  return numbers;
}

export function isFloat(dtype: DType): boolean {
  return dtype.startsWith('float');
}

/** Whether a type of whole numbers holds the number. */
export function holds(dtype: DType, number: number): boolean {
  const bits = Number(/\d+$/.exec(dtype)?.[0]);
  const [low, high] = dtype.startsWith('u') ? [0, 2 ** bits] : [-(2 ** (bits - 1)), 2 ** (bits - 1)];
  return number >= low && number < high;
}

/** A tensor of `dtype` with these elements. Integers are truncated toward zero, as a cast does. */
export function tensorOf(dtype: DType, shape: readonly number[], values: ArrayLike<number>): Tensor {
  if (!isNumericDType(dtype) || dtype === 'float16') throw badModel(`cannot compute with ${dtype}`);
  const data = allocate(dtype, elementCount(shape, MAX_FOLDED_ELEMENTS));
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
    for (let i = 0; i < data.length; i++) data[i] = BigInt(Math.trunc(finite(values[i] as number)));
  } else if (dtype === 'bool') {
    for (let i = 0; i < data.length; i++) data[i] = (values[i] as number) === 0 ? 0 : 1;
  } else {
    data.set(values);
  }
  return { dtype, shape, data };
}

function finite(value: number): number {
  if (Number.isFinite(value)) return value;
  throw badModel(`${value} is not an integer`);
}

/** The elements of a constant input as plain numbers. @throws bad_model naming the input when it is not constant */
export function constantNumbers(value: Value | undefined, what: string): number[] {
  const numbers = value?.constant && numbersOf(value.constant);
  if (numbers) return Array.from(numbers);
  if (value?.elements?.every((element) => typeof element === 'number')) return [...value.elements];
  throw badModel(`needs a constant ${what}; it is computed while the model runs`);
}

/** The only element of a constant. @throws bad_model when it has more or is not constant */
export function constantNumber(value: Value | undefined, what: string): number {
  const numbers = constantNumbers(value, what);
  if (numbers.length === 1) return numbers[0] as number;
  throw badModel(`needs one number as ${what}, got ${numbers.length}`);
}
