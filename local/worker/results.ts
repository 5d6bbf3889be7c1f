/**
 * Outcomes of items whose clients do not wait (`Prefer: respond-async`), by the identity that will ask for them. Every
 * caller keeps its own cursor, so clients of one identity all receive. They are kept in memory: a single machine only.
 */
import { decodeValue, encodeValue } from '../../lib/codecs/values/value-frame.ts';
import type { ValueWriter } from '../../lib/codecs/values/write-value.ts';
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import type { HttpResponse } from '../../lib/http/response.ts';
import {
  frameAnswer,
  type ItemOutcome,
  type Later,
  type LaterItem,
  writeOutcome,
} from '../../lib/http/worker/frames.ts';

const MiB = 1024 * 1024;

export const RESULT_LIMITS = {
  results: 10_000,
  bytes: 256 * MiB,
  /** Items that have no outcome yet. */
  waiting: 512,
  waitingBytes: 256 * MiB,
  /** How long an item may wait and run, in ms: as long as clients wait by default. */
  itemMs: 900_000,
  /** Of one answer. */
  page: 1_000,
  /** Of the texts of errors in one answer, which are in the header of its frame. */
  errorBytes: 256 * 1024,
} as const;

/** Larger cursors are no one's: that of a start is a thousand times the time in ms. */
const MOST_CURSOR = 2 ** 52;
/** What a result costs beside its value. */
const RESULT_BYTES = 256;

interface Kept {
  readonly identity: string;
  readonly id: string;
  readonly cursor: number;
  readonly expiresMs: number;
  /** A value is kept encoded: what a worker returned may be a view of a whole batch. */
  readonly outcome: { readonly value: Uint8Array } | { readonly error: ErrorRecord };
  readonly bytes: number;
}

export interface ResultsOptions {
  readonly ttlMs: number;
  /** Wall clock in ms at the start; it then only runs. */
  readonly now: () => number;
}

export class LaterResults implements Later {
  readonly #options: ResultsOptions;
  /** In order of completion. */
  readonly #kept = new Set<Kept>();
  readonly #byIdentity = new Map<string, Set<Kept>>();
  readonly #callers = new Map<string, Set<() => void>>();
  readonly #running = new Set<Promise<void>>();
  #keptBytes = 0;
  #waitingBytes = 0;
  #cursor: number;

  constructor(options: ResultsOptions) {
    this.#options = options;
    // Beyond every cursor of an earlier start, which clients may still have.
    this.#cursor = options.now() * 1_000;
  }

  run(item: LaterItem, run: (isOver: () => boolean) => Promise<ItemOutcome>): void {
    const { now } = this.#options;
    const isFull =
      this.#running.size >= RESULT_LIMITS.waiting ||
      this.#waitingBytes + item.bytes > RESULT_LIMITS.waitingBytes;
    if (isFull) {
      const text = `${this.#running.size} items of ${this.#waitingBytes} bytes wait already`;
      throw new ServingError('rate_limited', text, { retryAfterSeconds: 1 });
    }
    this.#waitingBytes += item.bytes;
    const untilMs = now() + RESULT_LIMITS.itemMs;
    const running = this.#finish(
      item,
      run(() => now() > untilMs),
    ).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async #finish(item: LaterItem, running: Promise<ItemOutcome>): Promise<void> {
    const outcome = await running;
    this.#waitingBytes -= item.bytes;
    this.#keep(item, outcome);
  }

  /** Resolves when no accepted item is without an outcome, at the latest after `limitMs`. */
  async idle(limitMs: number = RESULT_LIMITS.itemMs): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMs);
    });
    await Promise.race([Promise.all(this.#running), late]);
    clearTimeout(timer);
  }

  /** The results of an identity after a cursor, or what comes within `waitMs`, as a frame. */
  async after(identity: string, cursor: number, waitMs: number, signal?: AbortSignal): Promise<HttpResponse> {
    // Of a start before the wall clock was set back: what comes now is to come after it.
    if (cursor <= MOST_CURSOR) this.#cursor = Math.max(this.#cursor, cursor);
    let page = this.#page(identity, cursor);
    if (page.length === 0 && waitMs > 0) {
      await this.#next(identity, waitMs, signal);
      page = this.#page(identity, cursor);
    }
    return pageAnswer(page, cursor);
  }

  /** Answers those who wait for a result. */
  close(): void {
    for (const callers of this.#callers.values()) for (const wake of callers) wake();
  }

  #keep({ identity, id }: LaterItem, outcome: ItemOutcome): void {
    const stored = storedOf(outcome);
    const bytes = RESULT_BYTES + ('value' in stored ? stored.value.byteLength : errorBytes(stored.error));
    const expiresMs = this.#options.now() + this.#options.ttlMs;
    const kept = { identity, id, cursor: ++this.#cursor, expiresMs, outcome: stored, bytes };
    this.#kept.add(kept);
    const own = this.#byIdentity.get(identity) ?? new Set();
    this.#byIdentity.set(identity, own.add(kept));
    this.#keptBytes += bytes;
    this.#tidy();
    for (const wake of this.#callers.get(identity) ?? []) wake();
  }

  /** Drops what is too old, and the oldest while there is too much. */
  #tidy(): void {
    const now = this.#options.now();
    for (const kept of this.#kept) {
      const isTooMuch = this.#kept.size > RESULT_LIMITS.results || this.#keptBytes > RESULT_LIMITS.bytes;
      if (kept.expiresMs > now && !isTooMuch) return;
      this.#kept.delete(kept);
      this.#keptBytes -= kept.bytes;
      const own = this.#byIdentity.get(kept.identity);
      own?.delete(kept);
      if (own?.size === 0) this.#byIdentity.delete(kept.identity);
    }
  }

  #page(identity: string, cursor: number): Kept[] {
    this.#tidy();
    const page: Kept[] = [];
    let bytes = 0;
    let errors = 0;
    for (const kept of this.#byIdentity.get(identity) ?? []) {
      if (kept.cursor <= cursor) continue;
      bytes += kept.bytes;
      if ('error' in kept.outcome) errors += errorBytes(kept.outcome.error);
      const isFull =
        bytes > LIMITS.frameBytes || errors > RESULT_LIMITS.errorBytes || page.length === RESULT_LIMITS.page;
      if (isFull && page.length > 0) return page;
      page.push(kept);
    }
    return page;
  }

  /** Ends early when the caller leaves. */
  #next(identity: string, waitMs: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const callers = this.#callers.get(identity) ?? new Set();
      this.#callers.set(identity, callers);
      const wake = () => {
        clearTimeout(timer);
        callers.delete(wake);
        if (callers.size === 0) this.#callers.delete(identity);
        resolve();
      };
      const timer = setTimeout(wake, waitMs);
      callers.add(wake);
      signal?.addEventListener('abort', wake);
    });
  }
}

/** @param cursor of an empty page */
function pageAnswer(page: readonly Kept[], cursor: number): HttpResponse {
  const results = (writer: ValueWriter) =>
    page.map(({ id, outcome }) => ({ id, outcome: writeOutcome(restored(outcome), writer) }));
  try {
    return frameAnswer((writer) => ({
      type: 'results',
      cursor: page.at(-1)?.cursor ?? cursor,
      results: results(writer),
    }));
  } catch (error) {
    // Each was in a frame of its own; together they may have too many blocks.
    if (page.length < 2 || ServingError.from(error).code !== 'too_large') throw error;
    return pageAnswer(page.slice(0, Math.ceil(page.length / 2)), cursor);
  }
}

function storedOf(outcome: ItemOutcome): Kept['outcome'] {
  if ('error' in outcome) return outcome;
  try {
    const value = encodeValue(outcome.value);
    if (value.byteLength + 2 * RESULT_BYTES <= LIMITS.frameBytes) return { value };
    const text = `the result has ${value.byteLength} bytes, over the limit of ${LIMITS.frameBytes} (frameBytes)`;
    return { error: { code: 'too_large', message: text } };
  } catch (error) {
    return {
      error: { code: 'too_large', message: `no frame can hold the result: ${(error as Error).message}` },
    };
  }
}

function restored(outcome: Kept['outcome']): ItemOutcome {
  return 'error' in outcome ? outcome : { value: decodeValue(outcome.value) };
}

function errorBytes({ message }: ErrorRecord): number {
  return Buffer.byteLength(JSON.stringify(message));
}
