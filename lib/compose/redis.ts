/** Composes what uses Redis beside results, on their connection. */
import { setTimeout as delay } from 'node:timers/promises';
import { logError } from '../contract/log.ts';
import { RateLimiter } from '../redis/rate-limiter.ts';
import { RecordStates } from '../redis/record-states.ts';
import { StoredRunCounts } from '../redis/run-counts.ts';
import { RunningReports } from '../redis/running.ts';
import { CLOCK } from './clock.ts';
import { connection } from './results.ts';
import type { Scope } from './scope.ts';

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
