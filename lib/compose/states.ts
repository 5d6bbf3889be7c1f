/** Composes what the store knows of records beside their results, on the same connection. */
import { setTimeout as delay } from 'node:timers/promises';
import { logError } from '../contract/log.ts';
import type { RunCounts } from '../pipeline/counted-runs.ts';
import { RunningReports } from '../results/running.ts';
import type { Limiter, States } from '../results/store.ts';
import { CLOCK } from './clock.ts';
import { connection } from './results.ts';
import type { Scope } from './scope.ts';
import { openLimiter, openRunCounts, openStates } from './store.ts';

export function recordStates(scope: Scope): States {
  const { environment, own } = scope;
  const options = { job: environment.keyspace, now: Date.now, latestOrder: own.latestOrder };
  return openStates(scope.get(connection), options);
}

export function runningReports(scope: Scope): RunningReports {
  const timeoutMs = scope.environment.job.function.timeoutSeconds * 1000;
  return new RunningReports(scope.get(recordStates), timeoutMs, CLOCK.now);
}

export function runCounts(scope: Scope): RunCounts {
  const { job, keyspace } = scope.environment;
  const { maxReceiveCount: most, retentionSeconds } = job.queue;
  return openRunCounts(scope.get(connection), { job: keyspace, retentionSeconds, most });
}

/** Undefined when the job has no limit. */
export function limiter(scope: Scope): Limiter | undefined {
  const { http } = scope.environment.job;
  if (!http.tokenBucketEnabled) return undefined;
  return openLimiter(scope.get(connection), {
    job: scope.environment.keyspace,
    tokensPerSecond: http.tokensPerSecond,
    acquireTimeoutMs: http.tokenAcquireTimeoutMs,
    sleep: (ms, signal) => delay(ms, undefined, signal && { signal }).catch(() => undefined),
    onError: (error) => logError(error, { phase: 'limiter' }),
  });
}
