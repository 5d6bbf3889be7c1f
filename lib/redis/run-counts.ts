/**
 * Counts in Redis how often a redelivered record began to run and got no outcome. The receive count of SQS does not say that: it
 * grows in an outage too. A delivery is counted once, however often its command is sent, because its number is stored too.
 */

import type { Redis } from 'ioredis';
import { ServingError } from '../contract/errors.ts';
import { runCountKey } from '../contract/names.ts';
import { elementAt } from '../contract/present.ts';
import type { CountedRecord, RunCounts } from '../pipeline/counted-runs.ts';
import type { RunCountsOptions } from '../results/store.ts';
import { forEachHome, type RedisConnection } from './connection.ts';
import { BEGIN_RUNS, TAKE_BACK_RUNS } from './scripts/generated.ts';
import { script } from './scripts.ts';

const beginRuns = script<unknown>('beginRuns', BEGIN_RUNS);
const takeBackRuns = script<unknown>('takeBackRuns', TAKE_BACK_RUNS);

export class StoredRunCounts implements RunCounts {
  readonly most: number;
  readonly #connection: RedisConnection;
  readonly #options: RunCountsOptions;

  constructor(connection: RedisConnection, options: RunCountsOptions) {
    this.#connection = connection;
    this.#options = options;
    this.most = options.most;
  }

  /** In cluster mode a node that is away costs the records of its slots, unless all fail. */
  async read(records: readonly CountedRecord[]): Promise<readonly (number | ServingError)[]> {
    const counts: (number | ServingError)[] = [];
    await this.#forEachHome(records, async (home, keys, places) => {
      const read = this.#connection.use((redis) => redis.mget(...keys), true, home);
      const texts = await read.catch((error: unknown) => ServingError.from(error));
      for (const [i, place] of places.entries()) counts[place] = countIn(texts, i);
    });
    const [first] = counts;
    if (first instanceof ServingError && counts.every((count) => count instanceof ServingError)) throw first;
    return counts;
  }

  async begin(records: readonly CountedRecord[]): Promise<void> {
    await this.#change(beginRuns, records);
  }

  async takeBack(records: readonly CountedRecord[]): Promise<void> {
    // A remaining count is one run of several.
    await this.#change(takeBackRuns, records).catch(() => undefined);
  }

  async #change(change: typeof beginRuns, records: readonly CountedRecord[]): Promise<void> {
    const ttlMs = String(this.#options.retentionSeconds * 1000);
    await this.#forEachHome(records, async (home, keys, places) => {
      const deliveries = places.map((i) => String(elementAt(records, i, 'records').attempts));
      const run = (redis: Redis) => change(redis)(keys, { ttlMs, deliveries });
      await this.#connection.use(run, true, home);
    });
  }

  async #forEachHome(
    records: readonly CountedRecord[],
    work: (home: string, keys: readonly string[], places: readonly number[]) => Promise<void>,
  ): Promise<void> {
    const homes = records.map(({ uri }) => this.#connection.home(this.#options.job, uri));
    await forEachHome(homes, (home, places) => {
      const keys = places.map((i) => {
        const { enqueue, uri } = elementAt(records, i, 'records');
        return runCountKey(home, `${enqueue.identity}.${enqueue.replays}`, uri);
      });
      return work(home, keys, places);
    });
  }
}

function countIn(texts: readonly (string | null)[] | ServingError, i: number): number | ServingError {
  return texts instanceof ServingError ? texts : Number.parseInt(texts[i] ?? '0', 10) || 0;
}
