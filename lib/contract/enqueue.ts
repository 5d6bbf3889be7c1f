/**
 * Which enqueue of a uri a record comes from. A uri may be used again while an earlier record of it is still in the queue,
 * so a uri alone does not say whose result is stored under it.
 */
import { badRequest } from './errors.ts';
import type { Notified } from './notice.ts';
import type { TraceContext } from './trace.ts';

/** One enqueue of a uri, and what decides its place among all enqueues of that uri. */
export interface Enqueue extends Notified {
  /** Made by the sender once, and kept by retries and replays; SQS's message id where the sender made none. */
  readonly identity: string;
  /**
   * When SQS took the message, in ms since 1970 by SQS's clock; 0 where that is not known. On a single machine, the number
   * that its queue gave to the message: about the same, but it never goes back.
   */
  readonly sentAt: number;
  /** How often it was sent again from the dead letters. */
  readonly replays: number;
  /** The sender's trace context, if it sent one. */
  readonly trace?: TraceContext | undefined;
  /** A canary runs it or not by this, if its sender chose that. */
  readonly canaryKey?: string | undefined;
  /** Seconds in the queue after which it is not run any more, if its sender said that. */
  readonly expiresAfter?: number | undefined;
  /** The name of the model, as its sender wrote it. Default: the job's own. */
  readonly model?: string | undefined;
}

/**
 * True if an enqueue comes after another one of its uri. The one that SQS accepted later is later; a tie is decided by
 * the bytes of the identities. An identity is one enqueue, however many messages the retries of a client made of it;
 * only a replay of it is later.
 */
export function isLater(one: Enqueue, other: Enqueue): boolean {
  if (one.identity === other.identity) return one.replays > other.replays;
  if (one.sentAt !== other.sentAt) return one.sentAt > other.sentAt;
  // Identities are ASCII, where code units sort as bytes do.
  return one.identity > other.identity;
}

/** A client's claims about one enqueue when it asks for a result. */
export interface EnqueueQuery {
  /** Only the result of this enqueue, as `enqueue` returned it. Default: the newest one. */
  readonly identity?: string | undefined;
}

/** Selects the result to take. */
export interface TakeQuery extends EnqueueQuery {
  /** The id of a large result that the caller has fetched; without it, large results stay. */
  readonly fetched?: string | undefined;
}

/**
 * A UUID, a message id, or anything else that names one enqueue. Identities are kept in lists separated by spaces, and
 * `~` must sort after all of them (lib/results/order.ts).
 */
const IDENTITY = /^[A-Za-z0-9._-]{1,64}$/;

export function isIdentity(value: unknown): value is string {
  return typeof value === 'string' && IDENTITY.test(value);
}

/** @throws bad_request */
export function assertIdentity(value: unknown): string {
  if (isIdentity(value)) return value;
  throw badRequest('identity: expected 1 to 64 letters, digits, ".", "_" or "-", such as a UUID');
}

const CANARY_KEY = /^[!-~]{1,128}$/;

export function isCanaryKey(value: unknown): value is string {
  return typeof value === 'string' && CANARY_KEY.test(value);
}

/** @throws bad_request */
export function assertCanaryKey(value: unknown): string {
  if (isCanaryKey(value)) return value;
  throw badRequest(
    'canary-key: expected 1 to 128 letters, digits and punctuation of ASCII, such as the id of a user',
  );
}

/** @returns undefined where none is given. @throws bad_request */
export function readCanaryKey(value: unknown): string | undefined {
  return value === undefined ? undefined : assertCanaryKey(value);
}
