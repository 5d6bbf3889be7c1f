/** Composes the results, the sums of trials and costs, and their connection. The first command connects, so INIT never waits for the store. */
import type { Results, Sums } from '../results/store.ts';
import type { Scope } from './scope.ts';
import { connect, openResults, openSums } from './store.ts';

export function connection({ environment }: Scope) {
  return connect(environment);
}

export function results(scope: Scope): Results {
  const { job, keyspace } = scope.environment;
  return openResults(scope.get(connection), {
    job: keyspace,
    ttlSeconds: job.resultTtlSeconds,
    retentionSeconds: job.queue.retentionSeconds,
    now: Date.now,
  });
}

export function costs(scope: Scope): Sums {
  return openSums(scope.get(connection), { job: scope.environment.keyspace, kind: 'budget' });
}

export function trialCounts(scope: Scope): Sums {
  return openSums(scope.get(connection), { job: scope.environment.keyspace, kind: 'trial' });
}
