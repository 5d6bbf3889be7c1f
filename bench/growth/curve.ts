/**
 * What a curve is. In: sizes. Out: for each a sample of numbers, taken in a process of its own.
 * Trap: a curve has two sides in one file: `curve` runs in the parent and gets things ready (files, servers), `open`
 * runs in the process of one point. They share nothing but the question.
 */
import type { Growth } from './growth.ts';
import type { PointQuestion, Sample } from './point.ts';

/** What is measured in a point's process. */
export interface Work {
  /** The same of the smallest size: until it runs warm, so that no code is compiled on the point's account. */
  readonly warmUp?: () => Promise<unknown>;
  /** Not timed, but its memory counts: what arrives, and a state in which the call can be made again. */
  readonly prepare?: () => Promise<unknown>;
  readonly call: () => Promise<unknown>;
  /** Not timed. @throws when what the call made is wrong */
  readonly verify?: () => Promise<unknown>;
  /** Lets go of what arrived. */
  readonly release?: () => void;
  /** True: it can be done once in a process, and the first call is the timed one. */
  readonly once?: boolean;
  /** More numbers, after all calls. */
  readonly facts?: () => Promise<Sample>;
  readonly close: () => Promise<unknown>;
}

export type OpenWork = (question: PointQuestion) => Promise<Work>;

export interface Metric {
  /** In the sample. */
  readonly key: string;
  readonly label: string;
  readonly unit: 'ms' | 'us' | 'bytes' | '';
  /** A larger exponent is a defect. Absent: it is told, and not judged. */
  readonly atMost?: number;
  /** Smaller values cannot be told from noise. */
  readonly floor?: number;
  /** What its picture is called; absent: it has none. */
  readonly picture?: string;
}

interface Series {
  readonly name: string;
  readonly xs: readonly number[];
  readonly quickXs: readonly number[];
}

export interface Curve {
  readonly name: string;
  readonly about: string;
  readonly xLabel: string;
  readonly series: readonly Series[];
  readonly metrics: readonly Metric[];
  /** Default REPEATS. */
  readonly repeats?: number;
  /** Of Node, for its points' processes. */
  readonly flags?: readonly string[];
  /** @returns what is given to each point's process; a text says why this point cannot be measured here */
  readonly prepare: (
    growth: Growth,
    points: readonly { readonly series: string; readonly x: number }[],
  ) => Promise<GivePoint>;
  /** Numbers that follow from others. */
  readonly derive?: (sample: Sample, x: number) => Sample;
}

type GivePoint = (
  series: string,
  x: number,
  repeat: number,
) => Promise<Readonly<Record<string, string>> | string>;

export const REPEATS = 3;

const MB = 1e6;
/** What every curve has. Some MB of peak are V8's own: a heap that grew, pages that were touched for the first time. */
export const TIME: Metric = {
  key: 'ms',
  label: 'time',
  unit: 'ms',
  atMost: 1.1,
  picture: 'time',
};
export const CPU: Metric = { key: 'cpuMs', label: 'processor time', unit: 'ms', atMost: 1.1 };
export const PEAK: Metric = {
  key: 'peakBytes',
  label: 'peak memory',
  unit: 'bytes',
  atMost: 1.1,
  floor: 8 * MB,
  picture: 'memory',
};
export const RETAINED: Metric = {
  key: 'retainedBytes',
  label: 'kept memory',
  unit: 'bytes',
  atMost: 1.1,
  floor: 2 * MB,
};
