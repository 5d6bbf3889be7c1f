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

interface IdempotencyRecord {
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
