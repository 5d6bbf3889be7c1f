/** Each planted fault is found, and what finds it is an invariant that is about it. planted.long.test.ts looks for it from seed 1 on. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { present } from '../../../lib/contract/present.ts';
import { drawPlan } from '../plan.ts';
import { Simulator } from '../simulate.ts';
import { pictureOf } from '../story/picture.ts';
import { shrinkPlan } from '../story/shrink.ts';
import { assertFound, firstSeeds } from './found.ts';
import { PLANTED } from './list.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PICTURE = 'docs/explanation/simulation-story.svg';

for (const fault of PLANTED) {
  test(`"${fault.name}" is found: ${fault.what}`, async (t) => {
    await assertFound(t, fault, [fault.seed, ...firstSeeds()]);
  });
}

test('the picture in the docs is what its seed draws', async () => {
  const fault = present(
    PLANTED.find(({ name }) => name === 'await before the acknowledgement'),
    'planted fault',
  );
  const simulator = await Simulator.open([fault]);
  const isLost = ({ invariant }: { readonly invariant: string }) => invariant === 'nothing is lost';
  const shrunk = await shrinkPlan(drawPlan(8), async (plan) =>
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
