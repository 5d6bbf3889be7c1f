/**
 * Limits the requests per second of all environments of a job together, by the clock of Redis because theirs differ. When
 * Redis cannot be reached, requests go on: predictions do not need it.
 */
import type { Redis } from 'ioredis';
import { ServingError } from '../contract/errors.ts';
import { limiterKey } from '../contract/names.ts';
import type { Caller } from '../contract/values.ts';
import { callerIsGone } from '../pipeline/deadline.ts';
import type { Limiter, LimiterOptions } from '../results/store.ts';
import type { RedisConnection } from './connection.ts';
import { ACQUIRE_TOKEN, RETURN_TOKEN } from './scripts/generated.ts';
import { script } from './scripts.ts';

const acquireToken = script<number>('acquireToken', ACQUIRE_TOKEN);
const returnToken = script<number>('returnToken', RETURN_TOKEN);

export class RateLimiter implements Limiter {
  readonly #connection: RedisConnection;
  readonly #options: LimiterOptions;

  constructor(connection: RedisConnection, options: LimiterOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  async acquire(caller?: Caller): Promise<void> {
    const waitMs = await this.#ask();
    if (waitMs < 0) {
      const backMs = -1 - waitMs;
      throw new ServingError('rate_limited', `over ${this.#options.tokensPerSecond} requests per second`, {
        retryAfterSeconds: Math.max(1, Math.ceil(backMs / 1000)),
      });
    }
    if (waitMs > 0) await this.#options.sleep(waitMs, caller?.signal);
    if (caller?.presence !== 'gone') return;
    await this.#give();
    throw callerIsGone();
  }

  /** A token that cannot be given back is lost, as if its request had run. */
  async #give(): Promise<void> {
    const key = limiterKey(this.#options.job);
    const tokensPerSecond = String(this.#options.tokensPerSecond);
    const give = (redis: Redis) => returnToken(redis)([key], { tokensPerSecond });
    await this.#connection.use(give, false, key).catch(this.#options.onError);
  }

  async #ask(): Promise<number> {
    const { tokensPerSecond, acquireTimeoutMs, onError } = this.#options;
    const key = limiterKey(this.#options.job);
    const options = { tokensPerSecond: String(tokensPerSecond), maxWaitMs: String(acquireTimeoutMs) };
    try {
      return await this.#connection.use((redis) => acquireToken(redis)([key], options), false, key);
    } catch (error) {
      onError(error);
      return 0;
    }
  }
}
