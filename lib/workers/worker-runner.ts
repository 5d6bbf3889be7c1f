/**
 * The run stage of a job with a worker: a batch of records becomes items, runs in one process of the pool, and its
 * results become outcomes. A batch that raised or ended its process runs once more, each record alone, so that one
 * record does not fail its neighbors.
 */
import { ServingError } from '../contract/errors.ts';
import type { Inputs, Outcome, RunPolicy } from '../contract/values.ts';
import type { BatchRunner, Clock } from '../pipeline/batch/batcher.ts';
import { noTimeLeft } from '../pipeline/deadline.ts';
import type { Observer } from '../pipeline/observer.ts';
import { type ItemSettings, itemOf } from './items.ts';
import type { Pool } from './pool.ts';
import { WorkerEnded, type WorkerProcess } from './process.ts';
import { faultText, outcomeOf } from './results.ts';

/** Facts about a worker once one of its processes is ready. */
export interface WorkerFacts extends ItemSettings {
  readonly retryAlone: boolean;
}

export interface WorkerRunnerOptions {
  readonly version: string;
  readonly pool: Pool<WorkerProcess>;
  /** Facts common to all processes, known once one is ready. */
  readonly facts: () => WorkerFacts;
  /** A batch that takes longer ends its process, in ms. */
  readonly predictTimeoutMs: number;
  readonly clock: Clock;
  /** Told of each batch that a process has answered. */
  readonly runEnded?: Observer['runEnded'];
}

type Attempt =
  | { readonly outcomes: readonly Outcome[] }
  | { readonly isLate: true }
  /** `isBug`: running it again would fail in the same way. */
  | { readonly failed: string; readonly isBug: boolean };

/** Processes that a batch is given to while they are being ended, in a row. */
const MOST_TRIES = 5;

export class WorkerRunner implements BatchRunner {
  readonly version: string;
  readonly #options: WorkerRunnerOptions;

  constructor(options: WorkerRunnerOptions) {
    this.version = options.version;
    this.#options = options;
  }

  get free(): number {
    return this.#options.pool.free;
  }

  set onFree(call: () => void) {
    this.#options.pool.onFree = call;
  }

  async run(records: readonly Inputs[], { isOver = () => false }: RunPolicy = {}): Promise<Outcome[]> {
    const items = await Promise.all(records.map((record) => this.#itemOf(record)));
    const good = items.flatMap((item) => ('item' in item ? [item.item] : []));
    const ran = (await this.#runTogether(good, isOver)).values();
    return items.map((item) => ('error' in item ? failed(item.error) : (ran.next().value as Outcome)));
  }

  close(): Promise<void> {
    return this.#options.pool.close();
  }

  /** An item that cannot be read fails alone, before its batch is made. */
  async #itemOf(record: Inputs): Promise<{ item: unknown } | { error: ServingError }> {
    try {
      return { item: await itemOf(record, this.#options.facts()) };
    } catch (error) {
      return { error: ServingError.from(error) };
    }
  }

  async #runTogether(items: readonly unknown[], isOver: () => boolean): Promise<readonly Outcome[]> {
    if (items.length === 0) return [];
    const attempt = await this.#attempt(items, isOver);
    if ('outcomes' in attempt) return attempt.outcomes;
    if ('isLate' in attempt) return items.map(() => failed(noTimeLeft()));
    const { retryAlone } = this.#options.facts();
    if (items.length === 1 || attempt.isBug || !retryAlone) {
      return items.map(() => failed(new ServingError('model_failed', attempt.failed)));
    }
    const alone: Outcome[] = [];
    for (const item of items) {
      alone.push(...(isOver() ? [failed(noTimeLeft())] : await this.#runTogether([item], isOver)));
    }
    return alone;
  }

  async #attempt(items: readonly unknown[], isOver: () => boolean, tries = MOST_TRIES): Promise<Attempt> {
    const { pool, clock, predictTimeoutMs, runEnded } = this.#options;
    try {
      return await pool.use<Attempt>(async (process) => {
        // It may have waited for a process to start.
        if (isOver()) return { isLate: true };
        const startedMs = clock.now();
        const stop = clock.after(predictTimeoutMs, () => {
          process.kill(`predict did not end within ${predictTimeoutMs} ms`);
        });
        const result = await process.run(items).finally(stop);
        const tookMs = clock.now() - startedMs;
        runEnded?.({ records: items.length, tookMs, samples: result.statistics });
        if ('outcomes' in result) return { outcomes: result.outcomes.map(outcomeOf) };
        const { kind, ...fault } = result.failed;
        return { failed: faultText(fault), isBug: kind !== 'raised' };
      });
    } catch (error) {
      if (error instanceof WorkerEnded && !error.hadBatch && tries > 1) {
        return this.#attempt(items, isOver, tries - 1);
      }
      if (error instanceof WorkerEnded) return { failed: error.message, isBug: false };
      if (error instanceof TypeError || error instanceof RangeError) {
        return { failed: error.message, isBug: items.length === 1 };
      }
      throw error;
    }
  }
}

function failed(error: ServingError): Outcome {
  return { ok: false, error };
}
