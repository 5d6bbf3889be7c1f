/**
 * In: a result store. Out: a reporter that delivers its measurements there.
 * Trap: the batch function has a round trip to share (store.save takes the timers along); the others make their own.
 */
import { logError } from '../contract/log.ts';
import { Reporter } from '../metrics/reporter.ts';
import type { ResultStore } from './results.ts';

export function liveReporter(results: Pick<ResultStore, 'save'>): Reporter {
  return new Reporter({
    deliver: (timers) => results.save([], '', timers),
    now: () => performance.now(),
    onError: (error) => logError(error, { phase: 'metrics' }),
  });
}
