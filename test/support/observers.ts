/** Observers for tests: failures are logged, and timers go nowhere or to a store. */
import { FAILURES } from '../../lib/observe/failures.ts';
import { DeliveredTimers } from '../../lib/observe/timers.ts';
import { together } from '../../lib/observe/together.ts';
import type { Observer, Observers } from '../../lib/pipeline/observer.ts';
import type { ResultStore } from '../../lib/redis/results.ts';

const now = () => performance.now();

/** @param more observe too */
export function quietObservers(...more: readonly Observer[]): Observers {
  return together([...more, FAILURES], now);
}

/** Timers that go to a store with its results, as those of a function. @param more observe too */
export function timersTo(store: Pick<ResultStore, 'save'>, ...more: readonly Observer[]) {
  const delivered = new DeliveredTimers({ now, deliver: (timers, model) => store.save([], model, timers) });
  return { timers: delivered.timers, observers: quietObservers(delivered, ...more) };
}
