/**
 * The results of a job in Redis, one hash each: saves, reads, awaits and takes them. Taking deletes a result, but the client
 * can ask for it again for a while, so a lost answer loses nothing (leases.ts).
 */
import type { EnqueueQuery, TakeQuery } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import { doneChannel, metricsKey, resultKey } from '../contract/names.ts';
import type { Dequeued, Result } from '../contract/result.ts';
import { SINCE_FIELD, fromFields as timersFromFields } from '../metrics/fields.ts';
import { reports, type SharedTimers, type TimerReport, type Timers } from '../metrics/timers.ts';
import type { RedisConnection } from './connection.ts';
import { type LeasedResult, MAX_BYTES, ResultLeases, type TakeLimits } from './leases.ts';
import { ResultNotifications } from './notifications.ts';
import { isOutcomeOf, parseResult } from './result/fields.ts';
import { type Finished, type OnBlocked, ResultWriter, type WriterOptions } from './result/writer.ts';
import { ResultIndex } from './result-index.ts';
import { assertWaitMs, orAborted } from './wait-deadline.ts';

const DRAIN_PAGE = 100;

export interface WaitOptions extends EnqueueQuery {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

interface UseQuery extends TakeQuery {
  readonly use?: (result: Result) => void;
}

export class ResultStore {
  readonly #connection: RedisConnection;
  readonly #options: WriterOptions;
  readonly #notifications: ResultNotifications;
  readonly #index: ResultIndex;
  readonly #leases: ResultLeases;
  readonly #writer: ResultWriter;

  constructor(connection: RedisConnection, options: WriterOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#notifications = new ResultNotifications(connection);
    this.#index = new ResultIndex(connection, options.job);
    this.#leases = new ResultLeases(connection, options.job);
    this.#writer = new ResultWriter(connection, options);
  }

  /** Writes the results of one batch, as `ResultWriter.save` does. @returns how many were written */
  save(
    finished: readonly Finished[],
    model: string,
    timers?: Timers,
    onBlocked?: OnBlocked,
  ): Promise<number> {
    return this.#writer.save(finished, model, timers, onBlocked);
  }

  /**
   * @returns undefined when there is no result (yet, or any more)
   * @throws the record's own error when it failed; results_unavailable
   */
  async get(uri: string, { identity }: EnqueueQuery = {}): Promise<Result | undefined> {
    const key = resultKey(this.#options.job, uri);
    const fields = await this.#connection.use((redis) => redis.hgetall(key), true, key);
    if (identity !== undefined && !isOutcomeOf(fields, identity)) return undefined;
    return parseResult(uri, fields);
  }

  /**
   * Gets a result and deletes it, also when it is a failure; a cancellation stays, and so does a large result until it is
   * taken as fetched.
   * After results_unavailable this store can ask for it again for 10 minutes.
   * @param query.use uses the result; when it throws, the result is released
   */
  async take(uri: string, { identity, fetched, use }: UseQuery = {}): Promise<Result | undefined> {
    const [taken] = await this.#leases.take([uri], { identity, large: fetched });
    if (taken?.error) throw taken.error;
    const result = parseResult(uri, taken?.fields ?? {});
    if (!use || !taken || !result) return result;
    try {
      use(result);
    } catch (error) {
      await this.#leases.release([taken]);
      throw error;
    }
    return result;
  }

  /**
   * Resolves with the result as soon as it is stored; with an identity, only with that of its enqueue.
   * @throws timeout, the signal's reason, the record's own error, results_unavailable
   */
  async wait(uri: string, { timeoutMs, signal, identity }: WaitOptions): Promise<Result> {
    const timeout = AbortSignal.timeout(assertWaitMs(timeoutMs));
    const stop = signal ? AbortSignal.any([timeout, signal]) : timeout;
    try {
      return await orAborted(this.#waitUntil(uri, identity, stop), stop);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (timeout.aborted) throw new ServingError('timeout', `no result after ${timeoutMs} ms`, { uri });
      throw error;
    }
  }

  async #waitUntil(uri: string, identity: string | undefined, stop: AbortSignal): Promise<Result> {
    const subscription = await this.#notifications.subscribe(doneChannel(this.#options.job, uri));
    try {
      for (;;) {
        // Subscribed first, then asked: an earlier result is found, and a later one is announced.
        const result = await this.get(uri, { identity });
        if (result) return result;
        stop.throwIfAborted();
        await subscription.next(stop);
      }
    } finally {
      subscription.stop();
    }
  }

  /** Waits for a result up to a time limit; undefined when there is none by then. @throws the signal's reason */
  async getWithin(
    uri: string,
    timeoutMs: number,
    query: Omit<WaitOptions, 'timeoutMs'> = {},
  ): Promise<Result | undefined> {
    if (timeoutMs === 0) return this.get(uri, query);
    return this.wait(uri, { ...query, timeoutMs }).catch((error: unknown) => {
      if (error instanceof ServingError && error.code === 'timeout') return undefined;
      throw error;
    });
  }

  /**
   * Takes every finished result of the job, page by page, in constant memory. A large one leaves the index and stays under
   * its uri until it is taken as fetched. When the caller stops, the results that were
   * taken and not yielded are released.
   */
  async *drain(): AsyncGenerator<Dequeued> {
    const pages = this.#index.pages(DRAIN_PAGE, MAX_BYTES);
    for (;;) {
      const page = await this.#takeListed(DRAIN_PAGE, {}, pages);
      if (!page) return;
      let used = 0;
      try {
        for (const taken of page) {
          used++;
          const dequeued = dequeuedOf(taken);
          if (dequeued) yield dequeued;
        }
      } finally {
        // What cannot be released now is leased again by this store.
        await this.#leases.release(page.slice(used)).catch(() => undefined);
      }
    }
  }

  /**
   * Takes up to `count` finished results, the oldest first; undefined when none is left.
   * @param maxBytes size limit of all stored values together. A single result above it is reported as `too_large`; it
   *   stays under its uri and leaves the index, as large results do.
   */
  async takePage(count: number, maxBytes?: number): Promise<Dequeued[] | undefined> {
    const limits = maxBytes === undefined ? {} : { maxBytes, maxBytesOfOne: maxBytes };
    const page = await this.#takeListed(count, limits);
    return page?.flatMap((taken) => dequeuedOf(taken) ?? []);
  }

  /** Takes two round trips (in cluster mode more). An entry whose result another client has taken is skipped. */
  async #takeListed(
    count: number,
    limits: TakeLimits = {},
    pages = this.#index.pages(count, limits.maxBytes ?? MAX_BYTES),
  ): Promise<LeasedResult[] | undefined> {
    const again = this.#leases.unanswered(count);
    const uris = again.length > 0 ? again : (await pages.next()).value;
    if (!uris) return undefined;
    return (await this.#leases.take(uris, { ...limits, large: 'list' })).filter(({ wasListed }) => wasListed);
  }

  /** Every timer of the contract, over all environments of the job, and the seconds since its first measurement. */
  async timers(): Promise<SharedTimers> {
    const { job, now } = this.#options;
    const key = metricsKey(job);
    const fields = await this.#connection.use((redis) => redis.hgetall(key), true, key);
    const seconds = (now() - Number(fields[SINCE_FIELD] ?? now())) / 1000;
    return { histograms: timersFromFields(fields), seconds };
  }

  async metrics(): Promise<TimerReport[]> {
    return reports(await this.timers());
  }

  /** Resolves when Redis answers. @throws results_unavailable */
  async ping(): Promise<void> {
    await this.#connection.use((redis) => redis.ping(), true);
  }

  async close(): Promise<void> {
    this.#notifications.close();
    await this.#connection.close();
  }
}

function dequeuedOf({ lease: { uri }, fields, error }: LeasedResult): Dequeued | undefined {
  if (error) return { uri, error };
  try {
    const result = parseResult(uri, fields);
    return result && { uri, result };
  } catch (failure) {
    return { uri, error: ServingError.from(failure) };
  }
}
