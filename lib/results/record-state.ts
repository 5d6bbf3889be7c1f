/** The meaning of the entries about a uri, in any store: its status, and the texts of its announcement and its cancellation. */
import { createHash } from 'node:crypto';
import type { Enqueue } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import { isRecordStatus, type RecordStatus } from '../contract/result.ts';
import type { ResultsOptions } from './store.ts';

type Lifetimes = Pick<ResultsOptions, 'ttlSeconds' | 'retentionSeconds'>;

/** SQS keeps a message for 14 days at most; a day later none can be left that would run. For clients, which do not know more. */
export const OUTLASTS_QUEUE_MS = 15 * 24 * 3600 * 1000;

const DAY_SECONDS = 86_400;
/** An outcome without an enqueue, as records of earlier releases have it. */
export const UNKNOWN_ENQUEUE: Enqueue = { identity: '', sentAt: 0, replays: 0 };

/** A day after the queue has deleted a message, none can be left that would run. In ms. */
export function newestTtlMs({ ttlSeconds, retentionSeconds = 4 * DAY_SECONDS }: Lifetimes): number {
  return 1000 * Math.max(5 * DAY_SECONDS, retentionSeconds + DAY_SECONDS, ttlSeconds);
}

/** Distinguishes two records. @param message body of the record's message, not a pointer to it */
export function payloadDigest(message: string): string {
  return createHash('sha256').update(message).digest('hex').slice(0, 16);
}

export function wasCancelled(): ServingError {
  return new ServingError('cancelled', 'the record was cancelled before it had a result');
}

export function keyIsUsed(key: string): ServingError {
  const text = `the Idempotency-Key ${JSON.stringify(key)} was used for another request; send this one with a new key`;
  return new ServingError('conflict', text);
}

type Texts = readonly (string | null)[];

/** A store's entries about a uri. */
export interface Found {
  /** status, value, identity, cancelled. */
  readonly result: Texts;
  /** done, running, pending, runs. */
  readonly state: Texts;
  /** Identity of the newest enqueue that had an outcome. */
  readonly newest: string | undefined;
  readonly nowMs: number;
}

export function statusOfUri({ result, state, nowMs }: Found): RecordStatus {
  const [status, value] = result;
  const [done, running, pending, runs] = state;
  if (pending && done == null)
    return Number(running ?? 0) > nowMs && listed(pending, runs) ? 'running' : 'queued';
  if (value != null) return statusOf(status, value);
  return done == null ? 'unknown' : 'expired';
}

export function statusOfEnqueue({ result, state, newest, nowMs }: Found, wanted: string): RecordStatus {
  const [status, value, identity, cancelled] = result;
  const [done, running, pending, runs] = state;
  if (value != null && identity === wanted) return statusOf(status, value);
  if (listed(cancelled, wanted)) return 'cancelled';
  if (done == null && listed(pending, wanted))
    return runs === wanted && Number(running ?? 0) > nowMs ? 'running' : 'queued';
  return newest === wanted && done != null ? 'expired' : 'unknown';
}

export function listed(list: string | null | undefined, identity: string | null | undefined): boolean {
  return identity != null && (list?.split(' ').includes(identity) ?? false);
}

/** Analytics Zoo Cluster Serving stored a value without a status. */
function statusOf(status: string | null | undefined, value: string): RecordStatus {
  const known = status ?? (value === 'NaN' ? 'failed' : 'succeeded');
  if (isRecordStatus(known)) return known;
  throw new ServingError('internal', `the stored result has the status ${JSON.stringify(known)}`);
}
