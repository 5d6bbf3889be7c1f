/**
 * In: a function's environment. Out: what it needs of Redis, on one connection.
 * Trap: nothing connects here; the first command does, so that INIT never waits for Redis.
 */
import type { Environment } from '../config/environment.ts';
import { type JobConfig, visibilityTimeoutSeconds } from '../config/job.ts';
import { logError } from '../contract/log.ts';
import { RedisConnection } from '../redis/connection.ts';
import { cachePassword } from '../redis/iam.ts';
import { RateLimiter } from '../redis/rate-limiter.ts';
import { ResultStore } from '../redis/results.ts';

type ConnectionEnvironment = Pick<Environment, 'redisUrl'> & Partial<Pick<Environment, 'redisSignIn'>>;
type RedisEnvironment = ConnectionEnvironment & Pick<Environment, 'job'>;

export function liveConnection(environment: ConnectionEnvironment): RedisConnection {
  const first = environment.redisSignIn;
  const signIn = first && {
    username: first.user,
    // Asked anew: the credentials of a long-lived environment may have been renewed.
    password: () => cachePassword(environment.redisSignIn ?? first, Date.now()),
  };
  return new RedisConnection(environment.redisUrl, { signIn });
}

export function liveResults(
  environment: RedisEnvironment,
  connection = liveConnection(environment),
): ResultStore {
  const { jobName, resultTtlSeconds } = environment.job;
  // A message whose deletion failed comes once more after its visibility timeout, and for as long again.
  const redeliveryMs = 2 * visibilityTimeoutSeconds(environment.job) * 1000;
  return new ResultStore(connection, {
    job: jobName,
    ttlSeconds: resultTtlSeconds,
    redeliveryMs,
    now: Date.now,
  });
}

/** Undefined when the job has no limit. */
export function liveLimiter(
  connection: RedisConnection,
  environment: Pick<Environment, 'job'>,
): RateLimiter | undefined {
  const { jobName, http }: JobConfig = environment.job;
  if (!http.tokenBucketEnabled) return undefined;
  return new RateLimiter(connection, {
    job: jobName,
    tokensPerSecond: http.tokensPerSecond,
    acquireTimeoutMs: http.tokenAcquireTimeoutMs,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    onError: (error) => logError(error, { phase: 'limiter' }),
  });
}
