/**
 * Limits the requests per second of all environments of a job together, by the clock of Redis because theirs differ. When
 * Redis cannot be reached, requests go on: predictions do not need it.
 */
import type { Redis } from 'ioredis';
import { limiterKey } from '../contract/names.ts';
import type { Caller } from '../contract/values.ts';
import { type Asked, admit } from '../results/admit.ts';
import type { Limiter, LimiterOptions } from '../results/store.ts';
import type { RedisConnection } from './connection.ts';
import { ACQUIRE_TOKEN, RETURN_TOKEN } from './scripts/generated.ts';
import { script } from './scripts.ts';

const acquireToken = script<number>('acquireToken', ACQUIRE_TOKEN);
const returnToken = script<unknown>('returnToken', RETURN_TOKEN);

export class RateLimiter implements Limiter {
  readonly #connection: RedisConnection;
  readonly #options: LimiterOptions;

  constructor(connection: RedisConnection, options: LimiterOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  async acquire(caller?: Caller): Promise<void> {
    await admit({ ask: () => this.#ask(), give: () => this.#give() }, this.#options, caller);
  }

  async #give(): Promise<void> {
    const key = limiterKey(this.#options.job);
    const tokensPerSecond = String(this.#options.tokensPerSecond);
    const give = (redis: Redis) => returnToken(redis)([key], { tokensPerSecond });
    await this.#connection.use(give, false, key).catch(this.#options.onError);
  }

  async #ask(): Promise<Asked> {
    const { tokensPerSecond, acquireTimeoutMs, onError } = this.#options;
    const key = limiterKey(this.#options.job);
    const options = { tokensPerSecond: String(tokensPerSecond), maxWaitMs: String(acquireTimeoutMs) };
    try {
      const ms = await this.#connection.use((redis) => acquireToken(redis)([key], options), false, key);
      // Below 0 there was none.
      return ms < 0 ? { waitMs: -1 - ms, isTaken: false } : { waitMs: ms, isTaken: true };
    } catch (error) {
      onError(error);
      return { waitMs: 0, isTaken: true };
    }
  }
}
