/**
 * F27: Redis, the model or S3 is away while records wait. Each is delivered many times over the deliveries that a record once had;
 * then all is there again, and each has its own outcome. Nothing becomes a dead letter.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import type { SQSRecord } from 'aws-lambda';
import { modelUnavailable } from '../../../lib/contract/errors.ts';
import { deadLetterPrefix } from '../../../lib/contract/names.ts';
import type { Model } from '../../../lib/contract/values.ts';
import { MOST_DELIVERIES } from '../../../lib/pipeline/dead-letters.ts';
import { count, deliverAll, expire, invoke, receive, remove } from '../../support/faults/events.ts';
import { History } from '../../support/faults/history.ts';
import { startHttpProxy } from '../../support/faults/http-proxy.ts';
import { lineOf, record } from '../../support/faults/model.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { PASS, startRedisProxy } from '../../support/faults/redis/proxy.ts';
import { pick, seeded } from '../../support/faults/seeds.ts';
import { BUCKET, JOB, lineRunner, openWorker, startQueue } from '../../support/faults/service.ts';
import { redisUrl } from '../../support/redis.ts';

export type Away = 'redis' | 'model' | 's3' | 'all in turn';

export interface OutageCases {
  readonly records: number;
  /** Deliveries of each record while something is away. */
  readonly deliveries: number;
  readonly seeds: number;
}

/** A record in so many travels through S3. */
const LARGE_EVERY = 4;
/** Of the deliveries of an outage, in which all works until the middle of an event. */
const FLICKERS = 0.2;

export async function outage(t: TestContext, away: Away, cases: OutageCases): Promise<void> {
  quietLog(t);
  for (let seed = 1; seed <= cases.seeds; seed++) await oneOutage(t, away, cases, seed);
}

async function oneOutage(t: TestContext, away: Away, cases: OutageCases, seed: number): Promise<void> {
  const random = seeded(seed);
  const queue = await startQueue(t, MOST_DELIVERIES);
  const direct = await redisUrl(t);
  const [redis, s3] = [await startRedisProxy(t, direct), await startHttpProxy(t, queue.aws.url)];
  const runner = await lineRunner(t);
  let hasModel = true;
  const model: Model = {
    async use(work) {
      if (!hasModel) throw modelUnavailable('away');
      return work(runner);
    },
  };
  const worker = await openWorker(t, { redisUrl: redis.url, s3Endpoint: s3.url, model });
  const history = new History();
  await history.listen(t, direct, JOB);
  for (let x = 0; x < cases.records; x++) {
    await (x % LARGE_EVERY === 0 ? queue.sendThroughS3 : queue.send)(`r-${x}`, record(x));
    history.enqueued(`r-${x}`, lineOf(x));
  }
  const set = (what: Away | undefined, flickers: boolean) => {
    let left = flickers ? 2 + Math.floor(random() * 3) : 0;
    redis.onConnect = () => (what === 'redis' && !flickers ? 'reset' : 'pass');
    redis.onCommand = () => (what !== 'redis' || left-- > 0 ? PASS : { kind: 'cut', bytes: 5 });
    if (what === 'redis' && !flickers) redis.resetAll();
    hasModel = what !== 'model';
    s3.onRequest = () => ({ kind: what === 's3' ? 'reset' : 'pass' });
  };
  const source = { sqs: queue.aws.sqs, queueUrl: queue.url };
  for (let turn = 0; turn < cases.deliveries; turn++) {
    set(away === 'all in turn' ? pick(random, ['redis', 'model', 's3'] as const) : away, random() < FLICKERS);
    const failed: SQSRecord[] = [];
    for (let records = await receive(source, 10); records.length > 0; records = await receive(source, 10)) {
      const done = await invoke(worker, records);
      await remove(source, done);
      failed.push(...records.filter((message) => !done.includes(message)));
    }
    await expire(source, failed);
  }
  set(undefined, false);
  await deliverAll(source, worker);
  const dead = { sqs: queue.aws.sqs, queueUrl: queue.deadLetterUrl as string };
  assert.equal(await count(dead), 0, `seed ${seed}`);
  const archived = new ListObjectsV2Command({ Bucket: BUCKET, Prefix: deadLetterPrefix(JOB) });
  assert.equal((await queue.aws.s3.send(archived)).KeyCount ?? 0, 0, `seed ${seed}`);
  await history.assertClean(direct, JOB, `seed ${seed}`);
}
