/** Results in Redis: its keys, its connection, and what it answers. test/lib/results asks for what a store promises. */
import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { Timers } from '../../../lib/metrics/timers.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { directClient, PATIENT, redisUrl } from '../../support/redis.ts';

function store(t: TestContext, url: string, timeouts: object = PATIENT) {
  const connection = openRedis(url, timeouts);
  const results = new ResultStore(connection, { job: 'job', ttlSeconds: 60, now: Date.now });
  t.after(() => results.close());
  return { results, redis: directClient(t, connection) };
}

const tensor = (...values: number[]): Tensor => ({
  dtype: 'float32',
  shape: [values.length],
  data: Float32Array.from(values),
});
const success = (uri: string, ...values: number[]) => ({
  uri,
  fields: serializeResult({ ok: true, outputs: [{ name: 'y', ...tensor(...values) }] }, undefined),
});
const failure = (uri: string, message: string) => ({
  uri,
  fields: serializeResult({ ok: false, error: new ServingError('bad_input', message) }, undefined),
});

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: every key that is written has a time to live`, async (t) => {
    const { results, redis } = store(t, await redisUrl(t, preferEmbedded));
    const timers = new Timers();
    timers.record('zoo.serving.redis.put', 5);
    await results.save([success('a', 1), failure('b', 'x')], 'v', timers);
    const keys = await redis.keys('*');
    assert.deepEqual(keys.sort(), [
      'cluster-serving-index_job',
      'cluster-serving-metrics_job',
      'cluster-serving-newest_job:a',
      'cluster-serving-newest_job:b',
      'cluster-serving_job:a',
      'cluster-serving_job:b',
    ]);
    for (const key of keys) assert.ok((await redis.pttl(key)) > 0, key);
  });
}

test('what old clients read of texts and of filters is JSON', async (t) => {
  const { results, redis } = store(t, await redisUrl(t));
  const texts = [{ name: 'y', dtype: 'string' as const, shape: [2], data: ['héllo', 'a|b'] }];
  const outputs = [{ name: 'y', ...tensor(3, 4, 5) }];
  await results.save(
    [
      { uri: 'a', fields: serializeResult({ ok: true, outputs: texts }, undefined) },
      { uri: 'b', fields: serializeResult({ ok: true, outputs }, { kind: 'topN', n: 2 }) },
    ],
    'v',
  );
  assert.equal(await redis.hget('cluster-serving_job:a', 'value'), '{"data":["héllo","a|b"],"shape":[2]}');
  assert.equal(await redis.hget('cluster-serving_job:b', 'value'), '[[2,5.0],[1,4.0]]');
});

/** A server that takes connections and never answers: what a frozen function finds of its old connection. */
async function silentServer(t: TestContext): Promise<string> {
  const server: Server = createServer(() => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === 'object' && address);
  return `redis://:secret@127.0.0.1:${address.port}`;
}

test('a Redis that is away or silent is results_unavailable, without the password in the message', async (t) => {
  const away = store(t, 'redis://:secret@127.0.0.1:1').results;
  await assert.rejects(away.get('a'), (error: ServingError) => {
    assert.equal(error.code, 'results_unavailable');
    assert.doesNotMatch(error.message, /secret/);
    return true;
  });
  const connection = openRedis(await silentServer(t), {
    connectTimeoutMs: 50,
    commandTimeoutMs: 50,
  });
  const silent = new ResultStore(connection, { job: 'job', ttlSeconds: 1, now: Date.now });
  t.after(() => silent.close());
  await assert.rejects(silent.get('a'), { code: 'results_unavailable' });
});

test('a connection that Redis closed is opened again by the next command', async (t) => {
  const { results, redis } = store(t, await redisUrl(t));
  await results.save([success('a', 1)], 'v');
  redis.disconnect();
  assert.ok(await results.get('a'));
  await results.save([success('b', 1)], 'v');
  assert.ok(await results.get('b'));
});

test('wait keeps to its time and its signal also when Redis is away or silent', async (t) => {
  for (const url of ['redis://127.0.0.1:1', await silentServer(t)]) {
    const { results } = store(t, url, {});
    const startedAt = performance.now();
    await assert.rejects(results.wait('a', { timeoutMs: 200 }), (error: ServingError) => {
      assert.ok(error.code === 'timeout' || error.code === 'results_unavailable', error.code);
      return true;
    });
    const signal = AbortSignal.timeout(100);
    await assert.rejects(results.wait('a', { timeoutMs: 60_000, signal }), (error: Error) => {
      assert.ok(
        error.name === 'TimeoutError' || (error as ServingError).code === 'results_unavailable',
        error.name,
      );
      return true;
    });
    // Far below the seconds that connecting may take: a limit for "keeps to its time", not a measurement.
    assert.ok(performance.now() - startedAt < 10_000);
  }
});

test('an answer of Redis that says no does not cost the others their connection', async (t) => {
  const { results, redis } = store(t, await redisUrl(t));
  await results.save([success('good', 1)], 'v');
  await redis.set('cluster-serving_job:poison', 'no hash');
  const [poison, good] = await Promise.allSettled([results.get('poison'), results.get('good')]);
  assert.equal(poison.status, 'rejected');
  assert.match(String(poison.status === 'rejected' && poison.reason), /WRONGTYPE/);
  assert.equal(good.status, 'fulfilled');
  assert.equal(redis.status, 'ready');
});
