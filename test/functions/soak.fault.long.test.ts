/**
 * The soak. SOAK_RECORDS=3000 node --test test/functions/soak.fault.long.test.ts runs a small one; SOAK_SEED chooses another order,
 * SOAK_EVERYTHING=1 captures each record and tells a target of it, under a budget; SOAK_FSYNC=everysec (or always) another setting of Redis than the local stack's: with everysec a kill may lose results.
 */
import { test } from 'node:test';
import { soak } from './scenarios/soak.ts';

const RECORDS = Number(process.env['SOAK_RECORDS'] ?? 100_000);
const EVERYTHING = process.env['SOAK_EVERYTHING'] === '1';
const FSYNC = (['everysec', 'always'] as const).find((name) => name === process.env['SOAK_FSYNC']) ?? 'local';

test(`${RECORDS} records, workers and Redis killed at random all the while: none lost, none doubled`, (t) =>
  soak(t, {
    records: RECORDS,
    seed: Number(process.env['SOAK_SEED'] ?? 1),
    fsync: FSYNC,
    everything: EVERYTHING,
  }));
