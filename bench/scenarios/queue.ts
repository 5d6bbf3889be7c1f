/**
 * In: the local stack. Out: how long a record takes from enqueue to its result, and how fast a full queue empties.
 * Trap: the local stack's SQS is an emulator in the process of the handlers, and costs more than both together; these
 * numbers say whether the path got slower, not how fast it is on AWS.
 */
import { join } from 'node:path';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { DEFAULT_JOB, type JobConfig, visibilityTimeoutSeconds } from '../../lib/config/job.ts';
import { queueName } from '../../lib/contract/names.ts';
import { QueueSender } from '../../lib/queue/sender.ts';
import { startAws } from '../../local/aws.ts';
import { type Stack, startStack } from '../../local/stack.ts';
import type { Bench, Scenario } from '../bench.ts';
import { interleave, type Measured, perRepeat, quantile, REPEATS, rateOf, spreadOf } from '../measure.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { startChild } from '../processes/child.ts';
import type { QueueAnswer, QueueQuestion } from '../processes/queue-client.ts';
import { rowOfUri } from '../processes/queue-client.ts';
import { answersOf, openRaw, THREADS } from '../raw.ts';
import type { Line, Row } from '../report.ts';
import { rawContender } from './single.ts';

const INPUTS = 16;
const LATENCY_RECORDS = 100;
const WARM_UP_RECORDS = 40;
const DRAIN_RECORDS = 4_096;
const RAW_MS = 100;

/** As config.yaml leaves it, and as one sets it for throughput. */
const QUEUES = [
  { note: 'batches of up to 10', queue: { batchSize: 10, windowSeconds: 0 } },
  { note: 'batches of up to 256, window 1 s', queue: { batchSize: 256, windowSeconds: 1 } },
];

interface Work {
  readonly model: BenchModel;
  readonly rows: readonly Float32Array[];
  readonly answers: readonly Float32Array[];
  readonly raw: Measured;
}

export const queue: Scenario = {
  name: 'queue',
  about: 'enqueue to result on the local stack, and how fast a full queue empties',
  async run(bench) {
    const model = await bench.model('mlp');
    const rows = randomRows(31, model.rowShape, INPUTS);
    const session = await openRaw(model);
    const answers = await answersOf(session, rows);
    const [raw] = await interleave([rawContender('raw', session, rows, answers)] as never, {
      repeatMs: RAW_MS,
    });
    await session.close();
    const work = { model, rows, answers, raw: raw as Measured };
    const { rows: latencies, region } = await latencyRows(bench, work);
    const lines: Line[] = [...latencies];
    for (const each of QUEUES) lines.push(await drainRow(bench, work, each, region));
    lines.push({
      scenario: 'queue',
      name: 'jobs/s against BullMQ (target >= 3 x)',
      skipped: 'that peer is not part of this bench yet',
    });
    return lines;
  },
};

function jobOf(name: string, queueSettings: { batchSize: number; windowSeconds: number }): JobConfig {
  return {
    ...DEFAULT_JOB,
    jobName: name,
    threadPerModel: THREADS,
    batchSize: Math.max(DEFAULT_JOB.batchSize, queueSettings.batchSize),
    queue: { ...DEFAULT_JOB.queue, ...queueSettings },
  };
}

async function withStack<T>(
  bench: Bench,
  work: Work,
  job: JobConfig,
  measure: (ask: (question: QueueQuestion) => Promise<QueueAnswer>, stack: Stack) => Promise<T>,
): Promise<T> {
  const stack = await startStack({
    jobs: [{ job, modelDirectory: work.model.folder }],
    dataDir: dataDirOf(bench, job),
    ports: { http: 0, aws: 0, redis: 0 },
    log: { info: () => undefined, warn: console.error, error: console.error },
  });
  const client = await startChild<QueueQuestion, QueueAnswer>('queue-client', stack.aws.environment);
  try {
    const { queueUrl, redisUrl, aws } = stack;
    const { input, rowShape } = work.model;
    await client.ask({
      kind: 'open',
      job: job.jobName,
      queueUrl,
      redisUrl,
      endpoint: aws.url,
      region: aws.region,
      input,
      rowShape,
      rows: work.rows,
      answers: work.answers,
    });
    return await measure((question) => client.ask(question), stack);
  } finally {
    await client.close();
    await stack.close();
  }
}

function dataDirOf(bench: Bench, job: JobConfig): string {
  return join(bench.folder, `stack-${job.jobName}`);
}

/** Also tells the region of a stack's queues: in another one a queue of the same name is another queue. */
async function latencyRows(bench: Bench, work: Work): Promise<{ rows: Row[]; region: string }> {
  const job = jobOf('bench-latency', { batchSize: 10, windowSeconds: 0 });
  return withStack(bench, work, job, async (ask, stack) => {
    await ask({ kind: 'latency', records: WARM_UP_RECORDS });
    const repeats: Float64Array[] = [];
    for (let repeat = 0; repeat < REPEATS; repeat++)
      repeats.push((await ask({ kind: 'latency', records: LATENCY_RECORDS })).ms);
    const latencies = [0.5, 0.99].map((share): Row => {
      const ours = spreadOf(repeats.map((sorted) => quantile(sorted, share)));
      return {
        scenario: 'queue',
        name: `MLP, enqueue to result, one at a time (${stack.redis.kind})`,
        metric: `p${share * 100}`,
        unit: 'ms',
        raw: spreadOf(perRepeat(work.raw, (sorted) => quantile(sorted, share))).median,
        ours: ours.median,
        baseUnit: 'ms',
        value: ours,
      };
    });
    return { rows: latencies, region: stack.aws.region };
  });
}

async function drainRow(
  bench: Bench,
  work: Work,
  each: (typeof QUEUES)[number],
  region: string,
): Promise<Row> {
  const job = jobOf(`bench-drain-${each.queue.batchSize}`, each.queue);
  await fillQueue(bench, work, job, region);
  return withStack(bench, work, job, async (ask, stack) => {
    const { ms: rates } = await ask({ kind: 'drained', records: DRAIN_RECORDS });
    const value = spreadOf([...rates]);
    return {
      scenario: 'queue',
      name: `MLP, ${DRAIN_RECORDS.toLocaleString('en-US')} queued records drained (${stack.redis.kind})`,
      metric: 'drained',
      unit: 'records/s',
      raw: spreadOf(perRepeat(work.raw, rateOf)).median,
      ours: value.median,
      baseUnit: 'rows/s',
      value,
      note: each.note,
    };
  });
}

/** Puts the records into the queue of a stack that does not run: the emulator keeps them in its folder. */
async function fillQueue(bench: Bench, { model, rows }: Work, job: JobConfig, region: string): Promise<void> {
  const log = { info: () => undefined, warn: console.error, error: console.error };
  const aws = await startAws({ dataDir: join(dataDirOf(bench, job), 'aws'), port: 0, region, log });
  try {
    const { url } = await aws.createQueue({
      name: queueName(job.jobName),
      visibilitySeconds: visibilityTimeoutSeconds(job),
      maxReceiveCount: job.queue.maxReceiveCount,
    });
    const sender = new QueueSender(aws.sqs, { queueUrl: url });
    const sent = Array.from({ length: DRAIN_RECORDS }, (_, record) => {
      const uri = `drain-${record}`;
      const data = rows[rowOfUri(uri, rows.length)] as Float32Array;
      const tensor = { dtype: 'float32', shape: model.rowShape, data } as const;
      return sender.send(encodeMessage(uri, new Map([[model.input, { kind: 'tensor', tensor }]])));
    });
    await Promise.all(sent);
  } finally {
    await aws.close();
  }
}
