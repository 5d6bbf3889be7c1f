/**
 * The results of a job in Redis, one hash each: saves, reads, awaits and takes them. Taking deletes a result, but the client
 * can ask for it again for a while, so a lost answer loses nothing (leases.ts).
 */
import type { EnqueueQuery } from '../contract/enqueue.ts';
import { doneChannel, metricsKey, resultKey } from '../contract/names.ts';
import type { Dequeued, Result } from '../contract/result.ts';
import { LOST_FIELD, type ServingVersion, servingNow, timersFromFields } from '../metrics/fields.ts';
import { reports, type SharedTimers, type TimerReport, type Timers } from '../metrics/timers.ts';
import { Dequeue } from '../results/dequeue.ts';
import { isOutcomeOf, parseResult } from '../results/fields.ts';
import type {
  Finished,
  OnBlocked,
  Results,
  ResultsOptions,
  UseQuery,
  WaitOptions,
} from '../results/store.ts';
import { getWithin, waitFor } from '../results/wait-deadline.ts';
import type { RedisConnection } from './connection.ts';
import { ResultLeases } from './leases.ts';
import { ResultNotifications } from './notifications.ts';
import { ResultIndex } from './result-index.ts';
import { ResultWriter } from './result-writer.ts';

export class ResultStore implements Results {
  readonly #connection: RedisConnection;
  readonly #options: ResultsOptions;
  readonly #notifications: ResultNotifications;
  readonly #dequeue: Dequeue;
  readonly #writer: ResultWriter;

  constructor(connection: RedisConnection, options: ResultsOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#notifications = new ResultNotifications(connection);
    const index = new ResultIndex(connection, options.job);
    const leases = new ResultLeases(connection, options.job);
    this.#dequeue = new Dequeue(leases, (count, maxBytes) => index.pages(count, maxBytes));
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

  take(uri: string, query?: UseQuery): Promise<Result | undefined> {
    return this.#dequeue.take(uri, query);
  }

  wait(uri: string, options: WaitOptions): Promise<Result> {
    return waitFor(uri, options, (stop) => this.#waitUntil(uri, options.identity, stop));
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

  getWithin(
    uri: string,
    timeoutMs: number,
    query: Omit<WaitOptions, 'timeoutMs'> = {},
  ): Promise<Result | undefined> {
    return getWithin(this, uri, timeoutMs, query);
  }

  drain(): AsyncGenerator<Dequeued> {
    return this.#dequeue.drain();
  }

  takePage(count: number, maxBytes?: number): Promise<Dequeued[] | undefined> {
    return this.#dequeue.takePage(count, maxBytes);
  }

  async timers(): Promise<SharedTimers> {
    return timersFromFields(await this.#measured(), this.#options.now());
  }

  async metrics(): Promise<TimerReport[]> {
    return reports(await this.timers());
  }

  async serving(): Promise<ServingVersion[]> {
    return servingNow(await this.#measured(), this.#options.now());
  }

  #measured(): Promise<Record<string, string>> {
    const key = metricsKey(this.#options.job);
    return this.#connection.use((redis) => redis.hgetall(key), true, key);
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
