/**
 * The order of all enqueues of a uri, stored in Redis as `<sent at> <identity>`, followed by ` <replays>` for a record that
 * was replayed from the dead letters. scripts/includes/order.lua is `isLater` in Lua.
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
