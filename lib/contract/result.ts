/** The state of a record and its result, as clients see them. */
import type { ServingError } from './errors.ts';
import type { NamedTensor } from './values.ts';
import type { WorkerValue } from './worker-values.ts';

/**
 * `queued`: announced and without an outcome, also where an earlier enqueue of the uri has a result.
 * `running`: the same, and a batch function is running it now.
 * `expired`: its result has expired; known for as long again.
 * `unknown`: unseen, or taken, or sent without an announcement and not finished yet.
 */
const STATUSES = ['queued', 'running', 'succeeded', 'failed', 'expired', 'cancelled', 'unknown'] as const;

export type RecordStatus = (typeof STATUSES)[number];

export function isRecordStatus(value: unknown): value is RecordStatus {
  return (STATUSES as readonly unknown[]).includes(value);
}

/** A finished result. */
export interface Result {
  readonly uri: string;
  /** The model's outputs by position and name; empty when a filter turned them into text. */
  readonly outputs: readonly NamedTensor[];
  /** The parsed text of the filter, `[[4,5.0],[3,4.0]]`; undefined without a filter. */
  readonly filtered: unknown;
  /** What a worker returned, where that is no tensors; undefined otherwise. */
  readonly value?: WorkerValue;
  /** The version of the model. */
  readonly model: string;
  /** When it was finished, in ms since 1970. */
  readonly finishedAt: number;
  /** Which enqueue of the uri it answers; "" in a result of the first release, which did not say. */
  readonly identity: string;
}

/** The outcome that `dequeue` found for one uri. */
export type Dequeued =
  | { readonly uri: string; readonly result: Result }
  | { readonly uri: string; readonly error: ServingError };
