/**
 * The results of a job in Redis, one hash each: saves, reads, awaits and takes them. Taking deletes a result, but the client
 * can ask for it again for a while, so a lost answer loses nothing (leases.ts).
 */
import type { EnqueueQuery } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import { doneChannel, metricsKey, resultKey } from '../contract/names.ts';
import type { Dequeued, Result } from '../contract/result.ts';
import {
  LOST_FIELD,
  type ServingVersion,
  SINCE_FIELD,
  servingFromFields,
  fromFields as timersFromFields,
} from '../metrics/fields.ts';
import { reports, type SharedTimers, type TimerReport, type Timers } from '../metrics/timers.ts';
import { isOutcomeOf, parseResult } from '../results/fields.ts';
import type {
  Finished,
  OnBlocked,
  Results,
  ResultsOptions,
  UseQuery,
  WaitOptions,
} from '../results/store.ts';
import { assertWaitMs, orAborted } from '../results/wait-deadline.ts';
import type { RedisConnection } from './connection.ts';
import { type LeasedResult, MAX_BYTES, ResultLeases, type TakeLimits } from './leases.ts';
import { ResultNotifications } from './notifications.ts';
import { ResultIndex } from './result-index.ts';
import { ResultWriter } from './result-writer.ts';

const DRAIN_PAGE = 100;
/** An environment that was not used for this long is gone. */
const SERVING_MS = 3_600_000;

export class ResultStore implements Results {
  readonly #connection: RedisConnection;
  readonly #options: ResultsOptions;
  readonly #notifications: ResultNotifications;
  readonly #index: ResultIndex;
  readonly #leases: ResultLeases;
  readonly #writer: ResultWriter;

  constructor(connection: RedisConnection, options: ResultsOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#notifications = new ResultNotifications(connection);
    this.#index = new ResultIndex(connection, options.job);
    this.#leases = new ResultLeases(connection, options.job);
    this.#writer = new ResultWriter(connection, options);
  }

  save(
    finished: readonly Finished[],
    model: string,
    timers?: Timers,
    onBlocked?: OnBlocked,
  ): Promise<number> {
    return this.#writer.save(finished, model, timers, onBlocked);
  }

  async get(uri: string, { identity }: EnqueueQuery = {}): Promise<Result | undefined> {
    const key = resultKey(this.#options.job, uri);
    const fields = await this.#connection.use((redis) => redis.hgetall(key), true, key);
    if (identity !== undefined && !isOutcomeOf(fields, identity)) return undefined;
    return parseResult(uri, fields);
  }

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

  /** A large result leaves the index and stays under its uri. */
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
        // A result that cannot be released now is leased again by this store.
        await this.#leases.release(page.slice(used)).catch(() => undefined);
      }
    }
  }

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

  async serving(): Promise<ServingVersion[]> {
    const { job, now } = this.#options;
    const key = metricsKey(job);
    const fields = await this.#connection.use((redis) => redis.hgetall(key), true, key);
    return servingFromFields(fields).filter(({ atMs }) => now() - atMs <= SERVING_MS);
  }

  async lostCaptures(): Promise<number> {
    const key = metricsKey(this.#options.job);
    return Number((await this.#connection.use((redis) => redis.hget(key, LOST_FIELD), true, key)) ?? 0);
  }

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
