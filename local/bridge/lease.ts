/**
 * Makes sure that one bridge of a stream works at a time; others stand by. A holder that has not been heard of for a while, by
 * the clock of this process and not by that of a machine, is replaced.
 */
import { randomUUID } from 'node:crypto';
import type { StreamConsumer } from '../../lib/redis/stream.ts';

/** A shorter lease would end between two reads that wait. */
const LEAST_MS = 1_000;

export class Lease {
  readonly #stream: StreamConsumer;
  readonly #holder: string;
  readonly #leaseMs: number;
  #heldUntil = Number.NEGATIVE_INFINITY;
  #other = { said: '', sinceMs: Number.POSITIVE_INFINITY };

  /** @param holder without spaces; one that ended without giving the lease back gets it at once under the same name */
  constructor(stream: StreamConsumer, holder: string, silentMs: number) {
    this.#stream = stream;
    this.#holder = holder;
    this.#leaseMs = Math.max(LEAST_MS, silentMs);
  }

  /** How often to renew it, in ms. */
  get everyMs(): number {
    return this.#leaseMs / 4;
  }

  /** True if no other bridge can have replaced this one yet. */
  get isSafe(): boolean {
    return performance.now() < this.#heldUntil;
  }

  /** @returns whether this bridge holds it. @throws results_unavailable */
  async renew(): Promise<boolean> {
    const askedMs = performance.now();
    const { said, sinceMs } = this.#other;
    const silent = askedMs - sinceMs >= this.#leaseMs ? said : '';
    const other = await this.#stream.hold(this.#holder, randomUUID(), silent);
    if (other === '') this.assume(askedMs);
    else if (other !== said) this.#other = { said: other, sinceMs: askedMs };
    return other === '';
  }

  /** For half of its time: another bridge waits for the whole. Also where Redis refuses to keep a lease. */
  assume(sinceMs: number): void {
    this.#heldUntil = sinceMs + this.#leaseMs / 2;
  }

  async release(): Promise<void> {
    this.#heldUntil = Number.NEGATIVE_INFINITY;
    await this.#stream.release(this.#holder).catch(() => undefined);
  }
}
