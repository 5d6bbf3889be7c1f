/** F22: Lambda freezes an environment at its answer. What is due is done before, and nothing is left for afterwards. */
import { before, describe, test } from 'node:test';
import { type Bundles, packagedFunctions } from '../../support/faults/worker.ts';
import { largeWhileFrozen, SERVED, slowStart, swapsWhileFrozen } from './support/frozen.ts';
import { CALLS, leavesNothing } from './support/quiet.ts';

const SEEDS = [1, 2, 3];

describe('F22: a function that is frozen after each answer', { concurrency: 2 }, () => {
  let bundles: Bundles;
  before(async () => {
    bundles = await packagedFunctions();
  });

  for (const name of SERVED) {
    for (const seed of SEEDS) {
      test(`${name}, seed ${seed}: a pushed version and a rollback serve the first call after they are due`, (t) =>
        swapsWhileFrozen(t, bundles, name, seed));

      test(`${name}, seed ${seed}: a model of 20 MB at 10 MB/s arrives over several calls`, (t) =>
        largeWhileFrozen(t, bundles, name, seed, { mb: 20, mbPerSecond: 10, timeoutMs: 3_000 }));
    }
  }

  for (const name of Object.keys(CALLS)) {
    for (const seed of SEEDS)
      test(`${name}, seed ${seed}: nothing is left when it has answered`, (t) =>
        leavesNothing(t, bundles, name, seed));
  }

  test('in INIT, whose time is over before its model is there: the first request continues the load', (t) =>
    slowStart(t, bundles, { mb: 20, mbPerSecond: 2 }));
});
