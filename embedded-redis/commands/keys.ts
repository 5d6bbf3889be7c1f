/**
 * Commands on keys of any type: existence, expiry, names. An expiry is logged as a point in time; a remaining time
 * would be extended by a restart.
 */
import {
  type Command,
  type CommandTable,
  type Context,
  count,
  integer,
  matches,
  reads,
  shrinks,
} from '../command.ts';
import { type Bytes, ERRORS, OK, type Reply, ReplyError } from '../replies.ts';
import { type Store, typeName } from '../store.ts';

/** The time that an expiry argument names; an error beyond the supported range. */
export function expiryMoment(
  store: { nowMs: number },
  text: Bytes | undefined,
  unit: ExpiryUnit,
  command: string,
): number {
  const amount = Number(integer(text)) * (unit.seconds ? 1000 : 1);
  const atMs = unit.absolute ? amount : store.nowMs + amount;
  if (!Number.isSafeInteger(amount) || !Number.isSafeInteger(atMs)) {
    throw new ReplyError(`ERR invalid expire time in '${command}' command`);
  }
  return atMs;
}

interface ExpiryUnit {
  readonly seconds: boolean;
  readonly absolute: boolean;
}

function expiryFlags(options: readonly Bytes[]): Set<string> {
  const flags = new Set(options.map((option) => option.toUpperCase()));
  const [unknown] = [...flags].filter((flag) => !['NX', 'XX', 'GT', 'LT'].includes(flag));
  if (unknown !== undefined) {
    const written = options.find((option) => option.toUpperCase() === unknown);
    throw new ReplyError(`ERR Unsupported option ${written}`);
  }
  if (flags.has('NX') && flags.size > 1) {
    throw new ReplyError('ERR NX and XX, GT or LT options at the same time are not compatible');
  }
  if (flags.has('GT') && flags.has('LT')) {
    throw new ReplyError('ERR GT and LT options at the same time are not compatible');
  }
  return flags;
}

function expire(name: string, unit: ExpiryUnit): Command {
  return shrinks(-3, ({ store }, [, key = '', time, ...options]) => {
    const flags = expiryFlags(options);
    const atMs = expiryMoment(store, time, unit, name);
    if (store.get(key) === undefined) return 0;
    const present = store.expiryMs(key);
    if (flags.has('NX') && present !== undefined) return 0;
    if (flags.has('XX') && present === undefined) return 0;
    if (flags.has('GT') && atMs <= (present ?? Infinity)) return 0;
    if (flags.has('LT') && atMs >= (present ?? Infinity)) return 0;
    if (atMs <= store.nowMs && !store.loading) {
      store.delete(key);
      store.effects = [['DEL', key]];
    } else {
      store.setExpiry(key, atMs);
      store.effects = [['PEXPIREAT', key, String(atMs)]];
    }
    return 1;
  });
}

function timeLeft(seconds: boolean): Command {
  return reads(2, ({ store }, [, key = '']) => {
    if (store.get(key) === undefined) return -2;
    const atMs = store.expiryMs(key);
    if (atMs === undefined) return -1;
    const leftMs = Math.max(0, atMs - store.nowMs);
    return seconds ? Math.floor((leftMs + 500) / 1000) : leftMs;
  });
}

const remove = shrinks(-2, ({ store }, [, ...keys]) => {
  let removed = 0;
  for (const key of keys) if (store.get(key) !== undefined && store.delete(key)) removed += 1;
  return removed;
});

const flush = shrinks(-1, ({ store }, args) => {
  if (args.length > 2 || (args.length === 2 && !/^(?:a?sync)$/i.test(args[1] ?? '')))
    throw new ReplyError(ERRORS.syntax);
  store.clear();
  return OK;
});

function scan({ store }: Context, [, cursorText, ...options]: readonly Bytes[]): Reply {
  const cursor = count(cursorText, 'ERR invalid cursor');
  let pattern: Bytes | undefined;
  let type: Bytes | undefined;
  let steps = 10;
  for (let at = 0; at < options.length; at += 2) {
    const value = options[at + 1];
    if (value === undefined) throw new ReplyError(ERRORS.syntax);
    const option = options[at]?.toUpperCase();
    if (option === 'MATCH') pattern = value;
    else if (option === 'TYPE') type = value.toLowerCase();
    else if (option === 'COUNT') steps = count(value);
    else throw new ReplyError(ERRORS.syntax);
    if (steps < 1) throw new ReplyError(ERRORS.syntax);
  }
  const { keys, next } = store.scan(cursor, steps);
  const chosen = keys.filter((key) => pattern === undefined || matches(pattern, key));
  return [
    String(next),
    chosen.filter((key) => type === undefined || typeName(store.get(key) ?? '') === type),
  ];
}

function rename(store: Store, from: Bytes, to: Bytes): void {
  const value = store.get(from);
  if (value === undefined) throw new ReplyError('ERR no such key');
  const atMs = store.expiryMs(from);
  store.delete(from);
  store.delete(to);
  store.put(to, value);
  if (atMs !== undefined) store.setExpiry(to, atMs);
}

export const KEY_COMMANDS: CommandTable = {
  del: remove,
  unlink: remove,
  exists: reads(-2, ({ store }, [, ...keys]) => keys.filter((key) => store.get(key) !== undefined).length),
  type: reads(2, ({ store }, [, key = '']) => {
    const value = store.get(key);
    return { status: value === undefined ? 'none' : typeName(value) };
  }),
  expire: expire('expire', { seconds: true, absolute: false }),
  pexpire: expire('pexpire', { seconds: false, absolute: false }),
  expireat: expire('expireat', { seconds: true, absolute: true }),
  pexpireat: expire('pexpireat', { seconds: false, absolute: true }),
  ttl: timeLeft(true),
  pttl: timeLeft(false),
  persist: shrinks(2, ({ store }, [, key = '']) => {
    if (store.get(key) === undefined || store.expiryMs(key) === undefined) return 0;
    store.setExpiry(key, undefined);
    return 1;
  }),
  rename: shrinks(3, ({ store }, [, from = '', to = '']) => {
    rename(store, from, to);
    return OK;
  }),
  renamenx: shrinks(3, ({ store }, [, from = '', to = '']) => {
    if (store.get(from) !== undefined && store.get(to) !== undefined) return 0;
    rename(store, from, to);
    return 1;
  }),
  keys: reads(2, ({ store }, [, pattern = '']) => [...store.keys()].filter((key) => matches(pattern, key))),
  scan: reads(-2, scan),
  dbsize: reads(1, ({ store }) => store.size),
  flushdb: flush,
  flushall: flush,
};
