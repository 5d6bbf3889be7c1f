/** The local stack in a process of its own on the servers' core, and a client of it on the other. */

import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { encodeMessage } from '../lib/codecs/message.ts';
import { DEFAULT_JOB, type JobConfig, visibilityTimeoutSeconds } from '../lib/config/job.ts';
import { elementAt } from '../lib/contract/present.ts';
import { queueName } from '../lib/queue/names.ts';
import { QueueSender } from '../lib/queue/sender.ts';
import { startAws } from '../local/aws/aws.ts';
import { toInputs } from '../sdk/inputs.ts';
import type { Bench } from './bench.ts';
import { rowOfUri } from './models.ts';
import { type Child, startChild } from './processes/child.ts';
import type { QueueProcess } from './processes/queue-client.ts';
import type { StackProcess } from './processes/stack.ts';
import type { QueueWork } from './queue-work.ts';
import { QUIET } from './quiet.ts';
import { THREADS } from './raw.ts';

export function jobOf(
  name: string,
  queue: Pick<JobConfig['queue'], 'batchSize' | 'windowSeconds'>,
): JobConfig {
  return {
    ...DEFAULT_JOB,
    jobName: name,
    threadPerModel: THREADS,
    batchSize: Math.max(DEFAULT_JOB.batchSize, queue.batchSize),
    queue: { ...DEFAULT_JOB.queue, ...queue },
  };
}

/** @param dataDir default: a new one */
export async function withStack<T>(
  bench: Bench,
  { model, inputs, answers }: QueueWork,
  job: JobConfig,
  measure: (client: Child<QueueProcess>, redisKind: string) => Promise<T>,
  dataDir = join(bench.folder, `stack-${job.jobName}`),
): Promise<T> {
  const stack = await startChild<StackProcess>('stack', { role: 'server' });
  try {
    const jobs = [{ job, modelDirectory: model.folder }] as const;
    const { environment, redisKind, ...addresses } = await stack.call('start', { jobs, dataDir });
    const client = await startChild<QueueProcess>('queue-client', { environment, role: 'client' });
    try {
      await client.call('open', { job: job.jobName, inputs, answers, ...addresses });
      return await measure(client, redisKind);
    } finally {
      await client.close();
    }
  } finally {
    await stack.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}

/**
 * A folder whose queue holds that many records; each stack that drains them gets a copy of it. It is filled while no
 * stack runs, so that nothing is drained before the clock starts.
 */
export async function filledFolder(
  bench: Bench,
  { inputs }: QueueWork,
  job: JobConfig,
  records: number,
): Promise<() => Promise<string>> {
  const folder = join(bench.folder, `filled-${job.jobName}`);
  // The local stack's own region: in another one a queue of the same name is another queue.
  const aws = await startAws({ dataDir: join(folder, 'aws'), port: 0, region: 'local', log: QUIET });
  try {
    const { url: queueUrl } = await aws.createQueue({
      name: queueName(job.jobName),
      visibilitySeconds: visibilityTimeoutSeconds(job),
      maxReceiveCount: job.queue.maxReceiveCount,
    });
    const sender = new QueueSender(aws.sqs, { queueUrl });
    const send = async (_: unknown, record: number) => {
      const uri = `drain-${record}`;
      const row = elementAt(inputs, rowOfUri(uri, inputs.length), 'inputs');
      await sender.send(encodeMessage(uri, await toInputs(row)));
    };
    await Promise.all(Array.from({ length: records }, send));
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
