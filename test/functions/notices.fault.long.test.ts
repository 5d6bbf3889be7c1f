/** The same as notices.fault.system.test.ts with 100,000 outcomes; NOTICES=10000 sends fewer. */
import { test } from 'node:test';
import { seeded } from '../support/faults/seeds.ts';
import { allAnnounced } from './scenarios/notices.ts';

const RECORDS = Number(process.env['NOTICES'] ?? 100_000);

test(`${RECORDS} outcomes are each announced, once after their ids, though everything between ends at random`, (t) =>
  allAnnounced(t, RECORDS, seeded(2)));
