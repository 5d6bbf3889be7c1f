import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareReaders, differing } from '../../../support/json-numbers.ts';

test('ten million numbers are read to the last bit as JSON.parse reads them', async () => {
  for (let seed = 1; seed <= 10; seed++) assert.equal(await differing(seed, 1_000_000), 0, `seed ${seed}`);
});

test('20,000 mutated bodies have the answers and the errors that JSON.parse alone gives them', async () => {
  const { different, cut } = await compareReaders(1, 20_000);
  assert.deepEqual(different, []);
  assert.ok(cut > 2_000, `an array was cut out of ${cut} of them`);
});
