/**
 * The order of all enqueues of a uri, stored in Redis as `<sent at> <identity>`, followed by ` <replays>` for a record that
 * was replayed from the dead letters. The enqueue that SQS accepted later is later; a tie is decided by the bytes of the
 * identities. An identity is one enqueue, however many messages the retries of a client made of it; only a replay of it
 * is later. scripts/includes/order.lua is the same in Lua.
 */
import type { Enqueue } from '../contract/enqueue.ts';

export function serializeOrder({ identity, sentAt, replays }: Enqueue): string {
  return replays === 0 ? `${sentAt} ${identity}` : `${sentAt} ${identity} ${replays}`;
}

/** @returns undefined for text of another form */
export function parseOrder(text: string | null): Enqueue | undefined {
  const [, sentAt, identity = '', replays = 0] = /^(\d+) (\S*) ?(\d*)$/.exec(text ?? '') ?? [];
  return sentAt === undefined ? undefined : { identity, sentAt: Number(sentAt), replays: Number(replays) };
}

export function isLater(one: Enqueue, other: Enqueue): boolean {
  if (one.identity === other.identity) return one.replays > other.replays;
  if (one.sentAt !== other.sentAt) return one.sentAt > other.sentAt;
  // Identities are ASCII, where code units sort as bytes do.
  return one.identity > other.identity;
}
