/** Told when it is done: the functions and what they call end at random, and the receiver refuses. */
import { test } from 'node:test';
import { seeded } from '../support/faults/seeds.ts';
import { allAnnounced } from './scenarios/notices.ts';

test('2,000 outcomes are each announced, once after their ids, though everything between ends at random', (t) =>
  allAnnounced(t, 2_000, seeded(1)));
