import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Redis } from 'ioredis';
import { resultKey } from '../../../lib/contract/names.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { eventOf, sqsRecord } from '../../support/faults/events.ts';
import { History, takeAll } from '../../support/faults/history.ts';
import { lineOf } from '../../support/faults/model.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { JOB, lineRunner, openStore, openWorker } from '../../support/faults/service.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

const HOUR_MS = 3_600_000;
const SKEWS_MS = [-400 * 24 * HOUR_MS, -2 * HOUR_MS, -1_000, 1_000, 2 * HOUR_MS, 400 * 24 * HOUR_MS];

for (const skewMs of SKEWS_MS) {
  test(`F10: a worker whose clock is ${skewMs} ms off loses no result, its own or of others`, async (t) => {
    quietLog(t);
    const url = await redisUrl(t);
    const runner = await lineRunner(t);
    const history = new History();
    const workers = [
      await openWorker(t, { redisUrl: url, runner, ttlSeconds: 60 }),
      await openWorker(t, { redisUrl: url, runner, ttlSeconds: 60, now: () => Date.now() + skewMs }),
    ];
    for (let round = 0; round < 6; round++) {
      const numbers = Array.from({ length: 5 }, (_, i) => round * 5 + i);
      for (const x of numbers) history.enqueued(`r-${x}`, lineOf(x));
      assert.deepEqual(await workers[round % 2]?.(await eventOf(numbers)), { batchItemFailures: [] });
    }
    await history.assertClean(url, JOB);
  });
}

test('F10: messages that were sent in the future or at no time are served as any other', async (t) => {
  quietLog(t);
  const url = await redisUrl(t);
  const worker = await openWorker(t, { redisUrl: url, runner: await lineRunner(t) });
  const history = new History();
  const { Records } = await eventOf([0, 1, 2, 3]);
  const sent = [Date.now() + HOUR_MS, 0, Number.NaN, Number.POSITIVE_INFINITY];
  const records = Records.map(({ messageId, body }, i) => sqsRecord(messageId, body, sent[i]));
  for (const x of [0, 1, 2, 3, 4]) history.enqueued(`r-${x}`, lineOf(x));
  assert.deepEqual(await worker({ Records: records }), { batchItemFailures: [] });
  assert.deepEqual(await worker(await eventOf([4])), { batchItemFailures: [] });
  await history.assertClean(url, JOB);
  const timers = await openStore(t, { redisUrl: url }).metrics();
  for (const timer of timers)
    assert.ok(Number.isFinite(timer.mean) && timer.mean >= 0, JSON.stringify(timer));
});

test('F10: dequeue returns a cancellation by a client whose clock is a year behind', async (t) => {
  quietLog(t);
  const url = await redisUrl(t);
  const connection = new RedisConnection(url, PATIENT);
  t.after(() => connection.close());
  const states = new RecordStates(connection, { job: JOB, now: () => Date.now() - 365 * 24 * HOUR_MS });
  const event = await eventOf([0, 1]);
  assert.ok(await states.cancel('r-0'));
  const worker = await openWorker(t, { redisUrl: url, runner: await lineRunner(t) });
  await worker(event);
  assert.deepEqual(new Map(await takeAll(url, JOB)), new Map<string, string | number>([['r-0', 'cancelled'], ['r-1', lineOf(1)]])); // biome-ignore format: one line
});

/** A store with one result that lives for a second. */
async function shortLived(t: TestContext) {
  quietLog(t);
  const url = await redisUrl(t);
  const worker = await openWorker(t, { redisUrl: url, runner: await lineRunner(t), ttlSeconds: 1 });
  const redis = new Redis(url);
  t.after(() => redis.disconnect());
  return { url, redis, worker, store: openStore(t, { redisUrl: url, ttlSeconds: 1 }) };
}

test('F10: a read at the moment a result expires sees the whole result or none', async (t) => {
  const { redis, worker, store } = await shortLived(t);
  await worker(await eventOf([0]));
  let whole = 0;
  await until(async () => {
    const fields = await redis.hgetall(resultKey(JOB, 'r-0'));
    const result = await store.get('r-0');
    const count = Object.keys(fields).length;
    assert.ok(count === 0 || count === 6, JSON.stringify(fields));
    if (result) {
      whole++;
      assert.equal(result.outputs[0]?.data[0], lineOf(0));
    }
    return result === undefined && count === 0;
  });
  assert.ok(whole > 0);
});

test('F10: expired results are not dequeued, and do not keep those that came later from it', async (t) => {
  const { url, redis, worker } = await shortLived(t);
  await worker(await eventOf([0, 1, 2]));
  await until(async () => (await redis.exists(resultKey(JOB, 'r-0'))) === 0);
  const later = await openWorker(t, { redisUrl: url, runner: await lineRunner(t) });
  await later(await eventOf([3]));
  assert.deepEqual(await takeAll(url, JOB), [['r-3', lineOf(3)]]);
});

test('F10: an announced uri is expired, and not unknown, for as long again as its result lived', async (t) => {
  const { url, redis, worker } = await shortLived(t);
  const connection = new RedisConnection(url, PATIENT);
  t.after(() => connection.close());
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  await states.announce({ uri: 'r-0', identity: 'm-0', message: 'm' });
  await worker(await eventOf([0]));
  assert.equal(await states.status('r-0'), 'succeeded');
  await until(async () => (await redis.exists(resultKey(JOB, 'r-0'))) === 0);
  assert.equal(await states.status('r-0'), 'expired');
  await until(async () => (await states.status('r-0')) === 'unknown');
});
