/**
 * In: a job and inputs with their answers. Out: the local stack in a process of its own on the servers' core, and a
 * client of it on the other. Trap: a queue is filled while no stack runs, so that nothing is drained before the clock
 * starts; the emulator keeps the messages in the stack's folder.
 */
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { encodeMessage } from '../lib/codecs/message.ts';
import { DEFAULT_JOB, type JobConfig, visibilityTimeoutSeconds } from '../lib/config/job.ts';
import { queueName } from '../lib/contract/names.ts';
import { QueueSender } from '../lib/queue/sender.ts';
import { startAws } from '../local/aws/aws.ts';
import type { RecordInputs } from '../sdk/inputs.ts';
import type { Bench } from './bench.ts';
import { inputsOf } from './messages.ts';
import { type BenchModel, rowOfUri } from './models.ts';
import { startChild } from './processes/child.ts';
import type { QueueAnswer, QueueQuestion } from './processes/queue-client.ts';
import type { StackAddresses, StackQuestion } from './processes/stack.ts';
import { QUIET } from './quiet.ts';
import { THREADS } from './raw.ts';

/** The local stack's own; in another one a queue of the same name is another queue. */
const REGION = 'local';

export interface QueueWork {
  readonly model: BenchModel;
  readonly inputs: readonly RecordInputs[];
  readonly answers: readonly Float32Array[];
}

export function jobOf(
  name: string,
  queue: { readonly batchSize: number; readonly windowSeconds: number },
): JobConfig {
  return {
    ...DEFAULT_JOB,
    jobName: name,
    threadPerModel: THREADS,
    batchSize: Math.max(DEFAULT_JOB.batchSize, queue.batchSize),
    queue: { ...DEFAULT_JOB.queue, ...queue },
  };
}

export interface OpenStack {
  ask(question: QueueQuestion): Promise<QueueAnswer>;
  readonly redisKind: StackAddresses['redisKind'];
}

/** @param dataDir default: a new one */
export async function withStack<T>(
  bench: Bench,
  work: QueueWork,
  job: JobConfig,
  measure: (stack: OpenStack) => Promise<T>,
  dataDir = join(bench.folder, `stack-${job.jobName}`),
): Promise<T> {
  const stack = await startChild<StackQuestion, StackAddresses>('stack', { role: 'server' });
  try {
    const addresses = await stack.ask({ job, modelDirectory: work.model.folder, dataDir });
    const { queueUrl, redisUrl, redisKind, endpoint, region, environment } = addresses;
    const client = await startChild<QueueQuestion, QueueAnswer>('queue-client', {
      environment,
      role: 'client',
    });
    try {
      const { inputs, answers } = work;
      await client.ask({
        kind: 'open',
        job: job.jobName,
        queueUrl,
        redisUrl,
        endpoint,
        region,
        inputs,
        answers,
      });
      return await measure({ ask: (question) => client.ask(question), redisKind });
    } finally {
      await client.close();
    }
  } finally {
    await stack.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** A folder whose queue holds so many records; each stack that is to drain them gets a copy of it. */
export async function filledFolder(
  bench: Bench,
  { model }: QueueWork,
  rows: readonly Float32Array[],
  job: JobConfig,
  records: number,
): Promise<() => Promise<string>> {
  const folder = join(bench.folder, `filled-${job.jobName}`);
  const aws = await startAws({ dataDir: join(folder, 'aws'), port: 0, region: REGION, log: QUIET });
  try {
    const { url } = await aws.createQueue({
      name: queueName(job.jobName),
      visibilitySeconds: visibilityTimeoutSeconds(job),
      maxReceiveCount: job.queue.maxReceiveCount,
    });
    const sender = new QueueSender(aws.sqs, { queueUrl: url });
    const sent = Array.from({ length: records }, (_, record) => {
      const uri = `drain-${record}`;
      const row = rows[rowOfUri(uri, rows.length)] as Float32Array;
      return sender.send(encodeMessage(uri, inputsOf(model, row)));
    });
    await Promise.all(sent);
  } finally {
    await aws.close();
  }
  let copies = 0;
  return async () => {
    const copy = `${folder}-${copies++}`;
    await cp(folder, copy, { recursive: true });
    return copy;
  };
}
