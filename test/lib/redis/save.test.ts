/** The fields that save.lua writes for one record, in a real Redis. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { newestKey, resultKey, stateKey } from '../../../lib/contract/names.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { enqueued } from '../../support/enqueue.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';

const JOB = 'job';
const [RESULT, NEWEST, STATE] = [resultKey(JOB, 'a'), newestKey(JOB, 'a'), stateKey(JOB, 'a')];

async function open(t: TestContext) {
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
  const results = new ResultStore(connection, { job: JOB, ttlSeconds: 60, now: () => 1_000 });
  t.after(() => results.close());
  await results.ping();
  const outputs = [{ name: 'y', dtype: 'float32' as const, shape: [1], data: Float32Array.of(1) }];
  const fields = serializeResult({ ok: true, outputs }, undefined);
  const save = (identity: string, sentAt: number, replays = 0) =>
    results.save([{ uri: 'a', fields, enqueue: enqueued(identity, sentAt, replays) }], 'v');
  return { redis: connection.redis, save };
}

test('a result says how often its record was replayed, if it was', async (t) => {
  const { redis, save } = await open(t);
  assert.equal(await save('e1', 5), 1);
  assert.deepEqual(await redis.hmget(RESULT, 'identity', 'replays', 'model'), ['e1', null, 'v']);
  assert.equal(await redis.get(NEWEST), '5 e1');
  assert.equal(await save('e1', 5, 2), 1);
  assert.deepEqual(await redis.hmget(RESULT, 'identity', 'replays'), ['e1', '2']);
  assert.equal(await redis.get(NEWEST), '5 e1 2');
  assert.equal(await save('e1', 9, 1), 0, 'an earlier replay is late');
  assert.equal(await redis.get(NEWEST), '5 e1 2');
});

test('the same enqueue that was sent again moves its place in the order, and not its result', async (t) => {
  const { redis, save } = await open(t);
  await save('e1', 5);
  assert.equal(await save('e1', 8), 0);
  assert.equal(await redis.get(NEWEST), '8 e1');
  assert.equal(await save('e1', 7), 0);
  assert.equal(await redis.get(NEWEST), '8 e1');
});

test('a cancellation names the records that came before it, the last first and fourteen at most', async (t) => {
  const { redis, save } = await open(t);
  await redis.hset(RESULT, { status: 'cancelled', after: '20 e0' });
  await redis.set(NEWEST, '100 ~');
  assert.equal(await save('e1', 30), 0);
  assert.equal(await redis.hget(RESULT, 'cancelled'), 'e1');
  await save('e2', 40);
  assert.equal(await redis.hget(RESULT, 'cancelled'), 'e2 e1');
  await save('late', 10);
  assert.equal(await redis.hget(RESULT, 'cancelled'), 'e2 e1', 'it had lost to what was there before');
  await save('e1', 30);
  assert.equal(await redis.hget(RESULT, 'cancelled'), 'e2 e1', 'a second delivery is the same record');
  for (let i = 3; i <= 16; i++) await save(`e${i}`, 50);
  const listed = 'e16 e15 e14 e13 e12 e11 e10 e9 e8 e7 e6 e5 e4 e3';
  assert.equal(await redis.hget(RESULT, 'cancelled'), listed);
  assert.equal(await redis.get(NEWEST), `100 ~,${listed.replaceAll(' ', ',')}`);
  const left = await redis.pttl(NEWEST);
  assert.ok(left > 4 * 86_400_000 && left <= 5 * 86_400_000, `${left}`);
  assert.deepEqual(await redis.hmget(RESULT, 'status', 'value'), ['cancelled', null]);
});

test('a record that was announced after the cancellation has a result, even if the clocks disagree', async (t) => {
  const { redis, save } = await open(t);
  await redis.hset(RESULT, { status: 'cancelled', cancelled: 'e1' });
  await redis.set(NEWEST, '100 ~');
  await redis.hset(STATE, { pending: 'e1 e2 e3', payload: 'p' });
  assert.equal(await save('e1', 30), 0, 'it was cancelled');
  assert.equal(await save('e2', 30), 1);
  assert.equal(await redis.hget(RESULT, 'status'), 'succeeded');
});

test('an outcome ends the wait for its enqueue, and the last one that for the uri', async (t) => {
  const { redis, save } = await open(t);
  await redis.hset(STATE, { pending: 'e2 e1', payload: 'p' });
  await save('e1', 30);
  assert.deepEqual(await redis.hmget(STATE, 'pending', 'done'), ['e2', null]);
  await save('other', 31);
  assert.deepEqual(await redis.hmget(STATE, 'pending', 'done'), ['e2', null]);
  assert.equal(await redis.pttl(STATE), -1);
  await save('e2', 32);
  assert.deepEqual(await redis.hmget(STATE, 'pending', 'done'), ['', '1']);
  const left = await redis.pttl(STATE);
  assert.ok(left > 60_000 && left <= 120_000, `${left}`);
});
