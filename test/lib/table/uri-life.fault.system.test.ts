/** F16 over a table: the life of a uri, by real conditional writes. The long run takes one step more. */
import { test } from 'node:test';
import { connectTo, createTable, startDynamo } from '../../support/table.ts';
import { exploreTable } from '../../support/uri-life/explore.ts';

const DEPTH = 4;

test(`F16: a table: in every state that ${DEPTH} steps reach, a uri has the outcome of its latest enqueue`, async (t) => {
  const endpoint = await startDynamo(t);
  await createTable(endpoint);
  const { states, steps } = await exploreTable(connectTo(endpoint), DEPTH);
  t.diagnostic(`${states.join(' + ')} states, ${steps} steps`);
});
