/**
 * Runs ioredis in RESP3 and RESP2 against the embedded Redis and, if installed, against redis-server 7. Expectations
 * are replies of redis-server 7.0, not of the embedded one.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Store, type Watch } from '../../embedded-redis/store.ts';
import { type Group, Stream } from '../../embedded-redis/stream.ts';
import { type LocalRedis, startRedis } from '../../local/redis/start.ts';

const installed = ((): string => {
  try {
    return /v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))?.[1] ?? '';
  } catch {
    return '';
  }
})();
const NO_SERVER = installed.startsWith('7.')
  ? false
  : `needs redis-server 7 on the PATH, found ${installed || 'none'}`;
const DEADLINE_MS = 60_000;

async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, `waited in vain until ${what}`);
    await delay(5);
  }
}

async function start(preferEmbedded: boolean): Promise<LocalRedis & { dataDir: string }> {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'redis-test-'));
  return { dataDir, ...(await startRedis({ dataDir, port: 0, preferEmbedded, log: () => {} })) };
}

/** A reply as literal data: errors become their text after a `!`. */
async function reply(client: Redis, command: string): Promise<unknown> {
  const [name = '', ...args] = command.split(' ').map((word) => (word === "''" ? '' : word));
  try {
    return await client.call(name.toLowerCase(), ...args); // ioredis shapes replies by it
  } catch (error) {
    return `!${error instanceof Error ? error.message : String(error)}`;
  }
}

const WRONG = '!WRONGTYPE Operation against a key holding the wrong kind of value';
const SYNTAX = '!ERR syntax error';
const NO_STREAM =
  '!ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.';
const INTEGER = '!ERR value is not an integer or out of range';

/** Title, then command and reply in turn; each starts without keys. */
const SCENARIOS: Record<string, readonly (readonly [string, unknown])[]> = {
  'SET obeys NX, XX, GET and refuses what does not go together': [
    ['SET k 1 NX', 'OK'],
    ['SET k 2 NX', null],
    ['SET k 2 XX GET', '1'],
    ['SET other 2 XX', null],
    ['SET k 3 NX XX', SYNTAX],
    ['SET k 3 EX 5 PX 5', SYNTAX],
    ['SET k 3 EX 5 KEEPTTL', SYNTAX],
    ['SET k 3 EX', SYNTAX],
    ['SET k 3 EX 0', "!ERR invalid expire time in 'set' command"],
    ['SET k 3 EX x', INTEGER],
    ['SET k', "!ERR wrong number of arguments for 'set' command"],
    ['GET k', '2'],
    ['SETNX k 3', 0],
    ['SETNX n 3', 1],
    ['MGET k none n', ['2', null, '3']],
    ['MSET a 1 b', "!ERR wrong number of arguments for 'mset' command"],
    ['MSET a 1 b 2', 'OK'],
    ['GETDEL a', '1'],
    ['GETDEL a', null],
    ['APPEND b 34', 3],
    ['STRLEN b', 3],
    ['STRLEN none', 0],
  ],
  'a replaced string loses its expiry, a changed one keeps it': [
    ['SET k 1 EX 100', 'OK'],
    ['TTL k', 100],
    ['INCR k', 2],
    ['TTL k', 100],
    ['SET k 1 KEEPTTL', 'OK'],
    ['TTL k', 100],
    ['SET k 1', 'OK'],
    ['TTL k', -1],
    ['SETEX k 100 v', 'OK'],
    ['SETEX k 0 v', "!ERR invalid expire time in 'setex' command"],
    ['PERSIST k', 1],
    ['PERSIST k', 0],
    ['TTL none', -2],
    ['PTTL k', -1],
  ],
  'entries of a stream have growing ids, and are counted, trimmed and deleted': [
    ['XADD s 5-1 uri a', '5-1'],
    ['XADD s 5-2 uri b data x', '5-2'],
    ['XADD s 5-2 uri c', '!ERR The ID specified in XADD is equal or smaller than the target stream top item'],
    ['XADD s x uri c', '!ERR Invalid stream ID specified as stream command argument'],
    ['XADD s 6-1 uri', "!ERR wrong number of arguments for 'xadd' command"],
    ['XADD none NOMKSTREAM * uri a', null],
    ['XADD s 7 uri c', '7-0'],
    ['XLEN s', 3],
    ['XRANGE s 5-2 + COUNT 1', [['5-2', ['uri', 'b', 'data', 'x']]]],
    ['XDEL s 5-2 9-9', 1],
    [
      'XRANGE s - +',
      [
        ['5-1', ['uri', 'a']],
        ['7-0', ['uri', 'c']],
      ],
    ],
    ['XADD s MAXLEN 2 8-0 uri d', '8-0'],
    ['XRANGE s - 7', [['7-0', ['uri', 'c']]]],
    ['TYPE s', 'stream'],
    ['GET s', WRONG],
    ['XDEL s 7-0 8-0', 2],
    ['EXISTS s', 1],
  ],
  'a group reads each entry once, and what was not acknowledged is claimed': [
    ['XGROUP CREATE s g 0', NO_STREAM],
    ['XGROUP CREATE s g 0 MKSTREAM', 'OK'],
    ['XGROUP CREATE s g 0', '!BUSYGROUP Consumer Group name already exists'],
    ['XADD s 1-1 uri a', '1-1'],
    ['XADD s 1-2 uri b', '1-2'],
    ['XREADGROUP GROUP g one COUNT 1 STREAMS s >', [['s', [['1-1', ['uri', 'a']]]]]],
    ['XREADGROUP GROUP g two BLOCK 1 STREAMS s >', [['s', [['1-2', ['uri', 'b']]]]]],
    ['XREADGROUP GROUP g one BLOCK 1 STREAMS s >', null],
    ['XREADGROUP GROUP g', "!ERR wrong number of arguments for 'xreadgroup' command"],
    ['XACK s g 1-1 1-9', 1],
    ['XAUTOCLAIM s g one 0 0', ['0-0', [['1-2', ['uri', 'b']]], []]],
    ['XADD s 1-3 uri c', '1-3'],
    ['XADD s 1-4 uri d', '1-4'],
    ['XREADGROUP GROUP g two COUNT 1 STREAMS s >', [['s', [['1-3', ['uri', 'c']]]]]],
    ['XREADGROUP GROUP g two COUNT 1 STREAMS s >', [['s', [['1-4', ['uri', 'd']]]]]],
    ['XAUTOCLAIM s g one 0 - COUNT 1', ['1-3', [['1-2', ['uri', 'b']]], []]],
    ['XAUTOCLAIM s g one 0 (1-2 COUNT 1 JUSTID', ['1-4', ['1-3'], []]],
    ['XDEL s 1-3', 1],
    ['XAUTOCLAIM s g one 0 1-3', ['0-0', [['1-4', ['uri', 'd']]], ['1-3']]],
    ['XAUTOCLAIM s g one x 0', '!ERR Invalid min-idle-time argument for XAUTOCLAIM'],
    ['XAUTOCLAIM s g one 0 0 COUNT 0', '!ERR COUNT must be > 0'],
    ['XAUTOCLAIM s g one 0 0 NO', SYNTAX],
    ['XACK s g 1-4', 1],
    ['XDEL s 1-4', 1],
    ['XAUTOCLAIM s g one 600000 0', ['0-0', [], []]],
    ['XACK s g 1-2', 1],
    ['XGROUP DELCONSUMER s g two', 0],
    ['XGROUP CREATE s new $', 'OK'],
    ['XADD s 2-1 uri c', '2-1'],
    ['XREADGROUP GROUP new one STREAMS s >', [['s', [['2-1', ['uri', 'c']]]]]],
    ['XGROUP DELCONSUMER s new one', 1],
    ['XINFO CONSUMERS s new', []],
    ['XINFO GROUPS none', '!ERR no such key'],
    ['DEL s', 1],
  ],
  'EXPIRE obeys NX, XX, GT and LT': [
    ['SET k v', 'OK'],
    ['EXPIRE k 100 XX', 0],
    ['EXPIRE k 100 GT', 0],
    ['EXPIRE k 100 NX', 1],
    ['EXPIRE k 200 NX', 0],
    ['EXPIRE k 50 GT', 0],
    ['EXPIRE k 200 GT', 1],
    ['EXPIRE k 300 LT', 0],
    ['PEXPIRE k 100000 LT', 1],
    ['TTL k', 100],
    ['EXPIRE k 1 NX XX', '!ERR NX and XX, GT or LT options at the same time are not compatible'],
    ['EXPIRE k 1 GT LT', '!ERR GT and LT options at the same time are not compatible'],
    ['EXPIRE k 1 foo', '!ERR Unsupported option foo'],
    ['EXPIRE k 9223372036854775807', "!ERR invalid expire time in 'expire' command"],
    ['EXPIRE none 1', 0],
    ['EXPIREAT k 1', 1],
    ['EXISTS k', 0],
  ],
  'numbers are counted in 64 bits and refused when they are none': [
    ['INCR n', 1],
    ['INCRBY n 41', 42],
    ['DECRBY n 2', 40],
    ['DECR n', 39],
    ['INCRBY n 1.5', INTEGER],
    ['INCRBY n 01', INTEGER],
    ['SET n 9223372036854775807', 'OK'],
    ['INCR n', '!ERR increment or decrement would overflow'],
    ['SET n x', 'OK'],
    ['INCR n', INTEGER],
    ['INCRBYFLOAT n 1', '!ERR value is not a valid float'],
    ['SET n 0.1', 'OK'],
    ['INCRBYFLOAT n 0.2', '0.3'],
    ['SET n 0.5', 'OK'],
    ['INCRBYFLOAT n 1e3', '1000.5'],
    ['INCRBYFLOAT n x', '!ERR value is not a valid float'],
    ['HINCRBY h f 5', 5],
    ['HINCRBYFLOAT h f 0.5', '5.5'],
    ['HINCRBY h f 1', '!ERR hash value is not an integer'],
    ['HSET h f x', 0],
    ['HINCRBYFLOAT h f 1', '!ERR hash value is not a float'],
  ],
  'a hash keeps its fields in order and goes with its last one': [
    ['HSET h a 1 b 2 c', "!ERR wrong number of arguments for 'hset' command"],
    ['HSET h a 1 b 2', 2],
    ['HSET h a 9 c 3', 1],
    ['HSETNX h a 8', 0],
    ['HSETNX h d 4', 1],
    ['HMSET h e 5', 'OK'],
    ['HGETALL h', { a: '9', b: '2', c: '3', d: '4', e: '5' }],
    ['HMGET h a none e', ['9', null, '5']],
    ['HMGET none a', [null]],
    ['HGET h none', null],
    ['HKEYS h', ['a', 'b', 'c', 'd', 'e']],
    ['HVALS h', ['9', '2', '3', '4', '5']],
    ['HLEN h', 5],
    ['HEXISTS h a', 1],
    ['HEXISTS h none', 0],
    ['HSTRLEN h none', 0],
    ['HSTRLEN none a', 0],
    ['HDEL h a none b c d', 4],
    ['HDEL h e', 1],
    ['EXISTS h', 0],
    ['HGETALL h', {}],
  ],
  'a sorted set is ordered by score, then by member': [
    ['ZADD z 1 b 1 a 0.5 c', 3],
    ['ZADD z CH 2 a 1 b', 1],
    ['ZADD z NX 9 a 3 d', 1],
    ['ZADD z XX CH 5 d 1 none', 1],
    ['ZADD z GT CH 4 d 6 c', 1],
    ['ZADD z LT CH 4 d 9 c', 1],
    ['ZADD z NX XX 1 a', '!ERR XX and NX options at the same time are not compatible'],
    ['ZADD z NX GT 1 a', '!ERR GT, LT, and/or NX options at the same time are not compatible'],
    ['ZADD z 1', "!ERR wrong number of arguments for 'zadd' command"],
    ['ZADD z 1 a 2', SYNTAX],
    ['ZADD z x a', '!ERR value is not a valid float'],
    ['ZRANGE z 0 -1 WITHSCORES', ['b', '1', 'a', '2', 'd', '4', 'c', '6']],
    ['ZRANGE z 0 1 REV', ['c', 'd']],
    ['ZRANGE z (1 +inf BYSCORE LIMIT 1 1', ['d']],
    ['ZRANGE z 4 (1 BYSCORE REV WITHSCORES', ['d', '4', 'a', '2']],
    [
      'ZRANGE z 0 1 LIMIT 0 1',
      '!ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX',
    ],
    ['ZRANGE z x 1', INTEGER],
    ['ZRANGEBYSCORE z -inf (4 WITHSCORES', ['b', '1', 'a', '2']],
    ['ZRANGEBYSCORE z 1 x', '!ERR min or max is not a float'],
    ['ZRANGEBYSCORE z 5 1', []],
    ['ZCOUNT z 2 4', 2],
    ['ZSCORE z a', '2'],
    ['ZSCORE z none', null],
    ['ZRANK z d', 2],
    ['ZRANK z none', null],
    ['ZCARD z', 4],
    ['ZREM z a none', 1],
    ['ZPOPMIN z', ['b', '1']],
    ['ZPOPMIN none', []],
    ['ZADD z 1 x 2 y 3 w', 3],
    ['ZREMRANGEBYSCORE z (1 2', 1],
    ['ZREMRANGEBYRANK z 0 0', 1],
    ['ZRANGE z 0 -1', ['w', 'd', 'c']],
    ['ZREMRANGEBYRANK z -1 5', 1],
    ['ZREMRANGEBYSCORE z -inf +inf', 2],
    ['EXISTS z', 0],
  ],
  'sets and lists give back what was put in': [
    ['SADD s a b a', 2],
    ['SADD s b', 0],
    ['SISMEMBER s a', 1],
    ['SISMEMBER s c', 0],
    ['SCARD s', 2],
    ['SREM s b c', 1],
    ['SMEMBERS s', ['a']],
    ['SREM s a', 1],
    ['EXISTS s', 0],
    ['RPUSH l 1 2', 2],
    ['LPUSH l a b', 4],
    ['LRANGE l 0 -1', ['b', 'a', '1', '2']],
    ['LRANGE l -2 100', ['1', '2']],
    ['LRANGE l 3 1', []],
    ['LPOP l', 'b'],
    ['RPOP l 2', ['2', '1']],
    ['LPOP l 0', []],
    ['LPOP l -1', '!ERR value is out of range, must be positive'],
    ['LLEN l', 1],
    ['LPOP l 5', ['a']],
    ['LPOP l', null],
    ['LPOP l 5', null],
    ['LLEN l', 0],
  ],
  'a command refuses a key of another type': [
    ['SET k v', 'OK'],
    ['HSET h a 1', 1],
    ...['HGET k a', 'HSET k a 1', 'ZADD k 1 a', 'ZSCORE k a', 'SADD k a', 'LPUSH k a', 'LPOP k'].map(
      (command) => [command, WRONG] as const,
    ),
    ...['GET h', 'INCR h', 'APPEND h x', 'ZCARD h', 'SMEMBERS h', 'LRANGE h 0 1', 'SET h 1 GET'].map(
      (command) => [command, WRONG] as const,
    ),
    ['MGET k h', ['v', null]],
    ['SET h now', 'OK'],
    ['TYPE h', 'string'],
  ],
  'keys are found, renamed and removed': [
    ['MSET one 1 two 2 three 3', 'OK'],
    ['KEYS t?o', ['two']],
    ['KEYS [^a-t]*', []],
    ['KEYS o*e', ['one']],
    ['KEYS \\one', ['one']],
    ['EXISTS one one none', 2],
    ['EXPIRE one 100', 1],
    ['RENAME one uno', 'OK'],
    ['TTL uno', 100],
    ['RENAME none x', '!ERR no such key'],
    ['RENAMENX none x', '!ERR no such key'],
    ['SET left 1', 'OK'],
    ['SET right 2', 'OK'],
    ['RENAMENX left right', 0],
    ['GET right', '2'],
    ['RENAMENX left left', 0],
    ['RENAMENX left free', 1],
    ['GET free', '1'],
    ['DEL free right', 2],
    ['TYPE uno', 'string'],
    ['TYPE none', 'none'],
    ['DBSIZE', 3],
    ['DEL uno none', 1],
    ['UNLINK two three', 2],
    ['DBSIZE', 0],
    ['SCAN 0 MATCH * COUNT 5 TYPE string', ['0', []]],
    ['SCAN x', '!ERR invalid cursor'],
    ['SCAN 0 COUNT 0', SYNTAX],
    ['FLUSHALL now', SYNTAX],
    ['FLUSHDB ASYNC', 'OK'],
  ],
  'the server answers what clients ask it about itself': [
    ['PING', 'PONG'],
    ['PING hello', 'hello'],
    ['ECHO hello', 'hello'],
    ['SELECT 0', 'OK'],
    ['SELECT 99', '!ERR DB index is out of range'],
    ['CLIENT SETNAME me', 'OK'],
    ['CLIENT GETNAME', 'me'],
    ['CLIENT SETNAME a\nb', '!ERR Client names cannot contain spaces, newlines or special characters.'],
    ['CLIENT NONSENSE', "!ERR unknown subcommand 'NONSENSE'. Try CLIENT HELP."],
    ['CLIENT ID x', "!ERR wrong number of arguments for 'client|id' command"],
    ['CONFIG GET maxmemory-policy', ['maxmemory-policy', 'noeviction']],
    ['CONFIG GET appendonl?', ['appendonly', 'yes']],
    ['HELLO 9', '!NOPROTO unsupported protocol version'],
    ['AUTH x y', '!WRONGPASS invalid username-password pair or user is disabled.'],
    ['AUTH default y', 'OK'],
    ['nonsense a b', "!ERR unknown command 'nonsense', with args beginning with: 'a' 'b' "],
    ['EXEC', '!ERR EXEC without MULTI'],
    ['DISCARD', '!ERR DISCARD without MULTI'],
    ['EVALSHA 0 0', '!NOSCRIPT No matching script. Please use EVAL.'],
    ['EVAL x -1', "!ERR Number of keys can't be negative"],
    ['EVAL x 1', "!ERR Number of keys can't be greater than number of args"],
    ['SCRIPT EXISTS 0', [0]],
  ],
};

/** Lua source and what EVAL gives for key `k` and arguments `a`, `7`; errors without their place in the script. */
const SCRIPTS: readonly (readonly [string, unknown])[] = [
  ['return {KEYS[1], ARGV[1], #KEYS, #ARGV}', ['k', 'a', 1, 2]],
  ['return 3.9', 3],
  ['return -3.9', -3],
  ['return {1, 2, nil, 4}', [1, 2]],
  ['return {1, {2, {"x"}}, false, true}', [1, [2, ['x']], null, 1]],
  ['return nil', null],
  ['return redis.status_reply("FINE")', 'FINE'],
  ['return {ok = "FINE"}', 'FINE'],
  ['return redis.error_reply("MINE is bad")', '!MINE is bad'],
  ['return {err = "MINE is bad"}', '!MINE is bad'],
  ['return redis.call("set", KEYS[1], ARGV[2])', 'OK'],
  ['redis.call("set", KEYS[1], 7) return redis.call("get", KEYS[1]) + 1', 8],
  ['return redis.call("get", "none")', null],
  ['return redis.call("get", "none") == false', 1],
  ['return redis.call("set", "none", "v").ok', 'OK'],
  ['redis.call("hset", "h", "a", 1, "b", 2) return redis.call("hgetall", "h")', ['a', '1', 'b', '2']],
  ['redis.call("zadd", "z", 1.5, "a") return redis.call("zrange", "z", 0, -1, "withscores")', ['a', '1.5']],
  ['return redis.pcall("nonsense").err ~= nil', 1],
  ['return redis.call("subscribe", "c")', '!ERR This Redis command is not allowed from script'],
  ['return redis.call()', '!ERR Please specify at least one argument for this redis lib call'],
  ['return redis.call("get", {})', '!ERR Lua redis lib command arguments must be strings or integers'],
  ['redis.call("set", "h", 1) return redis.call("hget", "h", "a")', WRONG],
  ['return redis.sha1hex("")', 'da39a3ee5e6b4b0d3255bfef95601890afd80709'],
  ['return cjson.encode({1, "a\\n", {x = true}})', '[1,"a\\n",{"x":true}]'],
  [
    'local v = cjson.decode(\'{"a": [1, null, "\\\\u00e9"]}\') return {v.a[1], v.a[2] == cjson.null, v.a[3]}',
    [1, 1, 'é'],
  ],
  ['return {unpack({1, 2, 3})}', [1, 2, 3]],
  ['return tonumber(ARGV[2]) * 1000', 7000],
  ['return string.format("%s-%d", ARGV[1], 5)', 'a-5'],
  ['x = 1', '!ERR user_script:1: Attempt to modify a readonly table'],
  ['return unknown', "!ERR user_script:1: Script attempted to access nonexistent global variable 'unknown'"],
  ['error("mine")', '!ERR user_script:1: mine'],
  ['redis.call = nil', '!ERR user_script:1: Attempt to modify a readonly table'],
  ['string.rep = nil', '!ERR user_script:1: Attempt to modify a readonly table'],
  ['ARGV = nil', '!ERR user_script:1: Attempt to modify a readonly table'],
  ['local ok, e = pcall(redis.call, "nonsense") return e', 'ERR Unknown Redis command called from script'],
  ['return redis.call("get")', '!ERR Wrong number of args calling Redis command from script'],
  ['return tostring(10 / 2) .. tostring(2 ^ 53)', '59.007199254741e+15'],
  ['return 1 / 0', -9223372036854775808],
];

for (const kind of ['embedded', 'redis-server'] as const) {
  for (const protocol of [3, 2] as const) {
    describe(`${kind} through ioredis, RESP${protocol}`, {
      skip: kind === 'redis-server' && NO_SERVER,
    }, () => {
      let server: Awaited<ReturnType<typeof start>>;
      let client: Redis;
      let other: Redis;

      before(async () => {
        server = await start(kind === 'embedded');
        assert.equal(server.kind, kind);
        client = new Redis(server.url, { protocol });
        other = new Redis(server.url, { protocol });
        await Promise.all([client.ping(), other.ping()]);
      });
      beforeEach(() => client.flushall());
      after(async () => {
        client.disconnect();
        other.disconnect();
        await server.close();
        fs.rmSync(server.dataDir, { recursive: true });
      });

      for (const [title, steps] of Object.entries(SCENARIOS)) {
        it(title, async () => {
          for (const [command, expected] of steps) {
            assert.deepEqual(await reply(client, command), expected, command);
          }
        });
      }

      it('a script converts values by the rules of Redis', async () => {
        for (const [script, expected] of SCRIPTS) {
          await client.flushall();
          const got: unknown = await client
            .eval(script, 1, 'k', 'a', '7')
            .catch((error: Error) => `!${error.message.replace(/ script: .*/, '')}`);
          assert.deepEqual(got, expected, script);
        }
      });

      it('any bytes come back as they were, from commands and from scripts', async () => {
        const bytes = Buffer.from(Array.from({ length: 1024 }, (_, at) => at % 256));
        await client.hset('k', 'f', bytes);
        assert.deepEqual(await client.hgetBuffer('k', 'f'), bytes);
        const script = 'redis.call("set", KEYS[1], ARGV[1]) return redis.call("get", KEYS[1])';
        assert.deepEqual(await client.callBuffer('EVAL', script, 1, 'ключ 🔑', bytes), bytes);
        assert.deepEqual(await client.getBuffer('ключ 🔑'), bytes);
        const big = Buffer.alloc(5_000_000, 'é');
        await client.set('big', big);
        assert.ok(big.equals((await client.getBuffer('big')) ?? Buffer.alloc(0)));
      });

      it('an unknown EVALSHA makes ioredis send the source once', async () => {
        client.defineCommand('twice', {
          numberOfKeys: 1,
          lua: 'return redis.call("incrby", KEYS[1], 2 * ARGV[1])',
        });
        const twice = (key: string, by: number): Promise<unknown> =>
          Reflect.get(client, 'twice').call(client, key, by);
        await client.script('FLUSH');
        assert.equal(await twice('n', 2), 4);
        assert.equal(await twice('n', 1), 6);
        const sha = String(await client.script('LOAD', 'return 5'));
        assert.deepEqual(await client.script('EXISTS', sha, 'none'), [1, 0]);
        assert.equal(await client.evalsha(sha, 0), 5);
      });

      it('a script over many keys writes, expires, indexes and publishes', async () => {
        const seen: string[] = [];
        await other.subscribe('done');
        other.on('message', (_channel: string, message: string) => seen.push(message));
        const script = `
          local done = {}
          for at, key in ipairs(KEYS) do
            if redis.call('HSETNX', key, 'status', 'ready') == 1 then
              redis.call('HSET', key, 'value', ARGV[at], 'at', at)
              redis.call('PEXPIRE', key, 60000)
              redis.call('ZADD', 'index', at, key)
              redis.call('PUBLISH', 'done', key)
              done[#done + 1] = key
            end
          end
          return done`;
        const keys = Array.from({ length: 200 }, (_, at) => `result:${at}`);
        const values = keys.map((key) => `value of ${key}`);
        assert.deepEqual(await client.eval(script, keys.length, ...keys, ...values), keys);
        assert.deepEqual(await client.eval(script, keys.length, ...keys, ...values), []);
        assert.deepEqual(await client.hgetall('result:7'), {
          status: 'ready',
          value: 'value of result:7',
          at: '8',
        });
        assert.equal(await client.zcard('index'), 200);
        assert.ok((await client.pttl('result:7')) > 0);
        await until('all messages came', () => seen.length === 200);
        assert.deepEqual(seen, keys);
        await other.unsubscribe('done');
      });

      it('messages reach channels and patterns until they are left', async () => {
        const seen: unknown[] = [];
        other.removeAllListeners('message');
        other.on('message', (...args) => seen.push(args));
        other.on('pmessage', (...args) => seen.push(args));
        assert.equal(await other.subscribe('a', 'b'), 2);
        assert.equal(await other.psubscribe('a*'), 3);
        assert.equal(await client.publish('a', '1'), 2);
        assert.equal(await client.publish('c', '2'), 0);
        await other.unsubscribe('a');
        assert.equal(await client.publish('a', '3'), 1);
        await until('three messages came', () => seen.length === 3);
        assert.deepEqual(seen, [
          ['a', '1'],
          ['a*', 'a', '1'],
          ['a*', 'a', '3'],
        ]);
        assert.equal(await other.unsubscribe('b'), 1);
        assert.equal(await other.punsubscribe(), 0);
        assert.equal(await client.publish('a', '4'), 0);
        assert.equal(await other.echo('free again'), 'free again');
      });

      it('a transaction runs whole, and not at all when a watched key changed', async () => {
        const results = await client.multi().set('k', 'v').incr('k').get('k').exec();
        assert.deepEqual(
          results?.map(([error, value]) => error?.message ?? value),
          ['OK', 'ERR value is not an integer or out of range', 'v'],
        );
        await client.watch('k');
        await other.set('k', 'theirs');
        assert.equal(await client.multi().set('k', 'mine').exec(), null);
        assert.equal(await client.get('k'), 'theirs');
        await client.watch('k');
        await client.unwatch();
        await other.set('k', 'theirs');
        assert.deepEqual(await client.multi().set('k', 'mine').exec(), [[null, 'OK']]);
        assert.deepEqual(await reply(client, 'MULTI'), 'OK');
        assert.deepEqual(await reply(client, 'MULTI'), '!ERR MULTI calls can not be nested');
        assert.deepEqual(await reply(client, 'WATCH k'), '!ERR WATCH inside MULTI is not allowed');
        assert.deepEqual(await reply(client, 'GET'), "!ERR wrong number of arguments for 'get' command");
        assert.deepEqual(
          await reply(client, 'EXEC'),
          '!EXECABORT Transaction discarded because of previous errors.',
        );
      });

      it('a key is gone when its time has come, for readers, counters and watchers', async () => {
        await client.hset('h', 'f', 'v');
        await client.pexpire('h', 30);
        do {
          await other.unwatch();
          await client.set('short', 'v', 'PX', 30);
          await other.watch('short');
        } while ((await other.exists('short')) === 0); // on a busy machine it may have gone before the WATCH
        await until('both are gone', async () => (await client.exists('short', 'h')) === 0);
        assert.equal(await other.multi().set('k', 'v').exec(), null);
        assert.equal(await client.hset('h', 'new', 'v'), 1);
        assert.equal(await client.ttl('h'), -1);
      });

      it('SCAN meets every key that stays while others are removed and added', async () => {
        const keys = Array.from({ length: 500 }, (_, at) => `key:${at}`);
        await client.mset(...keys.flatMap((key) => [key, '1']));
        const met = new Set<string>();
        let cursor = '0';
        let round = 0;
        do {
          const [next, found] = await client.scan(cursor, 'COUNT', 20);
          for (const key of found) met.add(key);
          cursor = next;
          await client.del(`key:${round * 2}`);
          await client.set(`added:${round}`, '1');
          round += 1;
        } while (cursor !== '0' && round < 1_000);
        assert.equal(cursor, '0');
        for (const key of keys.filter((_, at) => at % 2 === 1)) assert.ok(met.has(key), key);
        assert.deepEqual(await client.scan(0, 'MATCH', 'key:7', 'COUNT', 10_000), ['0', ['key:7']]);
        assert.deepEqual(await client.call('scan', 0, 'TYPE', 'hash', 'COUNT', 10_000), ['0', []]);
      });
    });
  }
}

describe('random commands', {
  skip: installed.startsWith('7.0.') ? false : 'needs redis-server 7.0 on the PATH',
}, () => {
  const WORDS = {
    k: ['a', 'b', 'c', 'd'],
    f: ['x', 'y', '1', '2'],
    v: ['0', '1', '-5', '2.5', 'text', ''],
    s: ['0', '1', '-5', '2.5', '(1', '(-5', '-inf', '+inf', '(inf', 'text'],
    n: ['0', '1', '-1', '2', '10', 'x'],
    i: ['0', '1-1', '1-2', '2-1', '3', '9-9', 'x'],
    g: ['one', 'two'],
    o: ['NX', 'XX', 'GT', 'LT', 'CH', 'GET', 'KEEPTTL', 'WITHSCORES', 'REV', 'BYSCORE'],
  };
  /** Replies in an order of their own (SMEMBERS, KEYS, SCAN) and clock readings (PTTL) cannot be compared. */
  const SHAPES = (
    'SET k v|SET k v o|SET k v EX n|SETNX k v|GET k|MGET k k|APPEND k v|STRLEN k|INCR k|INCRBY k n|DECRBY k n|GETDEL k|' +
    'INCRBYFLOAT k v|HSET k f v|HSET k f v f v|HSETNX k f v|HGET k f|HMGET k f f|HGETALL k|HDEL k f|HLEN k|HKEYS k|' +
    'HINCRBY k f n|HINCRBYFLOAT k f v|ZADD k v f|ZADD k o v f|ZADD k o o v f v f|ZREM k f|ZSCORE k f|ZCARD k|ZRANK k f|' +
    'ZRANGE k n n|ZRANGE k n n o|ZRANGE k n n o o|ZRANGE k s s BYSCORE LIMIT n n o|ZRANGE k s s BYSCORE REV o|ZRANGEBYSCORE k s s o|ZCOUNT k s s|' +
    'ZREMRANGEBYRANK k n n|ZREMRANGEBYSCORE k s s|ZPOPMIN k|ZPOPMIN k n|SADD k f f|SREM k f|SCARD k|SISMEMBER k f|' +
    'LPUSH k v v|RPUSH k v|LPOP k|LPOP k n|RPOP k n|LLEN k|LRANGE k n n|LTRIM k n n|LTRIM k n -1|CLIENT UNBLOCK n|CLIENT UNBLOCK n v|' +
    'XADD k i f v|XDEL k i i|XLEN k|XRANGE k i +|XGROUP CREATE k g i|XGROUP CREATE k g 0 MKSTREAM|XGROUP DELCONSUMER k g f|XACK k g i i|' +
    'XREADGROUP GROUP g f COUNT 2 BLOCK 1 STREAMS k >|XAUTOCLAIM k g f 0 i|XAUTOCLAIM k g f 0 i COUNT n|XAUTOCLAIM k g f 600000 i|' +
    'DEL k|DEL k k|EXISTS k k|TYPE k|RENAME k k|' +
    'EXPIRE k n|EXPIRE k 100 o|EXPIRE k 200 o o|TTL k|PERSIST k|MULTI|EXEC|DISCARD|WATCH k|DBSIZE|GET|NONSENSE k'
  ).split('|');

  it('get byte for byte the answers of redis-server 7.0, in both protocols', async () => {
    let seed = 42;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    const commands = Array.from({ length: 20_000 }, () =>
      (SHAPES[random(SHAPES.length)] ?? '').split(' ').map((word) => {
        const choices = Reflect.get(WORDS, word) as readonly string[] | undefined;
        return choices?.[random(choices.length)] ?? word;
      }),
    );
    const servers = await Promise.all([start(true), start(false)]);
    try {
      for (const protocol of [2, 3]) {
        const [ours = [], theirs = []] = await Promise.all(
          servers.map((one) => talk(one.url, protocol, commands)),
        );
        assert.equal(ours.length, commands.length);
        for (const [at, command] of commands.entries()) {
          assert.equal(ours[at], theirs[at], `RESP${protocol}, command ${at}: ${command.join(' ')}`);
        }
      }
    } finally {
      for (const server of servers) {
        await server.close();
        fs.rmSync(server.dataDir, { recursive: true });
      }
    }
  });

  /** The raw reply to each command, told apart by an ECHO after it. */
  async function talk(url: string, protocol: number, commands: readonly string[][]): Promise<string[]> {
    const socket = net.connect(Number(new URL(url).port), '127.0.0.1');
    const frame = (args: readonly string[]): string =>
      `*${args.length}\r\n${args.map((arg) => `$${arg.length}\r\n${arg}\r\n`).join('')}`;
    let text = '';
    socket.setEncoding('latin1');
    socket.on('data', (piece: string) => {
      text += piece;
    });
    socket.write(frame(['HELLO', String(protocol)]) + frame(['FLUSHALL']) + frame(['ECHO', '--first--']));
    socket.write(commands.map((command) => frame(command) + frame(['NOSUCH', '--next--'])).join(''));
    socket.write(frame(['QUIT']));
    await until('all replies came', () => socket.closed || socket.readableEnded);
    const mark = /-ERR unknown command 'NOSUCH'[^\r]*\r\n/;
    return (text.split('--first--\r\n')[1] ?? '').split(mark).slice(0, -1);
  }
});

describe('times and bounds, by the clock of the store', () => {
  function open() {
    const store = new Store();
    const expired: string[] = [];
    store.onExpired = (key) => expired.push(key);
    return { store, expired };
  }

  it('a key lives through the last millisecond of its time, and its end is reported once', () => {
    const { store, expired } = open();
    store.put('k', 'v');
    store.setExpiry('k', 100);
    store.nowMs = 100;
    assert.equal(store.get('k'), 'v');
    store.nowMs = 101;
    store.loading = true;
    assert.equal(store.get('k'), 'v');
    store.loading = false;
    assert.deepEqual([store.get('k'), store.get('k'), expired], [undefined, undefined, ['k']]);
    store.put('k', 'v');
    store.nowMs = 1_000_000;
    store.sweep();
    assert.equal(store.get('k'), 'v');
  });

  it('the dump has the time of a key, and unwatched keys are forgotten', () => {
    const { store } = open();
    store.put('k', 'v');
    store.setExpiry('k', 100);
    assert.deepEqual(
      [...store.dump()],
      [
        ['SET', 'k', 'v'],
        ['PEXPIREAT', 'k', '100'],
      ],
    );
    const [one, two] = [0, 1].map(() => ({ keys: new Set<string>(), broken: false }));
    store.watch('k', one as Watch);
    store.watch('k', two as Watch);
    store.unwatch(one as Watch);
    store.put('k', 'w');
    assert.deepEqual([one?.broken, two?.broken], [false, true]);
  });

  it('ids of a stream only grow, also when the clock goes back', () => {
    const stream = new Stream();
    assert.deepEqual(
      [1_000, 1_000, 900, 1_001].map((nowMs) => stream.add('*', ['f', 'v'], nowMs)),
      ['1000-0', '1000-1', '1000-2', '1001-0'],
    );
  });

  it('what is claimed has been idle for its time, and is idle again for its next consumer', () => {
    const stream = new Stream();
    stream.createGroup('g', '0');
    const group = stream.groups.get('g') as Group;
    for (const id of ['1-0', '2-0', '3-0']) stream.add(id, ['f', id], 0);
    assert.equal(stream.read(group, 'one', 2, 1_000).length, 2);
    assert.deepEqual(
      stream.read(group, 'one', 2, 1_000).map(([id]) => id),
      ['3-0'],
    );
    const claim = (nowMs: number, from = '0-0', most = 10) => {
      const { next, claimed } = stream.claim(group, { consumer: 'two', idleMs: 500, from, most }, nowMs);
      return [next, ...claimed.map(([id]) => id)];
    };
    assert.deepEqual(claim(1_499), ['0-0']);
    assert.deepEqual(claim(1_500, '2-0', 1), ['3-0', '2-0']);
    assert.deepEqual(claim(1_999), ['0-0', '1-0', '3-0']);
    assert.deepEqual(claim(2_000), ['0-0', '2-0']);
    assert.deepEqual(
      [...group.consumers],
      [
        ['one', 1_000],
        ['two', 2_000],
      ],
    );
  });

  it('a claim looks at ten entries for each that it may have', () => {
    const stream = new Stream();
    stream.createGroup('g', '0');
    const group = stream.groups.get('g') as Group;
    for (let i = 1; i <= 25; i++) stream.add(`${i}-0`, ['f', 'v'], 0);
    stream.read(group, 'one', 25, 0);
    const { next } = stream.claim(group, { consumer: 'two', idleMs: 500, from: '0-0', most: 2 }, 0);
    assert.equal(next, '21-0');
  });
});
