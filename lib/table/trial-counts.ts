/** The counts of a canary's trial: an item for each trial, to which every environment adds. */
import type { TrialCounts } from '../results/store.ts';
import type { TableConnection } from './connection.ts';
import { addTo, readCounters } from './counters.ts';

const TTL_MS = 2 * 86_400_000;

export class TableTrialCounts implements TrialCounts {
  readonly #connection: TableConnection;
  readonly #job: string;

  constructor(connection: TableConnection, { job }: { readonly job: string }) {
    this.#connection = connection;
    this.#job = job;
  }

  async add(trial: string, counts: ReadonlyMap<string, number>): Promise<void> {
    await addTo(this.#connection, this.#id(trial), { counts, ttlMs: TTL_MS });
  }

  async read(trial: string): Promise<ReadonlyMap<string, number>> {
    const [counts = {}] = await readCounters(this.#connection, [this.#id(trial)]);
    return new Map(Object.entries(counts).map(([name, count]) => [name, Number(count)]));
  }

  #id(trial: string): string {
    return `${this.#job}/t/${trial}`;
  }
}
