/**
 * A queue that was filled beforehand, drained by us, BullMQ and bunqueue in turns. They do not do the same: BullMQ's worker
 * fetches its jobs from Redis; for us, SQS and Lambda fetch. So the batch function alone is given events, which leaves out
 * what AWS does for it, and the whole local stack has an SQS written in JavaScript in the same thread. AWS lies between.
 * bunqueue and the local stack keep jobs in SQLite with the same settings (a log, `synchronous = NORMAL`): what was added survives
 * an end of the process, and a power cut may lose the last of it. The jobs of BullMQ's Redis are in memory.
 */
import { Redis } from 'ioredis';
import type { Bench, Scenario } from '../bench.ts';
import { filledFolder, jobOf, withStack } from '../local-stack.ts';
import { pairwise, spreadOf } from '../measure.ts';
import { startBullMq } from '../peers/bullmq.ts';
import { startBunqueue } from '../peers/bunqueue.ts';
import { installedPeer, NOT_INSTALLED } from '../peers/installed.ts';
import type { BatchProcess } from '../processes/batch-function.ts';
import { startChild } from '../processes/child.ts';
import { type QueueWork, tensorWork } from '../queue-work.ts';
import type { Line, Row } from '../report.ts';

/** In one repeat: whole batches of 256, so that no batch waits for its window. */
const RECORDS = 5_120;
const BATCH = 256;
/** Lambda's 6 MB hold 4 times as many; a smaller event is not slower. */
const EVENT_RECORDS = 1_024;
const WARM_UPS = 5;
/** Each stack is a new process, and those of the others have drained several queues when they are measured. */
const STACK_WARM_UPS = 2 * RECORDS;

const FUNCTION = 'batch function';
const STACK = 'whole local stack';
const PLAIN = 'BullMQ, one run a job';
const BATCHED = 'BullMQ, batched by hand';
const BUNQUEUE = 'bunqueue, one run a job';

interface Drained {
  readonly ms: number;
  /** Processor time of the process that ran the model. */
  readonly cpuMs?: number;
}

interface Drainer {
  readonly note: string;
  readonly drain: () => Promise<Drained>;
  readonly drained: Drained[];
}

export const offline: Scenario = {
  name: 'offline',
  about: `${RECORDS.toLocaleString('en-US')} queued records drained by the batch function, the local stack, BullMQ and bunqueue`,
  async run(bench) {
    const work = await tensorWork(bench, 'mlp', 16);
    const { url, kind } = await bench.redis();
    const client = new Redis(url);
    const closers: Closers = [];
    try {
      const ours = await ownDrainers(bench, work, url, closers);
      // Once without counting, to warm the code.
      for (let i = 0; i < WARM_UPS; i++) await ours[0]?.[1].drain();
      const ways = new Map([
        ...ours,
        ...(await bullMqDrainers(bench, work, client, closers)),
        ...(await bunqueueDrainers(bench, work, closers)),
      ]);
      for (let repeat = 0; repeat < bench.repeats; repeat++) {
        for (const [, { drain, drained }] of repeat % 2 === 0 ? ways : [...ways].toReversed()) {
          await client.flushall();
          drained.push(await drain());
        }
      }
      return [...[...ways].map(([id, way]) => rateRow(`${id} (${kind})`, way)), ...ratioLines(ways)];
    } finally {
      client.disconnect();
      for (const close of closers) await close();
    }
  },
};

type Closers = (() => Promise<void>)[];

async function ownDrainers(bench: Bench, work: QueueWork, redisUrl: string, closers: Closers) {
  const batch = await startChild<BatchProcess>('batch-function', { role: 'server' });
  closers.push(() => batch.close());
  await batch.call('open', { work, redisUrl, batchSize: BATCH });
  const job = jobOf('bench-offline', { batchSize: BATCH, windowSeconds: 1 });
  const records = STACK_WARM_UPS + RECORDS;
  const copy = await filledFolder(bench, work, job, records);
  const drainStack = async () => {
    const question = { records, warmUps: STACK_WARM_UPS };
    const rate = await withStack(bench, work, job, (stack) => stack.call('drained', question), await copy());
    return { ms: (RECORDS * 1000) / rate };
  };
  const question = { records: RECORDS, eventRecords: EVENT_RECORDS };
  return [
    [FUNCTION, drainer('events of 1,024 records, parsed from text', () => batch.call('drain', question))],
    [STACK, drainer('SQS emulator included, batches of up to 256', drainStack)],
  ] as const;
}

function drainer(note: string, drain: Drainer['drain']): Drainer {
  return { note, drain, drained: [] };
}

async function bullMqDrainers(bench: Bench, work: QueueWork, client: Redis, closers: Closers) {
  const peer = installedPeer('bullmq');
  const drainers: (readonly [string, Drainer])[] = [];
  if (!peer) return drainers;
  const { url } = await bench.redis();
  const bullmq = await startBullMq(peer, work, url);
  closers.push(bullmq.close);
  bench.addPeer(peer);
  for (const id of [PLAIN, BATCHED]) {
    const batched = id === BATCHED;
    const concurrency = await bullmq.tune(batched, () => client.flushall());
    const note = `concurrency ${concurrency}, the best of those tried`;
    drainers.push([id, drainer(note, () => bullmq.drain({ batched, concurrency }, RECORDS))]);
  }
  return drainers;
}

async function bunqueueDrainers(bench: Bench, work: QueueWork, closers: Closers) {
  const peer = installedPeer('bunqueue');
  const drainers: (readonly [string, Drainer])[] = [];
  if (!peer) return drainers;
  const bunqueue = await startBunqueue(peer, work, bench.folder);
  closers.push(() => bunqueue.close());
  bench.addPeer(peer);
  const concurrency = await bunqueue.tune();
  const note = `under Bun, durable, concurrency ${concurrency}, the best of those tried`;
  drainers.push([BUNQUEUE, drainer(note, () => bunqueue.drain(concurrency, RECORDS))]);
  return drainers;
}

const ratesOf = (drained: readonly Drained[]) => drained.map(({ ms }) => (RECORDS * 1000) / ms);

/** The median, us a record; undefined where it was not measured. */
function cpuUsOf(drained: readonly Drained[]): number | undefined {
  const known = drained.flatMap(({ cpuMs }) => (cpuMs === undefined ? [] : [(cpuMs * 1000) / RECORDS]));
  return known.length > 0 ? spreadOf(known).median : undefined;
}

function rateRow(id: string, { note, drained }: Drainer): Row {
  const cpuUs = cpuUsOf(drained);
  const cpu = cpuUs === undefined ? '' : `; ${cpuUs.toFixed(0)} us of processor time a record`;
  return {
    scenario: 'offline',
    name: `MLP, ${RECORDS.toLocaleString('en-US')} queued records, ${id}`,
    metric: 'drained',
    unit: 'records/s',
    value: spreadOf(ratesOf(drained)),
    note: note + cpu,
  };
}

function ratioLines(ways: ReadonlyMap<string, Drainer>): Line[] {
  return [PLAIN, BATCHED, BUNQUEUE].flatMap((peer) =>
    [FUNCTION, STACK].map((way): Line => {
      const line = { scenario: 'offline', name: `MLP, ${way} against ${peer}` };
      const theirs = ways.get(peer)?.drained;
      if (!theirs) return { ...line, skipped: NOT_INSTALLED };
      const ours = ways.get(way)?.drained ?? [];
      const [ourUs, theirUs] = [cpuUsOf(ours), cpuUsOf(theirs)];
      return {
        ...line,
        metric: 'times the peer',
        unit: 'x',
        raw: spreadOf(ratesOf(theirs)).median,
        ours: spreadOf(ratesOf(ours)).median,
        baseUnit: 'records/s',
        value: pairwise(ratesOf(ours), ratesOf(theirs), (a, b) => a / b),
        ...(ourUs && theirUs ? { note: `by processor time ${(theirUs / ourUs).toFixed(2)} x` } : {}),
      };
    }),
  );
}
