/** Leases in Redis: their keys, lost answers, and a Redis that is full. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Dequeued } from '../../../lib/contract/result.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import type { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultLeases } from '../../../lib/redis/leases.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import type { Finished } from '../../../lib/results/store.ts';
import { enqueued } from '../../support/enqueue.ts';
import { PASS, startRedisProxy } from '../../support/faults/redis/proxy.ts';
import { directClient, PATIENT, redisUrl } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

function open(t: TestContext, url: string, timeouts: object = PATIENT) {
  const connection = openRedis(url, timeouts);
  const results = new ResultStore(connection, { job: 'job', ttlSeconds: 60, now: Date.now });
  t.after(() => results.close());
  return { results, redis: directClient(t, connection) };
}

function success(uri: string, value: number, message?: string): Finished {
  const data = Float32Array.of(value);
  const outputs = [{ name: 'y', dtype: 'float32', shape: [1], data } as const];
  return {
    uri,
    fields: serializeResult({ ok: true, outputs }, undefined),
    ...(message ? sentAs(message) : {}),
  };
}

/** `m2` was sent after `m1`. */
function sentAs(message: string): Pick<Finished, 'enqueue'> {
  return { enqueue: enqueued(message, Number(message.slice(1))) };
}

async function drained(results: ResultStore): Promise<string[]> {
  const found: string[] = [];
  for await (const dequeued of results.drain()) found.push(nameOf(dequeued));
  return found.sort();
}

function nameOf(dequeued: Dequeued): string {
  if ('error' in dequeued) return `${dequeued.uri} ${dequeued.error.code}`;
  return `${dequeued.uri} ${dequeued.result.outputs[0]?.data[0]}`;
}

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: every key has a time to live`, async (t) => {
    const { results, redis } = open(t, await redisUrl(t, preferEmbedded));
    await results.save([success('a', 1, 'm1'), success('plain', 1)], 'v');
    await results.take('a');
    await results.take('plain');
    const keys = await redis.keys('*');
    assert.ok(keys.length > 0);
    for (const key of keys) assert.ok((await redis.pttl(key)) > 0, key);
  });

  test(`${kind}: what was taken is gone with the next taking`, async (t) => {
    const { results, redis } = open(t, await redisUrl(t, preferEmbedded));
    await results.save([success('a', 1), success('b', 2)], 'v');
    const held = async () => (await redis.keys('cluster-serving-held*')).map((key) => key.at(-1));
    await results.take('a');
    assert.deepEqual(await held(), ['a']);
    await results.take('b');
    assert.deepEqual(await held(), ['b']);
    await results.take('never');
    assert.deepEqual(await held(), []);
  });

  test(`${kind}: results of the old server, cancellations and foreign keys are taken as before`, async (t) => {
    const { results, redis } = open(t, await redisUrl(t, preferEmbedded));
    await results.ping();
    await redis.hset('cluster-serving_job:old', 'value', '[[1,2.0]]');
    assert.deepEqual((await results.take('old'))?.filtered, [[1, 2]]);
    assert.equal(await redis.exists('cluster-serving_job:old'), 0);
    await redis.set('cluster-serving_job:foreign', 'x');
    await assert.rejects(results.take('foreign'), { code: 'results_unavailable' });
    assert.equal(await redis.get('cluster-serving_job:foreign'), 'x');
  });
}

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: what a drain puts back is listed, and lives as long as it had left`, async (t) => {
    const { results, redis } = open(t, await redisUrl(t, preferEmbedded));
    const all = Array.from({ length: 250 }, (_, i) => success(`r${i}`, i, `m${i}`));
    await results.save(all, 'v');
    let taken = 0;
    for await (const _ of results.drain()) if (++taken === 130) break;
    assert.equal(await redis.zcard('cluster-serving-index_job'), 120);
    const left = await redis.keys('cluster-serving_job:*');
    assert.equal(left.length, 120);
    for (const key of left) assert.ok((await redis.pttl(key)) > 50_000, key);
  });
}

test('a drain takes what is larger than a page, page by page', async (t) => {
  const { results } = open(t, await redisUrl(t));
  const value = 'x'.repeat(20 * 1024 * 1024);
  for (const uri of ['a', 'b', 'c']) {
    const fields = { status: 'succeeded', value: `["${value}"]`, error: '', outputs: '', exact: '' } as const;
    await results.save([{ uri, fields }], 'v');
  }
  const found: string[] = [];
  for await (const one of results.drain()) found.push(one.uri);
  assert.deepEqual(found, ['a', 'b', 'c']);
});

test('what cannot be put back is taken again by who has it', async (t) => {
  const url = await redisUrl(t);
  const proxy = await startRedisProxy(t, url);
  await open(t, url).results.save([success('a', 1, 'm1'), success('b', 2, 'm2')], 'v');
  const { results } = open(t, proxy.url);
  for await (const dequeued of results.drain()) {
    assert.equal(nameOf(dequeued), 'a 1');
    proxy.onConnect = () => 'reset';
    proxy.resetAll();
    break;
  }
  proxy.onConnect = () => 'pass';
  assert.deepEqual(await drained(results), ['b 2']);
});

test('what cannot be put back is not lost when the answer of the next taking is lost, too', async (t) => {
  const url = await redisUrl(t);
  const proxy = await startRedisProxy(t, url);
  await open(t, url).results.save([success('a', 1, 'm1'), success('b', 2, 'm2')], 'v');
  const { results } = open(t, proxy.url);
  for await (const dequeued of results.drain()) {
    assert.equal(nameOf(dequeued), 'a 1');
    proxy.onConnect = () => 'reset';
    proxy.resetAll();
    break;
  }
  proxy.onConnect = () => 'pass';
  let lost = 0;
  proxy.onCommand = ({ name }) => (name === 'EVAL' && lost++ === 0 ? { kind: 'cutReply', bytes: 0 } : PASS);
  assert.deepEqual(await drained(results), ['b 2']);
  assert.ok(lost >= 2);
});

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: who breaks off a drain whose taking was asked twice leaves the rest to everybody, for as long as it had`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const proxy = await startRedisProxy(t, url);
    const direct = open(t, url);
    await direct.results.save(
      Array.from({ length: 10 }, (_, i) => success(`r${i}`, i, `m${i}`)),
      'v',
    );
    let asked = 0;
    proxy.onCommand = ({ name }) =>
      name === 'EVAL' && asked++ === 0 ? { kind: 'cutReply', bytes: 0 } : PASS;
    const first: string[] = [];
    for await (const dequeued of open(t, proxy.url).results.drain()) {
      first.push(nameOf(dequeued));
      break;
    }
    assert.ok(asked >= 2);
    const keys = await direct.redis.keys('cluster-serving_job:*');
    assert.equal(keys.length, 9);
    for (const key of keys) {
      const left = await direct.redis.pttl(key);
      assert.ok(left > 30_000 && left <= 60_000, `${left} ms`);
      assert.deepEqual(
        (await direct.redis.hkeys(key)).sort(),
        ['finishedAt', 'identity', 'model', 'outputs', 'status', 'value'],
        'as it was saved',
      );
    }
    const rest = await drained(direct.results);
    assert.deepEqual(
      [...first, ...rest],
      Array.from({ length: 10 }, (_, i) => `r${i} ${i}`),
    );
  });

  test(`${kind}: what a taker without a note of its time has put aside can still be put back`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const proxy = await startRedisProxy(t, url);
    const direct = open(t, url);
    await direct.results.save([success('a', 1), success('b', 2)], 'v');
    // A full Redis has no memory for the note.
    const forget = async () => {
      for (const key of await direct.redis.keys('cluster-serving-held*'))
        await direct.redis.hdel(key, 'left');
    };
    proxy.onCommand = ({ name }) => (name === 'EVAL' ? { kind: 'cutReply', bytes: 0 } : PASS);
    const { results } = open(t, proxy.url);
    await assert.rejects(drained(results), { code: 'results_unavailable' });
    proxy.onCommand = () => PASS;
    await forget();
    for await (const dequeued of results.drain()) {
      assert.equal(nameOf(dequeued), 'a 1');
      break;
    }
    assert.ok((await direct.redis.pttl('cluster-serving_job:b')) > 0);
    assert.deepEqual(await drained(direct.results), ['b 2']);
  });
}

test('an answer that gets lost once is asked for again, and is whole', async (t) => {
  const url = await redisUrl(t);
  const proxy = await startRedisProxy(t, url);
  await open(t, url).results.save([success('a', 1, 'm1'), success('b', 2, 'm2')], 'v');
  let lost = 0;
  proxy.onCommand = ({ name }) => (name === 'EVAL' && lost++ === 0 ? { kind: 'cutReply', bytes: 5 } : PASS);
  assert.deepEqual(await drained(open(t, proxy.url).results), ['a 1', 'b 2']);
  assert.ok(lost >= 2);
});

test('answers that do not come for a while, on a connection that stays, lose no result, neither a page nor a single one', async (t) => {
  const url = await redisUrl(t);
  const proxy = await startRedisProxy(t, url);
  const writer = open(t, url).results;
  await writer.save([success('single', 1, 'm0')], 'v');
  // A muted answer is waited for.
  const { results } = open(t, proxy.url, {});
  proxy.onCommand = ({ name }) => (name === 'EVAL' ? { kind: 'mute' } : PASS);
  await assert.rejects(results.take('single'), { code: 'results_unavailable' });
  await assert.rejects(results.take('single'), { code: 'results_unavailable' });
  proxy.onCommand = () => PASS;
  assert.equal((await results.take('single'))?.outputs[0]?.data[0], 1);
  assert.equal(await results.take('single'), undefined);

  await writer.save([success('a', 1, 'm1'), success('b', 2, 'm2')], 'v');
  proxy.onCommand = ({ name }) => (name === 'EVAL' ? { kind: 'mute' } : PASS);
  await assert.rejects(drained(results), { code: 'results_unavailable' });
  proxy.onCommand = () => PASS;
  await writer.save([success('c', 3, 'm3')], 'v');
  assert.deepEqual(await drained(results), ['a 1', 'b 2', 'c 3']);
  assert.deepEqual(await drained(results), []);
});

test('a result of a uri that was used again is the new one, whatever became of the answer before', async (t) => {
  const url = await redisUrl(t);
  const proxy = await startRedisProxy(t, url);
  const writer = open(t, url).results;
  const { results } = open(t, proxy.url);
  await writer.save([success('a', 1, 'm1')], 'v');
  assert.ok(await results.take('a'));
  await writer.save([success('a', 2, 'm2')], 'v');
  let lost = 0;
  proxy.onCommand = ({ name }) => (name === 'EVAL' && lost++ === 0 ? { kind: 'cutReply', bytes: 0 } : PASS);
  assert.equal((await results.take('a'))?.outputs[0]?.data[0], 2);
});

test('a full Redis is emptied by taking from it', async (t) => {
  const { results, redis } = open(t, await redisUrl(t));
  await results.save([success('a', 1, 'm1'), success('b', 2, 'm2')], 'v');
  const isReal = /used_memory/.test(await redis.info('memory')) && !(await isEmbedded(redis));
  if (!isReal) return t.skip('the embedded Redis has no limit of memory');
  await redis.config('SET', 'maxmemory', '1');
  await assert.rejects(results.save([success('c', 3, 'm3')], 'v'), /OOM/);
  assert.deepEqual(await drained(results), ['a 1', 'b 2']);
  await redis.config('SET', 'maxmemory', '0');
  await until(async () => (await results.save([success('d', 4)], 'v')) === 1);
});

async function isEmbedded(redis: RedisConnection['redis']): Promise<boolean> {
  return /embedded|cluster-serving/i.test(await redis.info('server'));
}

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: a result that is put back stays away when a later one was taken meanwhile, and is listed for as long as it lives otherwise`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const { results, redis } = open(t, url);
    const connection = openRedis(url, PATIENT);
    t.after(() => connection.close());
    const leases = new ResultLeases(connection, 'job');
    await results.save([success('a', 1, 'm1'), success('b', 1, 'm1')], 'v');
    const leased = await leases.take(['a', 'b']);
    await results.save([success('a', 2, 'm2')], 'v');
    assert.equal((await results.take('a'))?.outputs[0]?.data[0], 2);
    assert.equal(await redis.exists('cluster-serving-index_job'), 0);
    await leases.release(leased);
    assert.equal(await results.get('a'), undefined);
    assert.equal((await results.get('b'))?.outputs[0]?.data[0], 1);
    const left = await redis.pttl('cluster-serving-index_job');
    assert.ok(left > 30_000 && left <= 60_000, `${left} ms`);
    assert.deepEqual(await drained(results), ['b 1']);
  });
}
