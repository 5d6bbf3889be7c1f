/**
 * Commands on strings. A command that depends on the clock or on rounding is logged as its result (SET ... PXAT, SET
 * ... KEEPTTL).
 */
import {
  type Command,
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
import { type Bytes, ERRORS, OK, type Reply, ReplyError } from '../replies.ts';
import type { Store } from '../store.ts';
import { expiryMoment } from './keys.ts';

const EXPIRIES: Record<string, { seconds: boolean; absolute: boolean }> = {
  EX: { seconds: true, absolute: false },
  PX: { seconds: false, absolute: false },
  EXAT: { seconds: true, absolute: true },
  PXAT: { seconds: false, absolute: true },
};

/** Replaces the key's value, of any type, and its expiry. */
function replace(store: Store, key: Bytes, value: Bytes, atMs?: number): void {
  store.put(key, value);
  store.setExpiry(key, atMs);
  store.effects = [['SET', key, value, ...(atMs === undefined ? [] : ['PXAT', String(atMs)])]];
}

function positiveMoment(store: Store, time: Bytes | undefined, option: string, command: string): number {
  const unit = EXPIRIES[option];
  if (unit === undefined) throw new ReplyError(ERRORS.syntax);
  if (integer(time) <= 0n) throw new ReplyError(`ERR invalid expire time in '${command}' command`);
  return expiryMoment(store, time, unit, command);
}

function set({ store }: Context, [, key = '', value = '', ...options]: readonly Bytes[]): Reply {
  const flags = new Set<string>();
  let expiry: { option: string; time: Bytes } | undefined;
  for (let at = 0; at < options.length; at += 1) {
    const option = options[at]?.toUpperCase() ?? '';
    if (['NX', 'XX', 'GET', 'KEEPTTL'].includes(option)) flags.add(option);
    else if (Object.hasOwn(EXPIRIES, option) && expiry === undefined && at + 1 < options.length) {
      at += 1;
      expiry = { option, time: options[at] ?? '' };
    } else throw new ReplyError(ERRORS.syntax);
  }
  if ((flags.has('NX') && flags.has('XX')) || (expiry !== undefined && flags.has('KEEPTTL')))
    throw new ReplyError(ERRORS.syntax);
  const atMs = expiry === undefined ? undefined : positiveMoment(store, expiry.time, expiry.option, 'set');
  const before = flags.has('GET') ? (store.string(key) ?? null) : null;
  const exists = store.get(key) !== undefined;
  if ((flags.has('NX') && exists) || (flags.has('XX') && !exists)) return before;
  if (flags.has('KEEPTTL')) {
    store.put(key, value);
    store.effects = [['SET', key, value, 'KEEPTTL']];
  } else replace(store, key, value, atMs);
  return flags.has('GET') ? before : OK;
}

function count(sign: 1n | -1n, by?: bigint): Command {
  return grows(by === undefined ? 3 : 2, ({ store }, [, key = '', amount]) => {
    const step = by ?? integer(amount);
    const value = sum(integer(store.string(key) ?? '0'), sign * step);
    store.put(key, String(value));
    return value;
  });
}

export const STRING_COMMANDS: CommandTable = {
  get: reads(2, ({ store }, [, key = '']) => store.string(key) ?? null),
  set: grows(-3, set),
  setnx: grows(3, ({ store }, [, key = '', value = '']) => {
    if (store.get(key) !== undefined) return 0;
    replace(store, key, value);
    return 1;
  }),
  setex: grows(4, ({ store }, [, key = '', seconds, value = '']) => {
    replace(store, key, value, positiveMoment(store, seconds, 'EX', 'setex'));
    return OK;
  }),
  mget: reads(-2, ({ store }, [, ...keys]) =>
    keys.map((key) => {
      const value = store.get(key);
      return typeof value === 'string' ? value : null;
    }),
  ),
  mset: grows(-3, ({ store }, args) => {
    const pairs = inPairs(args, 1);
    for (const [key, value] of pairs) replace(store, key, value);
    store.effects = undefined;
    return OK;
  }),
  incr: count(1n, 1n),
  incrby: count(1n),
  decr: count(-1n, 1n),
  decrby: count(-1n),
  incrbyfloat: grows(3, ({ store }, [, key = '', amount]) => {
    const value = floatSum(float(store.string(key) ?? '0'), float(amount));
    store.put(key, value);
    store.effects = [['SET', key, value, 'KEEPTTL']];
    return value;
  }),
  append: grows(3, ({ store }, [, key = '', tail = '']) => {
    const value = (store.string(key) ?? '') + tail;
    store.put(key, value);
    return value.length;
  }),
  strlen: reads(2, ({ store }, [, key = '']) => (store.string(key) ?? '').length),
  getdel: shrinks(2, ({ store }, [, key = '']) => {
    const value = store.string(key) ?? null;
    store.delete(key);
    return value;
  }),
};
