/** Sends records to SQS, large ones by way of S3, and announces them in Redis. Loaded with the first record. */
import { GetQueueUrlCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { asError, ServingError } from '../lib/contract/errors.ts';
import { withoutPriorities } from '../lib/contract/schedule.ts';
import { readTrace } from '../lib/contract/trace.ts';
import { variables } from '../lib/contract/variables.ts';
import { sendAnnounced, submit } from '../lib/pipeline/submit.ts';
import { highQueueName, queueName } from '../lib/queue/names.ts';
import { assertGroupId, openSqs, QueueSender } from '../lib/queue/sender.ts';
import type { PayloadStore } from '../lib/s3/payloads.ts';
import type { Message } from './http/input-queue.ts';
import { awsAgent } from './proxy.ts';
import type { Announcing } from './redis-results.ts';

export interface QueueOptions {
  /** The stage of a deployment, whose queue is then found by job and stage. Without it: the queue of a local service. */
  readonly stage?: string;
  /** The SQS queue. Found by the names of job and stage if neither this nor frontendUrl is given. */
  readonly queueUrl?: string;
  /** The AWS endpoint. Default: the AWS SDK's own (AWS_ENDPOINT_URL). */
  readonly endpoint?: string;
  /** Region of SQS and S3. Default: the AWS SDK's own (AWS_REGION). */
  readonly region?: string;
  /** The bucket of the service. With it, records over 1 MiB are sent through S3. */
  readonly bucket?: string;
  /**
   * The service's Redis, redis://host:port or rediss://... With it a record is announced before it is sent, so that
   * `status` knows what is queued and `cancel` what there is to cancel.
   */
  readonly redisUrl?: string;
}

export class Queue {
  readonly #options: QueueOptions;
  readonly #job: string;
  #states: Promise<Announcing> | undefined;
  #sqs: SQSClient | undefined;
  readonly #senders = new Map<'high' | 'normal', Promise<QueueSender>>();
  #payloadStore: Promise<PayloadStore> | undefined;

  constructor(job: string, options: QueueOptions) {
    this.#job = job;
    this.#options = options;
  }

  /** @param sendOverHttp instead of SQS */
  async send(record: Message, signal: AbortSignal, sendOverHttp?: () => Promise<void>): Promise<void> {
    if (record.groupId !== undefined) assertGroupId(record.groupId);
    const { redisUrl } = this.#options;
    if (redisUrl !== undefined)
      this.#states ??= import('./redis-results.ts').then((redis) => redis.openStates(redisUrl, this.#job));
    const states = (await this.#states)?.states;
    // Over HTTPS the service compares it.
    const { key } = record;
    const request = key === undefined || sendOverHttp ? undefined : { key };
    await sendAnnounced(states, [{ ...record, request }], async (one) => {
      if (sendOverHttp) return sendOverHttp();
      const sender = await this.#open(one.priority);
      signal.throwIfAborted();
      const sent = submit(sender, this.#payloads, { ...one, trace: readTrace(one) });
      return one.priority === 'high' ? sent.catch(refusedPriority) : sent;
    });
  }

  async close(): Promise<void> {
    this.#sqs?.destroy();
    await (await this.#states)?.connection.close();
  }

  /** S3 is loaded when the first large record needs it. */
  get #payloads(): (() => Promise<PayloadStore>) | undefined {
    const { bucket, endpoint, region } = this.#options;
    if (bucket === undefined) return undefined;
    return () => (this.#payloadStore ??= openPayloads(bucket, this.#job, { endpoint, region }));
  }

  #open(priority: 'high' | 'normal' = 'normal'): Promise<QueueSender> {
    const opened = this.#senders.get(priority);
    if (opened) return opened;
    const opening = this.#openSender(priority === 'high').catch((error: unknown) => {
      this.#senders.delete(priority);
      throw error;
    });
    this.#senders.set(priority, opening);
    return opening;
  }

  async #openSender(isHigh: boolean): Promise<QueueSender> {
    const { region, queueUrl } = this.#options;
    // The AWS SDK asks the host of a queue's url, even if the variables name another endpoint.
    const named = variables['AWS_ENDPOINT_URL_SQS'] || variables['AWS_ENDPOINT_URL'];
    const endpoint = this.#options.endpoint ?? (named || undefined);
    const sqs = (this.#sqs ??= openSqs({ endpoint, region, ...awsAgent() }));
    if (queueUrl) return new QueueSender(sqs, { queueUrl: isHigh ? highQueueName(queueUrl) : queueUrl });
    const records = queueName(this.#job, this.#options.stage);
    const name = isHigh ? highQueueName(records) : records;
    try {
      const { QueueUrl } = await sqs.send(new GetQueueUrlCommand({ QueueName: name }));
      return new QueueSender(sqs, { queueUrl: QueueUrl as string });
    } catch (error) {
      if (isHigh && isAbsent(error)) throw withoutPriorities();
      throw new ServingError(
        'queue_unavailable',
        `no queue ${name} to be found: ${asError(error).message}${advice(asError(error), this.#options)}`,
        { cause: error },
      );
    }
  }
}

const ABSENT = /does not exist|NonExistentQueue/i;

function isAbsent(error: unknown): boolean {
  const { name, message } = asError(error);
  return ABSENT.test(`${name} ${message}`);
}

/** A record of a job that has one queue. The queue of its name is not there. */
function refusedPriority(error: unknown): never {
  throw isAbsent(error) ? withoutPriorities() : error;
}

/** Adds which variables or options are missing, because the AWS SDK's errors name neither. */
function advice({ name, message }: Error, { stage }: QueueOptions): string {
  if (stage === undefined && ABSENT.test(`${name} ${message}`))
    return '. The queue of a deployment has the stage in its name: give InputQueue the stage, or the queueUrl';
  if (!/region is missing/i.test(message) && name !== 'CredentialsProviderError') return '';
  return (
    '. The AWS SDK needs AWS_REGION (or the option region) and credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), ' +
    'and AWS_ENDPOINT_URL (or the option endpoint) for a service on this machine: paste the `export AWS_…` lines that ' +
    '`cluster-serving start` printed; without AWS, give InputQueue the frontendUrl'
  );
}

async function openPayloads(
  bucket: string,
  job: string,
  options: { endpoint: string | undefined; region: string | undefined },
): Promise<PayloadStore> {
  const [{ openS3 }, { PayloadStore }] = await Promise.all([
    import('../lib/s3/client.ts'),
    import('../lib/s3/payloads.ts'),
  ]);
  return new PayloadStore(openS3({ ...options, ...awsAgent() }), bucket, job);
}
