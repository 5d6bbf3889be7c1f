/**
 * Each planted fault is found by its seed, and what finds it is an invariant that is about it. planted.long.test.ts names the
 * seeds again, when plans have changed.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { present } from '../../../lib/contract/present.ts';
import { drawPlan } from '../plan.ts';
import { pictureOf } from '../story/picture.ts';
import { shrinkPlan } from '../story/shrink.ts';
import { storyOf } from '../story/story.ts';
import { assertFound, openPlanted } from './found.ts';
import { PLANTED } from './list.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PICTURE = 'docs/explanation/simulation-story.svg';

/** A seed that finds the planted fault, and the one that the docs tell of. */
const FAULTY = 7;

for (const fault of PLANTED) {
  test(`"${fault.name}" is found: ${fault.what}`, async (t) => {
    await assertFound(t, fault, [fault.seed]);
  });
}

test('the picture in the docs is what its seed draws', async () => {
  const fault = present(
    PLANTED.find(({ name }) => name === 'await before the acknowledgement'),
    'planted fault',
  );
  const simulator = await openPlanted(fault);
  const isLost = ({ invariant }: { readonly invariant: string }) => invariant === 'nothing is lost';
  const shrunk = await shrinkPlan(drawPlan(FAULTY), async (plan) =>
    (await simulator.plan(plan)).violations.some(isLost),
  );
  const { history, violations } = await simulator.plan(shrunk);
  const drawn = pictureOf(history, present(violations.find(isLost), 'violation'));
  assert.equal(
    readFileSync(join(ROOT, PICTURE), 'utf8'),
    drawn,
    `draw ${PICTURE} again, see docs/explanation/simulation.md`,
  );
});

test('a planted fault is found, shrunk to a few steps, and told in sentences', async () => {
  const fault = present(
    PLANTED.find(({ name }) => name === 'await before the acknowledgement'),
    'planted fault',
  );
  const faulty = await openPlanted(fault);
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
  assert.match(story, /The batch function acknowledges message-\d{4}\./);
  for (const line of story.split('\n').slice(3)) assert.match(line, /^\d+:\d\d:\d\d\.\d{3} {2}\S.*[.:]?$/);
  const picture = pictureOf(simulated.history, violation);
  assert.match(picture, /^<svg[\s\S]*nothing is lost[\s\S]*<\/svg>\n$/);
});
