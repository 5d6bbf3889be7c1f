/** Bugs in the embedded Redis: times to live, NX, what is on disk when a reply leaves, its limits. */
import type { Suite } from '../mutant.ts';

const REDIS = 'test/embedded-redis/redis.test.ts';
const LOG = 'test/embedded-redis/log.test.ts';
const SERVER = 'test/embedded-redis/server.test.ts';

export const EMBEDDED_REDIS: readonly Suite[] = [
  {
    file: 'embedded-redis/commands/keys.ts',
    tests: [REDIS],
    bugs: [
      {
        guarantee: 'RENAMENX overwrites nothing',
        find: 'if (store.get(from) !== undefined && store.get(to) !== undefined) return 0;',
        replace: '',
      },
      {
        guarantee: 'RENAME takes the time to live along',
        find: 'if (atMs !== undefined) store.setExpiry(to, atMs);',
        replace: '',
      },
      {
        guarantee: 'an expiry in the past deletes the key',
        find: 'if (atMs <= store.nowMs && !store.loading) {',
        replace: 'if (atMs < 0 && !store.loading) {',
      },
      {
        guarantee: 'an expiry is logged as a point in time',
        find: "store.effects = [['PEXPIREAT', key, String(atMs)]];",
        replace: "store.effects = [['PEXPIRE', key, String(atMs - store.nowMs)]];",
        tests: [LOG],
      },
      {
        guarantee: 'EXPIRE counts in seconds',
        find: "expire: expire('expire', { seconds: true,",
        replace: "expire: expire('expire', { seconds: false,",
      },
      {
        guarantee: 'PTTL of a key without an end is -1',
        find: 'if (atMs === undefined) return -1;',
        replace: 'if (atMs === undefined) return 0;',
      },
      {
        guarantee: 'PTTL of a key that is not there is -2',
        find: 'return -2;',
        replace: 'return -1;',
      },
      {
        guarantee: 'EXPIRE NX keeps the present time to live',
        find: "if (flags.has('NX') && present !== undefined) return 0;",
        replace: '',
      },
      {
        guarantee: 'EXPIRE GT never shortens a time to live',
        find: "if (flags.has('GT') && atMs <= (present ?? Infinity)) return 0;",
        replace: '',
      },
      {
        guarantee: 'PERSIST takes the time to live away',
        find: 'store.setExpiry(key, undefined);\n    return 1;',
        replace: 'return 1;',
      },
    ],
  },
  {
    file: 'embedded-redis/commands/strings.ts',
    tests: [REDIS],
    bugs: [
      {
        guarantee: 'SET NX overwrites nothing',
        find: "(flags.has('NX') && exists) || (flags.has('XX') && !exists)",
        replace: "flags.has('XX') && !exists",
      },
      {
        guarantee: 'SET XX makes nothing new',
        find: "(flags.has('NX') && exists) || (flags.has('XX') && !exists)",
        replace: "flags.has('NX') && exists",
      },
      {
        guarantee: 'SETNX overwrites nothing',
        find: 'if (store.get(key) !== undefined) return 0;\n    replace',
        replace: 'replace',
      },
      {
        guarantee: 'SET takes an old time to live away',
        find: 'store.put(key, value);\n  store.setExpiry(key, atMs);',
        replace: 'store.put(key, value);\n  if (atMs !== undefined) store.setExpiry(key, atMs);',
      },
      {
        guarantee: 'a time to live of 0 is refused',
        find: 'if (integer(time) <= 0n) throw',
        replace: 'if (integer(time) < 0n) throw',
      },
      {
        guarantee: 'INCRBYFLOAT is logged as its result',
        find: "store.effects = [['SET', key, value, 'KEEPTTL']];\n    return value;",
        replace: 'return value;',
        tests: [LOG],
        survives:
          'Equivalent: a log is read by the program that wrote it, whose sums of the same numbers are the same.',
      },
    ],
  },
  {
    file: 'embedded-redis/store.ts',
    tests: [REDIS, LOG],
    bugs: [
      {
        guarantee: 'a key is gone when its time has come',
        find: 'this.nowMs <= atMs || this.loading',
        replace: 'this.nowMs <= atMs + 1_000 || this.loading',
      },
      {
        guarantee: 'while the log is read nothing expires, so that commands see what they saw',
        find: 'this.nowMs <= atMs || this.loading',
        replace: 'this.nowMs <= atMs',
        tests: [LOG],
      },
      {
        guarantee: 'an expiry is in a rewritten log',
        find: "if (atMs !== undefined) yield ['PEXPIREAT', key, String(atMs)];",
        replace: '',
        tests: [LOG],
      },
      {
        guarantee: 'a key that is deleted loses its expiry',
        find: 'this.#expiries.delete(key);\n    if (!this.#entries',
        replace: 'if (!this.#entries',
        tests: [REDIS, LOG],
      },
      {
        guarantee: 'a watched key that changed breaks the transaction',
        find: 'for (const watch of this.#watches.get(key) ?? []) watch.broken = true;',
        replace: '',
      },
      {
        guarantee: 'expired keys that are not asked for are removed',
        find: 'this.#expire(step.value[0]);',
        replace: '',
        tests: [LOG],
      },
      {
        guarantee: 'the expiry of a key is logged as its deletion',
        find: 'this.onExpired(key);',
        replace: '',
        tests: [LOG],
      },
    ],
  },
  {
    file: 'embedded-redis/append-log.ts',
    tests: [LOG, 'test/embedded-redis/disk-sync.test.ts'],
    bugs: [
      {
        guarantee: 'what a script or a transaction wrote comes back whole or not at all',
        find: "if (commands.length > 1) commands.unshift(encodeCommand(['MULTI']));\n      if (commands.length > 1) commands.push(encodeCommand(['EXEC']));",
        replace: '',
      },
      {
        guarantee: 'a piece that was written in part is written on',
        find: 'if (written < piece.length) this.#pending[0] = piece.subarray(written);\n        else ',
        replace: '',
        tests: [LOG],
      },
      {
        guarantee: 'a log that cannot be written is reported as broken',
        find: '      this.broken = message;\n',
        replace: '',
      },
      {
        guarantee: 'a log that can be written again is broken no more',
        find: '      this.broken = undefined;\n',
        replace: '',
      },
      {
        guarantee: 'data beyond the limit are refused',
        find: 'return this.#bytesAfterCompaction > this.#options.dataBytes;',
        replace: 'return false;',
      },
    ],
  },
  {
    file: 'embedded-redis/engine.ts',
    tests: [LOG, REDIS],
    bugs: [
      {
        guarantee: 'a write is refused while the log cannot be written',
        find: 'if (this.#log.broken !== undefined) {',
        replace: 'if (this.#log.broken === null) {',
      },
      {
        guarantee: 'a full store takes commands that free memory',
        find: "command.write === 'shrinks' || !this.#log.isFull",
        replace: '!this.#log.isFull',
      },
      {
        guarantee: 'a command that changed nothing is not logged',
        find: 'store.changes !== before && ',
        replace: '',
        tests: [LOG],
      },
      {
        guarantee: 'a script is logged as what it did',
        find: 'for (const effect of store.effects ?? [args]) this.#log.append(effect);',
        replace: 'this.#log.append(args);',
        tests: [LOG],
      },
      {
        guarantee: 'MULTI queues at most 10,000 commands',
        find: 'if (session.queue.length >= QUEUED_COMMANDS)',
        replace: 'if (session.queue.length >= 100 * QUEUED_COMMANDS)',
        tests: [LOG],
      },
      {
        guarantee: 'commands that a script may not call are refused',
        find: 'if (fromScript && command.noScript === true)',
        replace: 'if (fromScript && command.noScript === null)',
        tests: [REDIS],
      },
    ],
  },
  {
    file: 'embedded-redis/command-reader.ts',
    tests: [SERVER],
    bugs: [
      {
        guarantee: 'an argument has at most 64 MiB',
        find: 'length === undefined || length < 0 || length > LIMITS.argumentBytes',
        replace: 'length === undefined || length < 0',
      },
      {
        guarantee: 'a command has at most 131,072 arguments',
        find: 'count === undefined || count > LIMITS.arguments',
        replace: 'count === undefined',
      },
      {
        guarantee: 'a line has at most 64 KiB',
        find: '- this.#at > LIMITS.lineBytes) throw',
        replace: '- this.#at > 100_000 * LIMITS.lineBytes) throw',
      },
      {
        guarantee: 'an argument ends with CRLF',
        find: 'if (this.#data[end] !== CR || this.#data[end + 1] !== LF)',
        replace: 'if (this.#data[end + 1] === 0)',
      },
    ],
  },
  {
    file: 'embedded-redis/scripting.ts',
    tests: [SERVER, REDIS],
    bugs: [
      {
        guarantee: 'an endless script ends with an error',
        find: 'this.#machine.call(args, this.#limitMs)',
        replace: 'this.#machine.call(args, 3_600_000 + this.#limitMs)',
        tests: [SERVER],
      },
      {
        guarantee: 'after a script that was ended the next one gets a fresh machine',
        find: '      this.#machine = undefined;\n      this.#compiled',
        replace: '      this.#compiled',
        tests: [SERVER],
      },
    ],
  },
];
