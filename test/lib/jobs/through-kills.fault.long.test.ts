/** A million rows through kills, and the memory that the function has at ten thousand and at a million. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobThroughKills } from './killed-job.ts';

const ROWS = Number(process.env['JOB_ROWS'] ?? 1_000_000);

test(`${ROWS} rows through kills of the function and of the server: none is missing, none is there twice, all are in order`, async (t) => {
  await jobThroughKills(t, { rows: ROWS, every: ROWS / 20, seed: 2 });
});

test(`the function needs no more memory for ${ROWS} rows than for 10,000, but for what garbage there may be`, async (t) => {
  const few = await jobThroughKills(t, { rows: 10_000, every: 0, seed: 3 });
  const many = await jobThroughKills(t, { rows: ROWS, every: 0, seed: 3 });
  assert.ok(many < few + 150, `${few.toFixed(0)} MiB for 10,000 rows, ${many.toFixed(0)} for ${ROWS}`);
});
