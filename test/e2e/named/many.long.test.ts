/** As many models behind one address as a team has. */
import { test } from 'node:test';
import { askManyModels } from './ask-many.ts';

test('2,000 requests and 400 records in random order over 200 models have the answers of their models', async (t) => {
  await askManyModels(t, { models: 200, requests: 2_000, records: 400 });
});
