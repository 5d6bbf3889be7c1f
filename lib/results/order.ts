/**
 * The order of all enqueues of a uri, stored in Redis as `<sent at> <identity>`, followed by ` <replays>` for a record that
 * was replayed from the dead letters. The idempotency record of a uri is that of its latest enqueue that had an outcome, with
 * the identities of those that had one before it, or were cancelled: `<sent at> <identity>,<identity>,… <replays>`. No further
 * message of these has an outcome, also a retry that SQS took later than the latest. scripts/includes/order.lua does the same in Lua.
 */
import type { Enqueue } from '../contract/enqueue.ts';

export function serializeOrder({ identity, sentAt, replays }: Enqueue): string {
  return replays === 0 ? `${sentAt} ${identity}` : `${sentAt} ${identity} ${replays}`;
}

export interface IdempotencyRecord {
  readonly latest: Enqueue;
  /** The latest first. */
  readonly settled: readonly string[];
}

/** @returns undefined for text of another form */
export function parseIdempotencyRecord(text: string | null): IdempotencyRecord | undefined {
  const [, sentAt, identities = '', replays = 0] = /^(\d+) (\S*) ?(\d*)$/.exec(text ?? '') ?? [];
  if (sentAt === undefined) return undefined;
  const [identity = '', ...settled] = identities.split(',');
  return { latest: { identity, sentAt: Number(sentAt), replays: Number(replays) }, settled };
}

/** How many enqueues beside the latest an idempotency record names. */
const MOST_SETTLED = 14;

export function serializeIdempotencyRecord({ latest, settled }: IdempotencyRecord): string {
  return serializeOrder({ ...latest, identity: [latest.identity, ...settled].join(',') });
}

/** Adds identities to an idempotency record, the latest first. A cancellation, `~`, is not an enqueue. */
export function withSettled(record: IdempotencyRecord, identities: readonly string[]): IdempotencyRecord {
  const settled = new Set([...identities, ...record.settled]);
  for (const unlisted of ['', '~', record.latest.identity]) settled.delete(unlisted);
  return { ...record, settled: [...settled].slice(0, MOST_SETTLED) };
}

/** The idempotency record that follows on another one, if there is one. */
export function recordAfter(latest: Enqueue, before: IdempotencyRecord | undefined): IdempotencyRecord {
  const settled = before ? [before.latest.identity, ...before.settled] : [];
  return withSettled({ latest, settled: [] }, settled);
}
