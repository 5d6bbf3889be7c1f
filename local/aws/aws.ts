/**
 * SQS and S3 in this process, for AWS SDKs and the aws command line. A queue's URL contains the port and changes at
 * each start, so ask createQueue for it and do not store it.
 */
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  QueueDoesNotExist,
  SetQueueAttributesCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { badConfig, ServingError } from '../../lib/contract/errors.ts';
import { listenError } from '../machine/ports.ts';
import { type Credentials, newCredentials } from './credentials.ts';
import { directSqs, type SqsCalls } from './direct.ts';
import { DEFAULT_REGION, LOCAL_ACCOUNT_ID, type LocalLog } from './lambda.ts';
import { buildLocalApp } from './server.ts';
import { SignatureCheck } from './signature.ts';
import { openStorage } from './storage.ts';
import type { SqsQueue } from './stores.ts';

/** SQS limits. */
const MAX_VISIBILITY_SECONDS = 43_200;
const MIN_RETENTION_SECONDS = 60;
const MAX_RETENTION_SECONDS = 1_209_600;
/** SQS has 1,000. Here messages may come again sooner. */
const MAX_RECEIVES = 100_000;

export interface LocalAwsOptions {
  /** 0 takes any free port. */
  readonly port: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** With which requests must be signed. Default: new ones. */
  readonly credentials?: Credentials;
  /** Queues, messages and objects are kept here; without it they are in memory only. */
  readonly dataDir?: string;
  /** Default us-east-1. */
  readonly region?: string;
  readonly log: LocalLog;
  /** The option that errors name when the port is in use, default --aws-port. */
  readonly portOption?: string;
  /** Wall clock in ms, default Date.now. */
  readonly now?: () => number;
}

export interface LocalQueueOptions {
  /** Letters, digits, - and _, at most 80. */
  readonly name: string;
  /** Default 30. */
  readonly visibilitySeconds?: number;
  /** Default 345,600 (4 days). A dead-letter queue always keeps 14 days. */
  readonly retentionSeconds?: number;
  /** Receives before a message moves to the dead-letter queue; without it there is none. */
  readonly maxReceiveCount?: number;
  /** Default `<name>-dlq`. */
  readonly deadLetterName?: string;
}

interface QueueAddress {
  readonly url: string;
  readonly arn: string;
}

export interface LocalQueue extends QueueAddress {
  /** Set when maxReceiveCount was given. */
  readonly deadLetter: QueueAddress | undefined;
}

/** Messages of a queue. */
export interface QueueFigures {
  readonly waiting: number;
  /** Delivered, and neither acknowledged nor visible again. */
  readonly running: number;
  readonly delayed: number;
  /** When the first of those that wait was sent, in ms since 1970; undefined when none waits. */
  readonly oldestMs: number | undefined;
}

export interface LocalAws {
  readonly url: string;
  readonly port: number;
  readonly region: string;
  readonly credentials: Credentials;
  readonly sqs: SQSClient;
  /** The same queues without HTTP, with the calls that a poller needs. */
  readonly direct: SqsCalls;
  readonly s3: S3Client;
  /** The environment variables with which another process can use these services. */
  readonly environment: Readonly<Record<string, string>>;
  /** Creates the queue, or updates the settings of an existing one and keeps its messages. */
  createQueue(options: LocalQueueOptions): Promise<LocalQueue>;
  /** At least the number of every message, by which the enqueues of a uri are ordered. */
  latestOrder(): number;
  /** How full a queue is now. */
  queueFigures(queueUrl: string): QueueFigures;
  /** Creates the bucket if it is missing. */
  createBucket(name: string): Promise<void>;
  close(): Promise<void>;
}

export async function startAws(options: LocalAwsOptions): Promise<LocalAws> {
  const { host = '127.0.0.1', region = DEFAULT_REGION, portOption = '--aws-port' } = options;
  const { credentials = newCredentials(), now = Date.now } = options;
  const storage = await openStorage(options.dataDir);
  const app = buildLocalApp(storage, region, new SignatureCheck(credentials, now));
  const direct = await directSqs(storage);
  try {
    await app.listen({ port: options.port, host });
  } catch (error) {
    storage.close();
    throw await listenError(error, { port: options.port, host, option: portOption });
  }
  const address = app.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : options.port;
  const url = `http://${host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host}:${port}`;
  storage.renameQueues((name) => `${url}/${LOCAL_ACCOUNT_ID}/${name}`);
  const sqs = new SQSClient({ endpoint: url, region, credentials, useQueueUrlAsEndpoint: false });
  const s3 = new S3Client({ endpoint: url, region, credentials, forcePathStyle: true });
  options.log.info('SQS and S3 are up', { url, dataDir: options.dataDir ?? 'none, all in memory' });
  let closed: Promise<void> | undefined;
  const close = async () => {
    await app.close();
    sqs.destroy();
    s3.destroy();
    storage.close();
  };
  return {
    url,
    port,
    region,
    credentials,
    sqs,
    direct,
    s3,
    environment: {
      AWS_ENDPOINT_URL: url,
      AWS_REGION: region,
      AWS_DEFAULT_REGION: region,
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    },
    latestOrder: () => storage.latestOrder(),
    queueFigures: (queueUrl) => queueFigures(storage.stores.sqsStore.getQueue(queueUrl)),
    createQueue: (queue) => attempt(`queue ${queue.name}`, () => createQueue(sqs, queue)),
    createBucket: (name) => attempt(`bucket ${name}`, () => createBucket(s3, name)),
    close: () => (closed ??= close()),
  };
}

function queueFigures(queue: SqsQueue | undefined): QueueFigures {
  return {
    waiting: queue?.messages.length ?? 0,
    running: queue?.inflightMessages.size ?? 0,
    delayed: queue?.delayedMessages.length ?? 0,
    oldestMs: queue?.messages.at(0)?.sentTimestamp,
  };
}

async function createQueue(sqs: SQSClient, options: LocalQueueOptions): Promise<LocalQueue> {
  checkQueue(options);
  const { maxReceiveCount } = options;
  const deadLetter =
    maxReceiveCount === undefined
      ? undefined
      : await putQueue(sqs, options.deadLetterName ?? `${options.name}-dlq`, {
          MessageRetentionPeriod: String(MAX_RETENTION_SECONDS),
        });
  const queue = await putQueue(sqs, options.name, {
    VisibilityTimeout: String(options.visibilitySeconds ?? 30),
    MessageRetentionPeriod: String(options.retentionSeconds ?? 345_600),
    // An empty policy removes the one of an earlier start.
    RedrivePolicy:
      deadLetter === undefined
        ? ''
        : JSON.stringify({ deadLetterTargetArn: deadLetter.arn, maxReceiveCount }),
  });
  return { ...queue, deadLetter };
}

/** CreateQueue fails if the queue exists with other settings, so these are set in a second step. */
async function putQueue(
  sqs: SQSClient,
  name: string,
  attributes: Record<string, string>,
): Promise<QueueAddress> {
  const url =
    (await existingQueue(sqs, name)) ??
    (await sqs.send(new CreateQueueCommand({ QueueName: name }))).QueueUrl;
  await sqs.send(new SetQueueAttributesCommand({ QueueUrl: url, Attributes: attributes }));
  const facts = await sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['QueueArn'] }),
  );
  const arn = facts.Attributes?.QueueArn;
  if (url === undefined || arn === undefined)
    throw new ServingError('internal', `queue ${name} has no URL or ARN`);
  return { url, arn };
}

async function existingQueue(sqs: SQSClient, name: string): Promise<string | undefined> {
  try {
    return (await sqs.send(new GetQueueUrlCommand({ QueueName: name }))).QueueUrl;
  } catch (error) {
    if (error instanceof QueueDoesNotExist) return undefined;
    throw error;
  }
}

async function createBucket(s3: S3Client, name: string): Promise<void> {
  await s3.send(new CreateBucketCommand({ Bucket: name }));
}

function checkQueue(options: LocalQueueOptions): void {
  const problems: string[] = [];
  for (const name of [options.name, options.deadLetterName ?? 'x']) {
    if (!/^[A-Za-z0-9_-]{1,80}$/.test(name)) {
      problems.push(
        `name must be 1 to 80 letters, digits, - and _ (no FIFO queues), got ${JSON.stringify(name)}`,
      );
    }
  }
  const check = (field: string, value: number | undefined, least: number, most: number) => {
    if (value === undefined || (Number.isInteger(value) && value >= least && value <= most)) return;
    problems.push(`${field} must be a whole number from ${least} to ${most}, got ${value}`);
  };
  check('visibilitySeconds', options.visibilitySeconds, 0, MAX_VISIBILITY_SECONDS);
  check('retentionSeconds', options.retentionSeconds, MIN_RETENTION_SECONDS, MAX_RETENTION_SECONDS);
  check('maxReceiveCount', options.maxReceiveCount, 1, MAX_RECEIVES);
  if (problems.length > 0) throw badConfig(problems.join('; '));
}

async function attempt<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw badConfig(`${what} cannot be created: ${reason}`, { cause: error });
  }
}
