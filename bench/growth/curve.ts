/**
 * A curve has sizes, an input that the parent makes for each, and work that a separate process does with it. The two
 * sides share only the point, which is plain data, and its input, which is a file.
 */
import type { Bench } from '../bench.ts';
import type { BenchModel } from '../models.ts';
import { type Sample, samplePoint, type Work } from '../sample.ts';
import type { Metric } from './fit.ts';

/** Made by the parent for a point. */
export interface Prepared {
  readonly model?: BenchModel;
  /** The inputs of a call of this size, and of one of the smallest, which warms the code. */
  readonly input: string | Uint8Array;
  readonly warm: string | Uint8Array;
  /** The right values, by the uri of their result. */
  readonly expected?: Readonly<Record<string, ArrayLike<number>>>;
}

export interface Point extends Pick<Prepared, 'model' | 'expected'> {
  readonly curve: string;
  readonly series: string;
  readonly x: number;
  readonly redisUrl: string;
  /** The emulated S3's address. It runs in the parent process, so that no point measures it too. */
  readonly endpoint: string;
  /** Files with the inputs. */
  readonly input: string;
  readonly warm: string;
  /** Longest time for the timed calls. */
  readonly timedMs: number;
}

export interface Curve {
  readonly name: string;
  /** The quantity that grows. */
  readonly xLabel: string;
  /** Sizes by the name of their series. */
  readonly series: Readonly<Record<string, readonly number[]>>;
  /** Default METRICS. */
  readonly metrics?: readonly Metric[];
  readonly prepare: (x: number, series: string, bench: Bench) => Promise<Prepared>;
  /** In the process of the point. */
  readonly measure: (point: Point) => Promise<Sample>;
}

/** Measures the work that it opens, and closes it. */
export function sampled<Input, Output>(
  open: (point: Point) => Promise<Work<Input, Output>>,
): Curve['measure'] {
  return async (point) => {
    const work = await open(point);
    try {
      return await samplePoint(work, point.timedMs);
    } finally {
      await work.close();
    }
  };
}

export const TIME: Metric = { key: 'ms', label: 'time', unit: 'ms', atMost: 1.1 };
const MEMORY = { unit: 'bytes', atMost: 1.1 } as const;
export const METRICS: readonly Metric[] = [
  TIME,
  { ...TIME, key: 'cpuMs', label: 'processor time' },
  // The first MB of a peak are V8's own: a heap that grew, pages that were touched for the first time.
  { ...MEMORY, key: 'peakBytes', label: 'peak memory', floor: 8e6 },
  { ...MEMORY, key: 'keptBytes', label: 'kept memory', floor: 2e6 },
];
