/**
 * The rules of infra/template/redis-access.ts in a real redis-server: enough for all that the service does in Redis, and for
 * nothing of another job or stage.
 */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { before, describe, test } from 'node:test';
import type { Redis } from 'ioredis';
import { accessRules, redisUser } from '../../infra/template/redis-access.ts';
import * as names from '../../lib/contract/names.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { Timers } from '../../lib/metrics/timers.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { RateLimiter } from '../../lib/redis/rate-limiter.ts';
import { RecordStates } from '../../lib/redis/record-states.ts';
import { ResultReplacer } from '../../lib/redis/replace-result.ts';
import { ResultStore } from '../../lib/redis/results.ts';
import { StoredRunCounts } from '../../lib/redis/run-counts.ts';
import { StoredSums } from '../../lib/redis/sums.ts';
import { serializeResult } from '../../lib/results/fields.ts';
import { enqueued } from '../support/enqueue.ts';
import { type ProtectedRedis, protectedRedis } from '../support/protected-redis.ts';
import type { Hooks } from '../support/runner.ts';

/** Each name is the start, the end or a part of another. */
const JOBS = ['job', 'images@dev', 'images@prod', 'mages@dev', 'images2@dev', 'my_images@dev'];
const OUTPUT: NamedTensor = { name: 'y', dtype: 'float32', shape: [1], data: new Float32Array(1) };
const succeeded = serializeResult({ ok: true, outputs: [OUTPUT] }, undefined);

function signedIn(t: Hooks, { url }: ProtectedRedis, job: string): RedisConnection {
  const connection = new RedisConnection(url, { signIn: { username: job, password: () => `of ${job}` } });
  t.after(() => connection.close());
  return connection;
}

/** All that the service does in Redis. */
async function flow(t: Hooks, connection: RedisConnection, job: string): Promise<void> {
  const settings = { job, ttlSeconds: 60, retentionSeconds: 60, now: Date.now };
  const results = new ResultStore(connection, settings);
  t.after(() => results.close());
  const states = new RecordStates(connection, { job, now: Date.now });
  const limiter = new RateLimiter(connection, {
    job,
    tokensPerSecond: 1000,
    acquireTimeoutMs: 1000,
    sleep: async () => undefined,
    onError: (error) => {
      throw error;
    },
  });
  await limiter.acquire();
  await results.ping();
  await states.announce({ uri: 'u', identity: 'one', message: 'm' });
  await states.markRunning([{ uri: 'u', enqueue: enqueued('one') }], 1000);
  assert.equal(await states.status('u'), 'running');
  const waited = results.wait('u', { timeoutMs: 10_000 });
  const timers = new Timers();
  timers.record('zoo.serving.redis.put', 1);
  await results.save([{ uri: 'u', enqueue: enqueued('one'), fields: succeeded }], 'v', timers);
  await results.save([{ uri: 'taken', enqueue: enqueued('six'), fields: succeeded }], 'v');
  assert.equal((await waited).uri, 'u');
  assert.equal((await results.get('u'))?.uri, 'u');
  assert.ok((await results.metrics()).length > 0);
  assert.equal(await states.cancel('never-sent').catch(() => false), true);
  assert.equal((await results.take('taken'))?.uri, 'taken');
  const page = await results.takePage(10);
  assert.deepEqual(page?.map(({ uri }) => uri).sort(), ['never-sent', 'u']);
  await (await states.announce({ uri: 'w', identity: 'two', message: 'm' })).withdraw();
  const replacer = new ResultReplacer(connection, settings);
  const record = { uri: 'r', enqueue: enqueued('three', 1, 1), message: 'm' };
  await states.announce({ uri: 'r', identity: 'three', message: 'm' });
  assert.equal(await replacer.store(record, succeeded, 'v'), 'replaced');
  assert.equal((await replacer.outcomes(['r'])).length, 1);
  const runs = new StoredRunCounts(connection, { job, retentionSeconds: 60, most: 5 });
  const again = { uri: 'again', enqueue: enqueued('five'), attempts: 2 };
  await runs.begin([again]);
  assert.deepEqual(await runs.read([again]), [1]);
  await runs.takeBack([again]);
  assert.deepEqual(await runs.read([again]), [0]);
  const trials = new StoredSums(connection, { job, kind: 'trial' });
  for (const failed of [1, 2]) await trials.add('v2 since', new Map(Object.entries({ failed, answered: 3 })));
  assert.deepEqual(Object.fromEntries(await trials.read('v2 since')), { failed: 3, answered: 6 });
  const costs = new StoredSums(connection, { job, kind: 'budget' });
  assert.deepEqual(await costs.add('2026-11', new Map([['29', 0.5]])), new Map([['29', 0.5]]));
  // A result for the others to try to read.
  await results.save([{ uri: 'kept', enqueue: enqueued('four'), fields: succeeded }], 'v');
}

/** The keys and the channel of a job, made by every function of names.ts that makes one. */
function keysOf(job: string): { readonly keys: readonly string[]; readonly channels: readonly string[] } {
  const makers = Object.entries(names).filter(([name]) => /Key$|Channel$/.test(name));
  const made = makers.flatMap(([, make]) => {
    const key =
      typeof make === 'function' ? String((make as (...texts: string[]) => unknown)(job, 'kept', 'x')) : '';
    return key.startsWith('cluster-serving') ? [key] : [];
  });
  const isChannel = (key: string) => key === names.doneChannel(job, 'kept');
  return { keys: made.filter((key) => !isChannel(key)), channels: made.filter(isChannel) };
}

describe('six jobs and stages on one Redis', () => {
  const cleanups: (() => Promise<void>)[] = [];
  const hooks: Hooks = { after: (hook) => void cleanups.push(hook) };
  let server: ProtectedRedis | undefined;

  before(async () => {
    server = await protectedRedis(hooks);
    for (const job of JOBS) await server?.setUser(job, accessRules(job), `of ${job}`);
  });
  test.after(async () => {
    for (const cleanup of cleanups.toReversed()) await cleanup();
  });

  test('each does all that the service does, at the same time', async (t) => {
    if (!server) return t.skip('no redis-server on this machine');
    const redis = server;
    await Promise.all(JOBS.map((job) => flow(hooks, signedIn(hooks, redis, job), job)));
    const keys = await server.admin.keys('*');
    assert.deepEqual(
      keys.filter((key) => !JOBS.some((job) => key.includes(`_${job}:`) || key.endsWith(`_${job}`))),
      [],
    );
  });

  test('none reads, writes, hears or lists anything of another, by a command or by a script', async (t) => {
    if (!server) return t.skip('no redis-server on this machine');
    for (const job of JOBS) {
      const connection = signedIn(hooks, server, job);
      const refuses = (what: string, work: (redis: Redis) => Promise<unknown>) =>
        assert.rejects(
          connection.use(work, false),
          { message: /NOPERM|permission|user executing the script can't/ },
          `${job}: ${what}`,
        );
      for (const other of JOBS.filter((one) => one !== job)) {
        const { keys, channels } = keysOf(other);
        assert.deepEqual([keys.length, channels.length], [11, 1], String(keys));
        for (const key of keys) {
          await refuses(`reads ${key}`, (redis) => redis.hgetall(key));
          await refuses(`writes ${key}`, (redis) => redis.set(key, ''));
          await refuses(`deletes ${key}`, (redis) => redis.del(key));
          await refuses(`by script ${key}`, (redis) =>
            redis.eval(`return redis.call('GET', KEYS[1])`, 1, key),
          );
          await refuses(`by hidden key ${key}`, (redis) =>
            redis.eval(`return redis.call('DEL', '${key}')`, 0),
          );
        }
        for (const channel of channels) {
          await refuses(`publishes ${channel}`, (redis) => redis.publish(channel, ''));
          await refuses(`by script ${channel}`, (redis) =>
            redis.eval(`return redis.call('PUBLISH', '${channel}', '')`, 0),
          );
          const subscriber = await connection.subscriber(() => undefined);
          await assert.rejects(subscriber.subscribe(channel), { message: /NOPERM/ });
          await assert.rejects(subscriber.psubscribe('*'), { message: /NOPERM/ });
          subscriber.disconnect();
        }
      }
      await refuses('keys', (redis) => redis.keys('*'));
      await refuses('scan', (redis) => redis.scan(0));
      await refuses('config', (redis) => redis.config('GET', '*'));
      await refuses('flushall', (redis) => redis.flushall());
    }
  });

  test('of all commands of this Redis, the user may run those on keys, and few others', async (t) => {
    if (!server) return t.skip('no redis-server on this machine');
    const { admin } = server;
    const version = /redis_version:(\d+)/.exec(await admin.info('server'))?.[1];
    if (Number(version) < 7) return t.skip('ACL DRYRUN needs Redis 7');
    const foreign = names.resultKey('images@prod', 'kept');
    const commands = (await admin.call('COMMAND', 'LIST')) as string[];
    assert.ok(commands.length > 200);
    const allowed: string[] = [];
    for (const command of commands) {
      const [info] = (await admin.call('COMMAND', 'INFO', command)) as [unknown[]];
      const subcommands = ((info?.[9] ?? []) as [string, number][]).map(
        ([name, arity]) => [name.split('|'), arity] as const,
      );
      const whole = [[command], Number(info?.[1])] as const;
      for (const [words, arity] of subcommands.length > 0 ? subcommands : [whole]) {
        const least = Math.abs(arity) - words.length;
        // A number of keys may be asked for in the first or the second place.
        for (const count of ['0', '1', foreign])
          for (const length of [least, least + 1, least + 3]) {
            const rest = Array.from({ length }, (_, i) => (i < 2 ? count : foreign));
            const dryRun = admin.call('ACL', 'DRYRUN', 'images@dev', ...words, ...rest);
            if ((await dryRun.catch(String)) === 'OK') allowed.push(words.join(' '));
          }
      }
    }
    // Those before signing in, those without a key, and EVAL, which checks the keys that its script uses.
    const expected = 'auth eval evalsha exec hello info multi ping quit reset time unsubscribe';
    assert.deepEqual([...new Set(allowed)].sort(), expected.split(' '));
  });
});

test('a user may run every command of the scripts', async () => {
  const folder = new URL('../../lib/redis/', import.meta.url);
  const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.ts'));
  const texts = await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')));
  const called = texts.flatMap((text) => [...text.matchAll(/call\('([A-Z]+)'/g)].map(([, name]) => name));
  assert.ok(called.length > 50);
  const rules = accessRules('job');
  assert.deepEqual(
    called.filter((name) => !rules.includes(`+${name?.toLowerCase()}`)),
    [],
  );
});

test('a user has an id that ElastiCache accepts, and another in each stack', () => {
  const ids = ['shared-redis-dev', 'shared-redis-prod', 'cluster-serving'].flatMap((stack) =>
    JOBS.map((job) => redisUser(stack, job)),
  );
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[a-z][a-z0-9-]{1,39}$/);
});
