/**
 * The types and statistics of measured points. Samples of one block share the machine's other load, so the median is
 * that of the blocks' medians, and the spread is that between blocks.
 */
import { elementAt } from '../../lib/contract/present.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';

/** The measured function: POST /predict with one record, or the batch function with an event. */
export type Endpoint = 'predict' | 'batch';

export interface Point {
  readonly endpoint: Endpoint;
  /** Threads of one run of the model. */
  readonly threads: number;
  /** Records of one event; 1 for `predict`. */
  readonly records: number;
}

/** In ms. */
export interface Times {
  /** Median of the blocks' medians. */
  readonly median: number;
  /** The lowest and the highest of the blocks' medians. */
  readonly low: number;
  readonly high: number;
  /** The nearest rank over all calls; below 100 calls the slowest one. */
  readonly p99: number;
  readonly calls: number;
}

export interface MeasuredPoint extends Point {
  /** The model's share of a call: onnxruntime's runs. */
  readonly model: Times;
  /** The whole call of the function, without Redis and what Lambda adds. */
  readonly call: Times;
  /** Means per call: processor time of all threads, and elapsed time. */
  readonly cpuMs: number;
  readonly meanMs: number;
  /** The turns of the point. */
  readonly blocks: number;
  /** The peak growth of its process. */
  readonly peakBytes: number;
  /** The memory that a function needs for this. */
  readonly neededMB: number;
}

export interface SkippedPoint extends Point {
  readonly reason: string;
}

/** One turn of a point, in ms per call. */
export interface Block {
  readonly modelMs: readonly number[];
  readonly callMs: readonly number[];
  /** For the whole turn: processor time of all threads, and elapsed time. */
  readonly cpuMs: number;
  readonly wallMs: number;
}

/** Facts found when the model was opened. */
export interface ModelFacts {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** The shapes of one record, by input. */
  readonly shapes: readonly (readonly number[])[];
  /** The rows that the file fixes for a run. */
  readonly fixedRows: number | null;
  /** True if records share a run. */
  readonly shared: boolean;
  readonly loadMs: number;
  /** The sizes of one record: its message, its share of an event, and its body for POST /predict. */
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

/** The value at the nearest rank. */
function rank(values: readonly number[], share: number): number {
  const ascending = values.toSorted((a, b) => a - b);
  return elementAt(ascending, Math.max(0, Math.ceil(share * ascending.length) - 1), 'ascending');
}

export function pointName({ endpoint, threads, records }: Point): string {
  return `${endpoint === 'predict' ? endpoint : `batch of ${records}`}, ${threadsText(threads)}`;
}

export function threadsText(threads: number): string {
  return `${threads} ${threads === 1 ? 'thread' : 'threads'}`;
}
