/** The short form of through-kills.fault.long.test.ts. */
import { test } from 'node:test';
import { jobThroughKills } from './killed-job.ts';

test('60,000 rows through kills of the function and of the server: none is missing, none is there twice, all are in order', async (t) => {
  await jobThroughKills(t, { rows: 60_000, every: 8_000, seed: 1 });
});
