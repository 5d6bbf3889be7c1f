import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { allocate, type NumericDType, type Tensor } from '../../../lib/contract/tensor.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import { Timers } from '../../../lib/metrics/timers.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { directClient, PATIENT, redisUrl } from '../../support/redis.ts';

function store(
  t: TestContext,
  url: string,
  options: { job?: string; ttlSeconds?: number; now?: () => number; timeouts?: object } = {},
) {
  const { job = 'job', ttlSeconds = 60, now = Date.now, timeouts = PATIENT } = options;
  const connection = openRedis(url, timeouts);
  const results = new ResultStore(connection, { job, ttlSeconds, now });
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

  test(`${kind}: a result is read back with its name, shape, model and time`, async (t) => {
    const { results } = store(t, await redisUrl(t, preferEmbedded), { now: () => 1_700_000_000_000 });
    await results.save([success('a', 1, 2)], 'v1');
    const result = await results.get('a');
    assert.deepEqual(result?.outputs, [{ name: 'y', ...tensor(1, 2) }]);
    assert.deepEqual([result?.model, result?.finishedAt], ['v1', 1_700_000_000_000]);
  });

  test(`${kind}: the first result of a uri stays, whole`, async (t) => {
    const { results } = store(t, await redisUrl(t, preferEmbedded));
    assert.equal(await results.save([success('a', 1), success('a', 2)], 'v1'), 1);
    assert.equal(await results.save([failure('a', 'late'), success('b', 3)], 'v2'), 1);
    assert.deepEqual((await results.get('a'))?.outputs[0]?.data, Float32Array.of(1));
    assert.equal((await results.get('a'))?.model, 'v1');
    assert.equal((await results.get('b'))?.model, 'v2');
  });

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

  test(`${kind}: a failed record throws its own error, and an absent one is undefined`, async (t) => {
    const { results } = store(t, await redisUrl(t, preferEmbedded));
    await results.save([failure('bad', 'input "x": expected [2], got [3]')], 'v');
    await assert.rejects(results.get('bad'), {
      code: 'bad_input',
      uri: 'bad',
      message: 'input "x": expected [2], got [3]',
    });
    assert.equal(await results.get('nobody'), undefined);
  });

  test(`${kind}: two who dequeue at once share the results, each goes to one of them`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const one = store(t, url).results;
    const two = store(t, url).results;
    const uris = Array.from({ length: 250 }, (_, i) => `uri-${i}`);
    await one.save(
      uris.map((uri, i) => (i % 10 === 0 ? failure(uri, 'bad') : success(uri, i))),
      'v',
    );
    const drain = async (results: ResultStore) => {
      const seen: string[] = [];
      for await (const { uri } of results.drain()) seen.push(uri);
      return seen;
    };
    const [first, second] = await Promise.all([drain(one), drain(two)]);
    assert.deepEqual([...first, ...second].sort(), uris.sort());
  });

  test(`${kind}: wait hears of a result that comes later, and finds one that was there`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const reader = store(t, url).results;
    const writer = store(t, url).results;
    const waiting = reader.wait('late', { timeoutMs: 10_000 });
    await writer.save([success('late', 7)], 'v');
    assert.deepEqual((await waiting).outputs[0]?.data, Float32Array.of(7));
    assert.deepEqual((await reader.wait('late', { timeoutMs: 5_000 })).outputs[0]?.data, Float32Array.of(7));
  });
}

test('wait ends with timeout, with the reason of its signal, and with the failure of the record', async (t) => {
  const { results } = store(t, await redisUrl(t));
  await assert.rejects(results.wait('never', { timeoutMs: 30 }), { code: 'timeout', uri: 'never' });
  const controller = new AbortController();
  const waiting = results.wait('never', { timeoutMs: 10_000, signal: controller.signal });
  controller.abort(new Error('enough'));
  await assert.rejects(waiting, { message: 'enough' });
  await results.save([failure('bad', 'no')], 'v');
  await assert.rejects(results.wait('bad', { timeoutMs: 30_000 }), { code: 'bad_input', uri: 'bad' });
});

test('take gives the result once', async (t) => {
  const { results } = store(t, await redisUrl(t));
  await results.save([success('a', 1)], 'v');
  assert.ok(await results.take('a'));
  assert.equal(await results.take('a'), undefined);
  assert.equal(await results.get('a'), undefined);
});

test('a result that cannot be used is there for the next who asks, and is dequeued', async (t) => {
  const { results } = store(t, await redisUrl(t));
  await results.save([success('a', 1)], 'v');
  const use = () => {
    throw new ServingError('too_large', 'no answer is that large');
  };
  await assert.rejects(results.take('a', { use }), { code: 'too_large' });
  assert.deepEqual((await results.get('a'))?.outputs[0]?.data, Float32Array.of(1));
  assert.deepEqual(
    (await results.takePage(10))?.map(({ uri }) => uri),
    ['a'],
  );
});

test('one job does not see the results of another', async (t) => {
  const url = await redisUrl(t);
  const one = store(t, url, { job: 'one' }).results;
  const two = store(t, url, { job: 'two' }).results;
  await one.save([success('a', 1)], 'v');
  assert.equal(await two.get('a'), undefined);
  assert.equal(await two.takePage(10), undefined);
  assert.ok(await one.get('a'));
});

for (const dtype of ['int64', 'float64', 'uint8', 'bool', 'float16'] as NumericDType[]) {
  test(`a ${dtype} output comes back exactly, though the old wire is float32`, async (t) => {
    const { results } = store(t, await redisUrl(t));
    const data = allocate(dtype, 2);
    data[0] = (dtype === 'int64' ? 9_007_199_254_740_993n : dtype === 'float64' ? 0.1 : 1) as never;
    const outputs = [{ name: 'y', dtype, shape: [1, 2], data }];
    await results.save([{ uri: 'a', fields: serializeResult({ ok: true, outputs }, undefined) }], 'v');
    assert.deepEqual((await results.get('a'))?.outputs, outputs);
  });
}

test('a text output comes back as it left, and its stored value is JSON', async (t) => {
  const { results, redis } = store(t, await redisUrl(t));
  const outputs = [{ name: 'y', dtype: 'string' as const, shape: [2], data: ['héllo', 'a|b'] }];
  await results.save([{ uri: 'a', fields: serializeResult({ ok: true, outputs }, undefined) }], 'v');
  assert.deepEqual((await results.get('a'))?.outputs, outputs);
  assert.equal(await redis.hget('cluster-serving_job:a', 'value'), '{"data":["héllo","a|b"],"shape":[2]}');
});

test('a filter text comes back parsed', async (t) => {
  const { results, redis } = store(t, await redisUrl(t));
  const outcome = { ok: true as const, outputs: [{ name: 'y', ...tensor(3, 4, 5) }] };
  await results.save([{ uri: 'a', fields: serializeResult(outcome, { kind: 'topN', n: 2 }) }], 'v');
  assert.deepEqual((await results.get('a'))?.filtered, [
    [2, 5],
    [1, 4],
  ]);
  assert.equal(await redis.hget('cluster-serving_job:a', 'value'), '[[2,5.0],[1,4.0]]');
});

test('a uri may hold a colon, a star, a slash or any script', async (t) => {
  const { results } = store(t, await redisUrl(t));
  for (const uri of ['a:b', '*', '../x', '画像 1', 'a b']) {
    await results.save([success(uri, uri.length)], 'v');
    assert.equal((await results.get(uri))?.outputs[0]?.data[0], uri.length);
  }
});

test('measurements of two environments add up', async (t) => {
  const url = await redisUrl(t);
  for (const ms of [10, 20]) {
    const timers = new Timers();
    for (let i = 0; i < 50; i++) timers.record('zoo.serving.request.predict', ms);
    await store(t, url).results.save([], '', timers);
    assert.ok(timers.empty);
  }
  const reports = await store(t, url).results.metrics();
  assert.equal(reports.length, 6);
  const predict = reports.find(({ name }) => name === 'zoo.serving.request.predict');
  assert.ok(predict);
  assert.equal(predict.count, 100);
  assert.ok(Math.abs(predict.mean - 15) < 1e-6);
  assert.ok(Math.abs(predict._99thPercentile - 20) < 20 * 0.05);
  assert.ok(Math.abs(predict._75thPercentile - 20) < 20 * 0.05);
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

test('measurements that could not be delivered are delivered with the next', async (t) => {
  const timers = new Timers();
  timers.record('zoo.serving.redis.put', 5);
  await assert.rejects(store(t, 'redis://127.0.0.1:1').results.save([], '', timers));
  const { results } = store(t, await redisUrl(t));
  await results.save([], '', timers);
  const put = (await results.metrics()).find(({ name }) => name === 'zoo.serving.redis.put');
  assert.equal(put?.count, 1);
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
    const { results } = store(t, url, { timeouts: {} });
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

test('a result that is too large to store fails with what to do, before it is encoded', () => {
  const outcomeOf = (length: number): Outcome => {
    const data = new Int8Array(length);
    return { ok: true, outputs: [{ name: 'y', dtype: 'int8', shape: [length], data }] };
  };
  const failed = serializeResult(outcomeOf(LIMITS.largeResultBytes + 1), undefined);
  assert.equal(failed.status, 'failed');
  assert.match(
    failed.error,
    /too_large.*67108865 bytes.*67108864 \(largeResultBytes\); keep less of it with postProcessing/,
  );
  // Without S3, Redis has to take it.
  const { error } = serializeResult(outcomeOf(LIMITS.resultBytes), undefined);
  assert.match(error, /too_large.*over the limit of 1048576 \(resultBytes\)/);
});
