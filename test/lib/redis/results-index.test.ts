/** The index of finished results: what is expired leaves it little by little. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { indexKey, resultKey } from '../../../lib/contract/names.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { SLOTS } from '../../../lib/redis/cluster/slots.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultIndex } from '../../../lib/redis/result-index.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';
import { nextMs } from '../results/conformance/records.ts';

const JOB = 'job';
const EXPIRED = 5_000;

const success = (uri: string) => {
  const output = { name: 'y', dtype: 'float32', shape: [1], data: Float32Array.of(1) } as const;
  return { uri, fields: serializeResult({ ok: true, outputs: [output] }, undefined) };
};

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: no saving takes more than a thousand expired entries off the index, and the next ones take the rest`, async (t) => {
    const connection = new RedisConnection(await redisUrl(t, preferEmbedded), PATIENT);
    const results = new ResultStore(connection, { job: JOB, ttlSeconds: 60, now: Date.now });
    t.after(() => results.close());
    await results.save([success('kept')], 'v');
    const { redis } = connection;
    const expired = Array.from({ length: EXPIRED }, (_, i) => [1_000 + i, `gone-${i}`]).flat();
    await redis.zadd(indexKey(JOB), ...(expired as [number, string]));
    let before = EXPIRED;
    let savings = 0;
    while (before > 0) {
      const uri = `fresh-${savings++}`;
      await results.save([success(uri)], 'v');
      const left = await redis.zcount(indexKey(JOB), '-inf', 1_000 + EXPIRED);
      const taken = before - left;
      assert.ok(taken > 0 && taken <= 1_002, `${taken} were taken off`);
      before = left;
    }
    assert.ok(savings >= 5, `${savings} savings`);
    const uris = await redis.zrange(indexKey(JOB), '0', '-1');
    assert.deepEqual(
      uris.toSorted(),
      ['kept', ...Array.from({ length: savings }, (_, i) => `fresh-${i}`)].toSorted(),
    );
  });

  test(`${kind}: a page that is released keeps its order, however long it takes to move`, async (t) => {
    const connection = new RedisConnection(await redisUrl(t, preferEmbedded), PATIENT);
    const results = new ResultStore(connection, { job: JOB, ttlSeconds: 60, now: Date.now });
    t.after(() => results.close());
    const uris = [300, 200, 100].flatMap((from) => Array.from({ length: 30 }, (_, i) => `r${from + i}`));
    for (let first = 0; first < uris.length; first += 30) {
      await results.save(uris.slice(first, first + 30).map(success), 'v');
      await nextMs();
    }
    const seen: string[] = [];
    for (let round = 0; round < 20; round += 1) {
      for await (const { uri } of results.drain()) {
        seen.push(uri);
        break;
      }
    }
    for await (const { uri } of results.drain()) seen.push(uri);
    assert.deepEqual(seen, uris);
  });

  test(`${kind}: a large batch takes more expired entries off the index than it adds`, async (t) => {
    const connection = new RedisConnection(await redisUrl(t, preferEmbedded), PATIENT);
    const results = new ResultStore(connection, { job: JOB, ttlSeconds: 60, now: Date.now });
    t.after(() => results.close());
    await results.ping();
    const expired = Array.from({ length: EXPIRED }, (_, i) => [1_000 + i, `gone-${i}`]).flat();
    await connection.redis.zadd(indexKey(JOB), ...(expired as [number, string]));
    await results.save(
      Array.from({ length: 900 }, (_, i) => success(`fresh-${i}`)),
      'v',
    );
    const left = await connection.redis.zcount(indexKey(JOB), '-inf', 1_000 + EXPIRED);
    assert.equal(EXPIRED - left, 2 * 900 + 1_000);
  });
}

/** Cluster mode with one node, which has every slot and says so as a node of a cluster would. */
async function clusterOfOne(t: TestContext) {
  t.mock.method(Redis.prototype, 'cluster', async function (this: Redis) {
    return [[0, SLOTS - 1, ['', this.options.port]]];
  });
  const connection = openRedis(`${await redisUrl(t)}?cluster=on`, PATIENT);
  assert.equal(connection.isCluster, true);
  const results = new ResultStore(connection, { job: JOB, ttlSeconds: 60, now: Date.now });
  t.after(() => results.close());
  await connection.open();
  return { connection, results, index: new ResultIndex(connection, JOB) };
}

test('in cluster mode each result is in the index of its slot, listed once, and taken once', async (t) => {
  const { connection, results } = await clusterOfOne(t);
  const { redis } = connection;
  // Most have a slot of their own, and some share one.
  const uris = [...Array.from({ length: 600 }, (_, i) => `r-${i}`), 'a{b}', 'c{b}', '{b}'];
  assert.equal(await results.save(uris.map(success), 'v'), uris.length);
  const homes = new Set(uris.map((uri) => connection.home(JOB, uri)));
  assert.deepEqual(new Set(await redis.zrange(indexKey(JOB), '0', '-1')), homes);
  const ttlMs = await redis.pttl(indexKey(JOB));
  assert.ok(ttlMs > 50_000 && ttlMs <= 60_000, `${ttlMs}`);
  const shared = indexKey(connection.home(JOB, '{b}'));
  assert.deepEqual((await redis.zrange(shared, '0', '-1')).sort(), ['a{b}', 'c{b}', '{b}']);
  const drained: string[] = [];
  for await (const { uri } of results.drain()) drained.push(uri);
  assert.deepEqual(drained.sort(), uris.sort());
});

test('in cluster mode a slot without results leaves the list a minute after it was listed last', async (t) => {
  const { connection, results, index } = await clusterOfOne(t);
  const { redis } = connection;
  await results.save(['kept', 'old', 'new'].map(success), 'v');
  for (const uri of ['old', 'new']) await results.take(uri);
  const [kept = '', old = '', fresh = ''] = ['kept', 'old', 'new'].map((uri) => connection.home(JOB, uri));
  const [now = 0] = await redis.time();
  const at = (secondsAgo: number) => (now - secondsAgo) * 1_000;
  await redis.zadd(indexKey(JOB), at(3_600), kept, at(90), old, at(30), fresh);
  const pages = index.pages(10, 1_000);
  assert.deepEqual((await pages.next()).value, ['kept']);
  await results.take('kept');
  await pages.next();
  assert.deepEqual(await redis.zrange(indexKey(JOB), '0', '-1'), [fresh]);
});

test('in cluster mode a page fails where its slots cannot be taken off the list', async (t) => {
  const { connection, results, index } = await clusterOfOne(t);
  await results.save(['kept', 'old'].map(success), 'v');
  await results.take('old');
  const list = indexKey(JOB);
  const [now = 0] = await connection.redis.time();
  await connection.redis.zadd(list, (now - 90) * 1_000, connection.home(JOB, 'old'));
  const use = connection.use.bind(connection);
  let calls = 0;
  connection.use = async (work, repeatable, key = '') => {
    if (key === list) calls++;
    if (calls < 2) return use(work, repeatable, key);
    await nextTurn();
    throw connection.unavailable(new Error('the node of the list is away'));
  };
  await assert.rejects(index.pages(10, 1_000).next(), { code: 'results_unavailable', message: /is away/ });
});

test('in cluster mode a page has the first to expire first, no more uris and no more bytes than asked for', async (t) => {
  const { connection, index } = await clusterOfOne(t);
  const { redis } = connection;
  const sizes = { a: 10, b: 20, c: 30, d: 100, e: 5 };
  const pagesOf = async (count: number, maxBytes: number) => {
    for (const [i, [uri, size]] of Object.entries(sizes).entries()) {
      const home = connection.home(JOB, uri);
      await redis.zadd(indexKey(JOB), Date.now(), home);
      await redis.zadd(indexKey(home), i, uri);
      // Stored with the three fields that a client gets.
      await redis.hset(resultKey(JOB, uri), {
        value: 'x'.repeat(size - 2),
        exact: 'x',
        error: 'x',
        model: 'xx',
      });
    }
    const found: string[] = [];
    for await (const page of index.pages(count, maxBytes)) {
      found.push(page.join(''));
      for (const uri of page) await redis.zrem(indexKey(connection.home(JOB, uri)), uri);
    }
    return found;
  };
  assert.deepEqual(await pagesOf(10, 1_000), ['abcde']);
  assert.deepEqual(await pagesOf(2, 1_000), ['ab', 'cd', 'e']);
  assert.deepEqual(await pagesOf(10, 60), ['abc', 'd', 'e']);
  assert.deepEqual(await pagesOf(10, 59), ['ab', 'c', 'd', 'e']);
});

test('in cluster mode a result is not written before its slot is listed, and not at all where that fails', async (t) => {
  const { connection, results } = await clusterOfOne(t);
  const list = indexKey(JOB);
  const use = connection.use.bind(connection);
  const calls: string[] = [];
  let isAway = false;
  connection.use = async (work, repeatable, key = '') => {
    calls.push(key === list ? 'listing' : 'writing');
    if (key === list && isAway) {
      await nextTurn();
      throw connection.unavailable(new Error('the node of the list is away'));
    }
    const done = await use(work, repeatable, key);
    calls.push(key === list ? 'listed' : 'written');
    return done;
  };
  assert.equal(await results.save([success('a')], 'v'), 1);
  assert.deepEqual(calls.splice(0), ['listing', 'listed', 'writing', 'written']);
  isAway = true;
  await assert.rejects(results.save([success('b')], 'v'), {
    code: 'results_unavailable',
    message: /is away/,
  });
  assert.deepEqual(calls, ['listing']);
});
