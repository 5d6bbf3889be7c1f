/**
 * Reads results: the client half of the query contract. A missing result is undefined, and a failed record throws an error
 * with its code and uri; the Python client returned "[]" and "NaN".
 */
import { assertIdentity, type EnqueueQuery, type TakeQuery } from '../../lib/contract/enqueue.ts';
import { badRequest, ServingError } from '../../lib/contract/errors.ts';
import { assertUri } from '../../lib/contract/names.ts';
import { type Dequeued, idOfLarge, type RecordStatus, type Result } from '../../lib/contract/result.ts';
import { type CallOptions, limited, now } from '../limit.ts';
import { inOrder, stoppable } from './in-order.ts';
import { DOWNLOAD_MS } from './redirect.ts';
import { dequeuedOf, isTaken, type ResultSource, whole } from './source.ts';

export interface QueryOptions extends EnqueueQuery, CallOptions {}

export interface WaitOptions extends QueryOptions {
  /** Deletes the result when it is here, a failure too. Default false. */
  readonly take?: boolean;
}

export interface DrainOptions extends CallOptions {
  /** No result is taken after this time; the rest stays for the next call. Default: no limit, but 30 s for each page. */
  readonly timeoutMs?: number | undefined;
}

export interface ResultsOptions extends CallOptions {
  /** Deletes each result when it is here; only for records with an identity, so that those of others stay. Default false. */
  readonly take?: boolean;
  /** Time for all of them together. Default 30,000. */
  readonly timeoutMs?: number | undefined;
}

/** The outcome of one record. */
export type Outcome = { readonly uri: string; readonly identity: string } & (
  | { readonly result: Result }
  | { readonly error: ServingError }
);

/** A record, as `enqueue` returned it or as it was given to `enqueueMany`, or its uri. */
export type RecordName = string | { readonly uri: string; readonly identity?: string | undefined };

const ANSWER_MS = 30_000;
const WAIT_MS = 30_000;
/** Records that `results` waits for at a time: over HTTPS, each is a request. */
const WIDTH = 16;
const NO_ANSWER = 'there was no answer in';

/** A page that was asked for and has not come yet. */
interface Draining {
  readonly all: AsyncGenerator<Dequeued>;
  readonly next: Promise<IteratorResult<Dequeued>>;
}

export abstract class ResultReader {
  readonly #open: () => ResultSource | Promise<ResultSource>;
  #left: Draining | undefined;

  /** @param open the same source each time */
  constructor(open: () => ResultSource | Promise<ResultSource>) {
    this.#open = open;
  }

  /**
   * Returns the result and keeps it; undefined when there is none (yet, or any more). With the identity that `enqueue`
   * returned, only the result of that enqueue.
   * @param options.timeoutMs default 30,000, and 120,000 more for a large result
   * @throws the record's own error if it failed (code, uri); results_unavailable; timeout
   */
  async query(uri: string, options: QueryOptions = {}): Promise<Result | undefined> {
    return this.#call(uri, options, async (source, query, signal) =>
      whole(source, await source.get(uri, query, signal), signal),
    );
  }

  /**
   * Like `query`, but deletes the result, even a failure. A cancelled uri stays cancelled. If the call is ended before it has
   * the answer, the result may be gone.
   */
  async queryAndDelete(uri: string, options: QueryOptions = {}): Promise<Result | undefined> {
    return this.#call(uri, options, async (source, query, signal) => {
      const taken = await source.take(uri, query, signal);
      const result = await whole(source, taken, signal);
      return taken?.large && !(await isTaken(source, taken, taken.large)) ? undefined : result;
    });
  }

  /**
   * Waits for the result without polling. Without an identity, a result that an earlier enqueue of the uri left is returned at
   * once. A large result is then fetched, and a taken one deleted, which have limits of their own, of 120 s and 30 s.
   * @param options.timeoutMs default 30,000; over HTTPS, 0 is one question, of up to 2 s
   * @throws timeout after `timeoutMs`, the signal's reason when aborted, the record's own error if it failed
   */
  async wait(uri: string, options: WaitOptions = {}): Promise<Result> {
    const { timeoutMs = WAIT_MS, signal, identity, take = false } = options;
    signal?.throwIfAborted();
    const asked = { ...checked(identity), timeoutMs, signal };
    const source = await this.#open();
    // A result that cannot be deleted expires.
    const taken = async (query: TakeQuery) => take && source.take(uri, query, signal).catch(() => undefined);
    try {
      const found = await source.wait(assertUri(uri), asked);
      const result = await whole(source, found, signal);
      // Another result may have come meanwhile.
      const own = found.identity || identity;
      await taken({ identity: own, fetched: found.large && idOfLarge(found.large) });
      return result;
    } catch (error) {
      signal?.throwIfAborted();
      const { uri: ofRecord, code } = ServingError.from(error);
      // With a uri it is the record's own, which is stored; without one, the result was not seen.
      if (ofRecord !== undefined && code !== 'timeout') await taken({ identity });
      throw error;
    }
  }

  /**
   * Waits for records and yields the outcome of each, in their order: 16 at a time, so that there may be any number of
   * them. Failures are errors in their place, and so is `timeout` for a record that has no result by then.
   * @throws bad_request; the signal's reason
   */
  async *results(
    records: Iterable<RecordName> | AsyncIterable<RecordName>,
    { take = false, timeoutMs = WAIT_MS, signal }: ResultsOptions = {},
  ): AsyncGenerator<Outcome> {
    const endAt = now() + timeoutMs;
    // Ends what is still asked for when the caller leaves.
    const left = new AbortController();
    const end = signal ? AbortSignal.any([signal, left.signal]) : left.signal;
    const outcomes = inOrder(records, WIDTH, async (record) => {
      const { uri, identity } = typeof record === 'string' ? { uri: record } : record;
      if (take && identity === undefined)
        throw badRequest('take needs the identity of each record, as enqueue returned it');
      const options = { identity, timeoutMs: Math.max(0, endAt - now()), signal: end, take };
      return this.wait(uri, options).then(
        (result): Outcome => ({ uri, identity: result.identity, result }),
        (error: unknown): Outcome => {
          end.throwIfAborted();
          return { uri, identity: identity ?? '', error: ServingError.from(error) };
        },
      );
    });
    try {
      yield* stoppable(outcomes, signal);
    } finally {
      left.abort();
    }
  }

  /**
   * The state of a record, without its result; with an identity, the state of that enqueue of it.
   * @param options.timeoutMs default 30,000
   * @throws results_unavailable; timeout
   */
  async status(uri: string, options: QueryOptions = {}): Promise<RecordStatus> {
    return this.#call(uri, options, (source, query, signal) => source.status(uri, query, signal));
  }

  /**
   * Cancels what was enqueued under the uri until now and has no result: `query` and `wait` throw `cancelled` for 15 days,
   * even if the record is running now. A record that is enqueued afterwards is not cancelled.
   * @param options.timeoutMs default 30,000
   * @returns false when it is too late: every enqueue that is known has, or had, its result
   * @throws results_unavailable; timeout
   */
  async cancel(uri: string, options: CallOptions = {}): Promise<boolean> {
    return this.#call(uri, options, (source, _query, signal) => source.cancel(uri, signal));
  }

  /**
   * Takes all finished results of the job; failures are errors in their place. For many results, `drain` needs less
   * memory. If the store becomes unavailable meanwhile, or the call is ended, returns those already taken.
   * @throws results_unavailable or timeout when none was taken
   */
  async dequeue(options: DrainOptions = {}): Promise<Map<string, Result | ServingError>> {
    const all = new Map<string, Result | ServingError>();
    try {
      for await (const dequeued of this.drain(options)) {
        all.set(dequeued.uri, 'error' in dequeued ? dequeued.error : dequeued.result);
      }
    } catch (error) {
      // These results are no longer in the store, so they must be returned.
      if (all.size === 0) throw error;
    }
    return all;
  }

  /**
   * Like `dequeue`, one by one in constant memory. A yielded result is gone from the store; after an interrupted
   * drain the next one returns the rest (over HTTPS: that of the same OutputQueue). A large result that cannot be fetched
   * is an error in its place, and stays under its uri for `query`.
   * @throws results_unavailable; timeout when not even the first answer came in time; the signal's reason
   */
  async *drain({ timeoutMs = Infinity, signal }: DrainOptions = {}): AsyncGenerator<Dequeued> {
    const endAt = now() + timeoutMs;
    const inTime = <T>(work: (signal: AbortSignal) => Promise<T>) =>
      limited({ timeoutMs: Math.max(0, endAt - now()), signal, what: NO_ANSWER }, work);
    const source = await inTime(async () => this.#open());
    let { all, next } = this.#left ?? { all: source.drain(), next: undefined };
    this.#left = undefined;
    try {
      for (let isFirst = true; ; isFirst = false) {
        if (!isFirst && now() >= endAt) return;
        next ??= all.next();
        // A running request is not aborted, because its results would be lost.
        const step = await inTime(() => next as NonNullable<typeof next>).catch((error: unknown) => {
          if (isFirst || signal?.aborted || now() < endAt) throw error;
        });
        if (!step) return;
        next = undefined;
        const { done, value } = step;
        if (done) return;
        const dequeued = await inTime((end) => dequeuedOf(source, value, end));
        if (dequeued) yield dequeued;
      }
    } finally {
      if (next) this.#leave({ all, next });
      else await all.return(undefined);
    }
  }

  #leave(left: Draining): void {
    this.#left = left;
    const forget = () => {
      if (this.#left === left) this.#left = undefined;
    };
    left.next.catch(forget);
  }

  /** Closes the connections. */
  async close(): Promise<void> {
    await (await this.#open()).close();
  }

  async #call<T>(
    uri: string,
    { identity, timeoutMs = ANSWER_MS + DOWNLOAD_MS, signal }: QueryOptions,
    ask: (source: ResultSource, query: EnqueueQuery, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const query = checked(identity);
    const limit = { timeoutMs, signal, what: NO_ANSWER, uri: assertUri(uri) };
    return limited(limit, async (end) => ask(await this.#open(), query, end));
  }
}

/** @throws bad_request */
function checked(identity: string | undefined): EnqueueQuery {
  return identity === undefined ? {} : { identity: assertIdentity(identity) };
}
