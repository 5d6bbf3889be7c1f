/**
 * Puts records into the job's queue: the client half of the enqueue contract. Every call resolves when the queue has
 * the record, or throws; the Python client only printed a line when the queue was full, and lost the record.
 */
import { randomUUID } from 'node:crypto';
import { GetQueueUrlCommand } from '@aws-sdk/client-sqs';
import { encodeMessage } from '../lib/codecs/message.ts';
import { assertIdentity } from '../lib/contract/enqueue.ts';
import { badConfig, badRequest, ServingError } from '../lib/contract/errors.ts';
import { assertJobName, DEFAULT_JOB_NAME } from '../lib/contract/names.ts';
import { readTrace, traceHeaders } from '../lib/contract/trace.ts';
import { type SentRecord, sendAnnounced, submit } from '../lib/pipeline/submit.ts';
import { assertStage, queueName } from '../lib/queue/names.ts';
import { assertGroupId, openSqs, QueueSender } from '../lib/queue/sender.ts';
import { openRedis } from '../lib/redis/cluster/connection.ts';
import type { RedisConnection } from '../lib/redis/connection.ts';
import { RecordStates } from '../lib/redis/record-states.ts';
import type { PayloadStore } from '../lib/s3/payloads.ts';
import { type AccessOptions, authorizedFetch } from './access.ts';
import { type Fetch, postJson } from './fetch.ts';
import { type RecordInputs, toInputs } from './inputs.ts';
import { retrying } from './retries.ts';

export interface InputQueueOptions extends AccessOptions {
  /** Job name. Default serving_stream. */
  readonly name?: string;
  /** The stage of a deployment, whose queue is then found by job and stage. Without it: the queue of a local service. */
  readonly stage?: string;
  /** The SQS queue. Found by the names of job and stage if neither this nor frontendUrl is given. */
  readonly queueUrl?: string;
  /** The AWS endpoint. Default: the AWS SDK's own (AWS_ENDPOINT_URL). */
  readonly endpoint?: string;
  /** Of SQS and S3, and of signatures where the url does not say it. Default: the AWS SDK's own (AWS_REGION). */
  readonly region?: string;
  /** The bucket of the service. With it, records over 1 MiB are sent through S3. */
  readonly bucket?: string;
  /** The HTTPS API. `predict` needs it, and without a queueUrl `enqueue` uses it too. */
  readonly frontendUrl?: string;
  /**
   * The service's Redis, redis://host:port or rediss://... With it a record is announced before it is sent, so that
   * `status` knows what is queued and `cancel` what there is to cancel.
   */
  readonly redisUrl?: string;
}

export interface EnqueueOptions {
  /**
   * Names this enqueue, in 1 to 64 letters, digits, ".", "_" or "-". Default a random UUID. To be given when the same
   * enqueue is tried again after an error, because the queue may have the record although its answer was lost.
   */
  readonly identity?: string | undefined;
  /**
   * Whose record it is, in 1 to 128 letters, digits and punctuation of ASCII. SQS delivers the records of a tenant who sends
   * many after those of the others (a fair queue). For the queue only, not over HTTPS.
   */
  readonly tenant?: string | undefined;
  /** The W3C trace that it belongs to, as the header `traceparent` has it. What is malformed is ignored. */
  readonly traceparent?: string | undefined;
}

/** A record that the queue has. */
export interface Enqueued {
  readonly uri: string;
  /** For `query`, `wait` and `status`: they then know the result of this enqueue from that of any other of the uri. */
  readonly identity: string;
}

export interface QueueRecord extends EnqueueOptions {
  readonly uri: string;
  readonly inputs: RecordInputs;
}

/** Concurrent records of `enqueueMany`: enough for 16 calls of ten, with little memory. */
const IN_FLIGHT = 320;

/** Longer than in the service, because a client may be far from Redis. */
const CLIENT_TIMEOUTS = { connectTimeoutMs: 5_000, commandTimeoutMs: 5_000 };

export class InputQueue {
  readonly #options: InputQueueOptions;
  readonly #job: string;
  readonly #connection: RedisConnection | undefined;
  readonly #states: RecordStates | undefined;
  #http: Fetch | undefined;
  #sender: Promise<QueueSender> | undefined;
  #closed = false;
  #payloadStore: Promise<PayloadStore> | undefined;

  constructor(options: InputQueueOptions = {}) {
    this.#options = options;
    this.#job = assertJobName(options.name ?? DEFAULT_JOB_NAME);
    if (options.stage !== undefined) assertStage(options.stage);
    if (this.#overHttp) this.#openHttp();
    if (options.redisUrl === undefined) return;
    this.#connection = openRedis(options.redisUrl, CLIENT_TIMEOUTS);
    this.#states = new RecordStates(this.#connection, { job: this.#job, now: Date.now });
  }

  /**
   * Resolves when the queue has the record. Calls of one tick are sent together, ten per request. Of several records
   * under one uri the last enqueued counts, by the time at which SQS took them.
   * @throws queue_unavailable, too_large (over 1 MiB as a message and no bucket), bad_request; with redisUrl
   * results_unavailable; each with the uri
   */
  async enqueue(uri: string, inputs: RecordInputs, options: EnqueueOptions = {}): Promise<Enqueued> {
    try {
      const identity = assertIdentity(options.identity ?? randomUUID());
      const tenant = options.tenant === undefined ? undefined : this.#checkedTenant(options.tenant);
      const message = encodeMessage(uri, await toInputs(inputs));
      await this.enqueueMessage({
        uri,
        identity,
        message,
        trace: readTrace(options),
        ...(tenant === undefined ? {} : { groupId: tenant }),
      });
      return { uri, identity };
    } catch (error) {
      const { code, message } = ServingError.from(error);
      throw new ServingError(code, message, { uri, cause: error });
    }
  }

  /**
   * Enqueues a record whose message was made elsewhere.
   * @throws as `enqueue`
   */
  enqueueMessage(record: SentRecord): Promise<void> {
    return sendAnnounced(this.#states, [record], (one) => this.#send(one));
  }

  async #send(record: SentRecord): Promise<void> {
    if (!this.#overHttp) return submit(await this.#open(), this.#payloads, record);
    const headers = { 'idempotency-key': record.identity, ...traceHeaders(record.trace) };
    await postJson(this.#frontend('/predictions'), record.message, undefined, this.#openHttp(), headers);
  }

  #checkedTenant(tenant: string): string {
    if (this.#overHttp)
      throw badConfig('a tenant is for the queue: give queueUrl, or a stack, beside frontendUrl');
    return assertGroupId(tenant);
  }

  /**
   * Enqueues any number of records with bounded memory. An iterable is read as fast as the queue accepts records.
   * @param onProgress called now and then, and at the end, with the number of records accepted so far
   * @returns the number of accepted records, which is all of them
   * @throws AggregateError with one error (with its uri) per record that was not accepted; the others were
   */
  async enqueueMany(
    records: Iterable<QueueRecord> | AsyncIterable<QueueRecord>,
    onProgress: (taken: number) => void = () => undefined,
  ): Promise<number> {
    const errors: unknown[] = [];
    const flying = new Set<Promise<void>>();
    let taken = 0;
    try {
      for await (const { uri, inputs, ...options } of records) {
        const flight = this.enqueue(uri, inputs, options).then(
          () => void taken++,
          (error: unknown) => void errors.push(error),
        );
        const landed = flight.then(() => void flying.delete(landed));
        flying.add(landed);
        if (flying.size < IN_FLIGHT) continue;
        await Promise.race(flying);
        onProgress(taken);
      }
    } finally {
      // Also if the iterable or onProgress throws, so that nothing is still in flight afterwards.
      await Promise.all(flying);
    }
    onProgress(taken);
    if (errors.length > 0) {
      throw new AggregateError(
        errors,
        `${errors.length} of ${taken + errors.length} records were not enqueued`,
      );
    }
    return taken;
  }

  /**
   * Calls POST /predict and returns one text per instance, `{value=...}`.
   * @param request {"instances": [...]}, as an object or as JSON text
   * @param options.traceparent as of `enqueue`
   * @throws the service's error by its code; timeout after `timeoutMs` (default 29 s, the gateway's limit)
   */
  async predict(
    request: string | { readonly instances: readonly unknown[] },
    timeoutMs = 29_000,
    options: Pick<EnqueueOptions, 'traceparent'> = {},
  ): Promise<string[]> {
    const body = typeof request === 'string' ? request : JSON.stringify(request);
    const headers = traceHeaders(readTrace(options));
    const answer = await postJson(this.#frontend('/predict'), body, timeoutMs, this.#openHttp(), headers);
    return (answer as { predictions: string[] }).predictions;
  }

  /** S3 is loaded when the first large record needs it. */
  get #payloads(): (() => Promise<PayloadStore>) | undefined {
    const { bucket, endpoint, region } = this.#options;
    if (bucket === undefined) return undefined;
    return () => (this.#payloadStore ??= openPayloads(bucket, this.#job, { endpoint, region }));
  }

  get #overHttp(): boolean {
    return this.#options.queueUrl === undefined && this.#options.frontendUrl !== undefined;
  }

  #frontend(path: string): string {
    const { frontendUrl } = this.#options;
    if (!frontendUrl) throw badConfig('this needs frontendUrl: new InputQueue({ frontendUrl })');
    return frontendUrl.replace(/\/+$/, '') + path;
  }

  #openHttp(): Fetch {
    return (this.#http ??= retrying(authorizedFetch(this.#frontend(''), this.#options)));
  }

  #open(): Promise<QueueSender> {
    if (this.#closed) throw badRequest('this queue was closed');
    this.#sender ??= this.#openSender().catch((error: unknown) => {
      this.#sender = undefined;
      throw error;
    });
    return this.#sender;
  }

  async #openSender(): Promise<QueueSender> {
    const { endpoint, region, queueUrl } = this.#options;
    const sqs = openSqs({ endpoint, region });
    if (queueUrl) return new QueueSender(sqs, { queueUrl });
    const name = queueName(this.#job, this.#options.stage);
    try {
      const { QueueUrl } = await sqs.send(new GetQueueUrlCommand({ QueueName: name }));
      return new QueueSender(sqs, { queueUrl: QueueUrl as string });
    } catch (error) {
      throw new ServingError(
        'queue_unavailable',
        `no queue ${name} to be found: ${(error as Error).message}${advice(error as Error, this.#options)}`,
        { cause: error },
      );
    }
  }

  /** Closes the connections. Records that were not awaited may not have been sent. */
  async close(): Promise<void> {
    this.#closed = true;
    const sender = await this.#sender?.catch(() => undefined);
    sender?.close();
    await this.#connection?.close();
  }
}

/** Adds which variables or options are missing, because the AWS SDK's errors name neither. */
function advice({ name, message }: Error, { stage }: InputQueueOptions): string {
  if (stage === undefined && /does not exist|NonExistentQueue/i.test(`${name} ${message}`))
    return '. The queue of a deployment has the stage in its name: give InputQueue the stage, or the queueUrl';
  if (!/region is missing/i.test(message) && name !== 'CredentialsProviderError') return '';
  return (
    '. The AWS SDK needs AWS_REGION (or the option region) and credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), ' +
    'and AWS_ENDPOINT_URL (or the option endpoint) for a service on this machine: paste the `export AWS_…` lines that ' +
    '`npm start` printed; without AWS, give InputQueue the frontendUrl'
  );
}

async function openPayloads(
  bucket: string,
  job: string,
  options: { endpoint: string | undefined; region: string | undefined },
): Promise<PayloadStore> {
  const [{ openS3 }, { PayloadStore }] = await Promise.all([
    import('../lib/s3/objects.ts'),
    import('../lib/s3/payloads.ts'),
  ]);
  return new PayloadStore(openS3(options), bucket, job);
}
