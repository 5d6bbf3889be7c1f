/** Redis, SQS and S3 for the functions of one or two versions, with a queue for each job. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DeleteMessageBatchCommand,
  type MessageAttributeValue,
  ReceiveMessageCommand,
} from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { Redis } from 'ioredis';
import { useAws } from '../support/environment.ts';
import type { FunctionName } from './code.ts';
import { type FunctionEnvironment, startEnvironment } from './function-environment.ts';
import { MOST_DELIVERIES, queueNameOf } from './jobs.ts';
import type { Code } from './kept.ts';
import { openAws, openRedisServer } from './today.ts';

const BUCKET = 'upgrade';
/** Long enough that no message is redelivered by itself during a test. */
const VISIBILITY_SECONDS = 600;

export interface Queue {
  readonly url: string;
  readonly deadLetterUrl: string;
}

export interface Servers {
  /** For files of the test. */
  readonly folder: string;
  readonly redis: Redis;
  readonly redisUrl: string;
  readonly aws: Awaited<ReturnType<typeof openAws>>;
  readonly bucket: string;
  readonly queue: (job: string) => Queue;
  /** Receives up to ten messages, which stay in flight. */
  readonly receive: (job: string, most?: number) => Promise<SQSRecord[]>;
  readonly remove: (job: string, records: readonly SQSRecord[]) => Promise<void>;
  /** Registers what is to be closed before the servers. */
  readonly onClose: (close: () => Promise<unknown>) => void;
  close(): Promise<void>;
}

export async function openServers(jobs: readonly string[]): Promise<Servers> {
  const closers: (() => Promise<unknown>)[] = [];
  const onClose = (close: () => Promise<unknown>) => void closers.push(close);
  const folder = await mkdtemp(join(tmpdir(), 'cs-upgrade-'));
  onClose(() => rm(folder, { recursive: true, force: true }));
  const server = await openRedisServer(join(folder, 'redis'));
  onClose(() => server.close());
  const redis = new Redis(server.url);
  onClose(() => redis.quit());
  const aws = await openAws();
  onClose(() => aws.close());
  useAws(aws.environment);
  await aws.createBucket(BUCKET);
  const queues = new Map<string, Queue>();
  for (const job of jobs) {
    const { url, deadLetter } = await aws.createQueue({
      name: queueNameOf(job),
      visibilitySeconds: VISIBILITY_SECONDS,
      maxReceiveCount: MOST_DELIVERIES,
    });
    queues.set(job, { url, deadLetterUrl: deadLetter?.url ?? '' });
  }
  const queue = (job: string): Queue => {
    const found = queues.get(job);
    if (!found) throw new Error(`no queue of ${job}`);
    return found;
  };
  return {
    folder,
    redis,
    redisUrl: server.url,
    aws,
    bucket: BUCKET,
    queue,
    async receive(job, most = 10) {
      const receive = new ReceiveMessageCommand({
        QueueUrl: queue(job).url,
        MaxNumberOfMessages: most,
        MessageSystemAttributeNames: ['All'],
        MessageAttributeNames: ['All'],
      });
      const { Messages = [] } = await aws.sqs.send(receive);
      return Messages.map(
        ({
          MessageId = '',
          ReceiptHandle = '',
          Body = '',
          MD5OfBody = '',
          Attributes,
          MessageAttributes = {},
        }) => ({
          messageId: MessageId,
          receiptHandle: ReceiptHandle,
          body: Body,
          attributes: Attributes as unknown as SQSRecord['attributes'],
          messageAttributes: attributesOf(MessageAttributes),
          md5OfBody: MD5OfBody,
          eventSource: 'aws:sqs',
          eventSourceARN: `arn:aws:sqs:local:000000000000:${queueNameOf(job)}`,
          awsRegion: aws.region,
        }),
      );
    },
    async remove(job, records) {
      if (records.length === 0) return;
      const Entries = records.map(({ receiptHandle }, i) => ({
        Id: String(i),
        ReceiptHandle: receiptHandle,
      }));
      await aws.sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queue(job).url, Entries }));
    },
    onClose,
    async close() {
      for (const close of closers.toReversed()) await close();
    },
  };
}

/** As Lambda hands them to a function. */
function attributesOf(attributes: Record<string, MessageAttributeValue>): SQSRecord['messageAttributes'] {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, { StringValue, DataType = 'String' }]) => [
      name,
      { stringValue: StringValue, dataType: DataType, stringListValues: [], binaryListValues: [] },
    ]),
  );
}

/** Starts the functions of a job in an environment that is closed with the servers. */
export async function startFunctions(
  code: Code,
  servers: Servers,
  job: { readonly name: string; readonly config: string; readonly load: readonly FunctionName[] },
): Promise<FunctionEnvironment> {
  const { aws, bucket, redisUrl } = servers;
  const queueUrl = servers.queue(job.name).url;
  const variables = code.functionEnvironment(job.config, {
    aws: aws.environment,
    bucket,
    queueUrl,
    redisUrl,
  });
  const environment = await startEnvironment({ code, variables, load: job.load });
  servers.onClose(() => environment.close());
  return environment;
}

/** @param announces whether the client connects to Redis and announces what it sends */
export function openInput(code: Code, servers: Servers, job: string, announces: boolean) {
  const { aws, bucket, redisUrl } = servers;
  return new code.InputQueue({
    name: job,
    queueUrl: servers.queue(job).url,
    endpoint: aws.url,
    region: aws.region,
    bucket,
    ...(announces ? { redisUrl } : {}),
  });
}

export function openOutput(code: Code, { redisUrl }: Servers, job: string) {
  return new code.OutputQueue({ name: job, url: redisUrl });
}

export async function writeConfig({ folder }: Servers, job: string, config: string): Promise<string> {
  const file = join(folder, `${job}.yaml`);
  await writeFile(file, config);
  return file;
}
