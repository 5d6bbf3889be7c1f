/**
 * Commands on sets. SMEMBERS promises no order; this server happens to keep the order of insertion, Redis does not.
 */
import { type CommandTable, grows, reads, shrinks } from '../command.ts';

export const SET_COMMANDS: CommandTable = {
  sadd: grows(-3, ({ store }, [, key = '', ...members]) => {
    const set = store.set(key) ?? new Set();
    const before = set.size;
    for (const member of members) set.add(member);
    if (set.size > before) store.put(key, set);
    return set.size - before;
  }),
  srem: shrinks(-3, ({ store }, [, key = '', ...members]) => {
    const set = store.set(key);
    if (set === undefined) return 0;
    const removed = members.filter((member) => set.delete(member)).length;
    if (removed > 0) store.put(key, set);
    return removed;
  }),
  smembers: reads(2, ({ store }, [, key = '']) => ({ set: [...(store.set(key) ?? [])] })),
  scard: reads(2, ({ store }, [, key = '']) => store.set(key)?.size ?? 0),
  sismember: reads(3, ({ store }, [, key = '', member = '']) => (store.set(key)?.has(member) ? 1 : 0)),
};
