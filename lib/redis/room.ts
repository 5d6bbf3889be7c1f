/**
 * Whether a Redis that would evict results has room for more. ElastiCache Serverless has no `noeviction`: at its limit
 * results would go before their time, so new records are refused before that.
 */
import { ServingError } from '../contract/errors.ts';

const FULL_SHARE = 0.9;
/** How long an answer counts. */
const ASK_MS = 5_000;

export class Room {
  readonly #maxBytes: number;
  readonly #ask: () => Promise<string>;
  readonly #now: () => number;
  #asked: Promise<number> | undefined;
  #askedMs = Number.NEGATIVE_INFINITY;

  /**
   * @param ask gets the answer of INFO
   * @param now a clock in ms
   */
  constructor(maxBytes: number, ask: () => Promise<string>, now: () => number) {
    this.#maxBytes = maxBytes;
    this.#ask = ask;
    this.#now = now;
  }

  /** @throws results_unavailable when nearly all is used, or Redis does not answer */
  async assert(): Promise<void> {
    if (!this.#asked || this.#now() - this.#askedMs > ASK_MS) {
      this.#askedMs = this.#now();
      this.#asked = this.#ask().then(usedBytes);
      this.#asked.catch(() => (this.#asked = undefined));
    }
    const share = (await this.#asked) / this.#maxBytes;
    if (share < FULL_SHARE) return;
    throw new ServingError(
      'results_unavailable',
      `Redis is ${Math.floor(share * 100)} % full, and would evict results before they are read: delete results, shorten resultTtlSeconds, or deploy a larger redisMaxGB`,
      { retryAfterSeconds: 60 },
    );
  }
}

/** Of the answer of INFO. 0 where it does not say. */
function usedBytes(info: string): number {
  return Number(/^used_memory:(\d+)/m.exec(info)?.[1] ?? 0);
}
