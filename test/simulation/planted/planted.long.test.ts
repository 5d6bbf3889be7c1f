/** Each planted fault is found within 1,000 seeds from the first one on, and list.ts says by which. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertFound, firstSeeds } from './found.ts';
import { PLANTED } from './list.ts';

for (const fault of PLANTED) {
  test(`"${fault.name}" is found from seed 1 on: ${fault.what}`, async (t) => {
    assert.equal(await assertFound(t, fault, firstSeeds()), fault.seed);
  });
}
