/** Collects timers and delivers them to the result store. */
import { logError } from '../contract/log.ts';
import { Reporter } from '../metrics/reporter.ts';
import type { Timers } from '../metrics/timers.ts';
import type { Scope } from './scope.ts';

/** Stores timers. The batch function also sends them in the round trip of its results. */
interface TimerStore {
  save(finished: readonly never[], model: string, timers: Timers): Promise<unknown>;
}

/** @param served the version that serves here, if there is one: it is delivered with the timers */
export function reporterTo(store: TimerStore, served: () => string | undefined = () => undefined): Reporter {
  return new Reporter({
    deliver: (timers) => store.save([], served() ?? '', timers),
    now: () => process.uptime() * 1000,
    onError: (error) => logError(error, { phase: 'metrics' }),
  });
}

/**
 * One reporter for all functions of an environment. Redis is loaded only when the timers are due.
 */
export function reporter(scope: Scope): Reporter {
  const save: TimerStore['save'] = async (...saving) =>
    scope.get((await import('./redis.ts')).results).save(...saving);
  return reporterTo({ save }, () => scope.served?.version);
}
