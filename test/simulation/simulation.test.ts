/** The deployment in one seeded simulation: histories replay, fixed seeds keep every invariant, and a fault is found and told. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { present } from '../../lib/contract/present.ts';
import { drawPlan } from './plan.ts';
import { PLANTED } from './planted/list.ts';
import { Simulator } from './simulate.ts';
import { pictureOf } from './story/picture.ts';
import { shrinkPlan } from './story/shrink.ts';
import { logOf, storyOf } from './story/story.ts';

/** Those of `npm test`, which are not chosen: the first ones. */
const SEEDS = Array.from({ length: 6 }, (_, i) => i + 1);
const REPLAYED = 12;
/** A seed that finds the planted fault, and the one that the docs tell of. */
const FAULTY = 8;
const COMMAND = fileURLToPath(new URL('run.ts', import.meta.url));

describe('the deployment in virtual time', () => {
  let simulator: Simulator;
  before(async () => {
    simulator = await Simulator.open();
  });

  for (const seed of SEEDS) {
    test(`seed ${seed} keeps every invariant`, async () => {
      const plan = drawPlan(seed);
      const simulated = await simulator.plan(plan);
      assert.deepEqual(simulated.violations, [], storyOf(plan, simulated));
      const accepted = simulated.history.enqueues.filter(({ isAccepted }) => isAccepted);
      assert.ok(accepted.length > 0, 'no record was accepted, so nothing was tested');
      assert.ok(simulated.history.outcomes.length > 0, 'no record had an outcome');
    });
  }

  test('a seed replays to the same log, byte for byte, here and in another process', async () => {
    const [log, again] = [logOf(await simulator.seed(REPLAYED)), logOf(await simulator.seed(REPLAYED))];
    assert.ok(log.split('\n').length > 20);
    assert.equal(again, log);
    const run = [COMMAND, '--seed', String(REPLAYED), '--log'];
    const { stdout } = await promisify(execFile)(process.execPath, run, { maxBuffer: 2 ** 24 });
    assert.equal(stdout.trimEnd(), log);
    assert.notEqual(logOf(await simulator.seed(REPLAYED - 1)), log);
  });

  test('a planted fault is found, shrunk to a few steps, and told in sentences', async () => {
    const fault = present(
      PLANTED.find(({ name }) => name === 'await before the acknowledgement'),
      'planted fault',
    );
    const faulty = await Simulator.open([fault]);
    const plan = drawPlan(FAULTY);
    const isLost = ({ invariant }: { readonly invariant: string }) => invariant === 'nothing is lost';
    const breaks = async (smaller: typeof plan) => (await faulty.plan(smaller)).violations.some(isLost);
    assert.ok(await breaks(plan));
    const shrunk = await shrinkPlan(plan, breaks);
    assert.ok(shrunk.steps.length <= 3, `${shrunk.steps.length} steps are left`);
    const simulated = await faulty.plan(shrunk);
    const violation = present(simulated.violations.find(isLost), 'violation');
    const story = storyOf(shrunk, simulated, violation);
    assert.match(story, /"nothing is lost" does not hold/);
    assert.match(story, /The batch function acknowledges message-0001\./);
    for (const line of story.split('\n').slice(3)) assert.match(line, /^\d+:\d\d:\d\d\.\d{3} {2}\S.*[.:]?$/);
    const picture = pictureOf(simulated.history, violation);
    assert.match(picture, /^<svg[\s\S]*nothing is lost[\s\S]*<\/svg>\n$/);
  });
});
