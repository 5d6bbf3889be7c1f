/** The deployment in one seeded simulation: histories replay, and fixed seeds keep every invariant. planted/ shows that faults are found. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { drawPlan } from './plan.ts';
import { Simulator } from './simulate.ts';
import { logOf, storyOf } from './story/story.ts';

/** Those of `npm test`, which are not chosen: the first ones. */
const SEEDS = Array.from({ length: 6 }, (_, i) => i + 1);
const REPLAYED = 12;
/** A canary has answers in the first; in the second, operators meet, and the scheduled look ends a canary. */
const CANARIES = [2, 17] as const;
/** Events name several models. */
const NAMED = 39;
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

  test('canaries answer records, one of two operators is refused, and the scheduled look ends what is bad', async () => {
    const [answers, meets] = [await simulator.seed(CANARIES[0]), await simulator.seed(CANARIES[1])];
    const { canaries, outcomes } = answers.history;
    const ofCanary = ({ model, atMs }: (typeof outcomes)[number]) =>
      canaries.pointers.findLast((one) => one.atMs <= atMs)?.canary?.version === model;
    assert.ok(outcomes.some(ofCanary));
    const { orders, pointers } = meets.history.canaries;
    assert.ok(orders.some(({ what, error }) => what === 'promote' && error === undefined));
    assert.ok(orders.some(({ what, error }) => what === 'promote' && error === 'conflict'));
    assert.ok(pointers.some(({ by, ended }) => by.startsWith('trials') && ended?.end === 'rolled back'));
  });

  test('further models answer records and requests, several of one event too, and a name that none has is not found', async () => {
    const { history } = await simulator.seed(NAMED);
    const named = history.outcomes.filter(({ identity }) => history.enqueueOf(identity)?.model !== undefined);
    const places = new Set(named.flatMap(({ answer }) => answer?.place ?? []));
    assert.ok(places.size > 2);
    assert.ok(named.some(({ code }) => code === 'not_found'));
    const modelsOf = ({ messages }: (typeof history.named.deliveries)[number]) =>
      new Set(messages.map(({ identity }) => history.enqueueOf(identity)?.model));
    assert.ok(history.named.deliveries.some((one) => modelsOf(one).size > 2));
    assert.ok(history.named.requests.some(({ error }) => error === undefined));
    assert.ok(history.named.requests.some(({ error }) => error === 'not_found'));
  });
});
