/** F16 over a table in full: every state that five steps of the life of a uri reach. TABLE_STEPS=6 takes more. */
import { test } from 'node:test';
import { connectTo, createTable, startDynamo } from '../../support/table.ts';
import { exploreTable } from '../../support/uri-life/explore.ts';

const STEPS = Number(process.env['TABLE_STEPS'] ?? 5);

test(`F16: a table: in every state that ${STEPS} steps reach, a uri has the outcome of its latest enqueue`, async (t) => {
  const endpoint = await startDynamo(t);
  await createTable(endpoint);
  const { states, steps } = await exploreTable(connectTo(endpoint), STEPS);
  t.diagnostic(`${states.join(' + ')} states, ${steps} steps`);
});
