/**
 * Compares a tensor with its expected values and reports the largest difference. Two NaN agree; a single one never
 * does, whatever the tolerance.
 */
import type { Tensor } from '../../lib/contract/tensor.ts';
import { valuesOf } from '../graph/halves.ts';

/** Values agree if |actual - expected| <= atol + rtol * |expected|. */
export interface Tolerance {
  readonly atol: number;
  readonly rtol: number;
}

export interface Difference {
  /** The largest |actual - expected|; null if one of them is not finite. */
  readonly maxError: number | null;
  readonly agrees: boolean;
}

export function compare(actual: Tensor, expected: Tensor, tolerance: Tolerance): Difference {
  if (actual.data.length !== expected.data.length) return { maxError: null, agrees: false };
  if (actual.dtype === 'string' || expected.dtype === 'string') {
    const agrees = expected.data.every((text, i) => text === actual.data[i]);
    return { maxError: agrees ? 0 : null, agrees };
  }
  const got = valuesOf(actual);
  const want = valuesOf(expected);
  let maxError = 0;
  let agrees = true;
  let isFinite = true;
  for (let i = 0; i < want.length; i++) {
    const wanted = Number(want[i]);
    const given = Number(got[i]);
    if (Object.is(wanted, given) || wanted === given) continue;
    const error = Math.abs(given - wanted);
    if (!Number.isFinite(error)) {
      isFinite = false;
      agrees = false;
      continue;
    }
    if (error > maxError) maxError = error;
    if (error > tolerance.atol + tolerance.rtol * Math.abs(wanted)) agrees = false;
  }
  return { maxError: isFinite ? maxError : null, agrees };
}

/** The number of NaN elements. */
export function countNaN(tensor: Tensor): number {
  if (!tensor.dtype.startsWith('float')) return 0;
  let count = 0;
  for (const value of valuesOf(tensor) as Float32Array) if (Number.isNaN(value)) count++;
  return count;
}
