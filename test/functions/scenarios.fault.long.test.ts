/**
 * The long form of the fault tests: the same scenarios with the counts of the promise.
 * LONG_SEEDS=5 node --test test/functions/scenarios.fault.long.test.ts runs a part of the seeds; LONG_FIRST=6 with LONG_SEEDS=50 goes on
 * with F3 where that one ended.
 */
import { before, describe, test } from 'node:test';
import { replayPoisoned } from '../cli/dlq/poison.ts';
import { startDlq } from '../cli/dlq/support.ts';
import { everySubset } from '../lib/queue/sqs-send.ts';
import { killedServer, lostWrites, stalePromoted } from '../lib/redis/scenarios/loss.ts';
import { type Bundles, packagedFunctions } from '../support/faults/worker.ts';
import { largeWhileFrozen, SERVED, swapsWhileFrozen } from './lambda/support/frozen.ts';
import { killedDownloads } from './lambda/support/killed-downloads.ts';
import { CALLS, leavesNothing } from './lambda/support/quiet.ts';
import { crash, MOMENTS } from './scenarios/crash.ts';
import { deadLettered, deadLetteredUnderFaults } from './scenarios/dead-letter.ts';
import { duplicates, reordered } from './scenarios/delivery.ts';
import { everyMask } from './scenarios/partial.ts';
import { twoWorkers } from './scenarios/two-workers.ts';

const LIMIT = Number(process.env['LONG_SEEDS'] ?? Number.POSITIVE_INFINITY);
const FIRST = Number(process.env['LONG_FIRST'] ?? 1);
const seeds = (count: number) => Math.min(count, LIMIT);

test(`F1: 10,000 messages delivered one to five times, ${seeds(100)} seeds: one outcome each`, (t) =>
  duplicates(t, { messages: 10_000, seeds: seeds(100) }));

test(`F2: 1,000 messages in any order and late, ${seeds(100)} seeds: one outcome each`, (t) =>
  reordered(t, { messages: 1_000, seeds: seeds(100) }));

describe(`F3: the packaged batch function is killed, ${seeds(50)} seeds each`, { concurrency: 2 }, () => {
  let bundles: Bundles;
  before(async () => {
    bundles = await packagedFunctions();
  });

  // A run that is broken off has all moments with fewer seeds.
  for (let seed = FIRST; seed <= seeds(50); seed++) {
    for (const moment of MOMENTS) {
      test(`${moment.name}, seed ${seed}: no uri is lost, none has two outcomes`, (t) =>
        crash(t, bundles, moment, seed));
    }
  }
});

test('F11: after 48 kills at any moment of a download, a version that has its name is whole', async (t) => {
  const bundles = await packagedFunctions();
  await killedDownloads(t, bundles, 48);
});

describe(`F22: the packaged functions are frozen after each answer, ${seeds(10)} seeds`, {
  concurrency: 2,
}, () => {
  let bundles: Bundles;
  before(async () => {
    bundles = await packagedFunctions();
  });

  for (let seed = 4; seed < 4 + seeds(10); seed++) {
    for (const name of SERVED)
      test(`${name}, seed ${seed}: pushed versions and rollbacks serve the first call after they are due`, (t) =>
        swapsWhileFrozen(t, bundles, name, seed));
    for (const name of Object.keys(CALLS))
      test(`${name}, seed ${seed}: nothing is left when it has answered`, (t) =>
        leavesNothing(t, bundles, name, seed));
  }

  for (const name of SERVED)
    test(`${name}: a model of 200 MB at 10 MB/s arrives over several calls`, (t) =>
      largeWhileFrozen(t, bundles, name, 1, { mb: 200, mbPerSecond: 10, timeoutMs: 30_000 }));
});

test('F4: of ten messages exactly those that must come again are named, 1,000 random masks', (t) =>
  everyMask(t, { randomMasks: 1_000 }));

test('F5: two workers on one uri, 1,000 rounds of ten uris: never mixed', (t) =>
  twoWorkers(t, { rounds: 1_000 }));

test('F7: 50 kills of a redis-server as the local stack starts it lose nothing', (t) =>
  killedServer(t, { kills: 50 }));

test('F7: 50 losses of acknowledged results: whole or gone, and made again when sent again', (t) =>
  lostWrites(t, { rounds: 50 }));

test('F7: 10 stale replicas promoted: whole or gone, and made again when sent again', (t) =>
  stalePromoted(t, { rounds: 10 }));

test('F9: of every subset of ten that SQS refuses for a while, all are queued once in the end', (t) =>
  everySubset(t, { passing: true }));

test('F14: 10,000 dead letters, each archived as it was and each uri failed once', (t) =>
  deadLettered(t, { messages: 10_000 }));

test('F14: of 1,000 dead letters with 10 % poison the good ones are replayed, and exactly the poison stays', async (t) =>
  replayPoisoned(await startDlq(t), 1_000));

test('F14: 1,000 dead letters under faults of S3 and Redis, each archived and told once', (t) =>
  deadLetteredUnderFaults(t, { messages: 1_000 }));
