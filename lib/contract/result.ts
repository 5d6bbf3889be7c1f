/** The state of a record and its result, as clients see them. */
import type { ServingError } from './errors.ts';
import type { NamedTensor } from './values.ts';

/**
 * `queued`: claimed and without a result.
 * `running`: the same, and a batch function has it right now.
 * `expired`: it had a result, whose time to live has passed; known for as long again.
 * `unknown`: never heard of, or taken, or sent by somebody who does not claim and not finished yet.
 */
const STATUSES = ['queued', 'running', 'succeeded', 'failed', 'expired', 'cancelled', 'unknown'] as const;

export type RecordStatus = (typeof STATUSES)[number];

export function isRecordStatus(value: unknown): value is RecordStatus {
  return (STATUSES as readonly unknown[]).includes(value);
}

/** A finished result. */
export interface Result {
  readonly uri: string;
  /** The model's outputs by position and name; empty when a filter made text of them. */
  readonly outputs: readonly NamedTensor[];
  /** What the filter made of the outputs: `[[4,5.0],[3,4.0]]` parsed; undefined without a filter. */
  readonly filtered: unknown;
  /** Version of the model that made it. */
  readonly model: string;
  /** When, in ms since 1970. */
  readonly finishedAt: number;
}

/** What `dequeue` found for one uri: its result, or the error that is its outcome. */
export type Dequeued =
  | { readonly uri: string; readonly result: Result }
  | { readonly uri: string; readonly error: ServingError };
