/** Random graphs on sequences of three lengths, with values to 1,000,000: alone, in company, plain and optimized agree. */
import { test } from 'node:test';
import { assertLengthsAgree } from './assert-lengths.ts';

test('of 60 random graphs, those that are proven answer alone as in company, and all as they are optimized', async (t) => {
  await assertLengthsAgree(t, { from: 0, count: 60 });
});
