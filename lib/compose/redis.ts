/** Composes what uses Redis, all on one connection. The first command connects, so INIT never waits for Redis. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '../config/environment.ts';
import { logError } from '../contract/log.ts';
import { isClusterUrl, openRedis } from '../redis/cluster/connection.ts';
import type { RedisConnection, SignIn } from '../redis/connection.ts';
import { cachePassword } from '../redis/iam.ts';
import { RateLimiter } from '../redis/rate-limiter.ts';
import { RecordStates } from '../redis/record-states.ts';
import { ResultStore } from '../redis/results.ts';
import { StoredRunCounts } from '../redis/run-counts.ts';
import { RunningReports } from '../redis/running.ts';
import { CachedSecret, readParameter } from '../redis/secret.ts';
import { CLOCK } from './clock.ts';
import type { Scope } from './scope.ts';

export function connection({ environment }: Scope): RedisConnection {
  return openRedis(environment.redisUrl, { signIn: signInOf(environment) });
}

function signInOf(environment: Environment): SignIn | undefined {
  const signIn = environment.redisSignIn;
  if (!signIn) return undefined;
  // The environment is asked each time, because the credentials of a long-lived one may have been renewed.
  const renewed = () => ({ credentials: (environment.redisSignIn ?? signIn).credentials });
  if ('parameter' in signIn) {
    const secret = new CachedSecret(() => readParameter({ ...signIn, ...renewed() }), Date.now);
    return {
      username: signIn.user,
      password: () => secret.get(),
      changedPassword: () => secret.getChanged(),
    };
  }
  // A cache in cluster mode that a deployment creates is serverless.
  const isServerless = isClusterUrl(environment.redisUrl);
  const password = () => cachePassword({ ...signIn, ...renewed(), isServerless }, Date.now());
  return { username: signIn.user, password };
}

export function results(scope: Scope): ResultStore {
  const { job, keyspace } = scope.environment;
  return new ResultStore(scope.get(connection), {
    job: keyspace,
    ttlSeconds: job.resultTtlSeconds,
    retentionSeconds: job.queue.retentionSeconds,
    now: Date.now,
  });
}

export function recordStates(scope: Scope): RecordStates {
  const { environment, own } = scope;
  const options = { job: environment.keyspace, now: Date.now, latestOrder: own.latestOrder };
  return new RecordStates(scope.get(connection), options);
}

export function runningReports(scope: Scope): RunningReports {
  const timeoutMs = scope.environment.job.function.timeoutSeconds * 1000;
  return new RunningReports(scope.get(recordStates), timeoutMs, CLOCK.now);
}

export function runCounts(scope: Scope): StoredRunCounts {
  const { job, keyspace } = scope.environment;
  const { maxReceiveCount: most, retentionSeconds } = job.queue;
  return new StoredRunCounts(scope.get(connection), { job: keyspace, retentionSeconds, most });
}

/** Undefined when the job has no limit. */
export function limiter(scope: Scope): RateLimiter | undefined {
  const { http } = scope.environment.job;
  if (!http.tokenBucketEnabled) return undefined;
  return new RateLimiter(scope.get(connection), {
    job: scope.environment.keyspace,
    tokensPerSecond: http.tokensPerSecond,
    acquireTimeoutMs: http.tokenAcquireTimeoutMs,
    sleep: (ms, signal) => delay(ms, undefined, signal && { signal }).catch(() => undefined),
    onError: (error) => logError(error, { phase: 'limiter' }),
  });
}
