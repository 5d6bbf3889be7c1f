/** Keeps the measurements of a job's environments in several items that add up. */
import {
  LOST_FIELD,
  METRICS_TTL_MS,
  SERVING_FIELD,
  type ServingVersion,
  SINCE_FIELD,
  servingNow,
  timersFromFields,
  toIncrements,
} from '../metrics/fields.ts';
import type { SharedTimers, Timers } from '../metrics/timers.ts';
import type { ResultsOptions } from '../results/store.ts';
import type { TableConnection } from './connection.ts';
import { addTo, readCounters, removeFrom } from './counters.ts';
import { SHARDS } from './shards.ts';

export class Measurements {
  readonly #connection: TableConnection;
  readonly #options: Pick<ResultsOptions, 'job' | 'now'>;
  /** That of this environment. */
  readonly #id: string;

  constructor(connection: TableConnection, options: ResultsOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#id = this.#ids()[Math.floor(Math.random() * SHARDS)] ?? '';
  }

  #ids(): string[] {
    return Array.from({ length: SHARDS }, (_, i) => `${this.#options.job}/m/${i}`);
  }

  /** @throws results_unavailable; what was measured is then in the timers again */
  async add(timers: Timers | undefined, model: string): Promise<void> {
    const measured = timers?.take();
    if (!measured?.size) return;
    const counts = toIncrements(measured).map(([field, increment]) => [field, Number(increment)] as const);
    const now = this.#options.now();
    const set = model === '' ? {} : { [`${SERVING_FIELD}${model}`]: now };
    const adding = { counts, ttlMs: METRICS_TTL_MS, set, setOnce: { [SINCE_FIELD]: now } };
    try {
      const item = await addTo(this.#connection, this.#id, adding);
      const late = Object.entries(item).flatMap(([field, at]) =>
        field.startsWith(SERVING_FIELD) && now - Number(at) > METRICS_TTL_MS ? [field] : [],
      );
      if (late.length > 0) await removeFrom(this.#connection, this.#id, late);
    } catch (error) {
      timers?.restore(measured);
      throw error;
    }
  }

  async timers(): Promise<SharedTimers> {
    return timersFromFields(await this.#fields(), this.#options.now());
  }

  async serving(): Promise<ServingVersion[]> {
    return servingNow(await this.#fields(), this.#options.now());
  }

  async lostCaptures(): Promise<number> {
    return Number((await this.#fields())[LOST_FIELD] ?? 0);
  }

  /** All items together: numbers add up, the first measurement is the earliest, and a version served last at the latest time. */
  async #fields(): Promise<Readonly<Record<string, string>>> {
    const sums = new Map<string, number>();
    for (const item of await readCounters(this.#connection, this.#ids())) {
      for (const [field, text] of Object.entries(item)) {
        const number = Number(text);
        const before = sums.get(field);
        if (before === undefined) sums.set(field, number);
        else if (field === SINCE_FIELD) sums.set(field, Math.min(before, number));
        else if (field.startsWith(SERVING_FIELD)) sums.set(field, Math.max(before, number));
        else sums.set(field, before + number);
      }
    }
    return Object.fromEntries([...sums].map(([field, number]) => [field, String(number)]));
  }
}
