/** The short form of many.long.test.ts, with models that do not fit into the memory together. */
import { test } from 'node:test';
import { askManyModels } from './ask-many.ts';

test('600 requests and 120 records in random order over 60 models have the answers of their models', async (t) => {
  await askManyModels(t, { models: 60, requests: 600, records: 120 });
});
