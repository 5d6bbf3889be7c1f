/**
 * Histograms of durations that can be merged across any number of environments. Percentiles do not merge, bucket counts
 * do. Buckets grow by 2^(1/8), so a percentile read from them is within 4.5 % of the true one.
 */
import type { Step } from '../pipeline/observer.ts';

/** Names of the contract, all in milliseconds. */
export const TIMERS = [
  'zoo.serving.redis.get',
  'zoo.serving.redis.put',
  'zoo.serving.redis.wait',
  'zoo.serving.request.metrics',
  'zoo.serving.request.overall',
  'zoo.serving.request.predict',
] as const;
export type TimerName = (typeof TIMERS)[number];

/** Requests and records that were to be captured and are lost. It adds up as timers do, and is none of the contract. */
export const LOST_CAPTURES = 'captures.lost';
export type Measurement = TimerName | typeof LOST_CAPTURES;

export const TIMER_NAMES: Readonly<Record<Step, TimerName>> = {
  read: 'zoo.serving.redis.get',
  write: 'zoo.serving.redis.put',
  wait: 'zoo.serving.redis.wait',
  figures: 'zoo.serving.request.metrics',
  request: 'zoo.serving.request.overall',
  run: 'zoo.serving.request.predict',
};

const PER_OCTAVE = 8;
/** Bucket 0 counts everything below 1 microsecond, the last one everything above an hour. */
const LOWEST_MS = 0.001;
const LAST_BUCKET = 256;

/** The histogram's bucket of a time. */
export function bucketOf(ms: number): number {
  if (!(ms > LOWEST_MS)) return 0;
  return Math.min(LAST_BUCKET, 1 + Math.floor(Math.log2(ms / LOWEST_MS) * PER_OCTAVE));
}

/** The geometric middle of a bucket, in ms. */
function bucketMiddle(bucket: number): number {
  return bucket === 0 ? LOWEST_MS : LOWEST_MS * 2 ** ((bucket - 0.5) / PER_OCTAVE);
}

/** How many values of a histogram are below LOWEST_MS times 2^octave, which is where a bucket ends. */
export function upToOctave({ buckets }: Histogram, octave: number): number {
  let values = 0;
  for (const [bucket, count] of buckets) if (bucket <= octave * PER_OCTAVE) values += count;
  return values;
}

export interface Histogram {
  count: number;
  /** Sum in ms and sum of squares in ms^2. */
  sum: number;
  squares: number;
  /** Counts by bucket. */
  readonly buckets: Map<number, number>;
}

/** The measurements of one environment since its last delivery. */
export class Timers {
  #histograms = new Map<Measurement, Histogram>();

  record(name: Measurement, ms: number): void {
    let histogram = this.#histograms.get(name);
    if (!histogram) {
      histogram = emptyHistogram();
      this.#histograms.set(name, histogram);
    }
    histogram.count++;
    histogram.sum += ms;
    histogram.squares += ms * ms;
    const bucket = bucketOf(ms);
    histogram.buckets.set(bucket, (histogram.buckets.get(bucket) ?? 0) + 1);
  }

  get empty(): boolean {
    return this.#histograms.size === 0;
  }

  /** Returns everything and starts again. */
  take(): Map<Measurement, Histogram> {
    const taken = this.#histograms;
    this.#histograms = new Map();
    return taken;
  }

  /** Restores what could not be delivered. */
  restore(histograms: ReadonlyMap<Measurement, Histogram>): void {
    for (const [name, from] of histograms) {
      const into = this.#histograms.get(name) ?? emptyHistogram();
      addTo(into, from);
      this.#histograms.set(name, into);
    }
  }
}

export function emptyHistogram(): Histogram {
  return { count: 0, sum: 0, squares: 0, buckets: new Map() };
}

function addTo(into: Histogram, from: Histogram): void {
  into.count += from.count;
  into.sum += from.sum;
  into.squares += from.squares;
  for (const [bucket, count] of from.buckets)
    into.buckets.set(bucket, (into.buckets.get(bucket) ?? 0) + count);
}

/** One entry of GET /metrics, as the contract names its fields. Times in ms, rate in events per second. */
export interface TimerReport {
  readonly name: TimerName;
  readonly count: number;
  readonly meanRate: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly median: number;
  readonly stdDev: number;
  readonly _75thPercentile: number;
  readonly _95thPercentile: number;
  readonly _98thPercentile: number;
  readonly _99thPercentile: number;
  readonly _999thPercentile: number;
}

/** The delivered measurements of all environments of a job. */
export interface SharedTimers {
  readonly histograms: ReadonlyMap<TimerName, Histogram>;
  /** Since the first measurement of the job. */
  readonly seconds: number;
}

/** GET /metrics as the contract has it. */
export function reports({ histograms, seconds }: SharedTimers): TimerReport[] {
  return [...histograms].map(([name, histogram]) => report(name, histogram, seconds));
}

/** @param seconds since the first measurement of the job, for the rate */
export function report(name: TimerName, histogram: Histogram, seconds: number): TimerReport {
  const { count, sum, squares, buckets } = histogram;
  const ordered = [...buckets].sort((a, b) => a[0] - b[0]);
  const at = (share: number) => {
    let seen = 0;
    for (const [bucket, here] of ordered) {
      seen += here;
      if (seen >= share * count) return bucketMiddle(bucket);
    }
    return 0;
  };
  const mean = count === 0 ? 0 : sum / count;
  const variance = count === 0 ? 0 : Math.max(0, squares / count - mean * mean);
  return {
    name,
    count,
    meanRate: seconds > 0 ? count / seconds : 0,
    min: Math.floor(at(0)),
    max: Math.ceil(at(1)),
    mean,
    median: at(0.5),
    stdDev: Math.sqrt(variance),
    _75thPercentile: at(0.75),
    _95thPercentile: at(0.95),
    _98thPercentile: at(0.98),
    _99thPercentile: at(0.99),
    _999thPercentile: at(0.999),
  };
}
