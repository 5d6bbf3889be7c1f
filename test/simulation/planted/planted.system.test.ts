/** Each planted fault is found within 1,000 seeds from the first one on, and what finds it is an invariant that is about it. */
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
import { PLANTED } from './list.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PICTURE = 'docs/explanation/simulation-story.svg';
/** Far fewer find those of list.ts. */
const MOST_SEEDS = 1_000;

for (const fault of PLANTED) {
  test(`"${fault.name}" is found: ${fault.what}`, async (t) => {
    const text = readFileSync(join(ROOT, fault.file), 'utf8');
    assert.equal(text.split(fault.find).length, 2, `${fault.file} has the text to replace exactly once`);
    const simulator = await Simulator.open([fault]);
    for (let seed = 1; seed <= MOST_SEEDS; seed++) {
      const { violations } = await simulator.seed(seed);
      const found = violations.find(({ invariant }) => fault.seenBy.includes(invariant));
      if (!found) continue;
      t.diagnostic(`seed ${seed}: ${found.invariant}: ${found.text}`);
      return;
    }
    assert.fail(`no seed up to ${MOST_SEEDS} finds it`);
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
