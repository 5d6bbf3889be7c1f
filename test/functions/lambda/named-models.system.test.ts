/** The short form of named-models.long.test.ts, with models that do not fit into the budget together. */
import { test } from 'node:test';
import { askNamedModels } from './support/named-models.ts';

test('the packaged function answers 600 requests in random order over 60 models, each right, within the budget of memory', async (t) => {
  await askNamedModels(t, { models: 60, requests: 600 });
});
