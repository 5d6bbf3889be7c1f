/** Counts how often a redelivered record began to run and got no outcome, in an item for each enqueue. */
import type { ServingError } from '../contract/errors.ts';
import { allEnded } from '../contract/under-way.ts';
import type { CountedRecord, RunCounts } from '../pipeline/counted-runs.ts';
import type { RunCountsOptions } from '../results/store.ts';
import type { TableConnection } from './connection.ts';
import { TTL } from './entry.ts';
import { changeItem, type Item, readItems } from './items.ts';

interface Runs {
  readonly count: number;
  /** The number of the delivery that was counted last; no delivery has 0. */
  readonly delivery: number;
}

export class TableRunCounts implements RunCounts {
  readonly most: number;
  readonly #connection: TableConnection;
  readonly #options: RunCountsOptions;

  constructor(connection: TableConnection, options: RunCountsOptions) {
    this.#connection = connection;
    this.#options = options;
    this.most = options.most;
  }

  async read(records: readonly CountedRecord[]): Promise<readonly (number | ServingError)[]> {
    const items = await readItems(
      this.#connection,
      records.map((record) => this.#id(record)),
    );
    return records.map((record) => this.#runsIn(items.get(this.#id(record))).count);
  }

  async begin(records: readonly CountedRecord[]): Promise<void> {
    await this.#change(records, ({ count, delivery }, { attempts }) =>
      delivery === attempts ? undefined : { count: count + 1, delivery: attempts },
    );
  }

  async takeBack(records: readonly CountedRecord[]): Promise<void> {
    // A remaining count is one run of several.
    await this.#change(records, ({ count, delivery }, { attempts }) =>
      delivery === attempts ? { count: count - 1, delivery: 0 } : undefined,
    ).catch(() => undefined);
  }

  async #change(
    records: readonly CountedRecord[],
    next: (runs: Runs, record: CountedRecord) => Runs | undefined,
  ): Promise<void> {
    const ttlMs = this.#options.retentionSeconds * 1000;
    const decide = (record: CountedRecord) => (item: Item | undefined) => {
      const runs = next(this.#runsIn(item), record);
      if (!runs) return { answer: 0 };
      const until = this.#connection.now() + ttlMs;
      const set = { ...runs, until, [TTL]: Math.ceil(until / 1000) };
      return { answer: 0, change: { set, remove: [] } };
    };
    await allEnded(records.map((record) => changeItem(this.#connection, this.#id(record), decide(record))));
  }

  #runsIn(item: Item | undefined): Runs {
    if (!item || Number(item['until']) <= this.#connection.now()) return { count: 0, delivery: 0 };
    return { count: Number(item['count']), delivery: Number(item['delivery']) };
  }

  #id({ enqueue, uri }: CountedRecord): string {
    return `${this.#options.job}/r/${enqueue.identity}.${enqueue.replays}/${uri}`;
  }
}
