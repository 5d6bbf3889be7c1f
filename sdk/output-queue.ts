/**
 * Reads results from Redis or through the HTTPS API: the client half of the query contract. "Not there yet" is
 * undefined and a failed record a thrown error with its code and uri; the old "[]" and "NaN" do not exist here.
 */
import type { ServingError } from '../lib/contract/errors.ts';
import { assertJobName, assertUri, DEFAULT_JOB_NAME } from '../lib/contract/names.ts';
import type { Dequeued, RecordStatus, Result } from '../lib/contract/result.ts';
import { RedisConnection } from '../lib/redis/connection.ts';
import { RecordStates } from '../lib/redis/record-states.ts';
import { ResultStore } from '../lib/redis/results.ts';
import type { Fetch } from './fetch.ts';
import { HttpResults } from './http-results.ts';

export interface OutputQueueOptions {
  /** Job name; over HTTPS the url says it already. Default serving_stream. */
  readonly name?: string;
  /** redis://host:port or rediss://..., or the HTTPS API's url. Default redis://localhost:6379. */
  readonly url?: string;
  /** Sends the HTTPS requests: one that signs them, for a deployed API. Default: fetch. */
  readonly fetch?: Fetch;
}

export interface WaitForOptions {
  /** Default 30,000. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export class OutputQueue {
  readonly #results: ResultStore | HttpResults;
  readonly #states: RecordStates | HttpResults;

  constructor(options: OutputQueueOptions = {}) {
    const { name = DEFAULT_JOB_NAME, url = 'redis://localhost:6379' } = options;
    const job = assertJobName(name);
    if (/^https?:/.test(url)) {
      const overHttp = new HttpResults(url, options.fetch ?? fetch);
      this.#results = overHttp;
      this.#states = overHttp;
    } else {
      const connection = new RedisConnection(url, { connectTimeoutMs: 5_000, commandTimeoutMs: 5_000 });
      // The time to live is the writer's business; a reader never writes a result.
      this.#results = new ResultStore(connection, { job, ttlSeconds: 1, now: Date.now });
      this.#states = new RecordStates(connection, { job, now: Date.now });
    }
  }

  /**
   * The result, which stays; undefined when there is none (yet, or any more).
   * @throws the record's own error when it failed (code, uri); results_unavailable
   */
  async query(uri: string): Promise<Result | undefined> {
    return this.#results.get(assertUri(uri));
  }

  /** As `query`, and the result is gone afterwards, also when it is a failure. A cancelled uri stays cancelled. */
  async queryAndDelete(uri: string): Promise<Result | undefined> {
    return this.#results.take(assertUri(uri));
  }

  /**
   * The result as soon as it is there; hears of it and does not poll.
   * @throws timeout after `timeoutMs`, the signal's reason when aborted, the record's own error when it failed
   */
  async wait(uri: string, { timeoutMs = 30_000, signal }: WaitForOptions = {}): Promise<Result> {
    signal?.throwIfAborted();
    return this.#results.wait(assertUri(uri), { timeoutMs, ...(signal ? { signal } : {}) });
  }

  /**
   * Where the record of this uri stands, without its result.
   * @throws results_unavailable
   */
  async status(uri: string): Promise<RecordStatus> {
    return this.#states.status(assertUri(uri));
  }

  /**
   * Cancels a record that has no result yet: `query` and `wait` throw `cancelled` from now on, for 5 days, also when
   * the record is being run right now.
   * @returns false when it is too late: there is a result
   * @throws results_unavailable
   */
  async cancel(uri: string): Promise<boolean> {
    return this.#states.cancel(assertUri(uri));
  }

  /**
   * Takes all finished results of the job, failures as errors in their place. For many, `drain` needs less memory.
   * When the store goes away meanwhile: those that were taken by then.
   * @throws results_unavailable when none was taken
   */
  async dequeue(): Promise<Map<string, Result | ServingError>> {
    const all = new Map<string, Result | ServingError>();
    try {
      for await (const dequeued of this.drain()) {
        all.set(dequeued.uri, 'error' in dequeued ? dequeued.error : dequeued.result);
      }
    } catch (error) {
      // They are nowhere else any more.
      if (all.size === 0) throw error;
    }
    return all;
  }

  /**
   * `dequeue` one by one, in constant memory. What was yielded is gone from the store; who breaks off finds the rest in
   * the next drain (over HTTPS: of the same OutputQueue).
   */
  drain(): AsyncGenerator<Dequeued> {
    return this.#results.drain();
  }

  async close(): Promise<void> {
    await this.#results.close();
  }
}
