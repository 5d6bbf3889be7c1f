/** The results of a job in a table of DynamoDB: saves, reads, awaits and takes them. */
import { setTimeout as delay } from 'node:timers/promises';
import type { EnqueueQuery } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import type { Dequeued, Result } from '../contract/result.ts';
import type { ServingVersion } from '../metrics/fields.ts';
import { reports, type SharedTimers, type TimerReport, type Timers } from '../metrics/timers.ts';
import { Dequeue } from '../results/dequeue.ts';
import { failedFields, isOutcomeOf, parseResult, type StoredFields } from '../results/fields.ts';
import { newestTtlMs, UNKNOWN_ENQUEUE } from '../results/record-state.ts';
import type {
  Finished,
  OnBlocked,
  Results,
  ResultsOptions,
  UseQuery,
  WaitOptions,
} from '../results/store.ts';
import { getWithin, waitFor } from '../results/wait-deadline.ts';
import type { TableConnection } from './connection.ts';
import { Entries, fieldsOf, type ReadItem } from './entries.ts';
import { type Entry, visible } from './entry.ts';
import { indexPages } from './index-pages.ts';
import { readItem } from './items.ts';
import { TableLeases } from './leases.ts';
import { Measurements } from './measurements.ts';
import { save } from './steps.ts';

/** A client that waits looks again after these pauses, the last one from then on. */
const LOOK_AGAIN_MS = [25, 50, 100, 250] as const;
/** An item has 400 KB at most; the lists of a uri's enqueues take some 5 KB. */
const MOST_BYTES = 390_000;

export class TableResults implements Results {
  readonly #connection: TableConnection;
  readonly #options: ResultsOptions;
  readonly #entries: Entries;
  readonly #dequeue: Dequeue;
  readonly #measurements: Measurements;

  constructor(connection: TableConnection, options: ResultsOptions) {
    this.#connection = connection;
    this.#options = options;
    const entries = new Entries(connection, options.job);
    this.#entries = entries;
    this.#measurements = new Measurements(connection, options);
    const pages = (count: number, maxBytes: number) => indexPages(connection, entries, count, maxBytes);
    this.#dequeue = new Dequeue(new TableLeases(entries), pages);
  }

  /** A write for each uri. One that fails costs its records, unless all fail. */
  async save(
    finished: readonly Finished[],
    model: string,
    timers?: Timers,
    onBlocked?: OnBlocked,
  ): Promise<number> {
    const byUri = Map.groupBy(finished, ({ uri }) => uri);
    const items = await this.#entries.readAll([...byUri.keys()]);
    const saving = [...byUri].map(([uri, some]) => this.#save(uri, some, model, items.get(uri)));
    const saved = await Promise.allSettled(saving);
    const failed = saved.flatMap((one, i) => (one.status === 'rejected' ? [{ i, reason: one.reason }] : []));
    if (failed.length > 0 && (failed.length === saved.length || !onBlocked)) throw failed[0]?.reason;
    const uris = [...byUri.keys()];
    for (const { i, reason } of failed) onBlocked?.(uris[i] ?? '', ServingError.from(reason));
    // Measurements are kept for the next time if only that fails.
    const measuring = this.#measurements.add(timers, model);
    await (finished.length === 0 ? measuring : measuring.catch(() => undefined));
    return saved.reduce((sum, one) => sum + (one.status === 'fulfilled' ? one.value : 0), 0);
  }

  async #save(
    uri: string,
    finished: readonly Finished[],
    model: string,
    before: ReadItem | undefined,
  ): Promise<number> {
    const ttlMs = this.#options.ttlSeconds * 1000;
    const common = { model, finishedAt: this.#options.now(), ttlMs, newestTtlMs: newestTtlMs(this.#options) };
    const step = (entry: Entry) => {
      let next = entry;
      let written = 0;
      for (const { fields, enqueue = UNKNOWN_ENQUEUE } of finished) {
        const saving = { ...common, enqueue, fields: withinItem(fields), now: this.#entries.now() };
        const saved = save(next, saving);
        next = saved.entry;
        if (saved.isWritten) written++;
      }
      return { answer: written, entry: next === entry ? undefined : next };
    };
    return (await this.#entries.take(uri, step, before)).answer;
  }

  async get(uri: string, { identity }: EnqueueQuery = {}): Promise<Result | undefined> {
    const fields = fieldsOf(visible(await this.#entries.readWhole(uri)));
    if (identity !== undefined && !isOutcomeOf(fields, identity)) return undefined;
    return parseResult(uri, fields);
  }

  take(uri: string, query?: UseQuery): Promise<Result | undefined> {
    return this.#dequeue.take(uri, query);
  }

  wait(uri: string, options: WaitOptions): Promise<Result> {
    return waitFor(uri, options, async (stop) => {
      for (let looks = 0; ; looks++) {
        const result = await this.get(uri, options);
        if (result) return result;
        stop.throwIfAborted();
        await delay(LOOK_AGAIN_MS[Math.min(looks, LOOK_AGAIN_MS.length - 1)], undefined, { signal: stop });
      }
    });
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

  timers(): Promise<SharedTimers> {
    return this.#measurements.timers();
  }

  async metrics(): Promise<TimerReport[]> {
    return reports(await this.timers());
  }

  serving(): Promise<ServingVersion[]> {
    return this.#measurements.serving();
  }

  lostCaptures(): Promise<number> {
    return this.#measurements.lostCaptures();
  }

  async ping(): Promise<void> {
    await readItem(this.#connection, `${this.#options.job}/ping`);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }
}

/** Replaces fields that do not fit into an item by a failure. Those of a sink do, because larger values are in S3. */
function withinItem(fields: StoredFields): StoredFields {
  const bytes = Object.values(fields).reduce((sum: number, text: string) => sum + Buffer.byteLength(text), 0);
  if (bytes <= MOST_BYTES) return fields;
  const problem = `the result has ${bytes} bytes, over the ${MOST_BYTES} of an item in DynamoDB`;
  return failedFields(new ServingError('too_large', `${problem}; keep less of it with postProcessing`));
}
