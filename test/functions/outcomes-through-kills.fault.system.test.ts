/** Told when it is done, through real kills of every process on the way. */
import { test } from 'node:test';
import { seeded } from '../support/faults/seeds.ts';
import { allAnnouncedThroughKills } from './scenarios/through-kills.ts';

test('1,000 outcomes are each announced, once after their ids, while every process is killed again and again', (t) =>
  allAnnouncedThroughKills(t, 1_000, seeded(5)));
