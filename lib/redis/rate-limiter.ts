/**
 * Limits the requests per second of all environments of a job together, by the clock of Redis because theirs differ. When
 * Redis cannot be reached, requests go on: predictions do not need it.
 */
import type { Redis } from 'ioredis';
import { ServingError } from '../contract/errors.ts';
import { limiterKey } from '../contract/names.ts';
import type { Caller } from '../contract/values.ts';
import { callerIsGone } from '../pipeline/deadline.ts';
import type { RedisConnection } from './connection.ts';
import { script } from './scripts.ts';

/** Twice what http.tokenAcquireTimeoutMs may be. */
const MOST_WAIT_MS = 60_000;

/**
 * A token bucket stored as one number, the time at which it would be full again (GCRA). It holds the tokens of one second.
 * No bucket is full later than by the longest wait that a setting allows: then the clock of Redis was set back. KEYS: the
 * bucket. ARGV: tokens per second, longest wait in ms. Returns the wait in ms, or -1 - (ms to come back).
 */
const ACQUIRE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local rate, maxWait = tonumber(ARGV[1]), tonumber(ARGV[2])
local interval = 1000 / rate
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
if full - now > (math.max(1, rate) + 1) * interval + ${MOST_WAIT_MS} then full = now end
local wait = math.max(0, full - now - (math.max(1, rate) - 1) * interval)
if wait > maxWait then return -1 - math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.3f', full + interval), 'PX', math.ceil(full + interval - now) + 1000)
return math.ceil(wait)`;
const acquireToken = script<number>('acquireToken', ACQUIRE);

/** Gives a token back whose request does not use it. KEYS: the bucket. ARGV: tokens per second. */
const RETURN = `
local full = tonumber(redis.call('GET', KEYS[1]) or 0)
local left = redis.call('PTTL', KEYS[1])
if left > 0 then redis.call('SET', KEYS[1], string.format('%.3f', full - 1000 / ARGV[1]), 'PX', left) end
return 0`;
const returnToken = script<number>('returnToken', RETURN);

interface LimiterOptions {
  readonly job: string;
  readonly tokensPerSecond: number;
  /** Longest wait for a token, in ms. */
  readonly acquireTimeoutMs: number;
  /** Ends early when the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Called when Redis did not answer; the request goes on. */
  readonly onError: (error: unknown) => void;
}

export class RateLimiter {
  readonly #connection: RedisConnection;
  readonly #options: LimiterOptions;

  constructor(connection: RedisConnection, options: LimiterOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  /**
   * Takes one token, waiting up to acquireTimeoutMs. A caller who leaves while it waits gives its token back.
   * @throws rate_limited, which says after how long to retry; cancelled
   */
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
    const give = (redis: Redis) => returnToken(redis)(1, key, this.#options.tokensPerSecond);
    await this.#connection.use(give, false, key).catch(this.#options.onError);
  }

  async #ask(): Promise<number> {
    const { tokensPerSecond, acquireTimeoutMs, onError } = this.#options;
    const key = limiterKey(this.#options.job);
    try {
      return await this.#connection.use(
        (redis) => acquireToken(redis)(1, key, tokensPerSecond, acquireTimeoutMs),
        false,
        key,
      );
    } catch (error) {
      onError(error);
      return 0;
    }
  }
}
