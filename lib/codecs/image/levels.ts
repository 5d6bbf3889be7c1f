/**
 * Computes the tensor values of each of the 256 levels, per channel. Normalisation and cast run 256 times per channel
 * instead of once per pixel, so every dtype (also int64 and float16) costs one table lookup.
 */
import { badConfig, badInput } from '../../contract/errors.ts';
import { allocate, type NumericDType, type TypedArray } from '../../contract/tensor.ts';

export interface Normalisation {
  /** value = (pixel * scale - mean[c]) / std[c] with pixel 0 to 255. Default 1. */
  readonly scale: number;
  /** Per output channel, or one number for all. Default 0. */
  readonly mean: readonly number[];
  /** Per output channel, or one number for all, never 0. Default 1. */
  readonly std: readonly number[];
}

/** Elements of any dtype, bigint or number, for code that only copies them. */
export interface Elements {
  [index: number]: unknown;
}

const LEVELS = 256;

/**
 * One table of 256 elements per channel; integers round and clamp.
 * @throws bad_config for a wrong number of means or stds, for std 0 and for what is not finite; bad_input for bool
 */
export function levelTables(settings: Normalisation, channels: number, dtype: NumericDType): TypedArray[] {
  if (dtype === 'bool') throw badInput('expected true or false (bool), got an image');
  const { scale } = settings;
  if (!Number.isFinite(scale)) {
    throw badConfig(`image scale must be a finite number, got ${scale}`);
  }
  const means = perChannel('mean', settings.mean, channels);
  const stds = perChannel('std', settings.std, channels);
  if (stds.includes(0)) throw badConfig('image std must not be 0');
  return means.map((mean, channel) => {
    const table = allocate(dtype, LEVELS);
    const elements: Elements = table;
    for (let level = 0; level < LEVELS; level++) {
      elements[level] = toElement((level * scale - mean) / stds[channel]!, dtype);
    }
    return table;
  });
}

function perChannel(name: string, values: readonly number[], channels: number): readonly number[] {
  const fits = values.length === 1 || values.length === channels;
  if (!fits || !values.every((value) => Number.isFinite(value))) {
    const expected = channels === 1 ? '1 finite number' : `1 or ${channels} finite numbers`;
    throw badConfig(`image ${name} must be ${expected}, got [${values.join(',')}]`);
  }
  return Array.from({ length: channels }, (_, channel) => values[values.length === 1 ? 0 : channel]!);
}

const HALF = new DataView(new ArrayBuffer(2));

/** Converts a number to the form in which an array of `dtype` stores it. */
function toElement(value: number, dtype: NumericDType): number | bigint {
  if (dtype === 'float32' || dtype === 'float64') return value;
  if (dtype === 'float16') {
    HALF.setFloat16(0, value);
    return HALF.getUint16(0);
  }
  const { bits, unsigned, min, max } = wholeRange(dtype);
  const whole = Math.min(Math.max(Math.round(value), min), max);
  if (bits < 64) return whole;
  // 2 ** 64 - 1 is not a double, so the clamped maximum is one too large for the array.
  const big = BigInt(whole);
  return unsigned ? (big < 2n ** 64n ? big : 2n ** 64n - 1n) : big < 2n ** 63n ? big : 2n ** 63n - 1n;
}

/** The whole numbers that a dtype of integers holds. */
export function wholeRange(dtype: NumericDType) {
  const unsigned = dtype.startsWith('uint');
  const bits = Number(dtype.replace(/^u?int/, ''));
  const min = unsigned ? 0 : -(2 ** (bits - 1));
  const max = unsigned ? 2 ** bits - 1 : 2 ** (bits - 1) - 1;
  return { bits, unsigned, min, max };
}
