/**
 * In: the outcomes of one batch. Out: one Redis hash each, in a single round trip, each with a time to live.
 * Trap: SQS delivers twice and two workers may hold one record. The first finished result stays, whole: the script
 * writes a hash only where no `status` is yet, and Redis runs it as one step.
 */
import type { Redis } from 'ioredis';
import { ServingError } from '../contract/errors.ts';
import { doneChannel, indexKey, metricsKey, resultKey, seenPrefix, stateKey } from '../contract/names.ts';
import { SINCE_FIELD, fromFields as timersFromFields, toIncrements } from '../metrics/fields.ts';
import { report, type TimerReport, type Timers } from '../metrics/timers.ts';
import type { RedisConnection } from './connection.ts';
import { ResultTaker, type TakeLimits, type Taken } from './leases.ts';
import { DoneNews } from './notifications.ts';
import { fromFields, type Result, type StoredFields } from './result-fields.ts';
import { SAVE } from './scripts.ts';
import { assertWaitMs, orAborted } from './wait-deadline.ts';

/** Metrics outlive results: a week after the last measurement they are gone. */
const METRICS_TTL_MS = 7 * 24 * 3600 * 1000;
/** One script call holds Redis up for its whole length: a few ms for a thousand records. */
const RECORDS_PER_CALL = 1_000;
/** Results of one round trip: what has to pass before a command is too late must not grow with the batch. */
const TRIP_BYTES = 4 * 1024 * 1024;
const DRAIN_PAGE = 100;
export interface Finished {
  readonly uri: string;
  readonly fields: StoredFields;
  /** Id of the message it was made of; such a message gets no second result when the first is taken. Default none. */
  readonly message?: string;
}

export interface StoreOptions {
  readonly job: string;
  readonly ttlSeconds: number;
  /** Of a writer: for how long a message whose result is there may still be delivered again. Default 0, never. */
  readonly redeliveryMs?: number;
  readonly now: () => number;
}

/** What `dequeue` found for one uri: its result, or the error that is its outcome. */
export type Dequeued =
  | { readonly uri: string; readonly result: Result }
  | { readonly uri: string; readonly error: ServingError };

export interface WaitOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

type SaveCommand = (keys: number, ...rest: (string | number)[]) => Promise<number[]>;

export class ResultStore {
  readonly #connection: RedisConnection;
  readonly #options: StoreOptions;
  readonly #news: DoneNews;
  readonly #taker: ResultTaker;

  constructor(connection: RedisConnection, options: StoreOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#news = new DoneNews(connection);
    this.#taker = new ResultTaker(connection, options.job);
    if (!('saveResults' in connection.redis)) connection.redis.defineCommand('saveResults', { lua: SAVE });
  }

  /**
   * Writes the results of one batch, and with them what the timers have measured, in one round trip (large ones in
   * several). A uri that already has a result keeps it.
   * @param model version of the model that made them; "" when none did
   * @param onBlocked hears of each uri whose key holds something that is no result; without it, that throws
   * @returns how many were written
   * @throws results_unavailable; then none, some or all are written, and writing again does no harm
   */
  async save(
    finished: readonly Finished[],
    model: string,
    timers?: Timers,
    onBlocked?: (uri: string, error: ServingError) => void,
  ): Promise<number> {
    let measured = timers?.take();
    if (finished.length === 0 && !measured?.size) return 0;
    let saved = 0;
    const blocked: string[] = [];
    try {
      for (const trip of tripsOf(finished)) {
        const replies = await this.#saveTrip(trip, model, measured ? toIncrements(measured) : []);
        // They are counted now, whatever becomes of the rest.
        measured = undefined;
        saved += replies.saved;
        blocked.push(...replies.blocked);
      }
    } catch (error) {
      if (measured) timers?.restore(measured);
      throw error;
    }
    for (const uri of blocked) {
      const error = new ServingError('results_unavailable', 'the key of the result holds something else', {
        uri,
      });
      if (!onBlocked) throw error;
      onBlocked(uri, error);
    }
    return saved;
  }

  #saveTrip(trip: readonly Finished[], model: string, pairs: readonly (readonly [string, number])[]) {
    return this.#connection.use(async (redis) => {
      const calls: Promise<number[]>[] = [];
      // All calls leave in one tick and share one round trip.
      for (let i = 0; i === 0 || i < trip.length; i += RECORDS_PER_CALL) {
        const part = trip.slice(i, i + RECORDS_PER_CALL);
        calls.push(this.#saveCall(redis, part, model, i === 0 ? pairs : []));
      }
      const replies = await Promise.all(calls);
      return {
        saved: replies.reduce((sum, [saved = 0]) => sum + saved, 0),
        blocked: replies.flatMap(([, ...places], call) =>
          places.map((place) => (trip[call * RECORDS_PER_CALL + place] as Finished).uri),
        ),
      };
    }, true);
  }

  #saveCall(
    redis: Redis,
    finished: readonly Finished[],
    model: string,
    pairs: readonly (readonly [string, number])[],
  ): Promise<number[]> {
    const { job, ttlSeconds, redeliveryMs = 0, now } = this.#options;
    const keys = [indexKey(job), metricsKey(job)];
    const values: (string | number)[] = [
      ttlSeconds * 1000,
      now(),
      model,
      doneChannel(job, ''),
      METRICS_TTL_MS,
    ];
    values.push(pairs.length, stateKey(job, ''), seenPrefix(job), redeliveryMs);
    for (const pair of pairs) values.push(...pair);
    for (const { uri, fields, message = '' } of finished) {
      keys.push(resultKey(job, uri));
      values.push(uri, fields.status, fields.value, fields.error, fields.outputs, fields.exact);
      values.push(redeliveryMs > 0 ? message : '');
    }
    const { saveResults } = redis as unknown as { saveResults: SaveCommand };
    return saveResults.call(redis, keys.length, ...keys, ...values);
  }

  /**
   * @returns undefined when there is no result (yet, or any more)
   * @throws the record's own error when it failed; results_unavailable
   */
  async get(uri: string): Promise<Result | undefined> {
    const fields = await this.#connection.use(
      (redis) => redis.hgetall(resultKey(this.#options.job, uri)),
      true,
    );
    return fromFields(uri, fields);
  }

  /**
   * `get`, and the result is gone afterwards, also when it is a failure (a cancellation stays).
   * After results_unavailable it may be asked for again for 10 minutes, by this store: nothing is lost by then.
   * @param use what is done with the result; when that throws, the result is put back
   */
  async take(uri: string, use?: (result: Result) => void): Promise<Result | undefined> {
    const [taken] = await this.#taker.take([uri]);
    if (taken?.error) throw taken.error;
    const result = fromFields(uri, taken?.fields ?? {});
    if (!use || !taken || !result) return result;
    try {
      use(result);
    } catch (error) {
      await this.#taker.putBack([taken]);
      throw error;
    }
    return result;
  }

  /**
   * The result as soon as it is there: asks once, then listens.
   * @throws timeout, the signal's reason, the record's own error, results_unavailable
   */
  async wait(uri: string, { timeoutMs, signal }: WaitOptions): Promise<Result> {
    const timeout = AbortSignal.timeout(assertWaitMs(timeoutMs));
    const stop = signal ? AbortSignal.any([timeout, signal]) : timeout;
    try {
      return await orAborted(this.#waitUntil(uri, stop), stop);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (timeout.aborted) throw new ServingError('timeout', `no result after ${timeoutMs} ms`, { uri });
      throw error;
    }
  }

  async #waitUntil(uri: string, stop: AbortSignal): Promise<Result> {
    const news = await this.#news.listen(doneChannel(this.#options.job, uri));
    try {
      for (;;) {
        // Asked after the listening began: what came before is found, what comes later is heard.
        const result = await this.get(uri);
        if (result) return result;
        stop.throwIfAborted();
        await news.next(stop);
      }
    } finally {
      news.stop();
    }
  }

  /** `get` that waits for a while; undefined when there is no result by then. */
  async getWithin(uri: string, timeoutMs: number): Promise<Result | undefined> {
    if (timeoutMs === 0) return this.get(uri);
    return this.wait(uri, { timeoutMs }).catch((error: unknown) => {
      if (error instanceof ServingError && error.code === 'timeout') return undefined;
      throw error;
    });
  }

  /**
   * Takes every finished result of the job, page by page; constant memory however many there are. What was taken and is
   * not yielded, because the caller has enough, is put back.
   */
  async *drain(): AsyncGenerator<Dequeued> {
    for (;;) {
      const page = await this.#takeListed(DRAIN_PAGE);
      if (!page) return;
      let used = 0;
      try {
        for (const taken of page) {
          used++;
          const dequeued = dequeuedOf(taken);
          if (dequeued) yield dequeued;
        }
      } finally {
        // What cannot be put back now, this store takes again.
        await this.#taker.putBack(page.slice(used)).catch(() => undefined);
      }
    }
  }

  /**
   * Takes up to `count` finished results, the oldest first; undefined when there are none left.
   * @param maxBytes of their stored values together. One that is larger alone is told as `too_large`; it stays under
   *   its uri, but is dequeued no more.
   */
  async takePage(count: number, maxBytes?: number): Promise<Dequeued[] | undefined> {
    const limits = maxBytes === undefined ? {} : { maxBytes, maxBytesOfOne: maxBytes };
    const page = await this.#takeListed(count, limits);
    return page?.flatMap((taken) => dequeuedOf(taken) ?? []);
  }

  /** In two round trips. An entry whose result another taker got, or that was read and deleted, is just passed over. */
  async #takeListed(count: number, limits?: TakeLimits): Promise<Taken[] | undefined> {
    const index = indexKey(this.#options.job);
    const again = this.#taker.unanswered(count);
    const uris =
      again.length > 0
        ? again
        : await this.#connection.use((redis) => redis.zrange(index, '0', String(count - 1)), true);
    if (uris.length === 0) return undefined;
    return (await this.#taker.take(uris, limits)).filter(({ wasListed }) => wasListed);
  }

  /** GET /metrics: every timer of the contract, over all environments of the job. */
  async metrics(): Promise<TimerReport[]> {
    const { job, now } = this.#options;
    const fields = await this.#connection.use((redis) => redis.hgetall(metricsKey(job)), true);
    const seconds = (now() - Number(fields[SINCE_FIELD] ?? now())) / 1000;
    return [...timersFromFields(fields)].map(([name, histogram]) => report(name, histogram, seconds));
  }

  /** Resolves when Redis answers. @throws results_unavailable */
  async ping(): Promise<void> {
    await this.#connection.use((redis) => redis.ping(), true);
  }

  async close(): Promise<void> {
    this.#news.close();
    await this.#connection.close();
  }
}

/** Cut where the results of one round trip become too many bytes; one trip, empty, for metrics alone. */
function tripsOf(finished: readonly Finished[]): Finished[][] {
  const trips: Finished[][] = [[]];
  let bytes = 0;
  for (const one of finished) {
    const { value, exact } = one.fields;
    bytes += value.length + exact.length;
    if (bytes > TRIP_BYTES && (trips.at(-1) as Finished[]).length > 0) {
      trips.push([]);
      bytes = value.length + exact.length;
    }
    (trips.at(-1) as Finished[]).push(one);
  }
  return trips;
}

function dequeuedOf({ held: { uri }, fields, error }: Taken): Dequeued | undefined {
  if (error) return { uri, error };
  try {
    const result = fromFields(uri, fields);
    return result && { uri, result };
  } catch (failure) {
    return { uri, error: ServingError.from(failure) };
  }
}
