/** The conditions of the Lua scripts that other tests do not meet, against a real Redis. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { startEmbedded } from '../../../embedded-redis/server.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import {
  indexKey,
  limiterKey,
  metricsKey,
  newestKey,
  resultKey,
  stateKey,
} from '../../../lib/contract/names.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import { Timers } from '../../../lib/metrics/timers.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultLeases } from '../../../lib/redis/leases.ts';
import { RateLimiter } from '../../../lib/redis/rate-limiter.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultReplacer } from '../../../lib/redis/replace-result.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import type { Finished } from '../../../lib/results/store.ts';
import { enqueued } from '../../support/enqueue.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

const JOB = 'job';
const DAY_MS = 86_400_000;
const KEY = { a: resultKey(JOB, 'a'), b: resultKey(JOB, 'b') };

async function open(t: TestContext) {
  const clock = { ms: 1_700_000_000_000 };
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
  const options = { job: JOB, ttlSeconds: 60, now: () => clock.ms };
  const results = new ResultStore(connection, options);
  t.after(() => results.close());
  await results.ping();
  const { redis } = connection;
  return { clock, connection, results, redis, leases: new ResultLeases(connection, JOB) };
}

const saved = (uri: string, outcome: Outcome, sentAt = 0): Finished => ({
  uri,
  fields: serializeResult(outcome, undefined),
  ...(sentAt === 0 ? {} : { enqueue: enqueued(`e${sentAt}`, sentAt) }),
});
const number = (value: number): Outcome => ({
  ok: true,
  outputs: [{ name: 'y', dtype: 'float32', shape: [1], data: Float32Array.of(value) }],
});
const exact = (value: bigint): Outcome => ({
  ok: true,
  outputs: [{ name: 'y', dtype: 'int64', shape: [1], data: BigInt64Array.of(value) }],
});
const failure: Outcome = { ok: false, error: new ServingError('bad_input', 'no') };

function measured(): Timers {
  const timers = new Timers();
  timers.record('zoo.serving.redis.put', 5);
  return timers;
}

async function drained(results: ResultStore): Promise<string[]> {
  const found: string[] = [];
  for await (const one of results.drain()) {
    found.push(`${one.uri} ${'error' in one ? one.error.code : one.result.outputs[0]?.data[0]}`);
  }
  return found.sort();
}

test('metrics state since when they count, also after later measurements', async (t) => {
  const { clock, results, redis } = await open(t);
  await results.save([], '', measured());
  const first = clock.ms;
  clock.ms += 5_000;
  await results.save([], '', measured());
  assert.equal(await redis.hget(metricsKey(JOB), 'since'), String(first));
});

test('a foreign metrics key costs the metrics, stays unchanged, and costs no result', async (t) => {
  const { results, redis } = await open(t);
  await redis.set(metricsKey(JOB), 'foreign');
  assert.equal(await results.save([saved('a', number(1))], 'v', measured()), 1);
  assert.deepEqual([await redis.get(metricsKey(JOB)), await redis.pttl(metricsKey(JOB))], ['foreign', -1]);
});

test('a foreign index is an error before anything is written, and none where only metrics are', async (t) => {
  const { results, redis } = await open(t);
  await redis.set(indexKey(JOB), 'foreign');
  await assert.rejects(results.save([saved('a', number(1))], 'v', measured()), {
    code: 'results_unavailable',
  });
  assert.equal(await redis.exists(KEY.a, metricsKey(JOB)), 0);
  await results.save([], '', measured());
  assert.equal(await redis.exists(metricsKey(JOB)), 1);
});

test('a foreign key costs its own record, by its uri, and the neighbours are saved', async (t) => {
  const { results, redis } = await open(t);
  await redis.set(KEY.b, 'foreign');
  const blocked: string[] = [];
  const finished = ['a', 'b', 'c'].map((uri) => saved(uri, number(1)));
  assert.equal(await results.save(finished, 'v', undefined, (uri) => void blocked.push(uri)), 2);
  assert.deepEqual(blocked, ['b']);
  assert.equal(await redis.get(KEY.b), 'foreign');
  await assert.rejects(results.save([saved('b', number(1))], 'v'), { code: 'results_unavailable', uri: 'b' });
});

test('a foreign state key costs no result', async (t) => {
  const { results, redis } = await open(t);
  await redis.set(stateKey(JOB, 'a'), 'foreign');
  assert.equal(await results.save([saved('a', number(1))], 'v'), 1);
  assert.equal(await redis.get(stateKey(JOB, 'a')), 'foreign');
});

test('the fields of one record do not reach the next of the same call', async (t) => {
  const { results, redis } = await open(t);
  await results.save([saved('a', failure), saved('b', number(1))], 'v');
  assert.deepEqual(Object.keys(await redis.hgetall(KEY.b)).sort(), [
    'finishedAt',
    'identity',
    'model',
    'outputs',
    'status',
    'value',
  ]);
  // Old clients read "NaN" of a failure.
  assert.equal(await redis.hget(KEY.a, 'value'), 'NaN');
});

test('without an idempotency record, a result gives way only to another record that was sent after it was finished', async (t) => {
  const { results, redis } = await open(t);
  const valueAfter = async (identity: string, sentAt: number) => {
    await redis.del(KEY.a, newestKey(JOB, 'a'));
    await redis.hset(KEY.a, { status: 'succeeded', value: '[1]', finishedAt: '1000', identity: 'e1' });
    await results.save([{ ...saved('a', number(2)), enqueue: enqueued(identity, sentAt) }], 'v');
    return redis.hget(KEY.a, 'value');
  };
  assert.equal(await valueAfter('e2', 999), '[1]');
  assert.equal(await valueAfter('e2', 1000), '[1]');
  assert.notEqual(await valueAfter('e2', 1001), '[1]');
  // Its own message again, by a clock that is ahead.
  assert.equal(await valueAfter('e1', 1001), '[1]');
});

test('nothing of an earlier result stays beside a later one', async (t) => {
  const { results, redis } = await open(t);
  await results.save([saved('a', failure, 1)], 'v');
  await results.save([saved('a', exact(5n), 2)], 'v');
  assert.equal(await redis.hexists(KEY.a, 'error'), 0);
  await results.save([saved('a', number(1), 3)], 'v');
  assert.equal(await redis.hexists(KEY.a, 'exact'), 0);
});

test('a result that the original server wrote meanwhile is not overwritten by the one that is put back', async (t) => {
  const { redis, leases } = await open(t);
  await redis.hset(KEY.a, 'value', '[1]');
  const taken = await leases.take(['a']);
  await redis.hset(KEY.a, 'value', '[2]');
  await leases.release(taken);
  assert.equal(await redis.hget(KEY.a, 'value'), '[2]');
  assert.deepEqual(await redis.keys('*lease*'), []);
});

test('a waiting client gets a result at once, and does not find it by looking again', async (t) => {
  const { results } = await open(t);
  // It looks again after 5 s.
  const waiting = results.wait('a', { timeoutMs: 4_000 });
  await new Promise((resolve) => setTimeout(resolve, 200));
  await results.save([saved('a', number(7))], 'v');
  assert.equal((await waiting).outputs[0]?.data[0], 7);
});

test('a foreign key is dequeued once as an error of its own uri, beside the result of another', async (t) => {
  const { results, redis } = await open(t);
  await results.save([saved('a', number(1)), saved('b', number(2))], 'v');
  await redis.del(KEY.a);
  await redis.set(KEY.a, 'foreign');
  assert.deepEqual(await drained(results), ['a results_unavailable', 'b 2']);
  assert.equal(await redis.exists(indexKey(JOB)), 0);
});

test('a result of exactly the bytes of a page is taken, and one byte less is too little', async (t) => {
  const { results, redis } = await open(t);
  await results.save([saved('a', number(1))], 'v');
  const bytes = await redis.hstrlen(KEY.a, 'value');
  const codes = async (limit: number) =>
    (await results.takePage(1, limit))?.map((one) => ('error' in one ? one.error.code : 'taken'));
  assert.deepEqual(await codes(bytes), ['taken']);
  await results.save([saved('b', number(1))], 'v');
  assert.deepEqual(await codes(bytes - 1), ['too_large']);
});

test('the first of several results is taken however large it is, and the exact values and errors of all count', async (t) => {
  const { results, redis, leases } = await open(t);
  for (const [uri, outcome] of [
    ['a', exact(1n)],
    ['b', failure],
    ['c', number(1)],
  ] as const)
    await results.save([saved(uri, outcome)], 'v');
  const sizes = await Promise.all(
    ['a', 'b', 'c'].map(async (uri) => {
      const fields = ['value', 'exact', 'error'];
      const bytes = await Promise.all(fields.map((field) => redis.hstrlen(resultKey(JOB, uri), field)));
      return bytes.reduce((sum, one) => sum + one, 0);
    }),
  );
  const [a = 0, b = 0] = sizes;
  const take = async (maxBytes: number) => {
    const taken = await leases.take(['a', 'b', 'c'], { maxBytes });
    await leases.release(taken);
    return taken.length;
  };
  assert.deepEqual([await take(1), await take(a + b - 1), await take(a + b)], [1, 1, 2]);
});

test('what was taken is kept for ten minutes for whom asks again, and no longer', async (t) => {
  const { results, redis } = await open(t);
  await results.save([saved('a', number(1))], 'v');
  await results.take('a');
  const [held] = await redis.keys('cluster-serving-held_*');
  const leftMs = await redis.pttl(held as string);
  assert.ok(leftMs > 590_000 && leftMs <= 600_000, `${leftMs}`);
});

test('a result that came after the taking is not overwritten by the one that is put back', async (t) => {
  const { results, leases } = await open(t);
  await results.save([saved('a', number(1))], 'v');
  const taken = await leases.take(['a']);
  await results.save([saved('a', number(2), 1)], 'v');
  await leases.release(taken);
  assert.equal((await results.get('a'))?.outputs[0]?.data[0], 2);
});

test('only a cancellation is listed again when nothing was set aside, and a foreign key is not an error', async (t) => {
  const { connection, results, redis, leases } = await open(t);
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  await states.cancel('c');
  await results.save([saved('a', number(1)), saved('b', number(2))], 'v');
  const taken = await leases.take(['a', 'b', 'c']);
  // Set-aside results have expired; one uri has a result that is too large to be listed, and one holds foreign data.
  for (const key of await redis.keys('cluster-serving-held_*')) await redis.del(key);
  await results.save([saved('a', number(3), 1)], 'v');
  await redis.zrem(indexKey(JOB), 'a');
  await redis.set(KEY.b, 'foreign');
  await leases.release(taken);
  assert.deepEqual(await redis.zrange(indexKey(JOB), '0', '-1'), ['c']);
});

test('a result without an end, as the old server wrote it, is put back without an end', async (t) => {
  const { results, redis } = await open(t);
  await redis.hset(KEY.a, 'value', '[[1,0.5]]');
  const use = () => {
    throw new Error('cannot be used');
  };
  const failed = results.take('a', { use });
  await assert.rejects(failed, /cannot be used/);
  assert.deepEqual([await redis.pttl(KEY.a), await redis.hget(KEY.a, 'value')], [-1, '[[1,0.5]]']);
});

test('a full Redis is emptied of results whose messages may come again', async (t) => {
  const { results, redis } = await open(t);
  await results.save([saved('a', number(1)), saved('b', number(2))], 'v');
  if (!/redis_mode/.test(await redis.info('server')) || /embedded:1/.test(await redis.info('server'))) {
    return t.skip('the embedded Redis has no limit of memory');
  }
  await redis.config('SET', 'maxmemory', '1');
  assert.deepEqual(await drained(results), ['a 1', 'b 2']);
  await redis.config('SET', 'maxmemory', '0');
  await until(async () => (await results.save([saved('c', number(3))], 'v')) === 1);
});

test('a cancellation and the index of a longer job outlive a short result', async (t) => {
  const { connection, results, redis } = await open(t);
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  await states.cancel('c');
  await results.save([saved('a', number(1))], 'v');
  assert.ok((await redis.pttl(indexKey(JOB))) > 4 * DAY_MS);
  assert.ok((await redis.pttl(resultKey(JOB, 'c'))) > 4 * DAY_MS);
});

test('NaN that the old server stored is a failure of the record', async (t) => {
  const { results, redis } = await open(t);
  await redis.hset(KEY.a, 'value', 'NaN');
  await assert.rejects(results.get('a'), { code: 'internal', uri: 'a', message: 'the record failed' });
});

test('the sink names the messages whose key holds something else, and saves the others', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const { results, redis } = await open(t);
  await redis.set(KEY.b, 'foreign');
  const finished = ['a', 'b'].map((uri) => {
    return { id: `message-${uri}`, enqueue: enqueued(uri), uri, outcome: number(1) };
  });
  assert.deepEqual(await resultSink(results).save(finished, 'v'), ['message-b']);
  assert.equal((await results.get('a'))?.model, 'v');
});

test('a cancelled record is done, and a finished one does not run again', async (t) => {
  const { connection, results, redis } = await open(t);
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  const running = (uri: string) => ({ uri, enqueue: enqueued('e1', 1) });
  for (const uri of ['a', 'b']) await states.announce({ uri, identity: 'e1', message: uri });
  await states.markRunning([running('a')], 60_000);
  const untilMs = Number(await redis.hget(stateKey(JOB, 'a'), 'running'));
  assert.ok(untilMs > Date.now() + 30_000 && untilMs < Date.now() + 90_000);
  await states.cancel('b');
  assert.equal(await redis.hget(stateKey(JOB, 'b'), 'done'), '1');
  await results.save([saved('a', number(1), 1)], 'v');
  await redis.hdel(stateKey(JOB, 'a'), 'running');
  await states.markRunning([running('a'), running('b')], 60_000);
  const marked = ['a', 'b'].map((uri) => redis.hexists(stateKey(JOB, uri), 'running'));
  assert.deepEqual(await Promise.all(marked), [0, 0]);
});

test('a lease takes 32 MiB at most where nothing else is said', async (t) => {
  const { redis, leases } = await open(t);
  const value = 'x'.repeat(17 * 1_048_576);
  for (const key of [KEY.a, KEY.b]) await redis.hset(key, 'status', 'succeeded', 'value', value);
  assert.equal((await leases.take(['a', 'b'])).length, 1);
});

test('a client remembers at most a thousand uris whose answer got lost', async () => {
  const away = {
    home: (job: string) => job,
    use: () => Promise.reject(new ServingError('results_unavailable', 'away')),
  };
  const leases = new ResultLeases(away as unknown as RedisConnection, JOB);
  const uris = Array.from({ length: 1_500 }, (_, i) => `r${i}`);
  await assert.rejects(leases.take(uris), { code: 'results_unavailable' });
  assert.equal(leases.unanswered(2_000).length, 1_000);
});

/** The replay of an enqueue that ended in the dead letters. */
const ARCHIVED = { uri: 'a', enqueue: enqueued('e1', 1, 1), message: 'the message' };
const EXCEEDED: Outcome = {
  ok: false,
  error: new ServingError('max_receives_exceeded', 'the record failed 5 times and was archived as m1'),
};
const REPLACED = serializeResult(number(2), undefined);

async function openReplacer(t: TestContext) {
  const opened = await open(t);
  const options = { job: JOB, ttlSeconds: 60, now: Date.now };
  const states = new RecordStates(opened.connection, options);
  await states.announce({ uri: 'a', identity: 'e1', message: ARCHIVED.message });
  await opened.results.save([saved('a', EXCEEDED, 1)], '');
  return { ...opened, options, replacer: new ResultReplacer(opened.connection, options) };
}

test('a replaced failure is a result like any other: listed, published, with a time to live, its state done', async (t) => {
  const { results, redis, replacer } = await openReplacer(t);
  await redis.hdel(stateKey(JOB, 'a'), 'done');
  await redis.del(indexKey(JOB));
  // Without Redis' own word the wait would look again after 5 s.
  await redis.del(KEY.a);
  const waiting = results.wait('a', { timeoutMs: 4_000 });
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(await replacer.store(ARCHIVED, REPLACED, 'v'), 'replaced');
  assert.equal((await waiting).outputs[0]?.data[0], 2);
  const [result, index, state] = await Promise.all(
    [KEY.a, indexKey(JOB), stateKey(JOB, 'a')].map((key) => redis.pttl(key)),
  );
  for (const leftMs of [result, index]) assert.ok(Number(leftMs) > 50_000 && Number(leftMs) <= 60_000);
  assert.ok(Number(state) > 110_000 && Number(state) <= 120_000);
  assert.equal(await redis.hget(stateKey(JOB, 'a'), 'done'), '1');
  assert.deepEqual(await drained(results), ['a 2']);
});

test('a failure that is freed leaves the index, and its uri is queued for as long as the queue may hold the record', async (t) => {
  const { redis, replacer } = await openReplacer(t);
  assert.equal(await replacer.free(ARCHIVED), 'replaced');
  assert.deepEqual(await redis.zrange(indexKey(JOB), '0', '-1'), []);
  const leftMs = await redis.pttl(stateKey(JOB, 'a'));
  assert.ok(leftMs > 14 * DAY_MS && leftMs <= 15 * DAY_MS, `${leftMs}`);
});

/** A replacer before whose first write `change` happens. */
function racing({ connection, options }: Awaited<ReturnType<typeof openReplacer>>, change: () => unknown) {
  let raced = false;
  const racer = {
    home: (job: string) => job,
    use: async (...[work, repeatable]: Parameters<RedisConnection['use']>) => {
      // A written result must not be written again.
      if (!repeatable && !raced) {
        raced = true;
        await change();
      }
      return connection.use(work, repeatable);
    },
  };
  return new ResultReplacer(racer as unknown as RedisConnection, options);
}

test('a uri that another record takes between reading and writing is not replaced', async (t) => {
  const opened = await openReplacer(t);
  const { redis } = opened;
  await redis.del(KEY.a);
  const replacer = racing(opened, async () => {
    await redis.del(stateKey(JOB, 'a'));
    await redis.hset(stateKey(JOB, 'a'), 'payload', 'of another', 'last', 'e2', 'pending', 'e2');
  });
  assert.equal(await replacer.store(ARCHIVED, REPLACED, 'v'), 'conflict');
  assert.equal(await redis.exists(KEY.a), 0);
});

test('a result that the original server writes between reading and writing is not replaced', async (t) => {
  const opened = await openReplacer(t);
  const { redis } = opened;
  const replacer = racing(opened, async () => {
    await redis.del(KEY.a);
    await redis.hset(KEY.a, 'value', '[1]');
  });
  assert.equal(await replacer.store(ARCHIVED, REPLACED, 'v'), 'conflict');
  assert.equal(await redis.hget(KEY.a, 'value'), '[1]');
});

test('a later result that comes and is taken between reading and writing keeps the replayed one out', async (t) => {
  const opened = await openReplacer(t);
  const { results, redis } = opened;
  await redis.del(KEY.a, stateKey(JOB, 'a'));
  const replacer = racing(opened, async () => {
    await results.save([saved('a', number(9), 2)], 'v');
    assert.equal((await results.take('a'))?.outputs[0]?.data[0], 9);
  });
  assert.equal(await replacer.store(ARCHIVED, REPLACED, 'v'), 'conflict');
  assert.equal(await results.get('a'), undefined);
});

test('nothing of the result that a replay takes the place of stays in the new one', async (t) => {
  const { results, redis, replacer } = await openReplacer(t);
  await redis.del(KEY.a, newestKey(JOB, 'a'));
  await results.save([{ ...saved('a', exact(5n)), enqueue: enqueued('e0', 0) }], 'v');
  assert.equal(await replacer.store(ARCHIVED, REPLACED, 'v'), 'replaced');
  const found = await results.get('a');
  assert.deepEqual([found?.outputs[0]?.dtype, found?.outputs[0]?.data[0]], ['float32', 2]);
});

test('the bucket of the rate limiter has a time to live, and who is refused comes back after a second at least', async (t) => {
  const { connection, redis } = await open(t);
  const limiter = new RateLimiter(connection, {
    job: JOB,
    tokensPerSecond: 10,
    acquireTimeoutMs: 0,
    sleep: async () => undefined,
    onError: (error) => assert.fail(String(error)),
  });
  const asked = await Promise.allSettled(Array.from({ length: 30 }, () => limiter.acquire()));
  const refused = asked.find(({ status }) => status === 'rejected');
  assert.ok(refused?.status === 'rejected');
  assert.equal((refused.reason as ServingError).retryAfterSeconds, 1);
  const leftMs = await redis.pttl(limiterKey(JOB));
  assert.ok(leftMs > 0 && leftMs < 10_000, `${leftMs}`);
});

test('a full store that refuses every growing command of a script is emptied by taking from it', async (t) => {
  const dataDir = await temporaryFolder(t);
  const limits = { compactAfterBytes: 0, dataBytes: 100 };
  const server = await startEmbedded({
    dataDir,
    host: '127.0.0.1',
    port: 0,
    now: Date.now,
    log: () => undefined,
    ...limits,
  });
  t.after(() => server.close());
  const results = new ResultStore(new RedisConnection(`redis://127.0.0.1:${server.port}`), {
    job: JOB,
    ttlSeconds: 60,
    now: Date.now,
  });
  t.after(() => results.close());
  await results.save([saved('a', number(1)), saved('b', number(2))], 'v');
  // It notices within a second.
  let tries = 0;
  await until(() =>
    results.save([saved(`c${tries++}`, number(3))], 'v').then(
      () => false,
      () => true,
    ),
  );
  const found = await drained(results);
  assert.deepEqual(found.slice(0, 2), ['a 1', 'b 2']);
});
