/**
 * In: a curve. Out: what its points showed: the median of each number with its lowest and highest, and how it grows.
 * Trap: machines drift; so every point is measured once before any is measured again, in another order each time.
 */
import { type Spread, shuffled, spreadOf } from '../measure.ts';
import { randomNumbers } from '../models.ts';
import { type Curve, type Metric, REPEATS } from './curve.ts';
import { type Fit, fitGrowth, type Verdict, verdictOf } from './fit.ts';
import type { Growth } from './growth.ts';
import type { Sample } from './point.ts';

export interface MeasuredPoint {
  readonly x: number;
  /** By metric; a metric without a number is absent. */
  readonly values: Readonly<Record<string, Spread>>;
  /** Why it was not measured. */
  readonly skipped?: string;
}

interface MeasuredSeries {
  readonly name: string;
  readonly points: readonly MeasuredPoint[];
}

export interface MeasuredCurve {
  readonly name: string;
  readonly about: string;
  readonly xLabel: string;
  readonly metrics: readonly Metric[];
  readonly series: readonly MeasuredSeries[];
  readonly repeats: number;
  readonly seconds: number;
}

interface MeasureOptions {
  readonly quick: boolean;
  /** Hears of each point before it is measured. */
  readonly onPoint: (done: number, total: number, what: string) => void;
}

const ORDER_SEED = 73;
const TIMED_MS = 300;
const QUICK_TIMED_MS = 100;

interface Place {
  readonly series: string;
  readonly x: number;
  readonly samples: Sample[];
  skipped: string | undefined;
}

export async function measureCurve(
  growth: Growth,
  curve: Curve,
  { quick, onPoint }: MeasureOptions,
): Promise<MeasuredCurve> {
  const begin = performance.now();
  const places = curve.series.flatMap(({ name, xs, quickXs }) =>
    (quick ? quickXs : xs).map((x): Place => ({ series: name, x, samples: [], skipped: undefined })),
  );
  const repeats = quick ? 1 : (curve.repeats ?? REPEATS);
  onPoint(0, places.length * repeats, 'getting ready');
  const give = await curve.prepare(growth, places);
  const random = randomNumbers(ORDER_SEED);
  let done = 0;
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const place of shuffled(places, random)) {
      const { series, x, samples } = place;
      onPoint(done++, places.length * repeats, `${series}, ${x.toLocaleString('en-US')}`);
      if (place.skipped) continue;
      const given = await give(series, x, repeat);
      if (typeof given === 'string') {
        place.skipped = given;
        continue;
      }
      const timedMs = quick ? QUICK_TIMED_MS : TIMED_MS;
      const question = { curve: curve.name, series, x, repeat, timedMs, given };
      const sample = await growth.point(question, curve.flags);
      samples.push({ ...sample, ...curve.derive?.(sample, x) });
    }
  }
  return {
    name: curve.name,
    about: curve.about,
    xLabel: curve.xLabel,
    metrics: curve.metrics,
    series: curve.series.map(({ name }) => ({
      name,
      points: places.filter((place) => place.series === name).map((place) => pointOf(place, curve.metrics)),
    })),
    repeats,
    seconds: (performance.now() - begin) / 1000,
  };
}

function pointOf({ x, samples, skipped }: Place, metrics: readonly Metric[]): MeasuredPoint {
  const values: Record<string, Spread> = {};
  for (const { key } of metrics) {
    const numbers = samples.map((sample) => sample[key] ?? Number.NaN).filter(Number.isFinite);
    if (numbers.length > 0) values[key] = spreadOf(numbers);
  }
  return { x, values, ...(skipped ? { skipped } : {}) };
}

/** Of times the lowest: what else the machine does only ever adds to them. Of memory the median. */
function fittedValue({ unit }: Metric, spread: Spread | undefined): number {
  if (!spread) return Number.NaN;
  return unit === 'ms' ? spread.low : spread.median;
}

/** How one number of one series grows. */
export interface Judged extends Fit {
  readonly series: string;
  readonly metric: Metric;
  readonly verdict: Verdict;
  readonly isDefect: boolean;
}

export function judgeCurve({ series, metrics }: Pick<MeasuredCurve, 'series' | 'metrics'>): Judged[] {
  return series.flatMap(({ name, points }) =>
    metrics.flatMap((metric): Judged[] => {
      const { key, atMost, floor = 0 } = metric;
      if (atMost === undefined) return [];
      const fit = fitGrowth(
        points.map(({ x, values }) => ({ x, y: fittedValue(metric, values[key]) })),
        floor,
      );
      if (!fit) return [];
      // What only steps up on its way (a cache that is full, a first collection) is back at its pace at the end.
      const isDefect = fit.exponent > atMost && fit.lastStep > atMost;
      return [{ ...fit, series: name, metric, verdict: verdictOf(fit.exponent), isDefect }];
    }),
  );
}
