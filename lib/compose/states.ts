/** Composes the states of records, and the counts of a canary's trial, on the connection of the results. */
import type { States, TrialCounts } from '../results/store.ts';
import { connection } from './results.ts';
import type { Scope } from './scope.ts';
import { openStates, openTrialCounts } from './store.ts';

export function recordStates(scope: Scope): States {
  const { environment, own } = scope;
  const options = { job: environment.keyspace, now: Date.now, latestOrder: own.latestOrder };
  return openStates(scope.get(connection), options);
}

export function trialCounts(scope: Scope): TrialCounts {
  return openTrialCounts(scope.get(connection), { job: scope.environment.keyspace });
}
