/** Gives a job on this machine what a deployment gives it on AWS: its queues, and the environment of its functions. */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import {
  type Environment,
  notifySecretOf,
  notifySecretVariable,
  tracesOf,
} from '../../lib/config/environment.ts';
import {
  hasTargets,
  hiddenSeconds,
  type JobConfig,
  NOTIFIER_RECEIVES,
  NOTIFIER_SECONDS,
} from '../../lib/config/job.ts';
import { type AwsAddress, awsAddressOf, isFifo } from '../../lib/contract/aws-address.ts';
import { asError, badConfig } from '../../lib/contract/errors.ts';
import { variables } from '../../lib/contract/variables.ts';
import { secretKeys } from '../../lib/notify/webhook.ts';
import { MOST_DELIVERIES } from '../../lib/pipeline/dead-letters.ts';
import {
  deadLetterQueueName,
  fileJobQueueName,
  highQueueName,
  isQueueOfJob,
  notifyQueueName,
  queueName,
} from '../../lib/queue/names.ts';
import type { LocalAws, LocalQueue, QueueFigures } from '../aws/aws.ts';
import type { JobServices, ServedJob } from './runs.ts';

interface JobQueues {
  readonly queue: LocalQueue;
  readonly deadLetterUrl: string;
  /** The queue of the notifier; undefined for a job without targets. */
  readonly notices: LocalQueue | undefined;
  /** The queue of jobs over files. */
  readonly fileJobs: LocalQueue;
}

export const LOCAL_BUCKET = 'cluster-serving';
/** How long a message is delivered again before the queue gives it up. */
const LEAST_DELIVERED_SECONDS = 2 * 86_400;

/** The environment that Lambda's variables describe for a deployed function, on this machine. */
export function environmentOf(
  { job, modelDirectory, directory }: ServedJob,
  { queue, notices, fileJobs }: Pick<JobQueues, 'queue' | 'notices' | 'fileJobs'>,
  { aws, redisUrl, dataDir }: JobServices,
): Environment {
  return {
    job,
    bucket: LOCAL_BUCKET,
    queueUrl: queue.url,
    notifyQueueUrl: notices?.url ?? '',
    notifyDeadLetterUrl: notices?.deadLetter?.url ?? '',
    fileJobQueueUrl: fileJobs.url,
    eventSources: '',
    notifySecret: (target) => notifySecretOf(target, variables),
    hasQueue: true,
    redisUrl,
    tableName: '',
    tableEndpoint: undefined,
    hasResults: true,
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
    isTraced: false,
    traces: tracesOf(variables),
    modelDirectory: join(dataDir, 'models', job.jobName),
    workerFolders: directory === undefined ? undefined : { directory, modelDir: modelDirectory },
  };
}

/** Makes the bucket and the job's queues, where they are not there yet. */
export async function createQueues(aws: LocalAws, job: JobConfig): Promise<JobQueues> {
  assertTargets(job);
  await aws.createBucket(LOCAL_BUCKET);
  const delivered = {
    visibilitySeconds: hiddenSeconds(job),
    // Here a message may come again after seconds, so a day takes more deliveries than on SQS.
    maxReceiveCount: Math.max(MOST_DELIVERIES, Math.ceil(LEAST_DELIVERED_SECONDS / hiddenSeconds(job))),
  };
  const queue = await aws.createQueue({ ...delivered, name: queueName(job.jobName) });
  if (job.queue.highShare > 0)
    await aws.createQueue({
      ...delivered,
      name: highQueueName(queueName(job.jobName)),
      deadLetterName: deadLetterQueueName(queueName(job.jobName)),
    });
  const fileJobs = await aws.createQueue({ ...delivered, name: fileJobQueueName(queueName(job.jobName)) });
  const deadLetterUrl = queue.deadLetter?.url;
  if (deadLetterUrl === undefined) throw new Error('a queue with maxReceiveCount has a dead-letter queue');
  const notices = hasTargets(job)
    ? await aws.createQueue({
        name: notifyQueueName(queueName(job.jobName)),
        visibilitySeconds: NOTIFIER_SECONDS * 6,
        maxReceiveCount: NOTIFIER_RECEIVES,
      })
    : undefined;
  return { queue, deadLetterUrl, notices, fileJobs };
}

/** Targets that one machine can call, and the secrets, which a deployment reads from Systems Manager. @throws bad_config */
function assertTargets({ notify, jobName }: JobConfig): void {
  for (const [name, target] of Object.entries(notify)) {
    const address = awsAddressOf(target);
    if (address) {
      const problem = problemHere(address, queueName(jobName));
      if (problem !== undefined) throw badConfig(`notify.${name}: ${problem}`);
      continue;
    }
    const variable = notifySecretVariable(name);
    const secret = notifySecretOf(name, variables);
    if (secret === undefined)
      throw badConfig(
        `notify.${name}: on one machine the secret is in the environment variable ${variable}, which is not set; \`export ${variable}=whsec_$(openssl rand -base64 32)\` makes one`,
      );
    try {
      secretKeys(secret);
    } catch (error) {
      throw badConfig(`${variable}: ${asError(error).message}`);
    }
  }
}

const ABSENT = { sns: 'SNS', events: 'EventBridge', states: 'Step Functions' } as const;
const INSTEAD = 'try it with a webhook (url: http://localhost:3000/hooks) or a queue (sqs)';

function problemHere(address: AwsAddress, own: string): string | undefined {
  if (address.service !== 'sqs')
    return `there is no ${ABSENT[address.service]} on one machine; ${INSTEAD}, and deploy it with this target`;
  if (isFifo(address)) return `the SQS of one machine has no FIFO queues; ${INSTEAD} that is none`;
  return isQueueOfJob(address.name, own) ? `${address.name} is a queue of the job itself` : undefined;
}

/** How full the queues of records are: both, where a part of them has a priority. */
export function recordFigures(aws: LocalAws, queueUrl: string, { queue }: JobConfig): QueueFigures {
  const normal = aws.queueFigures(queueUrl);
  if (queue.highShare === 0) return normal;
  const high = aws.queueFigures(highQueueName(queueUrl));
  const oldest = [normal.oldestMs, high.oldestMs].filter((ms) => ms !== undefined);
  return {
    waiting: normal.waiting + high.waiting,
    running: normal.running + high.running,
    delayed: normal.delayed + high.delayed,
    oldestMs: oldest.length === 0 ? undefined : Math.min(...oldest),
  };
}
