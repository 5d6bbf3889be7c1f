/**
 * The steps of the life of a uri, each a pure function from an entry to the next: lib/redis/scripts has the same in Lua, and the
 * model check (test/support/uri-life) asks both the same.
 */
import { type Enqueue, isLater } from '../contract/enqueue.ts';
import type { ServingError } from '../contract/errors.ts';
import type { StoredFields } from '../results/fields.ts';
import {
  type IdempotencyRecord,
  parseIdempotencyRecord,
  recordAfter,
  serializeIdempotencyRecord,
  withSettled,
} from '../results/order.ts';
import { OUTLASTS_QUEUE_MS } from '../results/record-state.ts';
import { type Entry, identitiesOf, type StoredResult, type StoredState, visible } from './entry.ts';

/** One that seven others followed no longer matters. */
const MOST_PENDING = 7;
/** The records of an earlier cancellation may still be in the queue. */
const MOST_CANCELLED = 14;

/** An outcome that is saved. */
export interface Saving {
  readonly fields: Omit<StoredFields, 'status'> & { readonly status: string };
  readonly enqueue: Enqueue;
  readonly model: string;
  /** In ms since 1970; the first by the clock of the table, the second by the caller's. */
  readonly now: number;
  readonly finishedAt: number;
  readonly ttlMs: number;
  readonly newestTtlMs: number;
}

/** An outcome becomes the result of its uri when its enqueue is later than every enqueue that has had an outcome. */
export function save(entry: Entry, saving: Saving): { readonly entry: Entry; readonly isWritten: boolean } {
  const { enqueue } = saving;
  const record = recordOf(entry);
  const state = settle(entry.state, enqueue.identity, saving.now + 2 * saving.ttlMs);
  const remember = (next: IdempotencyRecord) => newestOf(next, saving.now + saving.newestTtlMs);
  if (isNew(entry, record, enqueue)) {
    const newest = remember(recordAfter(enqueue, record));
    return { entry: { result: resultOf(saving), state, newest }, isWritten: true };
  }
  if (record && isRetry(enqueue, record.latest)) {
    const newest = remember(recordAfter(enqueue, record));
    return { entry: { ...entry, state, newest }, isWritten: false };
  }
  const result = visible(entry);
  if (record && result?.fields['status'] === 'cancelled' && isCancelled(result, record, enqueue)) {
    const cancelled = [enqueue.identity, ...without(cancelledBy(result), enqueue.identity)];
    const fields = {
      ...result.fields,
      value: 'NaN',
      cancelled: cancelled.slice(0, MOST_CANCELLED).join(' '),
    };
    const newest = remember(withSettled(record, [enqueue.identity]));
    return { entry: { result: { ...result, fields }, state, newest }, isWritten: false };
  }
  return { entry: state === entry.state ? entry : { ...entry, state }, isWritten: false };
}

function isNew(entry: Entry, record: IdempotencyRecord | undefined, enqueue: Enqueue): boolean {
  if (!record) return true;
  if (record.settled.includes(enqueue.identity)) return false;
  // A cancellation removes all announcements of its uri, so an announcement came after it, regardless of the clocks.
  const isAnnouncedAfter =
    record.latest.identity === '~' && (entry.state?.pending.includes(enqueue.identity) ?? false);
  if (!isLater(enqueue, record.latest) && !isAnnouncedAfter) return false;
  const result = visible(entry);
  return !result || !cancelledBy(result).includes(enqueue.identity);
}

/** A client's retry moves the place of its enqueue in the order: what was sent before the retry is earlier than it. */
function isRetry(one: Enqueue, other: Enqueue): boolean {
  return one.identity === other.identity && one.replays === other.replays && one.sentAt > other.sentAt;
}

/** A record that a cancellation came before has that as its outcome, unless it had one, or is older than what was there before. */
function isCancelled({ fields }: StoredResult, record: IdempotencyRecord, enqueue: Enqueue): boolean {
  if (enqueue.identity === '' || record.settled.includes(enqueue.identity)) return false;
  const after = parseIdempotencyRecord(fields['after'] ?? null);
  return !after || isLater(enqueue, after.latest);
}

/** Removes an enqueue from what is pending once it has an outcome. */
function settle(state: StoredState | undefined, identity: string, until: number): StoredState | undefined {
  if (!state?.pending.includes(identity)) return state;
  const pending = without(state.pending, identity);
  return pending.length > 0 ? { ...state, pending } : { ...state, pending, until };
}

function resultOf({ fields, enqueue, model, now, finishedAt, ttlMs }: Saving): StoredResult {
  const { identity, replays } = enqueue;
  const texts = {
    status: fields.status,
    value: fields.value,
    error: fields.error,
    outputs: fields.outputs,
    exact: fields.exact,
    large: fields.large ?? '',
    model,
    finishedAt: String(finishedAt),
    identity,
    replays: replays > 0 ? String(replays) : '',
  };
  const bytes = [fields.value, fields.exact, fields.error].reduce(
    (sum, text) => sum + Buffer.byteLength(text),
    0,
  );
  return { fields: texts, until: now + ttlMs, bytes, listed: true };
}

export function announce(
  entry: Entry,
  { identity, payload, now }: { readonly identity: string; readonly payload: string; readonly now: number },
): Entry {
  const before = entry.state;
  const pending = [identity, ...without(before?.pending ?? [], identity)].slice(0, MOST_PENDING);
  const { running = 0, runs = '' } = before ?? {};
  const until = now + OUTLASTS_QUEUE_MS;
  return { ...entry, state: { payload, last: identity, pending, running, runs, until } };
}

/** @returns undefined when the enqueue is not announced */
export function withdraw(entry: Entry, identity: string): Entry | undefined {
  const { state } = entry;
  if (!state?.pending.includes(identity)) return undefined;
  const pending = without(state.pending, identity);
  const isKept = pending.length > 0 || visible(entry) !== undefined;
  return { ...entry, state: isKept ? { ...state, pending } : undefined };
}

/** @returns undefined unless it is announced and has no outcome */
export function markRunning(entry: Entry, identity: string, until: number): Entry | undefined {
  const { state } = entry;
  if (!state?.pending.includes(identity)) return undefined;
  return { ...entry, state: { ...state, running: until, runs: identity } };
}

interface Cancelling {
  readonly error: ServingError;
  readonly now: number;
  readonly finishedAt: number;
  /** The latest place in the order that the queue gave; 0 if it is not known. */
  readonly latestOrder: number;
}

/**
 * Cancels every enqueue that has no outcome. A cancellation is later than every enqueue up to now. The clock of SQS may be ahead, so
 * the announced enqueues are also listed by their identities; and behind, so what is announced after it is later than it (`save`).
 */
export function cancel(
  entry: Entry,
  { error, now, finishedAt, latestOrder }: Cancelling,
): { readonly isCancelled: boolean; readonly entry: Entry } {
  const record = recordOf(entry);
  const result = visible(entry);
  const wasCancelled = result?.fields['status'] === 'cancelled';
  const pending = entry.state?.pending ?? [];
  if (pending.length === 0) {
    if (wasCancelled) return { isCancelled: true, entry };
    if (record || entry.state || result) return { isCancelled: false, entry };
  }
  const earlier = wasCancelled ? cancelledBy(result) : [];
  const cancelled = [...pending, ...earlier.filter((identity) => !pending.includes(identity))];
  const until = now + OUTLASTS_QUEUE_MS;
  const sentAt = Math.max(now, latestOrder, record?.latest.sentAt ?? 0);
  // `~` sorts after every identity that was sent in the same ms.
  const cancellation = recordAfter({ identity: '~', sentAt: Math.floor(sentAt), replays: 0 }, record);
  const fields = {
    status: 'cancelled',
    value: 'NaN',
    error: JSON.stringify(error),
    finishedAt: String(finishedAt),
    cancelled: cancelled.slice(0, MOST_CANCELLED).join(' '),
    after: entry.newest?.text ?? '',
  };
  return {
    isCancelled: true,
    entry: {
      result: { fields, until, bytes: fields.error.length, listed: true },
      state: entry.state && { ...entry.state, pending: [], until },
      newest: newestOf(withSettled(cancellation, cancelled), until),
    },
  };
}

/** Replaces a failure by the result of its replay. */
export function replace(entry: Entry, saving: Saving): Entry {
  const { identity } = saving.enqueue;
  const until = saving.now + Math.max(saving.ttlMs, saving.newestTtlMs);
  const record = recordAfter(saving.enqueue, recordOf(entry));
  const pending = without(entry.state?.pending ?? [], identity);
  const isDone = pending.length === 0;
  const state = entry.state && {
    ...entry.state,
    pending,
    until: isDone ? saving.now + 2 * saving.ttlMs : entry.state.until,
  };
  return { result: resultOf(saving), state, newest: newestOf(record, until) };
}

/** Deletes the failure of an enqueue, if that is the result, and announces the enqueue again. */
export function free(entry: Entry, announced: Parameters<typeof announce>[1]): Entry {
  const result = visible(entry);
  const isOwn = result && ['', announced.identity].includes(result.fields['identity'] ?? '');
  return announce(isOwn ? { ...entry, result: undefined } : entry, announced);
}

/** Gives a result to one client, by a lease. A uri without a pending enqueue then has no state. */
export function lease(entry: Entry, held: NonNullable<StoredResult['lease']>): Entry {
  const { result, state } = entry;
  return {
    ...entry,
    result: result && { ...result, listed: false, lease: held },
    state: state && state.pending.length === 0 ? undefined : state,
  };
}

/**
 * Gives an unused result back to all, unless a later enqueue of the uri has had its outcome since. A cancellation and a large result
 * were never leased, and only return to the index.
 * @returns undefined where there is nothing to give back
 */
export function release(entry: Entry, leaseId: string): Entry | undefined {
  const { result } = entry;
  if (!result) return undefined;
  const { fields } = result;
  if (!result.lease) {
    const stays = fields['status'] === 'cancelled' || Boolean(fields['large']);
    return stays && !result.listed ? { ...entry, result: { ...result, listed: true } } : undefined;
  }
  if (result.lease.id !== leaseId) return undefined;
  const latest = recordOf(entry)?.latest;
  const isNewest =
    !latest ||
    (latest.identity === (fields['identity'] ?? '') && latest.replays === Number(fields['replays'] ?? 0));
  return { ...entry, result: isNewest ? { ...result, listed: true, lease: undefined } : undefined };
}

function recordOf({ newest }: Entry): IdempotencyRecord | undefined {
  return newest && parseIdempotencyRecord(newest.text);
}

function newestOf(record: IdempotencyRecord, until: number): Entry['newest'] {
  return { text: serializeIdempotencyRecord(record), until };
}

function cancelledBy({ fields }: StoredResult): string[] {
  return identitiesOf(fields['cancelled']);
}

function without(list: readonly string[], identity: string): string[] {
  return list.filter((one) => one !== identity);
}
