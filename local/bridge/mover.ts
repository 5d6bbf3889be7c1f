/** Reads the stream while it holds its lease, first what bridges before it left, and hands the entries over in their order. */
import { ServingError } from '../../lib/contract/errors.ts';
import { FIRST, type StreamConsumer, type StreamEntry } from '../../lib/redis/stream.ts';
import { Deliveries, isRefusal } from './deliveries.ts';
import type { Lease } from './lease.ts';
import type { BridgeOptions, Moved } from './options.ts';
import { FIRST_PAUSE_MS, longer, stopsWithin } from './pause.ts';

/** Two consumers of the same name, because a read that waits holds up what its connection is asked later. */
export interface Connections {
  readonly reader: StreamConsumer;
  readonly stream: StreamConsumer;
}

export const BLOCK_MS = 1_000;
/** Limit for one read. The first reads are smaller, because an entry may have any size. */
const MOST_ENTRIES = 64;
const FIRST_ENTRIES = 8;
const READ_BYTES = 16 * 1024 * 1024;
/** Between reads of a server that does not block, as the embedded one. */
const POLL_MS = 100;

export class Mover {
  readonly #reader: StreamConsumer;
  readonly #stream: StreamConsumer;
  readonly #lease: Lease;
  readonly #options: BridgeOptions;
  readonly #claimAfterMs: number;
  readonly #stop: AbortSignal;
  readonly #failed = new AbortController();
  readonly #deliveries: Deliveries;
  #failure: ServingError | undefined;
  #isHeld = false;
  #renewedAt = Number.NEGATIVE_INFINITY;
  #claimedAt = Number.NEGATIVE_INFINITY;
  /** True if entries may have been read that are not known here. They are then claimed before others are read. */
  #isUnsure = true;
  #entries = FIRST_ENTRIES;
  /** True if the last read failed and a warning was logged. */
  #isTroubled = false;
  readonly #warned = new Set<string>();

  constructor(
    { reader, stream }: Connections,
    lease: Lease,
    options: BridgeOptions & { claimAfterMs: number },
    stop: AbortSignal,
  ) {
    this.#reader = reader;
    this.#stream = stream;
    this.#lease = lease;
    this.#options = options;
    this.#claimAfterMs = options.claimAfterMs;
    this.#stop = AbortSignal.any([stop, this.#failed.signal]);
    this.#deliveries = new Deliveries({
      stream,
      send: options.send,
      maySend: () => lease.isSafe,
      warn: (message) => this.#warn(message),
      onMoved: () => options.onMoved?.(this.#moved()),
      onFailure: (error) => this.#fail(error),
      stop: this.#stop,
    });
  }

  async run(): Promise<Moved> {
    try {
      for (let pauseMs = FIRST_PAUSE_MS; !this.#stop.aborted; ) {
        try {
          if (await this.#round()) break;
          pauseMs = FIRST_PAUSE_MS;
          this.#isTroubled = false;
        } catch (error) {
          this.#isUnsure = true;
          await this.#recover(ServingError.from(error), pauseMs);
          pauseMs = longer(pauseMs);
        }
      }
    } finally {
      await this.#deliveries.idle();
      await this.#lease.release();
    }
    if (this.#failure) throw this.#failure;
    return this.#moved();
  }

  /** @returns true when the stream is empty and the bridge ends with that */
  async #round(): Promise<boolean> {
    if (!(await this.#holds())) {
      await stopsWithin(Math.min(this.#lease.everyMs, BLOCK_MS), this.#stop);
      return this.#options.once === true && (await this.#stream.length()) === 0;
    }
    if (this.#isUnsure || performance.now() - this.#claimedAt >= this.#claimAfterMs) await this.#claimAll();
    const beganAt = performance.now();
    const { room } = this.#deliveries;
    if (room <= 0) {
      await Promise.race([this.#deliveries.left(), stopsWithin(this.#lease.everyMs, this.#stop)]);
      return false;
    }
    const blockMs = this.#options.once ? 1 : Math.floor(Math.min(BLOCK_MS, this.#lease.everyMs));
    const entries = await this.#reader.read(Math.min(room, this.#entries), blockMs);
    this.#adapt(entries);
    this.#deliveries.take(entries);
    if (entries.length > 0) return false;
    if (this.#options.once) {
      await this.#deliveries.idle();
      return true;
    }
    await stopsWithin(Math.max(0, beganAt + POLL_MS - performance.now()), this.#stop);
    return false;
  }

  async #holds(): Promise<boolean> {
    const nowMs = performance.now();
    if (this.#isHeld && nowMs - this.#renewedAt < this.#lease.everyMs) return true;
    const wasHeld = this.#isHeld;
    this.#isHeld = await this.#lease.renew().catch((error: unknown) => {
      const known = ServingError.from(error);
      if (!isRefusal(known)) throw known;
      // A bridge that works alone needs no lease.
      this.#warnOnce('the bridge cannot keep other bridges away', known);
      this.#lease.assume(nowMs);
      return true;
    });
    this.#renewedAt = nowMs;
    if (wasHeld && !this.#isHeld) this.#deliveries.abandon();
    if (!wasHeld && this.#isHeld) this.#isUnsure = true;
    return this.#isHeld;
  }

  /** Claims what was read and not removed: all of it after a start or a failure, else what is old. */
  async #claimAll(): Promise<void> {
    const idleMs = this.#isUnsure || this.#deliveries.hasLeftovers ? 0 : this.#claimAfterMs;
    this.#deliveries.hasLeftovers = false;
    try {
      let cursor = FIRST;
      do {
        const { next, entries } = await this.#stream.claim(cursor, this.#entries, idleMs);
        this.#adapt(entries);
        this.#deliveries.take(entries);
        cursor = next;
        while (this.#deliveries.room <= 0 && !this.#stop.aborted && (await this.#holds()))
          await Promise.race([this.#deliveries.left(), stopsWithin(this.#lease.everyMs, this.#stop)]);
      } while (cursor !== FIRST && !this.#stop.aborted && (await this.#holds()));
      await this.#stream.forgetConsumers(this.#claimAfterMs);
    } catch (error) {
      const known = ServingError.from(error);
      if (!isRefusal(known) || isGone(known)) throw known;
      this.#warnOnce('what other bridges read cannot be taken over', known);
    }
    this.#isUnsure = false;
    this.#claimedAt = performance.now();
  }

  async #recover(error: ServingError, pauseMs: number): Promise<void> {
    // A stream can be deleted, as FLUSHALL does.
    if (isGone(error)) return this.#stream.createGroup('0').catch(() => undefined);
    if (!error.retryable) return this.#fail(error);
    if (!this.#isTroubled) this.#warn(`${error.message}; it is tried again`);
    this.#isTroubled = true;
    await stopsWithin(pauseMs, this.#stop);
  }

  /** So that a read has about READ_BYTES at most. */
  #adapt(entries: readonly StreamEntry[]): void {
    if (entries.length === 0) return;
    let bytes = 0;
    for (const { fields } of entries) for (const value of fields.values()) bytes += value.length;
    const fitting = Math.floor((entries.length * READ_BYTES) / Math.max(1, bytes));
    this.#entries = Math.max(1, Math.min(MOST_ENTRIES, 2 * this.#entries, fitting));
  }

  #fail(error: ServingError): void {
    this.#failure ??= error;
    this.#failed.abort();
  }

  #moved(): Moved {
    return { enqueued: this.#deliveries.enqueued, dead: this.#deliveries.dead };
  }

  #warn(message: string): void {
    this.#options.warn(`stream ${this.#options.stream}: ${message}`);
  }

  /** Redis refuses it each time, so this is not retried. */
  #warnOnce(what: string, { message }: ServingError): void {
    if (!this.#warned.has(what)) this.#warn(`${what}: ${message}`);
    this.#warned.add(what);
  }
}

function isGone({ message }: ServingError): boolean {
  return /NOGROUP|no such key|requires the key to exist/i.test(message);
}
