/** As many models behind one function as a team has. */
import { test } from 'node:test';
import { askNamedModels } from './support/named-models.ts';

test('the packaged function answers 2,000 requests in random order over 200 models, each right, within the budget of memory', async (t) => {
  await askNamedModels(t, { models: 200, requests: 2_000 });
});
