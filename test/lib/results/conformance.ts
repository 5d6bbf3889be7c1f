/** Asks a store of results for everything that lib/results/store.ts promises. It knows no store, and asks through the contract alone. */
import { after, before, describe } from 'node:test';
import type { StoreConnection } from '../../../lib/results/store.ts';
import type { Hooks } from '../../support/runner.ts';
import { describeCancelling } from './conformance/cancelling.ts';
import { describeFaults } from './conformance/faults.ts';
import { describeLargeResults } from './conformance/large.ts';
import { describeLimiter } from './conformance/limiter.ts';
import { describeMeasurements } from './conformance/measurements.ts';
import { describeOrder } from './conformance/order.ts';
import { describeReplacer } from './conformance/replacer.ts';
import { describeRunCounts } from './conformance/run-counts.ts';
import { describeSaving } from './conformance/saving.ts';
import { describeStates } from './conformance/states.ts';
import { describeSums } from './conformance/sums.ts';
import { describeTaking } from './conformance/taking.ts';
import { describeTime } from './conformance/time.ts';
import { describeWaiting } from './conformance/waiting.ts';
import { type At, openPlace, type StoreAccess } from './conformance/world.ts';

const PARTS = [
  describeTime,
  describeSaving,
  describeOrder,
  describeTaking,
  describeWaiting,
  describeLargeResults,
  describeMeasurements,
  describeStates,
  describeCancelling,
  describeRunCounts,
  describeLimiter,
  describeReplacer,
  describeSums,
  describeFaults,
];

/**
 * @param name of the store, before the title of each test
 * @param open opens an empty store. It is called once; each test has a job of its own there
 */
export function describeStore<C extends StoreConnection>(
  name: string,
  open: (hooks: Hooks) => Promise<StoreAccess<C>>,
): void {
  describe(name, () => {
    const cleanups: (() => Promise<void>)[] = [];
    let access: StoreAccess<C>;
    let jobs = 0;
    before(async () => {
      access = await open({ after: (cleanup) => cleanups.unshift(cleanup) });
    });
    after(async () => {
      for (const cleanup of cleanups) await cleanup();
    });
    const at: At = (t) => openPlace(t, access, `job-${++jobs}`);
    for (const describePart of PARTS) describePart(at);
  });
}
