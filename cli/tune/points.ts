/**
 * What a point of a measurement is. Samples of one block share whatever else the machine did meanwhile, so the median is
 * that of the blocks' medians, and the spread is theirs.
 */
import type { TensorSpec } from '../../lib/contract/values.ts';

/** Which function: POST /predict with one record, or the queue's with an event of them. */
export type Door = 'predict' | 'batch';

export interface Point {
  readonly door: Door;
  /** Of one run of the model. */
  readonly threads: number;
  /** Of one event; 1 at `predict`. */
  readonly records: number;
}

/** In ms. */
export interface Times {
  /** Median of the blocks' medians. */
  readonly median: number;
  /** The lowest and the highest of the blocks' medians. */
  readonly low: number;
  readonly high: number;
  /** Nearest rank over all calls: the slowest one where there are fewer than 100. */
  readonly p99: number;
  readonly calls: number;
}

export interface MeasuredPoint extends Point {
  /** The model's own share of a call: onnxruntime's runs. */
  readonly model: Times;
  /** The whole call of the function, without Redis and what Lambda adds. */
  readonly call: Times;
  /** Means of a call; all threads' processor time, and the clock's. */
  readonly cpuMs: number;
  readonly meanMs: number;
  /** Turns the point had. */
  readonly blocks: number;
  /** What its process grew by, at most. */
  readonly peakBytes: number;
  /** Of a function that does this. */
  readonly neededMB: number;
}

export interface SkippedPoint extends Point {
  readonly reason: string;
}

/** One turn of a point. In ms, one per call. */
export interface Block {
  readonly modelMs: readonly number[];
  readonly callMs: readonly number[];
  /** Of the whole turn: all threads' processor time, and the clock's. */
  readonly cpuMs: number;
  readonly wallMs: number;
}

/** What opening the model showed. */
export interface ModelFacts {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Of one record, by input. */
  readonly shapes: readonly (readonly number[])[];
  /** Rows that the file fixes a run to. */
  readonly fixedRows: number | null;
  /** Whether records share a run. */
  readonly shared: boolean;
  readonly loadMs: number;
  /** Of one record: its message, its place in an event, and as a body of POST /predict. */
  readonly messageBytes: number;
  readonly eventBytes: number;
  readonly requestBytes: number;
  /** Where the inputs came from. */
  readonly data: 'random' | 'zeros' | 'given';
}

/** @param blocks one list of samples per turn, none empty */
export function timesOf(blocks: readonly (readonly number[])[]): Times {
  const medians = blocks.map((block) => rank(block, 0.5));
  const all = blocks.flat();
  const [median, low, high] = [rank(medians, 0.5), rank(medians, 0), rank(medians, 1)];
  return { median, low, high, p99: rank(all, 0.99), calls: all.length };
}

/** The nearest rank. */
function rank(values: readonly number[], share: number): number {
  const ascending = values.toSorted((a, b) => a - b);
  return ascending[Math.max(0, Math.ceil(share * ascending.length) - 1)] as number;
}

export function pointName({ door, threads, records }: Point): string {
  return `${door === 'predict' ? door : `batch of ${records}`}, ${threadsText(threads)}`;
}

export function threadsText(threads: number): string {
  return `${threads} ${threads === 1 ? 'thread' : 'threads'}`;
}
