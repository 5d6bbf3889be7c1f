/**
 * F7: a Redis that loses acknowledged writes. No worker can repair that, because a message is deleted once Redis has
 * acknowledged its result. The promise is weaker: a result is complete or gone, a uri never gets another's result,
 * and sending the record again works.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Redis } from 'ioredis';
import { resultKey } from '../../../../lib/contract/names.ts';
import { sendAnnounced } from '../../../../lib/pipeline/submit.ts';
import { RedisConnection } from '../../../../lib/redis/connection.ts';
import { RecordStates } from '../../../../lib/redis/record-states.ts';
import { eventOf } from '../../../support/faults/events.ts';
import { History } from '../../../support/faults/history.ts';
import { lineOf } from '../../../support/faults/model.ts';
import { quietLog } from '../../../support/faults/quiet.ts';
import { type RedisProcess, redisProcess } from '../../../support/faults/redis/process.ts';
import { startRedisProxy } from '../../../support/faults/redis/proxy.ts';
import { seeded, whole } from '../../../support/faults/seeds.ts';
import { JOB, lineRunner, openWorker, type SqsHandler } from '../../../support/faults/service.ts';
import { until } from '../../../support/until.ts';

const BATCH = 20;

/** Takes a batch until Redis has all of it: what the queue does. */
async function delivered(worker: SqsHandler, numbers: readonly number[]): Promise<void> {
  const event = await eventOf(numbers);
  await until(async () => (await worker(event)).batchItemFailures.length === 0);
}

const numbersFrom = (first: number) => Array.from({ length: BATCH }, (_, i) => first + i);

/** Which of these uris have their result, whole; anything else than whole or gone fails. */
async function kept(redis: RedisProcess, numbers: readonly number[]): Promise<number[]> {
  const client = new Redis(redis.url);
  try {
    const found: number[] = [];
    for (const x of numbers) {
      const fields = await client.hgetall(resultKey(JOB, `r-${x}`));
      const count = Object.keys(fields).length;
      assert.ok(count === 0 || (count === 6 && fields['status'] === 'succeeded'), JSON.stringify(fields));
      if (count > 0) found.push(x);
    }
    return found;
  } finally {
    client.disconnect();
  }
}

export async function killedServer(t: TestContext, { kills }: { readonly kills: number }): Promise<void> {
  quietLog(t);
  const redis = await redisProcess(t);
  if (!redis) return;
  const worker = await openWorker(t, { redisUrl: redis.url, runner: await lineRunner(t) });
  const history = new History();
  const random = seeded(7);
  let next = 0;
  for (let kill = 0; kill < kills; kill++) {
    // Some batches are through; the last one is under way when the server dies.
    for (let batch = whole(random, 0, 2); batch > 0; batch--, next += BATCH) {
      await delivered(worker, numbersFrom(next));
    }
    const underWay = worker(await eventOf(numbersFrom(next)));
    const dying = redis.kill();
    await Promise.all([underWay, dying]);
    await redis.restart();
    const acknowledged = Array.from({ length: next }, (_, x) => x);
    assert.deepEqual(await kept(redis, acknowledged), acknowledged, `kill ${kill}`);
    await delivered(worker, numbersFrom(next));
    next += BATCH;
  }
  for (let x = 0; x < next; x++) history.enqueued(`r-${x}`, lineOf(x));
  await history.assertClean(redis.url, JOB);
}

export async function lostWrites(t: TestContext, { rounds }: { readonly rounds: number }): Promise<void> {
  quietLog(t);
  const redis = await redisProcess(t);
  if (!redis) return;
  const worker = await openWorker(t, { redisUrl: redis.url, runner: await lineRunner(t) });
  const connection = new RedisConnection(redis.url);
  t.after(() => connection.close());
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  const history = new History();
  for (let round = 0; round < rounds; round++) {
    const [safe, lost] = [numbersFrom(round * 2 * BATCH), numbersFrom((round * 2 + 1) * BATCH)];
    for (const x of [...safe, ...lost]) history.enqueued(`r-${x}`, lineOf(x));
    await delivered(worker, safe);
    await redis.ask('CONFIG', 'SET', 'appendonly', 'no');
    await announced(states, lost);
    await delivered(worker, lost);
    await redis.kill();
    await redis.restart();
    assert.deepEqual(await kept(redis, safe), safe);
    assert.deepEqual(await kept(redis, lost), []);
    assert.equal(await states.status(`r-${lost[0]}`), 'unknown');
    // The idempotency record is gone with the result, so the same record may be delivered again.
    await announced(states, lost);
    await delivered(worker, lost);
  }
  await history.assertClean(redis.url, JOB);
}

async function announced(states: RecordStates, numbers: readonly number[]): Promise<void> {
  let sent = 0;
  const records = numbers.map((x) => ({ uri: `r-${x}`, identity: `m-${x}`, message: `payload ${x}` }));
  await sendAnnounced(states, records, async () => void sent++);
  assert.equal(sent, numbers.length);
}

export async function stalePromoted(t: TestContext, { rounds }: { readonly rounds: number }): Promise<void> {
  quietLog(t);
  for (let round = 0; round < rounds; round++) {
    const [primary, replica] = [await redisProcess(t), await redisProcess(t)];
    if (!primary || !replica) return;
    // The workers' name for Redis, and the replica's line to the primary.
    const name = await startRedisProxy(t, primary.url);
    const line = await startRedisProxy(t, primary.url);
    const worker = await openWorker(t, { redisUrl: name.url, runner: await lineRunner(t) });
    const [early, late, after] = [numbersFrom(0), numbersFrom(BATCH), numbersFrom(2 * BATCH)];
    await delivered(worker, early);
    await primary.ask('CONFIG', 'SET', 'repl-diskless-sync-delay', '0');
    await replica.ask('REPLICAOF', '127.0.0.1', String(line.port));
    await until(async () => (await kept(replica, early)).length === BATCH);
    line.onConnect = () => 'reset';
    line.resetAll();
    await delivered(worker, late);
    await primary.kill();
    await replica.ask('REPLICAOF', 'NO', 'ONE');
    name.target = replica.port;
    await delivered(worker, after);
    assert.deepEqual(await kept(replica, [...early, ...late, ...after]), [...early, ...after]);
    await delivered(worker, late);
    const history = new History();
    for (const x of [...early, ...late, ...after]) history.enqueued(`r-${x}`, lineOf(x));
    await history.assertClean(replica.url, JOB);
  }
}
