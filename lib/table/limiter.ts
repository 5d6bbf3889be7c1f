/**
 * Limits the requests per second of all environments of a job together: a bucket of one second's tokens, stored as one number, the
 * time at which it would be full again (GCRA). A token is one conditional write, in which the table adds, so requests do not
 * wait for each other. An item takes 1,000 writes a second, so more requests than that are over any limit that a job may have.
 */
import type { Caller } from '../contract/values.ts';
import { type Asked, admit } from '../results/admit.ts';
import type { Limiter, LimiterOptions } from '../results/store.ts';
import { Refusal, type TableConnection } from './connection.ts';
import { TTL } from './entry.ts';
import { Expression, itemOf, keyOf, readItem, unlessConditionFailed } from './items.ts';

const FULL = 'full';
/** No bucket is full later than by a minute, twice the longest wait that a setting allows: then a clock was wrong. */
const MOST_AHEAD_MS = 60_000;
const MOST_TRIES = 5;

export class TableLimiter implements Limiter {
  readonly #connection: TableConnection;
  readonly #options: LimiterOptions;
  readonly #intervalMs: number;
  readonly #id: string;

  constructor(connection: TableConnection, options: LimiterOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#intervalMs = 1000 / options.tokensPerSecond;
    this.#id = `${options.job}/l`;
  }

  async acquire(caller?: Caller): Promise<void> {
    await admit({ ask: () => this.#ask(), give: () => this.#give() }, this.#options, caller);
  }

  async #ask(): Promise<Asked> {
    const { acquireTimeoutMs, onError } = this.#options;
    try {
      const waitMs = await this.#take();
      return { waitMs, isTaken: waitMs <= acquireTimeoutMs };
    } catch (error) {
      // The table's own limit of this item.
      if (error instanceof Refusal && error.isThrottling)
        return { waitMs: acquireTimeoutMs + 1, isTaken: false };
      onError(error);
      return { waitMs: 0, isTaken: true };
    }
  }

  /** @returns ms to wait; more than a caller may wait where no token was taken */
  async #take(): Promise<number> {
    const { tokensPerSecond, acquireTimeoutMs } = this.#options;
    const interval = this.#intervalMs;
    const spareMs = (Math.max(1, tokensPerSecond) - 1) * interval;
    for (let tries = 1; tries <= MOST_TRIES; tries++) {
      const now = this.#connection.now();
      const mostAhead = spareMs + 2 * interval + MOST_AHEAD_MS;
      // In use: one more token, if that is not too late for this request.
      const before = await this.#add(interval, now, Math.min(acquireTimeoutMs + spareMs, mostAhead));
      if (before !== undefined) return Math.max(0, Math.ceil(before - now - spareMs));
      const full = Number((await readItem(this.#connection, this.#id))?.[FULL] ?? 0);
      if (full >= now && full - now <= mostAhead) {
        const waitMs = Math.ceil(full - now - spareMs);
        if (waitMs > acquireTimeoutMs) return waitMs;
        continue;
      }
      // Full, or from a wrong clock: it begins again.
      if (await this.#begin(now, full)) return 0;
    }
    throw this.#connection.unavailable('UpdateItem', 'the tokens change faster than one can be taken');
  }

  /** @returns when the bucket was full before; undefined if that is past, or later than `mostMs` from now */
  async #add(ms: number, now: number, mostMs: number): Promise<number | undefined> {
    const expression = new Expression();
    const full = expression.name(FULL);
    const answer = await this.#connection
      .call('UpdateItem', {
        Key: keyOf(this.#id),
        UpdateExpression: `SET ${full} = ${full} + ${expression.value(ms)}`,
        ConditionExpression: `${full} >= ${expression.value(now)} AND ${full} <= ${expression.value(now + mostMs)}`,
        ReturnValues: 'UPDATED_OLD',
        ...expression.input,
      })
      .catch(unlessConditionFailed);
    return answer && Number(itemOf(answer.Attributes ?? {})[FULL]);
  }

  /** @returns false when somebody else was faster */
  async #begin(now: number, was: number): Promise<boolean> {
    const expression = new Expression();
    const full = expression.name(FULL);
    const answer = await this.#connection
      .call('UpdateItem', {
        Key: keyOf(this.#id),
        UpdateExpression: `SET ${full} = ${expression.value(now + this.#intervalMs)}, ${expression.name(TTL)} = ${expression.value(Math.ceil(now / 1000) + 86_400)}`,
        ConditionExpression: `attribute_not_exists(${full}) OR ${full} = ${expression.value(was)}`,
        ...expression.input,
      })
      .catch(unlessConditionFailed);
    return answer !== undefined;
  }

  async #give(): Promise<void> {
    await this.#add(-this.#intervalMs, this.#connection.now(), Number.MAX_SAFE_INTEGER / 2).catch(
      this.#options.onError,
    );
  }
}
