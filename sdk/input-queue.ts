/** Enqueues records by way of SQS or the HTTPS API. What the calls do is in http/input-queue.ts. */
import { badRequest } from '../lib/contract/errors.ts';
import type { Inputs } from '../lib/contract/values.ts';
import { assertStage } from '../lib/queue/names.ts';
import { type AccessOptions, authorizedFetch } from './access.ts';
import { type Message, RecordWriter } from './http/input-queue.ts';
import { readImageFile } from './image-file.ts';
import { type RecordInputs, toInputs } from './inputs.ts';
import { nodeFetch } from './proxy.ts';
import type { Queue, QueueOptions } from './queue.ts';
import { retrying } from './retries.ts';

export interface InputQueueOptions extends AccessOptions, QueueOptions {
  /** Job name. Default: over HTTPS the job that the service serves, else serving_stream. */
  readonly name?: string;
  /**
   * Region of SQS and S3, and the region to sign for if the url does not name it. Default: the AWS SDK's own
   * (AWS_REGION).
   */
  readonly region?: string;
  /** The HTTPS API. `predict` needs it, and without a queueUrl `enqueue` uses it too. */
  readonly frontendUrl?: string;
}

export class InputQueue extends RecordWriter {
  readonly #options: InputQueueOptions;
  readonly #isOverHttp: boolean;
  #queue: Promise<Queue> | undefined;
  #isClosed = false;

  /** @throws bad_config */
  constructor(options: InputQueueOptions = {}) {
    const { name, stage, queueUrl, frontendUrl: url } = options;
    const send = url && retrying(authorizedFetch(url, options));
    super(name, send ? { url, send, bare: nodeFetch } : undefined);
    if (stage !== undefined) assertStage(stage);
    this.#options = options;
    this.#isOverHttp = queueUrl === undefined && url !== undefined;
  }

  protected override toInputs(inputs: RecordInputs): Promise<Inputs> {
    return toInputs(inputs, readImageFile);
  }

  /** SQS takes it, as long as records go there. */
  protected override assertTenant(tenant: string): void {
    if (this.#isOverHttp) super.assertTenant(tenant);
  }

  protected override async send(record: Message, signal: AbortSignal): Promise<void> {
    if (this.#isOverHttp && this.#options.redisUrl === undefined) return super.send(record, signal);
    if (this.#isClosed) throw badRequest('this queue was closed');
    const queue = await this.#open();
    await queue.send(record, signal, this.#isOverHttp ? () => super.send(record, signal) : undefined);
  }

  /** Closes the connections. Records that were not awaited may not have been sent. */
  override async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#queue)?.close();
  }

  /** The clients of SQS, S3 and Redis are loaded with the first record that needs them. */
  #open(): Promise<Queue> {
    return (this.#queue ??= import('./queue.ts').then(({ Queue }) => new Queue(this.job, this.#options)));
  }
}
