/**
 * Fits how a number grows with a size, and judges it. Every curve is flat at its lower end, where the part that does not
 * depend on the size dominates, so only the upper half of the sizes (of their logarithm) is fitted.
 */
import { elementAt } from '../../lib/contract/present.ts';
import type { Spread } from '../measure.ts';

interface Fit {
  /** y grows as x to this power, by least squares on logarithms: 0 is constant, 1 is linear. */
  readonly exponent: number;
  /** The smallest size that was fitted. */
  readonly from: number;
  /** Exponent between the last two sizes alone. */
  readonly lastStep: number;
}

export interface Metric {
  /** In a sample. */
  readonly key: string;
  readonly label: string;
  readonly unit: 'ms' | 'bytes';
  /** An exponent above this is a defect. */
  readonly atMost?: number;
  /** Smaller values count as this one, because they cannot be told from noise. */
  readonly floor?: number;
}

interface MeasuredPoint {
  readonly x: number;
  /** By the key of their metric. */
  readonly values: Readonly<Record<string, Spread>>;
}

export interface MeasuredCurve {
  readonly name: string;
  readonly xLabel: string;
  readonly metrics: readonly Metric[];
  readonly series: readonly { readonly name: string; readonly points: readonly MeasuredPoint[] }[];
  readonly repeats: number;
  readonly seconds: number;
}

export interface Judged extends Fit {
  readonly series: string;
  readonly metric: Metric;
  readonly isDefect: boolean;
}

/** @returns undefined for fewer than two sizes above 0 that have a value */
export function fitGrowth(
  values: readonly { readonly x: number; readonly y: number }[],
  floor = 0,
): Fit | undefined {
  const logs = values
    .filter(({ x, y }) => x > 0 && Number.isFinite(y))
    .toSorted((a, b) => a.x - b.x)
    .map(({ x, y }) => ({ x, logX: Math.log(x), logY: Math.log(Math.max(y, floor, Number.MIN_VALUE)) }));
  const [first, before, last] = [logs[0], logs.at(-2), logs.at(-1)];
  if (!first || !before || !last || first.x === last.x) return undefined;
  // A rounding error must not lose a size that lies exactly in the middle.
  const upper = logs.filter(({ logX }) => logX >= (first.logX + last.logX) / 2 - 1e-9);
  const fitted = upper.length >= 2 ? upper : [before, last];
  return { exponent: slope(fitted), from: elementAt(fitted, 0, 'fitted').x, lastStep: slope([before, last]) };
}

function slope(points: readonly { readonly logX: number; readonly logY: number }[]): number {
  const meanX = points.reduce((sum, { logX }) => sum + logX, 0) / points.length;
  const meanY = points.reduce((sum, { logY }) => sum + logY, 0) / points.length;
  const products = points.reduce((sum, { logX, logY }) => sum + (logX - meanX) * (logY - meanY), 0);
  return products / points.reduce((sum, { logX }) => sum + (logX - meanX) ** 2, 0);
}

/**
 * Times are fitted by the lowest of the repeats, because other load on the machine only ever adds to them; memory by the
 * median. A defect is above its limit in the fit and in the last step: what only steps up on the way, as where a cache
 * fills, is back at its pace at the end.
 */
export function judgeCurve({ series, metrics }: Pick<MeasuredCurve, 'series' | 'metrics'>): Judged[] {
  return series.flatMap(({ name, points }) =>
    metrics.flatMap((metric): Judged[] => {
      const { key, atMost, floor, unit } = metric;
      const valueOf = (spread: Spread | undefined) =>
        (unit === 'ms' ? spread?.low : spread?.median) ?? Number.NaN;
      const values = points.map((point) => ({ x: point.x, y: valueOf(point.values[key]) }));
      const fit = fitGrowth(values, floor);
      if (!fit || atMost === undefined) return [];
      const isDefect = fit.exponent > atMost && fit.lastStep > atMost;
      return [{ ...fit, series: name, metric, isDefect }];
    }),
  );
}
