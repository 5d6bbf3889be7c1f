/** Collects timers and brings them to the result store. */
import { logError } from '../contract/log.ts';
import { Reporter } from '../metrics/reporter.ts';
import type { ResultStore } from '../redis/results.ts';

/** @param store takes the timers; the batch function also lets them share the round trip of its results */
export function reporterTo(store: Pick<ResultStore, 'save'>): Reporter {
  return new Reporter({
    deliver: (timers) => store.save([], '', timers),
    now: () => performance.now(),
    onError: (error) => logError(error, { phase: 'metrics' }),
  });
}
