/**
 * Reads results through the HTTPS API, with the interface of ResultStore, for clients outside the VPC. The server
 * waits: `Prefer: wait=20` holds the request until there is a result, so no client polls in a loop.
 */
import type { EnqueueQuery, TakeQuery } from '../lib/contract/enqueue.ts';
import { badConfig, badRequest, errorCodeOf, ServingError } from '../lib/contract/errors.ts';
import {
  type Dequeued,
  isRecordStatus,
  type LargePointer,
  type ObjectDigest,
  type RecordStatus,
  type Result,
} from '../lib/contract/result.ts';
import type { WorkerValue } from '../lib/contract/worker-values.ts';
import type { WaitOptions } from '../lib/results/store.ts';
import { assertWaitMs } from '../lib/results/wait-deadline.ts';
import { type Fetch, globalFetch, malformed, parse, request } from './fetch.ts';
import { fetchRedirect, type Redirect } from './http/redirect.ts';
import type { ResultSource } from './http/source.ts';
import { type TensorJson, tensorOf } from './http/tensors.ts';
import { now, sleep } from './limit.ts';

const PREDICTIONS = '/predictions';
const ANSWER_MS = 30_000;
/** Below the gateway's 30 s. */
const LONGEST_WAIT_MS = 20_000;
const MIN_ASK_MS = 250;
/** Time for a wait of 0, which is one question. */
const ONE_ASK_MS = 2_000;

interface AskOptions {
  /** Default: ANSWER_MS. */
  readonly limitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class HttpResults implements ResultSource {
  readonly #root: string;
  readonly #send: Fetch;
  readonly #bare: Fetch;
  readonly #closed = new AbortController();
  /** Taken from the server but not yielded yet. If a drain is interrupted, the next one returns them. */
  readonly #left: ResultJson[] = [];
  /** Where large results are. */
  readonly #redirects = new WeakMap<Result, Redirect>();

  /** @param bare sends requests without credentials */
  constructor(url: string, send: Fetch, bare: Fetch = globalFetch) {
    this.#send = send;
    this.#bare = bare;
    this.#root = url.replace(/\/+$/, '');
  }

  async status(uri: string, query: EnqueueQuery = {}, signal?: AbortSignal): Promise<RecordStatus> {
    const { body } = await this.#request(`/status?${parameters(uri, query)}`, { method: 'GET' }, { signal });
    const { status, identity }: { status?: unknown; identity?: unknown } = Object(body);
    // Something between them may have dropped the parameter: the answer then belongs to any enqueue of the uri.
    if (identity !== query.identity) return 'unknown';
    if (isRecordStatus(status)) return status;
    throw malformed('it has no status');
  }

  async cancel(uri: string, signal?: AbortSignal): Promise<boolean> {
    try {
      await this.#request(`/cancel?${parameters(uri)}`, { method: 'POST' }, { signal });
      return true;
    } catch (error) {
      if (ServingError.from(error).code === 'conflict') return false;
      throw error;
    }
  }

  get(uri: string, query: EnqueueQuery = {}, signal?: AbortSignal): Promise<Result | undefined> {
    return this.#read(uri, query, 'GET', { signal });
  }

  take(uri: string, query: TakeQuery = {}, signal?: AbortSignal): Promise<Result | undefined> {
    return this.#read(uri, query, 'DELETE', { signal });
  }

  /**
   * A large result, from where the API redirects to; it is asked again for those of a page.
   * @throws not_found when another client took it; and as `fetchRedirect`
   */
  async whole(result: Result, large: LargePointer, signal?: AbortSignal): Promise<Result> {
    const { uri, identity } = result;
    const known = this.#redirects.has(result)
      ? result
      : await this.get(uri, identity ? { identity } : {}, signal);
    const redirect = known && this.#redirects.get(known);
    if (redirect === undefined || known?.large?.key !== large.key)
      throw new ServingError('not_found', 'the result was taken or replaced meanwhile', { uri });
    const bytes = await fetchRedirect(redirect, {
      api: this.#root + PREDICTIONS,
      send: this.#send,
      bare: this.#bare,
      signal,
    });
    return resultOf(checkedJson(parse(bytes)));
  }

  async wait(uri: string, { timeoutMs, signal, identity }: WaitOptions): Promise<Result> {
    const endAt = now() + assertWaitMs(timeoutMs);
    for (let limitMs = timeoutMs || ONE_ASK_MS; limitMs > 0; limitMs = endAt - now()) {
      const askedAt = now();
      // Not rounded up: the answer "not yet" is to arrive before the time is up.
      const seconds = Math.max(0, Math.floor(Math.min(LONGEST_WAIT_MS, endAt - askedAt) / 1000));
      const result = await this.#read(uri, { identity }, 'GET', {
        headers: { prefer: `wait=${seconds}` },
        limitMs: Math.min(ANSWER_MS, limitMs),
        signal,
      }).catch((error: unknown) => {
        // To be silent until the time is up is to have no result.
        const isTheEnd = ServingError.from(error).code === 'timeout' && now() > endAt - MIN_ASK_MS;
        throw isTheEnd ? noResult(uri, timeoutMs, error) : error;
      });
      if (result) return result;
      // Some servers do not wait (an old one, a proxy's answer), so pause before asking again.
      const pauseMs = Math.min(askedAt + MIN_ASK_MS, endAt) - now();
      if (pauseMs > 0) await sleep(pauseMs, signal);
    }
    throw noResult(uri, timeoutMs);
  }

  async *drain(): AsyncGenerator<Dequeued> {
    for (let more = true; ; ) {
      for (let json = this.#left.shift(); json; json = this.#left.shift()) {
        yield json.status !== 'succeeded'
          ? { uri: json.uri, error: failureOf(json) }
          : { uri: json.uri, result: resultOf(json) };
      }
      if (!more) return;
      const { body } = await this.#request(PREDICTIONS, { method: 'DELETE' });
      const { results, more: isMore } = Object(body);
      if (!Array.isArray(results)) throw malformed('it has no results');
      this.#left.push(...results.map(checkedJson));
      more = isMore;
    }
  }

  #request(path: string, init: RequestInit, { limitMs = ANSWER_MS, signal }: AskOptions = {}) {
    const { signal: closed } = this.#closed;
    const end = signal ? AbortSignal.any([signal, closed]) : closed;
    return request(this.#root + path, init, limitMs, end, this.#send);
  }

  async #read(
    uri: string,
    query: TakeQuery,
    method: string,
    { headers = {}, ...asking }: AskOptions & { readonly headers?: Record<string, string> } = {},
  ) {
    try {
      const { body, location } = await this.#request(
        `${PREDICTIONS}?${parameters(uri, query)}`,
        { method, headers, redirect: 'manual' },
        asking,
      );
      if (location !== undefined && !Object(body).large)
        throw badConfig(`${this.#root} redirects: is it the url of the API?`);
      const json = checkedJson(body);
      if (query.identity !== undefined && json.identity !== query.identity) return undefined;
      if (json.status !== 'succeeded') throw failureOf(json);
      const result = resultOf(json);
      if (location !== undefined && json.large) this.#redirects.set(result, { ...json.large, location });
      return result;
    } catch (error) {
      if (error instanceof ServingError && error.code === 'not_found' && error.uri === undefined)
        return undefined;
      throw error;
    }
  }

  /** Ends what is under way. */
  async close(): Promise<void> {
    this.#closed.abort(badRequest('this queue was closed'));
  }
}

function noResult(uri: string, timeoutMs: number, cause?: unknown): ServingError {
  return new ServingError('timeout', `no result after ${timeoutMs} ms`, { uri, cause });
}

/** The uri is in the query: in the path, API Gateway would take its `?` and `/` for its own. */
function parameters(uri: string, { identity, fetched }: TakeQuery = {}): string {
  const more = Object.entries({ identity, fetched }).map(([name, value]) => value && `&${name}=${value}`);
  return `uri=${encodeURIComponent(uri)}${more.join('')}`;
}

interface ResultJson {
  readonly uri: string;
  readonly identity?: string;
  readonly status: string;
  readonly error?: string;
  readonly code?: string;
  readonly model?: string;
  readonly finishedAt?: string;
  readonly filtered?: unknown;
  readonly value?: WorkerValue;
  /** In place of the values, of an object in S3. */
  readonly large?: ObjectDigest & { readonly id: string };
  readonly outputs?: readonly (TensorJson & { readonly name: string })[];
}

function checkedJson(body: unknown): ResultJson {
  if (typeof Object(body).uri === 'string') return body as ResultJson;
  throw malformed('it has no uri');
}

function failureOf({ uri, code, error }: ResultJson): ServingError {
  return new ServingError(errorCodeOf(code) ?? 'internal', error ?? 'the record failed', { uri });
}

function resultOf(json: ResultJson): Result {
  const { uri, model = '', filtered, value, large, outputs = [], identity = '' } = json;
  const finishedAt = Date.parse(json.finishedAt ?? '');
  return {
    uri,
    model,
    filtered,
    outputs: outputs.map((output) => tensorOf(output.name, output)),
    finishedAt,
    identity,
    // Over HTTP it is plain JSON: bytes are base64, arrays are lists.
    ...(large ? { large: pointerOf(large, finishedAt) } : value !== undefined && { value }),
  };
}

/** Over HTTP only the id and the digest are known. */
function pointerOf({ id, ...digest }: NonNullable<ResultJson['large']>, finishedAt: number): LargePointer {
  return { ...digest, json: digest, key: id, bucket: '', form: 'text', finishedAt };
}
