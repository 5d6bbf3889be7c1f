/**
 * In: medians by size. Out: the exponent with which they grow, and a verdict.
 * Trap: every curve is flat at its lower end, where what does not depend on the size is larger than what does; so only
 * the upper half (of the logarithm of the size) is fitted. And what is too small to be told from noise has no slope:
 * it counts as `floor`.
 */

interface SizedValue {
  readonly x: number;
  readonly y: number;
}

export interface Fit {
  /** y grows as x to this power, by least squares on logarithms. */
  readonly exponent: number;
  /** Sizes that were fitted. */
  readonly from: number;
  readonly to: number;
  /** Of the last two sizes alone: what the curve does at its end. */
  readonly lastStep: number;
}

export type Verdict = 'constant' | 'less than linear' | 'linear' | 'worse than linear';

/** Noise of a median, as a power of the size. */
const CONSTANT = 0.1;
const LESS = 0.9;
/** More is a defect. */
const LINEAR = 1.1;

/** @returns undefined for fewer than two sizes above 0, or values that are no numbers */
export function fitGrowth(values: readonly SizedValue[], floor = 0): Fit | undefined {
  const logs = values
    .filter(({ x, y }) => x > 0 && Number.isFinite(y))
    .toSorted((a, b) => a.x - b.x)
    .map(({ x, y }) => ({ x, logX: Math.log(x), logY: Math.log(Math.max(y, floor, Number.MIN_VALUE)) }));
  const first = logs[0];
  const last = logs.at(-1);
  const before = logs.at(-2);
  if (!first || !last || !before || first.x === last.x) return undefined;
  const middle = (first.logX + last.logX) / 2;
  // A little below, so that rounding does not lose a size that lies right on the middle.
  const upper = logs.filter(({ logX }) => logX >= middle - 1e-9);
  const fitted = upper.length >= 2 ? upper : [before, last];
  return {
    exponent: slope(fitted),
    from: (fitted[0] as typeof last).x,
    to: last.x,
    lastStep: slope([before, last]),
  };
}

function slope(points: readonly { readonly logX: number; readonly logY: number }[]): number {
  const meanX = points.reduce((sum, { logX }) => sum + logX, 0) / points.length;
  const meanY = points.reduce((sum, { logY }) => sum + logY, 0) / points.length;
  let products = 0;
  let squares = 0;
  for (const { logX, logY } of points) {
    products += (logX - meanX) * (logY - meanY);
    squares += (logX - meanX) ** 2;
  }
  return products / squares;
}

export function verdictOf(exponent: number): Verdict {
  if (exponent > LINEAR) return 'worse than linear';
  if (exponent >= LESS) return 'linear';
  return exponent > CONSTANT ? 'less than linear' : 'constant';
}
