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
  return STATUSES.some((status) => status === value);
}

/** Size in bytes and SHA-256 in hex of an object. */
export interface ObjectDigest {
  readonly bytes: number;
  readonly sha256: string;
}

/** Where a result is that is too large for Redis: two objects in S3, which no other result ever has. */
export interface LargePointer extends ObjectDigest {
  readonly bucket: string;
  /**
   * Key of the object with the exact values: safetensors, a frame of a worker's value, bytes or text. Ends in a UUID.
   */
  readonly key: string;
  readonly form: 'tensors' | 'value' | 'bytes' | 'text';
  /** The object under `<key>.json`: the answer of GET /predictions/{uri}. */
  readonly json: ObjectDigest;
  /** As in Result. */
  readonly finishedAt: number;
}

/** Names a large result that a client has fetched, so that it is deleted, and no later one. */
export function idOfLarge({ key }: Pick<LargePointer, 'key'>): string {
  return key.slice(key.lastIndexOf('/') + 1);
}

/** A finished result. */
export interface Result {
  readonly uri: string;
  /** The model's outputs by position and name; empty when a filter turned them into text. */
  readonly outputs: readonly NamedTensor[];
  /** The parsed text of the filter, `[[4,5.0],[3,4.0]]`; undefined without a filter. */
  readonly filtered: unknown;
  /** The worker's return value if it is not tensors; undefined otherwise. */
  readonly value?: WorkerValue;
  /** The version of the model. */
  readonly model: string;
  /** When it was finished, in ms since 1970. */
  readonly finishedAt: number;
  /** Which enqueue of the uri it answers; "" in a result of Analytics Zoo Cluster Serving, which did not say. */
  readonly identity: string;
  /**
   * Set where the values are in S3 and not here. The client fetches them: `query` and its siblings never return such a
   * result.
   */
  readonly large?: LargePointer;
}

/** The outcome that `dequeue` found for one uri. */
export type Dequeued =
  | { readonly uri: string; readonly result: Result }
  | { readonly uri: string; readonly error: ServingError };
