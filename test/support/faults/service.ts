/**
 * The parts of the service that a test needs: queue and bucket, Redis, batch workers in this process. The handlers
 * are the deployed ones, and every worker has its own connection, as every environment does.
 */
import { randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { SQSClient } from '@aws-sdk/client-sqs';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { deadLetter } from '../../../functions/dead-letter.ts';
import { newAttributes } from '../../../lib/codecs/attributes.ts';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { encodePointer } from '../../../lib/codecs/pointer.ts';
import { endingsOf } from '../../../lib/compose/batch.ts';
import { deadLetterPrefix } from '../../../lib/contract/names.ts';
import type { Notified } from '../../../lib/contract/notice.ts';
import type { Model, Runner } from '../../../lib/contract/values.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import { submit } from '../../../lib/pipeline/submit.ts';
import { openSqs, QueueSender } from '../../../lib/queue/sender.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { StoredRunCounts } from '../../../lib/redis/run-counts.ts';
import { RunningReports } from '../../../lib/results/running.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import { putText } from '../../../lib/s3/objects.ts';
import { PayloadStore } from '../../../lib/s3/payloads.ts';
import { type LocalAws, startAws } from '../../../local/aws/aws.ts';
import { newCredentials } from '../../../local/aws/credentials.ts';
import type { LocalLog } from '../../../local/aws/lambda.ts';
import type { RecordInputs } from '../../../sdk/inputs.ts';
import { toInputs } from '../../../sdk/inputs.ts';
import { useAws } from '../environment.ts';
import { quietObservers, timersTo } from '../observers.ts';
import { openModelBytes } from '../runner.ts';
import { lineModel } from './model.ts';

export const JOB = 'faults';
export const BUCKET = 'faults-bucket';
export const QUIET: LocalLog = { info: () => undefined, warn: () => undefined, error: () => undefined };

export type SqsHandler = (event: SQSEvent) => Promise<SQSBatchResponse>;

export interface Queue {
  readonly aws: LocalAws;
  readonly url: string;
  readonly deadLetterUrl: string | undefined;
  /** As InputQueue does it: through S3 where the record is large. */
  readonly send: (uri: string, inputs: RecordInputs, notified?: Notified) => Promise<void>;
  /** A small record as if it were large. */
  readonly sendThroughS3: Queue['send'];
  /** A client of the same queue at another address, a proxy. */
  sqsAt(endpoint: string): SQSClient;
}

/** Shared by every queue of this process: several run at once, and their clients read the one environment. */
const CREDENTIALS = newCredentials();

export async function startQueue(t: TestContext, maxReceiveCount?: number): Promise<Queue> {
  const aws = await startAws({ port: 0, log: QUIET, credentials: CREDENTIALS });
  t.after(() => aws.close());
  useAws(aws.environment);
  await aws.createBucket(BUCKET);
  const { url, deadLetter: dead } = await aws.createQueue({
    name: 'faults',
    visibilitySeconds: 600,
    ...(maxReceiveCount === undefined ? {} : { maxReceiveCount }),
  });
  const sender = new QueueSender(aws.sqs, { queueUrl: url });
  const payloads = new PayloadStore(aws.s3, BUCKET, JOB);
  return {
    aws,
    url,
    deadLetterUrl: dead?.url,
    send: async (uri, inputs, notified = {}) =>
      submit(sender, async () => payloads, {
        uri,
        identity: randomUUID(),
        message: encodeMessage(uri, await toInputs(inputs)),
        ...notified,
      }),
    sendThroughS3: async (uri, inputs, notified = {}) => {
      const key = await payloads.put(encodeMessage(uri, await toInputs(inputs)));
      await sender.send(encodePointer(uri, key), newAttributes(randomUUID(), undefined, notified));
    },
    sqsAt: (endpoint) => {
      const sqs = openSqs({ endpoint, region: aws.region });
      t.after(() => sqs.destroy());
      return sqs;
    },
  };
}

export interface WorkerOptions {
  readonly redisUrl: string;
  readonly runner?: Runner;
  /** Default: a model that has the runner at any time. */
  readonly model?: Model;
  /** Runs of a record from its second delivery on. Default 5. */
  readonly maxReceiveCount?: number;
  readonly job?: string;
  readonly ttlSeconds?: number;
  readonly now?: () => number;
  /** Where S3 is; default: the queue's. */
  readonly s3Endpoint?: string;
  readonly timeouts?: { readonly connectTimeoutMs: number; readonly commandTimeoutMs: number };
}

/** A store on a connection of its own. */
export function openStore(t: TestContext, options: WorkerOptions): ResultStore {
  const { redisUrl, job = JOB, ttlSeconds = 3600, now = Date.now, timeouts } = options;
  const store = new ResultStore(new RedisConnection(redisUrl, timeouts), { job, ttlSeconds, now });
  t.after(() => store.close());
  return store;
}

function openStates(t: TestContext, { redisUrl, job = JOB, timeouts }: WorkerOptions): RecordStates {
  const connection = new RedisConnection(redisUrl, timeouts);
  t.after(() => connection.close());
  return new RecordStates(connection, { job, now: Date.now });
}

/** The batch handler as one Lambda environment holds it. */
export async function openWorker(t: TestContext, options: WorkerOptions): Promise<SqsHandler> {
  const { redisUrl, job = JOB, timeouts, maxReceiveCount: most = 5 } = options;
  const results = openStore(t, options);
  const { timers, observers } = timersTo(results);
  const runner = options.runner ?? (await lineRunner(t));
  const counting = new RedisConnection(redisUrl, timeouts);
  t.after(() => counting.close());
  const s3 = openS3({ endpoint: options.s3Endpoint ?? process.env['AWS_ENDPOINT_URL'] });
  return serveEvent({
    model: options.model ?? { use: (work) => work(runner) },
    sink: resultSink(results, { timers, observer: observers }),
    running: new RunningReports(openStates(t, options), 30_000, Date.now),
    payloads: new PayloadStore(s3, BUCKET, job),
    observers,
    endings: endingsOf(new StoredRunCounts(counting, { job, retentionSeconds: 3600, most }), {
      archive: archiveIn(s3, job),
      observers,
    }),
    now: options.now ?? Date.now,
  });
}

function archiveIn(s3: ReturnType<typeof openS3>, job: string) {
  return (id: string, message: string) =>
    putText(s3, { bucket: BUCKET, key: `${deadLetterPrefix(job)}${id}.json` }, message);
}

export function lineRunner(t: TestContext): Promise<Runner> {
  return openModelBytes(t, lineModel());
}

export function openDeadLetter(t: TestContext, options: WorkerOptions): SqsHandler {
  const s3 = openS3({ endpoint: options.s3Endpoint ?? process.env['AWS_ENDPOINT_URL'], idleMs: 1_000 });
  t.after(() => s3.destroy());
  const job = options.job ?? JOB;
  return deadLetter({
    sink: resultSink(openStore(t, options)),
    archive: archiveIn(s3, job),
    observers: quietObservers(),
    attempts: 3,
  });
}
