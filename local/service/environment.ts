/** Gives a job on this machine what a deployment gives it on AWS: its queues, and the environment of its functions. */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { type Environment, tracesOf } from '../../lib/config/environment.ts';
import { hiddenSeconds, type JobConfig } from '../../lib/config/job.ts';
import { variables } from '../../lib/contract/variables.ts';
import { MOST_DELIVERIES } from '../../lib/pipeline/dead-letters.ts';
import { queueName } from '../../lib/queue/names.ts';
import type { LocalAws } from '../aws/aws.ts';
import type { JobServices, ServedJob } from './runs.ts';

export const LOCAL_BUCKET = 'cluster-serving';
/** How long a message is delivered again before the queue gives it up. */
const LEAST_DELIVERED_SECONDS = 2 * 86_400;

/** The environment that Lambda's variables describe for a deployed function, on this machine. */
export function environmentOf(
  { job, modelDirectory, directory }: ServedJob,
  queueUrl: string,
  { aws, redisUrl, dataDir }: JobServices,
): Environment {
  return {
    job,
    bucket: LOCAL_BUCKET,
    queueUrl,
    hasQueue: true,
    redisUrl,
    hasRedis: true,
    redisSignIn: undefined,
    redisMaxBytes: undefined,
    keyspace: job.jobName,
    role: { region: aws.region, credentials: { ...aws.credentials, sessionToken: undefined } },
    aws: { endpoint: aws.url, region: aws.region, credentials: aws.credentials },
    memoryMB: job.function.memoryMB,
    cpus: availableParallelism(),
    inLambda: false,
    hasMetrics: false,
    service: job.jobName,
    functionName: '',
    isProvisioned: false,
    traceId: undefined,
    traces: tracesOf(variables),
    modelDirectory: join(dataDir, 'models', job.jobName),
    workerFolders: directory === undefined ? undefined : { directory, modelDir: modelDirectory },
  };
}

/** Makes the bucket and the job's queues, where they are not there yet. */
export async function createQueues(aws: LocalAws, job: JobConfig) {
  await aws.createBucket(LOCAL_BUCKET);
  const queue = await aws.createQueue({
    name: queueName(job.jobName),
    visibilitySeconds: hiddenSeconds(job),
    // Here a message may come again after seconds, so a day takes more deliveries than on SQS.
    maxReceiveCount: Math.max(MOST_DELIVERIES, Math.ceil(LEAST_DELIVERED_SECONDS / hiddenSeconds(job))),
  });
  const deadLetterUrl = queue.deadLetter?.url;
  if (deadLetterUrl === undefined) throw new Error('a queue with maxReceiveCount has a dead-letter queue');
  return { queue, deadLetterUrl };
}
