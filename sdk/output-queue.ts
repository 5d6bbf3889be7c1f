/**
 * Reads results from Redis or through the HTTPS API: the client half of the query contract. A missing result is
 * undefined, and a failed record throws an error with its code and uri; the Python client returned "[]" and "NaN".
 */
import { assertIdentity, type EnqueueQuery } from '../lib/contract/enqueue.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { assertUri, DEFAULT_JOB_NAME } from '../lib/contract/names.ts';
import {
  type Dequeued,
  idOfLarge,
  type LargePointer,
  type RecordStatus,
  type Result,
} from '../lib/contract/result.ts';
import { assertKeyspace } from '../lib/queue/names.ts';
import { openRedis } from '../lib/redis/cluster/connection.ts';
import { RecordStates } from '../lib/redis/record-states.ts';
import { ResultStore } from '../lib/redis/results.ts';
import { type AccessOptions, authorizedFetch } from './access.ts';
import { HttpResults } from './http-results.ts';
import { LargeReader } from './large-results.ts';
import { retrying } from './retries.ts';

export interface OutputQueueOptions extends AccessOptions {
  /** The job's name, or `job@stage` in a shared Redis. Not needed over HTTPS. Default serving_stream. */
  readonly name?: string;
  /** redis://host:port or rediss://..., or the HTTPS API's url. Default redis://localhost:6379. */
  readonly url?: string;
  /**
   * The AWS endpoint, for large results to which Redis points; they are read with AWS credentials of the usual chain.
   * Default: the AWS SDK's own (AWS_ENDPOINT_URL).
   */
  readonly endpoint?: string;
}

export interface WaitForOptions extends EnqueueQuery {
  /** Default 30,000. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface DrainOptions {
  /** No result is taken after this time; the rest stays for the next call. Default: no limit. */
  readonly timeoutMs?: number;
}

export class OutputQueue {
  readonly #results: ResultStore | HttpResults;
  readonly #states: RecordStates | HttpResults;
  readonly #large: LargeReader | HttpResults;

  constructor(options: OutputQueueOptions = {}) {
    const { name = DEFAULT_JOB_NAME, url = 'redis://localhost:6379' } = options;
    const job = assertKeyspace(name);
    if (/^https?:/.test(url)) {
      const overHttp = new HttpResults(url, retrying(authorizedFetch(url, options)));
      this.#results = overHttp;
      this.#states = overHttp;
      this.#large = overHttp;
    } else {
      const connection = openRedis(url, { connectTimeoutMs: 5_000, commandTimeoutMs: 5_000 });
      // A reader never writes a result, so its time to live does not matter.
      this.#results = new ResultStore(connection, { job, ttlSeconds: 1, now: Date.now });
      this.#states = new RecordStates(connection, { job, now: Date.now });
      this.#large = new LargeReader(options);
    }
  }

  /**
   * Returns the result and keeps it; undefined when there is none (yet, or any more). With the identity that `enqueue`
   * returned, only the result of that enqueue.
   * @throws the record's own error if it failed (code, uri); results_unavailable
   */
  async query(uri: string, query: EnqueueQuery = {}): Promise<Result | undefined> {
    return this.#whole(await this.#results.get(assertUri(uri), checked(query)));
  }

  /** Like `query`, but deletes the result, even a failure. A cancelled uri stays cancelled. */
  async queryAndDelete(uri: string, query: EnqueueQuery = {}): Promise<Result | undefined> {
    const taken = await this.#results.take(assertUri(uri), checked(query));
    const whole = await this.#whole(taken);
    return taken?.large && !(await this.#isTaken(taken, taken.large)) ? undefined : whole;
  }

  /** With its values, which are in S3 when there are many. @throws with the uri, as if the record could not be read */
  async #whole<R extends Result | undefined>(result: R, signal?: AbortSignal): Promise<R | Result> {
    if (!result?.large) return result;
    try {
      return await this.#large.whole(result, result.large, signal);
    } catch (error) {
      signal?.throwIfAborted();
      const { code, message } = ServingError.from(error);
      throw new ServingError(code, message, { uri: result.uri, cause: error });
    }
  }

  /**
   * Takes a large result that has been fetched.
   * @returns false when another client took it, or a later result took its place. When that cannot be known, it is taken:
   *   it would be lost if it were not used
   */
  async #isTaken({ uri }: Result, large: LargePointer): Promise<boolean> {
    const taking = this.#results.take(uri, { fetched: idOfLarge(large) });
    return taking.then(
      (taken) => taken !== undefined,
      () => true,
    );
  }

  /**
   * Waits for the result by subscription, without polling. Without an identity, a result that an earlier enqueue of the
   * uri left is returned at once.
   * A large result is then fetched, which has a limit of its own.
   * @throws timeout after `timeoutMs`, the signal's reason when aborted, the record's own error if it failed
   */
  async wait(uri: string, { timeoutMs = 30_000, signal, identity }: WaitForOptions = {}): Promise<Result> {
    signal?.throwIfAborted();
    const query = checked({ identity });
    const asked = { ...query, timeoutMs, ...(signal ? { signal } : {}) };
    return this.#whole(await this.#results.wait(assertUri(uri), asked), signal);
  }

  /**
   * The state of a record, without its result; with an identity, the state of that enqueue of it.
   * @throws results_unavailable
   */
  async status(uri: string, query: EnqueueQuery = {}): Promise<RecordStatus> {
    return this.#states.status(assertUri(uri), checked(query));
  }

  /**
   * Cancels what was enqueued under the uri until now and has no result: `query` and `wait` throw `cancelled` for 15 days,
   * even if the record is running now. A record that is enqueued afterwards is not cancelled.
   * @returns false when it is too late: every enqueue that is known has, or had, its result
   * @throws results_unavailable
   */
  async cancel(uri: string): Promise<boolean> {
    return this.#states.cancel(assertUri(uri));
  }

  /**
   * Takes all finished results of the job; failures are errors in their place. For many results, `drain` needs less
   * memory. If the store becomes unavailable meanwhile, returns those already taken.
   * @throws results_unavailable when none was taken
   */
  async dequeue(options: DrainOptions = {}): Promise<Map<string, Result | ServingError>> {
    const all = new Map<string, Result | ServingError>();
    try {
      for await (const dequeued of this.drain(options)) {
        all.set(dequeued.uri, 'error' in dequeued ? dequeued.error : dequeued.result);
      }
    } catch (error) {
      // These results are no longer in the store, so they must be returned.
      if (all.size === 0) throw error;
    }
    return all;
  }

  /**
   * Like `dequeue`, one by one in constant memory. A yielded result is gone from the store; after an interrupted
   * drain the next one returns the rest (over HTTPS: that of the same OutputQueue). A large result that cannot be fetched
   * is an error in its place, and stays under its uri for `query`.
   */
  async *drain({ timeoutMs = Number.POSITIVE_INFINITY }: DrainOptions = {}): AsyncGenerator<Dequeued> {
    const endAt = performance.now() + timeoutMs;
    for await (const one of this.#results.drain()) {
      const whole = await this.#dequeued(one);
      if (whole) yield whole;
      if (performance.now() >= endAt) return;
    }
  }

  /** @returns undefined for a large result that another client took */
  async #dequeued(one: Dequeued): Promise<Dequeued | undefined> {
    if ('error' in one || !one.result.large) return one;
    const { uri, result } = one;
    try {
      const whole = await this.#whole(result);
      return (await this.#isTaken(result, one.result.large)) ? { uri, result: whole } : undefined;
    } catch (error) {
      const known = ServingError.from(error);
      return known.code === 'not_found' ? undefined : { uri, error: known };
    }
  }

  async close(): Promise<void> {
    await this.#large.close();
    await this.#results.close();
  }
}

/** @throws bad_request */
function checked({ identity }: EnqueueQuery): EnqueueQuery {
  return identity === undefined ? {} : { identity: assertIdentity(identity) };
}
