/**
 * Sends entries of the stream: those of one uri one after the other, in their order, and others meanwhile. What can neither
 * be sent nor be listed as dead stays in the stream, and in the way of nothing else.
 */
import { type ErrorCode, ServingError } from '../../lib/contract/errors.ts';
import { Turns } from '../../lib/pipeline/batch/turns.ts';
import type { SentRecord } from '../../lib/pipeline/submit.ts';
import type { DeadEntry, StreamConsumer, StreamEntry } from '../../lib/redis/stream.ts';
import { Gatherer } from './gatherer.ts';
import { FIRST_PAUSE_MS, longer, stopsWithin } from './pause.ts';
import { recordOf } from './record.ts';

interface DeliveryOptions {
  readonly stream: StreamConsumer;
  /** @throws ServingError */
  readonly send: (record: SentRecord) => Promise<void>;
  /** False while another bridge may have taken over. */
  readonly maySend: () => boolean;
  readonly warn: (message: string) => void;
  readonly onMoved: () => void;
  /** No record can be sent at all. */
  readonly onFailure: (error: ServingError) => void;
  readonly stop: AbortSignal;
}

/** Entries in memory. */
const MOST_ENTRIES = 256;
const MOST_BYTES = 64 * 1024 * 1024;
/** Ids of entries that Redis does not remove from the stream. */
const MOST_SENT = 100_000;
/** Between two looks for whether records may be sent again. */
const LOOK_MS = 50;
/** Errors that another attempt with the same record would repeat. */
const RECORD_FAULTS: readonly ErrorCode[] = ['bad_request', 'bad_input', 'too_large'];
/** After this many attempts, an error that the service does not know is the record's own. */
const UNKNOWN_ATTEMPTS = 5;

export class Deliveries {
  readonly #options: DeliveryOptions;
  readonly #turns = new Turns();
  /** The bytes of each entry in memory, by its id. */
  readonly #taken = new Map<string, number>();
  /** Entries that the queue has and that are still in the stream. */
  readonly #sent = new Set<string>();
  readonly #removals = new Gatherer<string>((ids) => this.#remove(ids));
  readonly #rejections = new Gatherer<DeadEntry>((dead) => this.#reject(dead));
  /** Entries that Redis refused and a warning named. */
  readonly #refused = new Set<string>();
  #bytes = 0;
  #term = 0;
  #failing = 0;
  #waiting: (() => void)[] = [];
  enqueued = 0;
  dead = 0;
  /** True if the stream has entries that are not in memory. */
  hasLeftovers = false;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  /** How many more entries to read. */
  get room(): number {
    if (this.#bytes >= MOST_BYTES || this.#sent.size >= MOST_SENT) return 0;
    return MOST_ENTRIES - this.#taken.size;
  }

  /** Entries in the order of the stream. */
  take(entries: readonly StreamEntry[]): void {
    for (const entry of entries) {
      if (this.#taken.has(entry.id)) continue;
      if (this.#sent.has(entry.id)) {
        this.#removals.add(entry.id);
        continue;
      }
      const bytes = bytesOf(entry);
      this.#taken.set(entry.id, bytes);
      this.#bytes += bytes;
      const record = readRecord(entry);
      if (record instanceof ServingError) this.#rejections.add({ entry, reason: record.message });
      else void this.#turns.run(record.uri, () => this.#deliver(entry, record, this.#term));
    }
  }

  /** Leaves what has not been sent to another bridge. */
  abandon(): void {
    this.#term += 1;
    this.hasLeftovers = true;
  }

  /** Resolves when the next entry has left the memory. */
  left(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Resolves when nothing is in memory. */
  async idle(): Promise<void> {
    while (this.#taken.size > 0) await this.left();
    await this.#removals.idle();
  }

  async #deliver(entry: StreamEntry, record: SentRecord, term: number): Promise<void> {
    const { send, stop, onFailure } = this.#options;
    let isFailing = false;
    for (let [attempts, pauseMs] = [1, FIRST_PAUSE_MS]; ; attempts++, pauseMs = longer(pauseMs)) {
      if (!(await this.#maySend(term))) break;
      const error = await errorOf(send(record));
      if (error === undefined) {
        this.#sent.add(entry.id);
        this.#removals.add(entry.id);
        break;
      }
      if (isRecordFault(error, attempts)) {
        this.#rejections.add({ entry, reason: error.message });
        if (isFailing) this.#failing -= 1;
        return;
      }
      if (!error.retryable) {
        onFailure(error);
        break;
      }
      if (!isFailing && this.#failing++ === 0) this.#options.warn(`${error.message}; it is tried again`);
      isFailing = true;
      await stopsWithin(pauseMs, stop);
    }
    if (isFailing) this.#failing -= 1;
    this.#forget(entry.id);
  }

  /** Waits until records may be sent. @returns false when this one must not be */
  async #maySend(term: number): Promise<boolean> {
    const { stop, maySend } = this.#options;
    while (!stop.aborted && term === this.#term) {
      if (maySend()) return true;
      await stopsWithin(LOOK_MS, stop);
    }
    return false;
  }

  async #remove(ids: readonly string[]): Promise<void> {
    const { stream } = this.#options;
    if (!(await this.#kept('entries that the queue has cannot be removed', () => stream.remove(ids)))) return;
    for (const id of ids) this.#sent.delete(id);
    this.enqueued += ids.length;
    this.#options.onMoved();
  }

  async #reject(dead: readonly DeadEntry[]): Promise<void> {
    const { stream } = this.#options;
    const what = 'entries that cannot be read cannot be listed, and stay in the stream';
    if (await this.#kept(what, () => stream.reject(dead))) {
      this.dead += dead.length;
      this.#options.onMoved();
    }
    for (const { entry } of dead) this.#forget(entry.id);
  }

  /** Repeats what fails while Redis does not answer. What Redis refuses is left in the stream. @returns whether it succeeded */
  async #kept(what: string, work: () => Promise<void>): Promise<boolean> {
    const { stop, warn } = this.#options;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = longer(pauseMs)) {
      const error = await errorOf(work());
      if (error === undefined) {
        this.#refused.delete(what);
        return true;
      }
      if (!isRefusal(error) && !(await stopsWithin(pauseMs, stop))) continue;
      this.hasLeftovers = true;
      if (!this.#refused.has(what)) warn(`${what}: ${error.message}`);
      this.#refused.add(what);
      return false;
    }
  }

  #forget(id: string): void {
    this.#bytes -= this.#taken.get(id) ?? 0;
    this.#taken.delete(id);
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

function readRecord(entry: StreamEntry): SentRecord | ServingError {
  try {
    return recordOf(entry);
  } catch (error) {
    return ServingError.from(error);
  }
}

async function errorOf(work: Promise<void>): Promise<ServingError | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return ServingError.from(error);
  }
}

function bytesOf({ fields }: StreamEntry): number {
  let bytes = 0;
  for (const value of fields.values()) bytes += value.length;
  return bytes;
}

function isRecordFault({ code, message }: ServingError, attempts: number): boolean {
  if (RECORD_FAULTS.includes(code)) return true;
  // Another program has a key under a name that belongs to this uri.
  return message.includes('WRONGTYPE') || (code === 'internal' && attempts >= UNKNOWN_ATTEMPTS);
}

/** Errors of a server that is about to be another one, or to serve. */
const PASSING = /\b(?:READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN)\b/;

/** True if Redis answered with an error that another attempt would get too. */
export function isRefusal({ cause }: ServingError): boolean {
  return cause instanceof Error && cause.name === 'ReplyError' && !PASSING.test(cause.message);
}
