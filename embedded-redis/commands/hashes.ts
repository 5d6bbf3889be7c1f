/**
 * Commands on hashes. A hash is changed in place and must then be `put` again, which notifies watchers and the log.
 */
import {
  type CommandTable,
  type Context,
  float,
  floatSum,
  grows,
  inPairs,
  integer,
  reads,
  shrinks,
  sum,
} from '../command.ts';
import { type Bytes, OK, type Reply } from '../replies.ts';

function setFields({ store }: Context, args: readonly Bytes[]): number {
  const pairs = inPairs(args, 2);
  const key = args[1] ?? '';
  const hash = store.hash(key) ?? new Map<Bytes, Bytes>();
  const before = hash.size;
  for (const [field, value] of pairs) hash.set(field, value);
  store.put(key, hash);
  return hash.size - before;
}

function read(of: (hash: Map<Bytes, Bytes>, field: Bytes) => Reply) {
  return ({ store }: Context, [, key = '', field = '']: readonly Bytes[]): Reply =>
    of(store.hash(key) ?? new Map(), field);
}

export const HASH_COMMANDS: CommandTable = {
  hset: grows(-4, setFields),
  hmset: grows(-4, (context, args) => {
    setFields(context, args);
    return OK;
  }),
  hsetnx: grows(4, (context, args) =>
    context.store.hash(args[1] ?? '')?.has(args[2] ?? '') ? 0 : setFields(context, args),
  ),
  hget: reads(
    3,
    read((hash, field) => hash.get(field) ?? null),
  ),
  hmget: reads(-3, ({ store }, [, key = '', ...fields]) => {
    const hash = store.hash(key);
    return fields.map((field) => hash?.get(field) ?? null);
  }),
  hgetall: reads(
    2,
    read((hash) => ({ fields: [...hash].flat() })),
  ),
  hkeys: reads(
    2,
    read((hash) => [...hash.keys()]),
  ),
  hvals: reads(
    2,
    read((hash) => [...hash.values()]),
  ),
  hlen: reads(
    2,
    read((hash) => hash.size),
  ),
  hexists: reads(
    3,
    read((hash, field) => (hash.has(field) ? 1 : 0)),
  ),
  hstrlen: reads(
    3,
    read((hash, field) => hash.get(field)?.length ?? 0),
  ),
  hdel: shrinks(-3, ({ store }, [, key = '', ...fields]) => {
    const hash = store.hash(key);
    if (hash === undefined) return 0;
    const removed = fields.filter((field) => hash.delete(field)).length;
    if (removed > 0) store.put(key, hash);
    return removed;
  }),
  hincrby: grows(4, ({ store }, [, key = '', field = '', amount]) => {
    const step = integer(amount);
    const hash = store.hash(key) ?? new Map<Bytes, Bytes>();
    const present = integer(hash.get(field) ?? '0', 'ERR hash value is not an integer');
    const value = sum(present, step);
    store.put(key, hash.set(field, String(value)));
    return value;
  }),
  hincrbyfloat: grows(4, ({ store }, [, key = '', field = '', amount]) => {
    const step = float(amount);
    const hash = store.hash(key) ?? new Map<Bytes, Bytes>();
    const present = float(hash.get(field) ?? '0', 'ERR hash value is not a float');
    const value = floatSum(present, step);
    store.put(key, hash.set(field, value));
    store.effects = [['HSET', key, field, value]];
    return value;
  }),
};
