/** Compares the outputs of two sessions on one set of inputs, with a tolerance that a small output cannot hide in. */
import type { Tensor, TypedArray } from '../../lib/contract/tensor.ts';
import { valuesOf } from '../graph/halves.ts';
import { randomNumbers } from './inputs.ts';

/** Of the output's own standard deviation in this run. */
const OF_SPREAD = 1e-4;
/** Of the value itself: sums in another order differ in the last digits. */
const OF_VALUE: Readonly<Record<string, number>> = { float16: 2e-3, float32: 1e-5 };
/** Of the largest value: what is left of sums that cancel has the rounding of what was added. */
const OF_LARGEST: Readonly<Record<string, number>> = { float16: 1e-3, float32: 1e-7 };
/** Rounding inside the model moves its outputs as far as rounding of its inputs does, a few times over. */
const OF_NOISE = 4;

/** The rounding of a float32, twice over. */
const ROUNDING = 2 ** -22;

/** How far each output moves when nothing but rounding, or the model's own random numbers, changes. */
export type Noise = readonly number[];

export const NO_NOISE: Noise = [];

/** The larger of the noise that is known and the largest difference between two answers. */
export function noiseOf(known: Noise, first: readonly Tensor[], second: readonly Tensor[]): Noise {
  return first.map((tensor, i) => {
    const other = second[i] as Tensor;
    let most = known[i] ?? 0;
    if (isSameBytes(tensor, other)) return most;
    const [a, b] = [numbersOf(tensor), numbersOf(other)];
    if (a.length !== b.length) return Infinity;
    for (let at = 0; at < a.length; at++) {
      const difference = Math.abs((a[at] as number) - (b[at] as number));
      if (Number.isNaN(difference)) {
        if (!Object.is(a[at], b[at])) return Infinity;
      } else most = Math.max(most, difference);
    }
    return most;
  });
}

/** The same values, each up or down by a rounding: by turns, or by chance. */
export function rounded(tensor: Tensor, seed: number): Tensor {
  if (tensor.dtype !== 'float32' && tensor.dtype !== 'float64') return tensor;
  const random = randomNumbers(seed);
  const isUp = (at: number) => (seed === 0 ? at % 2 === 0 : random() < 0.5);
  const data = (tensor.data as Float32Array | Float64Array).map(
    (value, at) => value * (isUp(at) ? 1 + ROUNDING : 1 - ROUNDING),
  );
  return { ...tensor, data: data as TypedArray };
}

/** Whether the answers are the same but for rounding. */
export function agree(plain: readonly Tensor[], rewritten: readonly Tensor[], noise: Noise): boolean {
  return plain.every((tensor, i) => agreesWith(tensor, rewritten[i] as Tensor, noise[i] ?? 0));
}

function agreesWith(plain: Tensor, rewritten: Tensor, noise: number): boolean {
  // The model itself has no one answer.
  if (noise === Infinity) return true;
  if (plain.shape.join() !== rewritten.shape.join()) return false;
  if (isSameBytes(plain, rewritten)) return true;
  if (plain.dtype === 'string') return plain.data.every((text, at) => text === rewritten.data[at]);
  const [a, b] = [numbersOf(plain), numbersOf(rewritten)];
  const isWhole = !plain.dtype.startsWith('float');
  const ofOutput = OF_SPREAD * deviationOf(a) + (OF_LARGEST[plain.dtype] ?? 0) * largestOf(a);
  const allowed = OF_NOISE * noise + (isWhole ? 0 : ofOutput);
  const relative = isWhole ? 0 : (OF_VALUE[plain.dtype] ?? 1e-12);
  return a.every((value, at) => {
    const other = b[at] as number;
    if (Object.is(value, other) || value === other) return true;
    // A tolerance that follows an infinite value would allow everything.
    if (!Number.isFinite(value) || !Number.isFinite(other)) return false;
    return Math.abs(value - other) <= allowed + relative * Math.abs(value);
  });
}

/** Most tensors are, and to compare their elements takes a hundred times as long. */
export function isSameBytes(a: Tensor, b: Tensor): boolean {
  if (a.dtype === 'string' || b.dtype === 'string') return false;
  return bytesOf(a.data).equals(bytesOf(b.data));
}

function bytesOf({ buffer, byteOffset, byteLength }: TypedArray): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}

/** Texts are compared as they are; as numbers they have no noise. */
function numbersOf(tensor: Tensor): Float64Array {
  if (tensor.dtype === 'string') return new Float64Array();
  const values = valuesOf(tensor) as TypedArray;
  const hasBigints = values instanceof BigInt64Array || values instanceof BigUint64Array;
  return hasBigints ? Float64Array.from(values, Number) : new Float64Array(values);
}

function deviationOf(values: Float64Array): number {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return 0;
  const mean = finite.reduce((sum, value) => sum + value, 0) / finite.length;
  return Math.sqrt(finite.reduce((sum, value) => sum + (value - mean) ** 2, 0) / finite.length);
}

function largestOf(values: Float64Array): number {
  return values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0);
}
