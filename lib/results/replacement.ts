/** Decides about the replay of a dead letter, by the entries that a store has of its uri. */
import { isLater } from '../contract/enqueue.ts';
import { type ErrorRecord, errorCodeOf } from '../contract/errors.ts';
import type { Unknown } from '../contract/verification.ts';
import { parseIdempotencyRecord } from './order.ts';
import type { ReplacedRecord, Replacement } from './store.ts';

export const RESULT_FIELDS = ['status', 'error', 'finishedAt', 'identity'] as const;
export const STATE_FIELDS = ['payload', 'done', 'pending', 'last'] as const;

/**
 * The entries about the uri: fields of its result and of its state, and its idempotency record. Missing ones are
 * absent.
 */
export type StoredState = Readonly<
  Partial<
    Record<(typeof RESULT_FIELDS)[number] | (typeof STATE_FIELDS)[number] | 'exists' | 'newest', string>
  >
>;

/** The decision about the uri, judged by the stored entries; `replaced` means that the write may go on. */
export function decide(held: StoredState, record: ReplacedRecord, payload: string): Replacement {
  const { status, identity, exists } = held;
  const { enqueue } = record;
  const { latest: newest, settled } = parseIdempotencyRecord(held.newest ?? null) ?? {};
  if (newest && (!isLater(enqueue, newest) || settled?.includes(enqueue.identity))) {
    // The outcome of an older enqueue is never shown again: this replay was done before, or a later enqueue has its outcome.
    const isSame = newest.identity === enqueue.identity || isAnnounced(held, payload, newest.identity);
    return isSame || status === 'cancelled' ? 'superseded' : 'conflict';
  }
  if (exists === undefined) return isForOther(held, enqueue.identity) ? 'conflict' : 'replaced';
  // Without an idempotency record or an identity, nothing says which of the two is later.
  if (identity !== enqueue.identity) return newest && identity !== undefined ? 'replaced' : 'conflict';
  if (status === 'succeeded') return 'superseded';
  return isExhausted(held) ? 'replaced' : 'conflict';
}

/** True if this enqueue is the last one that was announced, and has this payload. */
function isAnnounced(held: StoredState, payload: string, identity: string): boolean {
  return held.payload === payload && held.last === identity;
}

/** True if another record waits for its outcome. */
function isForOther({ done, pending = '' }: StoredState, identity: string): boolean {
  return done === undefined && pending.split(' ').some((one) => one !== '' && one !== identity);
}

function isExhausted({ error }: StoredState): boolean {
  return errorOf(error).code === 'max_receives_exceeded';
}

export function errorOf(text: string | null | undefined): {
  code: string | undefined;
  message: string | undefined;
} {
  try {
    const { code, message }: Unknown<ErrorRecord> = JSON.parse(text || '{}');
    return {
      code: errorCodeOf(code) ?? (typeof code === 'string' ? code : undefined),
      message: typeof message === 'string' ? message : undefined,
    };
  } catch {
    return { code: undefined, message: undefined };
  }
}
