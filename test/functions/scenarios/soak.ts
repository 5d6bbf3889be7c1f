/**
 * The soak test: records are sent, served and counted while workers and Redis are killed at random. None may be lost,
 * doubled or wrong. Kills depend on progress, not on time, so that a run of any length on any machine has its share;
 * the seed cannot fix where exactly in a worker's work a kill happens.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { modelPrefix } from '../../../lib/contract/names.ts';
import type { Notified } from '../../../lib/contract/notice.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { count, expire, invoke, receive, remove, type Source } from '../../support/faults/events.ts';
import { History } from '../../support/faults/history.ts';
import { killAgain } from '../../support/faults/kills.ts';
import { lineModel, lineOf, mismatched, modelFolder, poison, record } from '../../support/faults/model.ts';
import { type Fsync, type RedisProcess, redisProcess } from '../../support/faults/redis/process.ts';
import { type Random, seeded, whole } from '../../support/faults/seeds.ts';
import { BUCKET, JOB, type Queue, startQueue } from '../../support/faults/service.ts';
import { packagedFunctions, startWorker, type Worker } from '../../support/faults/worker.ts';
import { assertAllTold, EVERYTHING, NOTIFIED } from './everything.ts';

const WORKERS = 2;
const BATCH = 100;
/** Messages between two kills, about. Of many, a Redis that was killed reads all results again, so a long run has them less often. */
const perWorkerKill = (records: number) => Math.max(400, records / 500);
const perRedisKill = (records: number) => Math.max(1_000, records / 100);

export interface SoakOptions {
  readonly records: number;
  readonly seed: number;
  readonly fsync: Fsync;
  /** Captures of each record, a target that is notified of each, and a budget. Default: false. */
  readonly everything?: boolean;
}

interface Tally {
  /** True when one of those at work has failed: the others end too. */
  stopped: boolean;
  sent: number;
  delivered: number;
  done: number;
  workerKills: number;
  redisKills: number;
}

/** One environment after the other: who is killed is started again with the next event. */
class Environments {
  readonly #start: () => Worker;
  #current: Worker | undefined;

  constructor(start: () => Worker) {
    this.#start = start;
  }

  async invoke(event: SQSEvent) {
    const worker = (this.#current ??= this.#start());
    try {
      return await worker.invoke(event);
    } catch (error) {
      worker.kill();
      await worker.ended;
      if (this.#current === worker) this.#current = undefined;
      throw error;
    }
  }

  /** Its current work; undefined between two lives. */
  kill(): boolean {
    this.#current?.kill();
    return this.#current !== undefined;
  }

  async close(): Promise<void> {
    this.#current?.kill();
    await this.#current?.ended;
  }
}

export async function soak(
  t: TestContext,
  { records, seed, fsync, everything = false }: SoakOptions,
): Promise<void> {
  const random = seeded(seed);
  const redis = await redisProcess(t, fsync);
  if (!redis) return;
  const queue = await startQueue(t);
  const bundles = await packagedFunctions();
  const temp = await mkdtemp(join(tmpdir(), 'cs-soak-'));
  t.after(() => rm(temp, { recursive: true, force: true }));
  const model = await modelFolder(temp, lineModel());
  await publishModel(queue.aws.s3, { bucket: BUCKET, prefix: modelPrefix(JOB) }, model);
  const environment = {
    ...queue.aws.environment,
    CLUSTER_SERVING_BUCKET: BUCKET,
    CLUSTER_SERVING_REDIS_URL: redis.url,
    CLUSTER_SERVING_CONFIG: JSON.stringify({ jobName: JOB, ...(everything && EVERYTHING) }),
  };
  const lives = Array.from({ length: WORKERS }, (_, i) => {
    const own = join(temp, `tmp-${i}`);
    return new Environments(() => startWorker(bundles.folder('batch'), own, environment));
  });
  t.after(() => Promise.all(lives.map((life) => life.close())));
  const history = new History();
  await history.listen(t, redis.url, JOB);
  const tally: Tally = { stopped: false, sent: 0, delivered: 0, done: 0, workerKills: 0, redisKills: 0 };
  const startedMs = performance.now();
  const ending = Promise.all([
    send(queue, history, { records, notified: everything ? NOTIFIED : {} }, tally),
    killRedis(redis, random, records, tally),
    ...lives.map((life) => serve(queue, life, random, records, tally)),
  ]);
  await ending.finally(() => {
    tally.stopped = true;
  });
  const seconds = (performance.now() - startedMs) / 1000;
  await history.assertClean(redis.url, JOB, JSON.stringify(tally));
  const { stopped: _, ...numbers } = tally;
  const told = everything ? await assertAllTold(queue, history) : {};
  t.diagnostic(
    JSON.stringify({ records, seed, fsync, everything, seconds: Math.round(seconds), ...numbers, ...told }),
  );
}

const SENDERS = 200;
/** Records that wait: with all of a long run in the queue, sending them would take the time of serving them. */
const MOST_WAITING = 10_000;

async function send(
  queue: Queue,
  history: History,
  { records, notified }: { readonly records: number; readonly notified: Notified },
  tally: Tally,
): Promise<void> {
  let next = 0;
  const sender = async () => {
    for (let x = next++; x < records && !tally.stopped; x = next++) {
      while (tally.sent - tally.done > MOST_WAITING && !tally.stopped)
        await new Promise((resolve) => setTimeout(resolve, 20));
      const uri = `r-${x}`;
      const kind = x % 100;
      const made = kind === 7 ? mismatched(x) : kind === 13 ? poison(x) : record(x);
      const told = kind === 7 ? 'bad_input' : kind === 13 ? 'model_failed' : lineOf(x);
      await (kind === 50 ? queue.sendThroughS3 : queue.send)(uri, made, notified);
      history.enqueued(uri, told);
      tally.sent++;
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
}

/** Receives, invokes, deletes; kills its own worker now and then in the middle of it. */
async function serve(
  queue: Queue,
  life: Environments,
  random: Random,
  records: number,
  tally: Tally,
): Promise<void> {
  const source: Source = { sqs: queue.aws.sqs, queueUrl: queue.url };
  const every = perWorkerKill(records);
  let killAt = whole(random, 1, 2 * every);
  let own = 0;
  while (!tally.stopped) {
    const batch = await receive(source, BATCH);
    if (batch.length === 0) {
      if (tally.sent === records && (await count(source)) === 0) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
      continue;
    }
    own += batch.length;
    tally.delivered += batch.length;
    const invoking = invoke((event: SQSEvent) => life.invoke(event), batch);
    if (own >= killAt) {
      killAt = own + whole(random, 1, 2 * every);
      // A warm event takes some milliseconds: the kill falls before, within or after its work.
      await new Promise((resolve) => setTimeout(resolve, whole(random, 0, 12)));
      if (life.kill()) tally.workerKills++;
    }
    const done = await invoking;
    // One acknowledgement in fifty is lost: the messages come again although they are done.
    const acknowledged = random() < 0.02 ? [] : done;
    await remove(source, acknowledged);
    tally.done += acknowledged.length;
    await expire(
      source,
      batch.filter((message) => !acknowledged.includes(message)),
    );
  }
}

async function killRedis(redis: RedisProcess, random: Random, records: number, tally: Tally): Promise<void> {
  const progress = () => tally.done;
  const isOver = () => tally.done >= records || tally.stopped;
  await killAgain({ random, every: perRedisKill(records), progress, isOver }, async () => {
    await redis.kill();
    tally.redisKills++;
    await redis.restart();
    return true;
  });
}
