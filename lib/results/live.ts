/**
 * In: a function's environment. Out: the result store of its job.
 * Trap: nothing connects here; the first command does, so that INIT never waits for Redis.
 */
import type { Environment } from '../config/environment.ts';
import { RedisConnection } from './redis.ts';
import { ResultStore } from './store.ts';

export function liveResults(environment: Environment): ResultStore {
  const { jobName, resultTtlSeconds } = environment.job;
  const connection = new RedisConnection(environment.redisUrl);
  return new ResultStore(connection, { job: jobName, ttlSeconds: resultTtlSeconds, now: Date.now });
}
