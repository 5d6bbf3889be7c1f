/** Composes the states of records, on the connection of the results. */
import type { States } from '../results/store.ts';
import { connection } from './results.ts';
import type { Scope } from './scope.ts';
import { openStates } from './store.ts';

export function recordStates(scope: Scope): States {
  const { environment, own } = scope;
  const options = { job: environment.keyspace, now: Date.now, latestOrder: own.latestOrder };
  return openStates(scope.get(connection), options);
}
