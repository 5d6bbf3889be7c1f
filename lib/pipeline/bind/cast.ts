/**
 * Casts numbers from one dtype to another, or refuses with one error. Typed arrays wrap and truncate silently (300 ->
 * 44, 1.5 -> 1); nothing here may.
 */
import { badInput, type ServingError } from '../../contract/errors.ts';
import {
  allocate,
  copyElements,
  type NumericDType,
  type Tensor,
  type TypedArray,
} from '../../contract/tensor.ts';

interface Range {
  readonly min: number | bigint;
  readonly max: number | bigint;
}

const signed = (bits: number): Range => ({ min: -(2 ** (bits - 1)), max: 2 ** (bits - 1) - 1 });
const unsigned = (bits: number): Range => ({ min: 0, max: 2 ** bits - 1 });

const INTEGERS: Partial<Record<NumericDType, Range>> = {
  int8: signed(8),
  int16: signed(16),
  int32: signed(32),
  uint8: unsigned(8),
  uint16: unsigned(16),
  uint32: unsigned(32),
  bool: unsigned(1),
  int64: { min: -(2n ** 63n), max: 2n ** 63n - 1n },
  uint64: { min: 0n, max: 2n ** 64n - 1n },
};
const FLOAT32_MAX = 3.4028234663852886e38;
const FLOAT16_MAX = 65_504;

/** A number checked against `dtype`, in the form its array stores. */
type Store = (value: number | bigint, out: TypedArray, index: number) => void;

/**
 * The checked store for `dtype`: writes one number, or throws what was expected and what came.
 * @throws bad_input (without the input's name; the caller adds it)
 */
export function storeFor(dtype: NumericDType): Store {
  const range = INTEGERS[dtype];
  if (range !== undefined) {
    const { min, max } = range;
    const whole = <T extends number | bigint>(value: T): T => {
      if (typeof value !== 'number' || Number.isInteger(value)) return value;
      throw mismatch(value, `a whole number (${dtype})`);
    };
    const outside = (value: number | bigint) =>
      mismatch(value, dtype === 'bool' ? 'true, false, 0 or 1' : `${min} to ${max} (${dtype})`);
    // Two functions: one that compares numbers here and bigints there takes twice the time for both.
    if (typeof min === 'bigint')
      return (value, out, index) => {
        const number = BigInt(whole(value));
        if (number < min || number > max) throw outside(value);
        out[index] = number;
      };
    return (value, out, index) => {
      const number = Number(whole(value));
      if (number < min || number > max) throw outside(value);
      out[index] = number;
    };
  }
  const max = dtype === 'float64' ? Number.MAX_VALUE : dtype === 'float16' ? FLOAT16_MAX : FLOAT32_MAX;
  return (value, out, index) => {
    const number = Number(value);
    // NaN and infinities pass: a model may well take them; JSON cannot carry them and is checked where it is read.
    if (Math.abs(number) > max && Number.isFinite(number)) throw mismatch(value, `at most ${max} (${dtype})`);
    out[index] = dtype === 'float16' ? float16Bits(number) : number;
  };
}

function mismatch(value: number | bigint, expected: string): ServingError {
  return badInput(`expected ${expected}, got ${value}`);
}

/**
 * Casts a tensor; returns the same object if nothing changes.
 * @throws bad_input when a value does not fit, or for strings instead of numbers and vice versa
 */
export function castTensor(tensor: Tensor, dtype: Tensor['dtype']): Tensor {
  if (tensor.dtype === dtype) return tensor;
  if (tensor.dtype === 'string' || dtype === 'string') {
    throw badInput(`expected ${dtype}, got ${tensor.dtype}`);
  }
  const source = tensor.data;
  const data = allocate(dtype, source.length);
  if (widens(tensor.dtype, dtype)) {
    copyElements(source, data);
    return { dtype, shape: tensor.shape, data };
  }
  const store = storeFor(dtype);
  const half = tensor.dtype === 'float16';
  for (let i = 0; i < source.length; i++) {
    const value = source[i] as number | bigint;
    store(half ? float16Value(Number(value)) : value, data, i);
  }
  return { dtype, shape: tensor.shape, data };
}

/** Whole numbers up to it are float32 values. */
const EXACT_IN_FLOAT32 = 16_777_216;

/**
 * True when `to` contains every value of `from` and both arrays hold plain numbers. Then the copy is native: 5 us
 * instead of 110 for 3x96x96 pixels of uint8 as float32.
 */
function widens(from: NumericDType, to: NumericDType): boolean {
  const [range, target] = [from, to].map((dtype) => (dtype.endsWith('int64') ? undefined : INTEGERS[dtype]));
  if (to === 'float64') return range !== undefined || from === 'float32';
  if (range === undefined || to === 'bool') return false;
  if (to === 'float32') return range.max <= EXACT_IN_FLOAT32;
  return target !== undefined && range.min >= target.min && range.max <= target.max;
}

/** Number -> IEEE 754 half bits, round to nearest even. */
export function float16Bits(value: number): number {
  // Node before 24 and older browsers lack it.
  if (!('setFloat16' in HALF)) return computedBits(value);
  HALF.setFloat16(0, value);
  return HALF.getUint16(0);
}

/** IEEE 754 half bits -> number. */
export function float16Value(bits: number): number {
  if (!('getFloat16' in HALF)) return computedValue(bits);
  HALF.setUint16(0, bits);
  return HALF.getFloat16(0);
}

const HALF = new DataView(new ArrayBuffer(2));

/** `float16Bits` without help: a half is a whole number of steps, which double with each exponent. */
export function computedBits(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const size = Math.abs(value);
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  if (size >= 65_520) return sign + 0x7c00;
  let exponent = -14;
  while (2 ** (exponent + 1) <= size) exponent++;
  const steps = size / 2 ** (exponent - 10);
  // From 2^52 on doubles are whole numbers: the sum is rounded to the nearest, and of two as near to the even one.
  return sign + (exponent + 14) * 1024 + (steps + 2 ** 52 - 2 ** 52);
}

/** `float16Value` without help. */
export function computedValue(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const steps = bits & 1023;
  const sign = bits >= 0x8000 ? -1 : 1;
  if (exponent === 31) return steps === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? steps : 1024 + steps) * 2 ** (Math.max(exponent, 1) - 25);
}
