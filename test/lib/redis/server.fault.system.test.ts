import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { indexKey, metricsKey, newestKey, resultKey, stateKey } from '../../../lib/contract/names.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { eventOf } from '../../support/faults/events.ts';
import { History, takeAll } from '../../support/faults/history.ts';
import { lineOf } from '../../support/faults/model.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { type RedisProcess, redisProcess } from '../../support/faults/redis/process.ts';
import { OPENING, PASS, startRedisProxy } from '../../support/faults/redis/proxy.ts';
import { JOB, lineRunner, openStore, openWorker } from '../../support/faults/service.ts';
import { redisUrl } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

const TIMEOUTS = { connectTimeoutMs: 1_000, commandTimeoutMs: 1_000 };

/** Ten records that are in the history, as an event. */
async function ten(history: History, first = 0) {
  const numbers = Array.from({ length: 10 }, (_, i) => first + i);
  for (const x of numbers) history.enqueued(`r-${x}`, lineOf(x));
  return eventOf(numbers);
}

async function opened(t: TestContext) {
  quietLog(t);
  const redis = await redisProcess(t);
  if (!redis) return undefined;
  const history = new History();
  const worker = await openWorker(t, {
    redisUrl: redis.url,
    runner: await lineRunner(t),
    timeouts: TIMEOUTS,
  });
  const failures = async (event: Awaited<ReturnType<typeof eventOf>>) =>
    (await worker(event)).batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  return { redis, history, failures };
}

test('F6: a frozen Redis costs a batch its try and no record; thawed, the same environment goes on', async (t) => {
  const place = await opened(t);
  if (!place) return;
  const { redis, history, failures } = place;
  const [first, second] = [await ten(history), await ten(history, 10)];
  assert.deepEqual(await failures(first), []);
  redis.freeze();
  try {
    assert.equal((await failures(second)).length, 10);
  } finally {
    redis.thaw();
  }
  assert.deepEqual(await failures(second), []);
  await history.assertClean(redis.url, JOB);
});

test('F6: a Redis whose memory is full refuses whole results and never keeps a part of one', async (t) => {
  const place = await opened(t);
  if (!place) return;
  const { redis, history, failures } = place;
  const event = await ten(history);
  await redis.ask('CONFIG', 'SET', 'maxmemory', '1');
  assert.equal((await failures(event)).length, 10);
  assert.deepEqual(await redis.ask('KEYS', '*'), []);
  await redis.ask('CONFIG', 'SET', 'maxmemory', '0');
  assert.deepEqual(await failures(event), []);
  await history.assertClean(redis.url, JOB);
});

test('F6: memory that fills up between batches never leaves a part of a result', async (t) => {
  const place = await opened(t);
  if (!place) return;
  const { redis, history, failures } = place;
  await failures(await ten(history));
  const event = await ten(history, 10);
  await redis.ask('CONFIG', 'SET', 'maxmemory', '1');
  assert.equal((await failures(event)).length, 10);
  for (const key of (await redis.ask('KEYS', resultKey(JOB, '*'))) as string[]) {
    assert.equal(await redis.ask('HLEN', key), 6, key);
    assert.ok(Number(await redis.ask('PTTL', key)) > 0, key);
  }
  await redis.ask('CONFIG', 'SET', 'maxmemory', '0');
  assert.deepEqual(await failures(event), []);
  await history.assertClean(redis.url, JOB);
});

test('F6: a password that is set while we are connected, and one that is taken away again', async (t) => {
  const place = await opened(t);
  if (!place) return;
  const { redis, history, failures } = place;
  const [first, second] = [await ten(history), await ten(history, 10)];
  assert.deepEqual(await failures(first), []);
  await redis.ask('CONFIG', 'SET', 'requirepass', 'secret');
  const withPassword = new RedisConnection(redis.url.replace('//', '//:secret@'));
  t.after(() => withPassword.close());
  await withPassword.use((client) => client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'), false);
  assert.equal((await failures(second)).length, 10);
  await withPassword.use((client) => client.config('SET', 'requirepass', ''), false);
  assert.deepEqual(await failures(second), []);
  await history.assertClean(redis.url, JOB);
});

test('F6: a Redis that forgot our script is given it again', async (t) => {
  const place = await opened(t);
  if (!place) return;
  const { redis, history, failures } = place;
  assert.deepEqual(await failures(await ten(history)), []);
  await redis.ask('SCRIPT', 'FLUSH');
  assert.deepEqual(await failures(await ten(history, 10)), []);
  await history.assertClean(redis.url, JOB);
});

test('F6: a connection whose server became a replica finds the new primary behind the same name', async (t) => {
  quietLog(t);
  const [old, next] = [await redisProcess(t), await redisProcess(t)];
  if (!old || !next) return;
  // The proxy is the name: it leads to the old primary, and new connections to the next one.
  const proxy = await startRedisProxy(t, old.url);
  const history = new History();
  const worker = await openWorker(t, {
    redisUrl: proxy.url,
    runner: await lineRunner(t),
    timeouts: TIMEOUTS,
  });
  const [first, second] = [await ten(history), await ten(history, 10)];
  assert.deepEqual((await worker(first)).batchItemFailures, []);
  await follow(next, old);
  await old.ask('REPLICAOF', '127.0.0.1', String(next.port));
  await next.ask('REPLICAOF', 'NO', 'ONE');
  proxy.target = next.port;
  assert.deepEqual((await worker(second)).batchItemFailures, []);
  await history.assertClean(next.url, JOB);
});

/** Makes `replica` a copy of `primary`, to the last write. */
async function follow(replica: RedisProcess, primary: RedisProcess): Promise<void> {
  await primary.ask('CONFIG', 'SET', 'repl-diskless-sync-delay', '0');
  await replica.ask('REPLICAOF', '127.0.0.1', String(primary.port));
  await until(async () => {
    const info = String(await replica.ask('INFO', 'replication'));
    return /master_link_status:up/.test(info) && (await keys(replica)) === (await keys(primary));
  });
}

const keys = (redis: RedisProcess) => redis.ask('DBSIZE');

test('F6: a Redis that still loads its data is an error in time, for a new connection too', async (t) => {
  quietLog(t);
  const url = await redisUrl(t);
  const proxy = await startRedisProxy(t, url);
  const info = 'loading:1\r\nloading_eta_seconds:60\r\n';
  proxy.onCommand = ({ name }) => {
    if (name === 'INFO') return { kind: 'reply', text: `$${info.length}\r\n${info}\r\n` };
    return OPENING.has(name) ? PASS : { kind: 'reply', text: '-LOADING Redis is loading the dataset\r\n' };
  };
  const store = openStore(t, { redisUrl: proxy.url, timeouts: TIMEOUTS });
  const outcome = await Promise.race([
    store.get('a').catch((error: unknown) => (error as { code: string }).code),
    delay(20_000, 'still waiting', { ref: false }),
  ]);
  assert.equal(outcome, 'results_unavailable');
  proxy.onCommand = () => PASS;
  assert.equal(await store.get('a'), undefined);
});

test('F6: a uri whose key holds something else comes back alone; the nine beside it have their results', async (t) => {
  const place = await opened(t);
  if (!place) return;
  const { redis, history, failures } = place;
  const event = await ten(history);
  await redis.ask('LPUSH', resultKey(JOB, 'r-4'), 'not ours');
  assert.deepEqual(await failures(event), ['m-4']);
  assert.deepEqual(await failures(event), ['m-4']);
  assert.deepEqual(await redis.ask('LRANGE', resultKey(JOB, 'r-4'), '0', '-1'), ['not ours']);
  await redis.ask('DEL', resultKey(JOB, 'r-4'));
  assert.deepEqual(await failures(event), []);
  await history.assertClean(redis.url, JOB);
});

for (const [name, key] of [
  ['the metrics', metricsKey(JOB)],
  ['the state of a record', stateKey(JOB, 'r-4')],
  ['the idempotency record of a uri', newestKey(JOB, 'r-4')],
] as const) {
  test(`F6: a foreign value in the place of ${name} costs no record its result`, async (t) => {
    const place = await opened(t);
    if (!place) return;
    const { redis, history, failures } = place;
    await redis.ask('LPUSH', key, 'not ours');
    assert.deepEqual(await failures(await ten(history)), []);
    await history.assertClean(redis.url, JOB);
  });
}

test('F6: a foreign value in the place of the index: results are kept and read by their uri, and listed when it is gone', async (t) => {
  const place = await opened(t);
  if (!place) return;
  const { redis, history, failures } = place;
  const event = await ten(history);
  await redis.ask('LPUSH', indexKey(JOB), 'not ours');
  assert.equal((await failures(event)).length, 10);
  await redis.ask('DEL', indexKey(JOB));
  assert.deepEqual(await failures(event), []);
  await history.assertClean(redis.url, JOB);
});

test('F6: a result that became something else costs a reader of the page only that one', async (t) => {
  const place = await opened(t);
  if (!place) return;
  const { redis, history, failures } = place;
  assert.deepEqual(await failures(await ten(history)), []);
  await redis.ask('DEL', resultKey(JOB, 'r-4'));
  await redis.ask('LPUSH', resultKey(JOB, 'r-4'), 'not ours');
  const told = new Map(await takeAll(redis.url, JOB));
  assert.equal(told.size, 10);
  for (let x = 0; x < 10; x++) if (x !== 4) assert.equal(told.get(`r-${x}`), lineOf(x), `r-${x}`);
  assert.equal(told.get('r-4'), 'results_unavailable');
});

test('F6: results of many megabytes reach a Redis behind a slow line, although a command has less time than all of them take', async (t) => {
  quietLog(t);
  const redis = await redisProcess(t);
  if (!redis) return;
  const proxy = await startRedisProxy(t, redis.url);
  // 40 MB take 7 s and more, those of one command less than one.
  proxy.bytesPerMs = 6_000;
  const store = openStore(t, {
    redisUrl: proxy.url,
    timeouts: { connectTimeoutMs: 4_000, commandTimeoutMs: 4_000 },
  });
  const value = 'A'.repeat(1024 * 1024);
  const finished = Array.from({ length: 40 }, (_, i) => ({
    uri: `r-${i}`,
    fields: { status: 'succeeded', value, error: '', outputs: '["y"]', exact: '' } as const,
  }));
  assert.equal(await store.save(finished, 'v'), 40);
});

test('F6: an announcement whose key holds something else is an error of its own record', async (t) => {
  const place = await opened(t);
  if (!place) return;
  const { redis } = place;
  const connection = new RedisConnection(redis.url);
  t.after(() => connection.close());
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  await redis.ask('LPUSH', stateKey(JOB, 'bad'), 'not ours');
  const [bad, good] = await Promise.allSettled(
    ['bad', 'good'].map((uri) => states.announce({ uri, identity: uri, message: 'm' })),
  );
  assert.equal(bad?.status, 'rejected');
  assert.equal(good?.status, 'fulfilled');
});
