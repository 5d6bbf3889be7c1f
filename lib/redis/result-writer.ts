/**
 * Saves the outcomes of one batch, each as a Redis hash with a time to live, in one round trip. SQS delivers twice and out
 * of order, and two workers may hold one record: the script writes an outcome only when its enqueue is later than every
 * one of its uri that had an outcome before.
 */

import type { Redis } from 'ioredis';
import { ServingError } from '../contract/errors.ts';
import { doneChannel, indexKey, metricsKey, newestKey, resultKey, stateKey } from '../contract/names.ts';
import { elementAt, present } from '../contract/present.ts';
import { METRICS_TTL_MS, toIncrements } from '../metrics/fields.ts';
import type { Timers } from '../metrics/timers.ts';
import { textsOf } from '../results/fields.ts';
import { serializeOrder } from '../results/order.ts';
import { newestTtlMs, UNKNOWN_ENQUEUE } from '../results/record-state.ts';
import type { Finished, OnBlocked, ResultsOptions } from '../results/store.ts';
import { forEachHome, type RedisConnection } from './connection.ts';
import { ResultIndex } from './result-index.ts';
import { SAVE } from './scripts/generated.ts';
import { script } from './scripts.ts';

/** Redis serves no other client during a script call: a few ms for a thousand records. */
const RECORDS_PER_CALL = 1_000;
/** Size limit of one round trip: what a command's timeout covers must not grow with the batch. */
const TRIP_BYTES = 4 * 1024 * 1024;

type Pairs = readonly (readonly [name: string, increment: string])[];

interface Saved {
  readonly saved: number;
  readonly blocked: readonly (readonly [uri: string, error: ServingError])[];
  /** Why nothing was saved. */
  readonly failure?: ServingError;
}

const saveResults = script<number[]>('saveResults', SAVE);

export class ResultWriter {
  readonly #connection: RedisConnection;
  readonly #options: ResultsOptions;
  readonly #index: ResultIndex;

  constructor(connection: RedisConnection, options: ResultsOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#index = new ResultIndex(connection, options.job);
  }

  /**
   * Writes the results of one batch, and with them what the timers have measured, in one round trip (large ones in
   * several). A uri keeps the result of the latest enqueue.
   * @param model version of the model that made them; "" when none did
   * @param onBlocked for keys of another type and, in cluster mode, slots that cannot be reached
   * @returns how many were written
   * @throws results_unavailable; none, some or all are written then, and writing again is safe
   */
  async save(
    finished: readonly Finished[],
    model: string,
    timers?: Timers,
    onBlocked?: OnBlocked,
  ): Promise<number> {
    let measured = timers?.take();
    if (finished.length === 0 && !measured?.size) return 0;
    let saved = 0;
    const blocked: (readonly [uri: string, error: ServingError])[] = [];
    try {
      if (measured && (this.#connection.isCluster || finished.length === 0)) {
        await this.#saveHome(undefined, [], model, toIncrements(measured));
        measured = undefined;
      }
      for (const part of partsOf(finished)) {
        const replies = await this.#savePart(part, model, measured ? toIncrements(measured) : []);
        // These metrics are stored, also when a later round trip fails.
        measured = undefined;
        saved += replies.saved;
        blocked.push(...replies.blocked);
      }
    } catch (error) {
      if (measured) timers?.restore(measured);
      throw error;
    }
    for (const [uri, error] of blocked) {
      if (!onBlocked) throw error;
      onBlocked(uri, error);
    }
    return saved;
  }

  /** In cluster mode each slot has a call of its own; one that fails costs its records, unless all fail. */
  async #savePart(part: readonly Finished[], model: string, pairs: Pairs): Promise<Saved> {
    const homes = part.map(({ uri }) => this.#connection.home(this.#options.job, uri));
    await this.#index.announce(new Set(homes), this.#options.ttlSeconds * 1000);
    const replies = await forEachHome(homes, async (home, places): Promise<Saved> => {
      const records = places.map((i) => elementAt(part, i, 'part'));
      try {
        return await this.#saveHome(home, records, model, pairs);
      } catch (error) {
        const failure = error as ServingError;
        return { saved: 0, blocked: records.map(({ uri }) => [uri, failure]), failure };
      }
    });
    const failed = replies.filter(({ failure }) => failure);
    if (failed.length > 0 && failed.length === replies.length) throw failed[0]?.failure;
    return {
      saved: replies.reduce((sum, reply) => sum + reply.saved, 0),
      blocked: replies.flatMap((reply) => reply.blocked),
    };
  }

  /** @param home undefined for the metrics alone */
  #saveHome(
    home: string | undefined,
    records: readonly Finished[],
    model: string,
    pairs: Pairs,
  ): Promise<Saved> {
    const run = async (redis: Redis) => {
      const calls: Promise<number[]>[] = [];
      // All calls leave in one tick and share one round trip.
      for (let i = 0; i === 0 || i < records.length; i += RECORDS_PER_CALL) {
        const some = records.slice(i, i + RECORDS_PER_CALL);
        calls.push(this.#saveCall(redis, home, some, model, i === 0 ? pairs : []));
      }
      const replies = await Promise.all(calls);
      return {
        saved: replies.reduce((sum, [saved = 0]) => sum + saved, 0),
        blocked: replies.flatMap(([, ...places], call) =>
          places.map((place) =>
            ofOtherType(elementAt(records, call * RECORDS_PER_CALL + place, 'records').uri),
          ),
        ),
      };
    };
    return this.#connection.use(run, true, home ?? metricsKey(this.#options.job));
  }

  #saveCall(
    redis: Redis,
    home: string | undefined,
    finished: readonly Finished[],
    model: string,
    pairs: Pairs,
  ): Promise<number[]> {
    const { job, ttlSeconds, now } = this.#options;
    // An index is touched for records only.
    const keys = home === undefined ? [metricsKey(job), metricsKey(job)] : [indexKey(home), metricsKey(home)];
    const names = home ?? job;
    const options = {
      ttlMs: String(ttlSeconds * 1000),
      now: String(now()),
      model,
      channel: doneChannel(job, ''),
      results: resultKey(job, ''),
      states: stateKey(names, ''),
      newest: newestKey(names, ''),
      newestTtlMs: String(newestTtlMs(this.#options)),
      metrics: pairs.length === 0 ? undefined : { ttlMs: String(METRICS_TTL_MS), pairs },
      records: finished.length === 0 ? undefined : finished.map(optionsOf),
    };
    // A slot that moves has some of its keys at another node. The script runs only where all of them are.
    if (this.#connection.isCluster)
      for (const { uri } of finished)
        keys.push(resultKey(job, uri), stateKey(names, uri), newestKey(names, uri));
    return saveResults(redis)(keys, options, ...finished.map(({ fields }) => fields.value));
  }
}

/** The fields of a record that save.lua reads. */
function optionsOf({ uri, fields, enqueue = UNKNOWN_ENQUEUE }: Finished) {
  return { uri, order: serializeOrder(enqueue), ...textsOf(fields) };
}

function ofOtherType(uri: string): readonly [string, ServingError] {
  const problem = 'the key of the result holds something else';
  return [uri, new ServingError('results_unavailable', problem, { uri })];
}

/** Parts of at most TRIP_BYTES. */
function partsOf(finished: readonly Finished[]): Finished[][] {
  const trips: Finished[][] = [[]];
  let bytes = 0;
  for (const one of finished) {
    const { value, exact } = one.fields;
    bytes += value.length + exact.length;
    if (bytes > TRIP_BYTES && present(trips.at(-1), 'element of trips').length > 0) {
      trips.push([]);
      bytes = value.length + exact.length;
    }
    present(trips.at(-1), 'element of trips').push(one);
  }
  return trips;
}
