/**
 * Offline: everything is queued beforehand. In: 24,576 records in the local stack's queue; then smaller queues, drained
 * in turn by us and by BullMQ. Out: records a second.
 * Trap: the two do not do the same. BullMQ's worker fetches its jobs from Redis. Of ours, SQS and Lambda fetch: so our
 * batch function is given events, as Lambda gives them (a), which leaves out what AWS does for it; and the whole local
 * stack is measured (b), which has an SQS written in JavaScript in the same thread. AWS lies between the two.
 */
import { Redis } from 'ioredis';
import { BatchFunction } from '../batch-function.ts';
import type { Bench, Scenario } from '../bench.ts';
import { filledFolder, jobOf, type QueueWork, withStack } from '../local-stack.ts';
import { pairwise, REPEATS, spreadOf } from '../measure.ts';
import { randomRows } from '../models.ts';
import { BullMq, type BullMqSettings } from '../peers/bullmq.ts';
import { installedPeer, NOT_INSTALLED } from '../peers/installed.ts';
import { answersFor, assertSame, openRaw } from '../raw.ts';
import type { Line, Row } from '../report.ts';

const RECORDS = 24_576;
/** Of one repeat: whole batches of 256, so that no batch waits for its window. 5 of them are 25,600. */
const PART = 5_120;
const SEED = 31;
const INPUTS = 16;
const BATCH = 256;
/** As many records as Lambda puts into 6 MB, rounded down to whole batches, are 4,096; a smaller event is not slower. */
const EVENT_RECORDS = 1_024;
const RAW_BATCHES = 200;
const WARM_UPS = 5;
/** As one sets a queue for throughput. */
const QUEUE = { batchSize: BATCH, windowSeconds: 1 };

const FUNCTION = 'batch function';
const STACK = 'whole local stack';
const PLAIN = 'BullMQ, one run a job';
const BATCHED = 'BullMQ, batched by hand';

export const offline: Scenario = {
  name: 'offline',
  about: '24,576 queued records drained by the local stack; jobs a second beside BullMQ',
  async run(bench) {
    const model = await bench.model('mlp');
    const rows = randomRows(SEED, model.rowShape, INPUTS);
    const answers = await answersFor(model, rows);
    const inputs = rows.map((data) => ({ [model.input]: { data, shape: model.rowShape } }));
    const work: QueueWork = { model, inputs, answers };
    return [await drainRow(bench, work, rows), ...(await besideBullMq(bench, work, rows))];
  },
};

/** All of them at once; a rate for each fifth of the records. */
async function drainRow(bench: Bench, work: QueueWork, rows: readonly Float32Array[]): Promise<Row> {
  const rawRates = await rawBatchRates(work, rows);
  const job = jobOf('bench-offline', QUEUE);
  const copy = await filledFolder(bench, work, rows, job, RECORDS);
  return withStack(
    bench,
    work,
    job,
    async (stack) => {
      const { windowRates } = await stack.ask({ kind: 'drained', records: RECORDS });
      const ours = spreadOf(windowRates);
      return {
        scenario: 'offline',
        name: `MLP, ${RECORDS.toLocaleString('en-US')} queued records, ${STACK} (${stack.redisKind})`,
        metric: 'drained',
        unit: 'records/s',
        raw: spreadOf(rawRates).median,
        ours: ours.median,
        baseUnit: 'rows/s',
        value: ours,
        note: `batches of up to ${BATCH}, window 1 s; raw is of batches of ${BATCH}`,
      };
    },
    await copy(),
  );
}

async function rawBatchRates({ model }: QueueWork, rows: readonly Float32Array[]): Promise<number[]> {
  const raw = await openRaw(model);
  const feed = raw.feed(Array.from({ length: BATCH }, (_, i) => rows[i % rows.length] as Float32Array));
  const rates: number[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    const begin = performance.now();
    for (let i = 0; i < RAW_BATCHES; i++) await raw.run(feed);
    rates.push((RAW_BATCHES * BATCH * 1000) / (performance.now() - begin));
  }
  await raw.close();
  return rates;
}

interface Drained {
  /** Records a second. */
  readonly rate: number;
  /** Processor time of the process that ran the model, us a record. */
  readonly cpuUs?: number;
}

/** By way, one for each repeat. */
type Results = ReadonlyMap<string, Drained[]>;

async function besideBullMq(bench: Bench, work: QueueWork, rows: readonly Float32Array[]): Promise<Line[]> {
  const redis = await bench.redis();
  const batch = await BatchFunction.start(work, redis.url, BATCH);
  const client = new Redis(redis.url);
  let bullmq: BullMq | undefined;
  try {
    const peer = installedPeer('bullmq');
    if (peer) {
      bullmq = await BullMq.start(peer, work.model, redis.url, rows);
      bench.tellPeer(peer);
    }
    return await inTurns(bench, work, rows, { batch, bullmq, client, redisKind: redis.kind });
  } finally {
    client.disconnect();
    await bullmq?.close();
    await batch.close();
  }
}

interface Drainers {
  readonly batch: BatchFunction;
  /** Where it is installed. */
  readonly bullmq: BullMq | undefined;
  /** Of the Redis of both. */
  readonly client: Redis;
  readonly redisKind: string;
}

async function inTurns(
  bench: Bench,
  work: QueueWork,
  rows: readonly Float32Array[],
  { batch, bullmq, client, redisKind }: Drainers,
): Promise<Line[]> {
  const settings = bullmq ? await bullmq.tune(() => client.flushall()) : undefined;
  const job = jobOf('bench-part', QUEUE);
  const copy = await filledFolder(bench, work, rows, job, PART);
  const ways = new Map<string, () => Promise<Drained>>([
    [FUNCTION, () => functionRate(batch)],
    [STACK, async () => stackRate(bench, work, job, await copy())],
  ]);
  if (bullmq && settings) {
    ways.set(PLAIN, () => bullMqRate(bullmq, settings.plain, work));
    ways.set(BATCHED, () => bullMqRate(bullmq, settings.batched, work));
  }
  const results: Results = new Map([...ways.keys()].map((id) => [id, []]));
  // BullMQ has been warmed by looking for its settings.
  for (let warmUp = 0; warmUp < WARM_UPS; warmUp++) {
    await functionRate(batch);
    await client.flushall();
  }
  // Once without counting, to warm the code of all.
  for (let repeat = -1; repeat < REPEATS; repeat++) {
    for (const [id, way] of repeat % 2 === 0 ? ways : [...ways].toReversed()) {
      if (repeat < 0 && id === STACK) continue;
      const drained = await way();
      await client.flushall();
      if (repeat >= 0) results.get(id)?.push(drained);
    }
  }
  return [...rateRows(results, redisKind, settings), ...ratioLines(results)];
}

async function functionRate(batch: BatchFunction): Promise<Drained> {
  const { ms, cpuMs } = await batch.drain(PART, EVENT_RECORDS);
  return drainedIn(ms, cpuMs);
}

async function stackRate(
  bench: Bench,
  work: QueueWork,
  job: ReturnType<typeof jobOf>,
  folder: string,
): Promise<Drained> {
  return withStack(
    bench,
    work,
    job,
    async (stack) => ({ rate: (await stack.ask({ kind: 'drained', records: PART })).rate }),
    folder,
  );
}

async function bullMqRate(
  bullmq: BullMq,
  settings: BullMqSettings,
  { answers }: QueueWork,
): Promise<Drained> {
  const { ms, cpuMs, values } = await bullmq.drain(settings, PART);
  for (const [i, scores] of values.entries()) {
    assertSame(scores ?? [], answers[i % answers.length] as Float32Array, `BullMQ, job ${i}`);
  }
  return drainedIn(ms, cpuMs);
}

function drainedIn(ms: number, cpuMs: number): Drained {
  return { rate: (PART * 1000) / ms, cpuUs: (cpuMs * 1000) / PART };
}

function ratesOf(results: readonly Drained[]): number[] {
  return results.map(({ rate }) => rate);
}

/** The median; undefined where it was not told. */
function cpuUsOf(drained: readonly Drained[]): number | undefined {
  const told = drained.flatMap(({ cpuUs }) => (cpuUs === undefined ? [] : [cpuUs]));
  return told.length > 0 ? spreadOf(told).median : undefined;
}

function rateRows(
  results: Results,
  redisKind: string,
  settings: { plain: BullMqSettings; batched: BullMqSettings } | undefined,
): Row[] {
  const notes = new Map([
    [FUNCTION, `events of ${EVENT_RECORDS.toLocaleString('en-US')} records, parsed from text`],
    [STACK, `SQS emulator included, batches of up to ${BATCH}`],
    [PLAIN, `concurrency ${settings?.plain.concurrency}, the best of those tried`],
    [BATCHED, `concurrency ${settings?.batched.concurrency}, the best of those tried`],
  ]);
  return [...results].map(([id, drained]): Row => {
    const value = spreadOf(ratesOf(drained));
    const cpuUs = cpuUsOf(drained);
    const cpu = cpuUs === undefined ? '' : `; ${cpuUs.toFixed(0)} us of processor time a record`;
    return {
      scenario: 'offline',
      name: `MLP, 5 x ${PART.toLocaleString('en-US')} queued records, ${id} (${redisKind})`,
      metric: 'drained',
      unit: 'records/s',
      ours: value.median,
      baseUnit: 'rows/s',
      value,
      note: `${notes.get(id)}${cpu}`,
    };
  });
}

function ratioLines(results: Results): Line[] {
  return [PLAIN, BATCHED].flatMap((peer) =>
    [FUNCTION, STACK].map((way): Line => {
      const base = { scenario: 'offline', name: `MLP, ${way} against ${peer}` };
      const peers = results.get(peer);
      if (!peers) return { ...base, skipped: NOT_INSTALLED };
      const own = results.get(way) as Drained[];
      const theirs = ratesOf(peers);
      const ours = ratesOf(own);
      const [ourUs, theirUs] = [cpuUsOf(own), cpuUsOf(peers)];
      return {
        ...base,
        metric: 'times BullMQ',
        unit: 'x',
        raw: spreadOf(theirs).median,
        ours: spreadOf(ours).median,
        baseUnit: 'rows/s',
        value: pairwise(ours, theirs, (a, b) => a / b),
        target: { atLeast: 3 },
        ...(ourUs && theirUs ? { note: `by processor time ${(theirUs / ourUs).toFixed(2)} x` } : {}),
      };
    }),
  );
}
