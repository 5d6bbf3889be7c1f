/** Observes the running of records, wherever they come from. */
import { ServingError } from '../contract/errors.ts';
import type { Outcome } from '../contract/values.ts';
import type { Observers, Source } from './observer.ts';

/** Tells that records wait and have run. */
export async function observeRun(
  records: number,
  run: () => Promise<Outcome[]>,
  source: Source,
  observers: Observers,
): Promise<Outcome[]> {
  if (!observers.recordsRan && !observers.recordsArrived) return run();
  const startedMs = observers.now();
  const end = (outcomes: readonly Outcome[]) =>
    observers.recordsRan?.({ source, outcomes, tookMs: observers.now() - startedMs });
  observers.recordsArrived?.({ source, records });
  try {
    const outcomes = await run();
    end(outcomes);
    return outcomes;
  } catch (error) {
    // They fail as a whole.
    const failed: Outcome = { ok: false, error: ServingError.from(error) };
    end(Array.from({ length: records }, () => failed));
    throw error;
  }
}
