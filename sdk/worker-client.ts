/**
 * A client of a worker's service: values go to it as frames over HTTP, and answers come back at once or when they are
 * fetched. No request that may have arrived is sent again.
 */
import { asError, badConfig, type ErrorCode, ServingError } from '../lib/contract/errors.ts';
import { variables } from '../lib/contract/variables.ts';
import type { WorkerValue } from '../lib/contract/worker-values.ts';
import { type AccessOptions, authorizedFetch } from './access.ts';
import { malformed } from './fetch.ts';
import { type CallOptions, sleep } from './limit.ts';
import { expect, readFrame, readResult, type WKRResult, writeItem } from './wkr/answers.ts';
import { byNumber, PendingResults, type Sending } from './wkr/results.ts';
import { Service, serviceUrl } from './wkr/service.ts';

export { type ErrorCode, ServingError } from '../lib/contract/errors.ts';
export type { DType, Tensor } from '../lib/contract/tensor.ts';
export { EncodedImage, Tuple, type WorkerValue } from '../lib/contract/worker-values.ts';
export type { Fetch } from './fetch.ts';
export type { CallOptions } from './limit.ts';
export type { WKRResult } from './wkr/answers.ts';

const FULL_MS = { first: 50, longest: 1_000 };
/** Items of encodeAsync whose results have not been taken. */
const AHEAD = 256;
const NAME = /^[\w.-]{1,64}$/;
/** Leaves room for the mark of the client. */
const ID = /^[\w.-]{1,54}$/;
/** Failures of one item; others are about all. */
const OF_ITEMS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'bad_request',
  'bad_input',
  'too_large',
  'unsupported_media_type',
  'model_failed',
  'rate_limited',
  'model_unavailable',
]);

export interface WKRClientOptions extends AccessOptions {
  /** Address of the service. Default: `http://ip:port`. */
  readonly url?: string;
  /** Default: localhost. */
  readonly ip?: string;
  /** Default: 5555. */
  readonly port?: number;
  /** `npy` (or `numpy`) sends tensors only. Default: obj. */
  readonly protocol?: 'obj' | 'npy' | 'numpy';
  /** Under which results wait. Default: a new one. */
  readonly identity?: string;
  /** Time for a call that sets none, and between two results. Default: 300,000, after which Node's fetch gives up. */
  readonly timeoutMs?: number;
  /** Default: the variable WKR_TOKEN, then CLUSTER_SERVING_TOKEN. */
  readonly token?: string;
  /** The first request asks the service whether it speaks the same protocol. Default: true. */
  readonly checkVersion?: boolean;
}

export interface EncodeOptions extends CallOptions {
  /** Default: the number of the request. */
  readonly targetRequestId?: string;
}

type Items = Iterable<WorkerValue> | AsyncIterable<WorkerValue>;

export class WKRClient {
  readonly identity: string;
  readonly #service: Service;
  readonly #results: PendingResults;
  readonly #isNpy: boolean;
  readonly #timeoutMs: number;
  /** Ends every id that is sent, because clients with the same identity count alike. */
  readonly #mark = `--${crypto.randomUUID().slice(0, 8)}`;
  #count = 0;

  constructor(options: WKRClientOptions = {}) {
    const { ip = 'localhost', port = 5555, timeoutMs = 300_000, identity = crypto.randomUUID() } = options;
    if (!NAME.test(identity)) throw badConfig('identity: expected 1 to 64 letters, digits and . _ -');
    if (!(timeoutMs > 0 && timeoutMs < 2 ** 31)) throw badConfig('timeoutMs: expected milliseconds above 0');
    this.identity = identity;
    this.#isNpy = options.protocol === 'npy' || options.protocol === 'numpy';
    this.#timeoutMs = timeoutMs;
    const url = serviceUrl(options.url ?? `http://${hostOf(ip)}:${port}`);
    const ownToken = options.auth === undefined && options.apiKey === undefined;
    const token = options.token ?? (ownToken ? variables['WKR_TOKEN'] || undefined : undefined);
    this.#service = new Service({
      url,
      protocol: this.#isNpy ? 'npy' : 'obj',
      send: authorizedFetch(url, { ...options, ...(token === undefined ? {} : { token }) }),
      mustCheck: options.checkVersion ?? true,
    });
    this.#results = new PendingResults(this.#service, identity, timeoutMs);
  }

  /** The state of this client. */
  get status() {
    const { identity } = this;
    const pendingRequest = this.#results.ids;
    const [url, timeoutMs] = [this.#service.url, this.#timeoutMs];
    return { identity, url, timeoutMs, numRequest: this.#count, pendingRequest };
  }

  /** The state of the service: its flags, versions and statistics. */
  serverStatus({ timeoutMs, signal }: CallOptions = {}): Promise<Readonly<Record<string, unknown>>> {
    return this.#service.status(this.#end(timeoutMs), signal);
  }

  /** @returns the worker's answer. @throws ServingError when the item failed or was refused; TypeError with the path of what cannot be sent */
  encode(value: WorkerValue, options?: EncodeOptions & { readonly blocking?: true }): Promise<WorkerValue>;
  /** @returns the id, for `fetch` and `fetchAll`, once the service has accepted the item; it waits while there is no room */
  encode(value: WorkerValue, options: EncodeOptions & { readonly blocking: false }): Promise<string>;
  async encode(
    value: WorkerValue,
    { blocking = true, targetRequestId, ...options }: EncodeOptions & { readonly blocking?: boolean } = {},
  ): Promise<WorkerValue> {
    const { signal } = options;
    const endAt = this.#end(options.timeoutMs);
    const id = this.#nextId(targetRequestId);
    if (!blocking) {
      await this.#submit(value, id, endAt, signal);
      return id;
    }
    const marked = id + this.#mark;
    const body = writeItem(value, this.identity, marked, this.#isNpy);
    const answer = expect(200, this.#service.url, await this.#service.post(body, {}, endAt, signal));
    const { header, reader } = readFrame(answer, 'encoded');
    if (header['id'] !== marked) throw malformed('the answer is that of another request');
    const result = readResult(id, header['outcome'], reader, true);
    if (result.error) throw result.error;
    return result.value;
  }

  /** Yields the results of `encode` with `blocking: false` as they come, until none is pending. @throws timeout when none came for `timeoutMs` */
  fetch(options: CallOptions = {}): AsyncGenerator<WKRResult> {
    return this.#results.take(undefined, options);
  }

  /** All results of `encode` with `blocking: false`, in the order of their ids, which sort as numbers. */
  async fetchAll({
    sort = true,
    ...options
  }: CallOptions & { readonly sort?: boolean } = {}): Promise<WKRResult[]> {
    const results: WKRResult[] = [];
    try {
      for await (const result of this.#results.take(undefined, options)) results.push(result);
    } catch (error) {
      this.#results.add(...results);
      throw error;
    }
    return sort ? results.sort(byNumber) : results;
  }

  /** Yields results while it sends the items. What their iterator throws is thrown after the last result. */
  async *encodeAsync(
    items: Items,
    { maxNumBatch = Infinity, ...options }: CallOptions & { readonly maxNumBatch?: number } = {},
  ): AsyncGenerator<WKRResult> {
    const sending: Sending = { isDone: false, isStopped: false };
    void this.#sendAll(items, maxNumBatch, sending, options);
    try {
      yield* this.#results.take(sending, options);
    } finally {
      sending.isStopped = true;
      this.#results.wake();
    }
    if ('error' in sending) throw sending.error;
  }

  /** Ends what is under way. */
  close(): void {
    this.#service.close();
  }

  async #submit(value: WorkerValue, id: string, endAt: number, signal?: AbortSignal): Promise<void> {
    const marked = id + this.#mark;
    const body = writeItem(value, this.identity, marked, this.#isNpy);
    if (this.#results.has(marked)) throw badConfig(`targetRequestId: ${id} is pending`);
    await this.#results.during(marked, id, async () => {
      for (let pauseMs = FULL_MS.first; ; pauseMs = Math.min(pauseMs * 2, FULL_MS.longest)) {
        const answer = await this.#service.post(body, { prefer: 'respond-async' }, endAt, signal);
        if (answer.status !== 429 || performance.now() + pauseMs > endAt) {
          expect(202, this.#service.url, answer);
          return;
        }
        await sleep(pauseMs, signal);
      }
    });
  }

  async #sendAll(items: Items, most: number, sending: Sending, options: CallOptions): Promise<void> {
    let count = 0;
    try {
      for await (const item of items) {
        await this.#submitItem(item, options);
        if (++count >= most) break;
        await this.#results.room(AHEAD, sending);
        if (sending.isStopped) break;
      }
    } catch (error) {
      sending.error = error;
    } finally {
      sending.isDone = true;
      this.#results.wake();
    }
  }

  async #submitItem(item: WorkerValue, { timeoutMs, signal }: CallOptions): Promise<void> {
    const id = this.#nextId();
    try {
      await this.#submit(item, id, this.#end(timeoutMs), signal);
    } catch (error) {
      const isOfItem = error instanceof ServingError ? OF_ITEMS.has(error.code) : error instanceof TypeError;
      if (!isOfItem) throw error;
      this.#results.add({ id, value: null, error: asError(error) });
    }
  }

  #nextId(targetRequestId?: string): string {
    const id = targetRequestId ?? String(++this.#count);
    if (!ID.test(id)) throw badConfig('targetRequestId: expected 1 to 54 letters, digits and . _ -');
    return id;
  }

  #end(timeoutMs = this.#timeoutMs): number {
    return performance.now() + timeoutMs;
  }
}

/** The addresses of all interfaces, which a service listens on, mean this machine. */
function hostOf(ip: string): string {
  const host = ip === '0.0.0.0' || ip === '*' ? '127.0.0.1' : ip === '::' ? '::1' : ip;
  return host.includes(':') ? `[${host}]` : host;
}
