/** Composes the limit of requests, on the connection of the results. */
import { setTimeout as delay } from 'node:timers/promises';
import { logError } from '../contract/log.ts';
import type { Limiter } from '../results/store.ts';
import { connection } from './results.ts';
import type { Scope } from './scope.ts';
import { openLimiter } from './store.ts';

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
