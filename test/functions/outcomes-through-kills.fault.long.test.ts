/** 100,000 outcomes through real kills (scenarios/through-kills.ts); NOTICES=10000 sends fewer. */
import { test } from 'node:test';
import { seeded } from '../support/faults/seeds.ts';
import { allAnnouncedThroughKills } from './scenarios/through-kills.ts';

const RECORDS = Number(process.env['NOTICES'] ?? 100_000);

test(`${RECORDS} outcomes are each announced, once after their ids, while every process is killed again and again`, (t) =>
  allAnnouncedThroughKills(t, RECORDS, seeded(4)));
