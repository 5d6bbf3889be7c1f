/** Sums to which every environment of a job adds, an item for each group of a kind. */
import type { Sums, SumsOptions } from '../results/store.ts';
import type { TableConnection } from './connection.ts';
import { addTo, readCounters } from './counters.ts';

const DAY_MS = 86_400_000;
/** A month is read until it is over. */
const TTL_MS: Readonly<Record<SumsOptions['kind'], number>> = { trial: 2 * DAY_MS, budget: 32 * DAY_MS };

export class TableSums implements Sums {
  readonly #connection: TableConnection;
  readonly #options: SumsOptions;

  constructor(connection: TableConnection, options: SumsOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  async add(group: string, amounts: ReadonlyMap<string, number>): Promise<ReadonlyMap<string, number>> {
    const adding = { counts: amounts, ttlMs: TTL_MS[this.#options.kind] };
    const sums = await addTo(this.#connection, this.#id(group), adding);
    return new Map([...amounts.keys()].map((name) => [name, Number(sums[name] ?? 0)]));
  }

  async read(group: string): Promise<ReadonlyMap<string, number>> {
    const [sums = {}] = await readCounters(this.#connection, [this.#id(group)]);
    return new Map(Object.entries(sums).map(([name, sum]) => [name, Number(sum)]));
  }

  #id(group: string): string {
    const { job, kind } = this.#options;
    return `${job}/s/${kind}/${group}`;
  }
}
