/** The scheduled look at versions on trial: it asks golden requests once, judges, ends, and says what it found. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { badModel } from '../../../lib/contract/errors.ts';
import { TrialMeter } from '../../../lib/metrics/trial.ts';
import { readCurrent } from '../../../lib/registry/pointer.ts';
import { type PublishOptions, publishModel } from '../../../lib/registry/publish.ts';
import { readTrialReport } from '../../../lib/registry/trial-report.ts';
import { rollBack } from '../../../lib/registry/versions.ts';
import type { Replay } from '../../../release/replay/tally.ts';
import { askShadow } from '../../../release/trial/shadow.ts';
import { type WatchParts, watchTrials } from '../../../release/trial/watch.ts';
import { strictStore } from '../../lib/registry/publish-store.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until as waitUntil } from '../../support/until.ts';

const LOCATION = { bucket: 'models', prefix: 'models/job/' };
const START_MS = Date.parse('2026-11-29T00:00:00.000Z');
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

async function worldOf(t: TestContext) {
  const store = await strictStore(t);
  const { s3 } = store;
  const clock = { ms: START_MS };
  const meter = new TrialMeter();
  const counted = new Map<string, number>();
  const asked: string[] = [];
  const world = { golden: async (): Promise<number> => 2, rolledBack: [] as string[] };
  const publish = async (name: string, options: PublishOptions = {}) => {
    const folder = await temporaryFolder(t);
    await mkdir(join(folder, 'golden'));
    await writeFile(join(folder, 'model.onnx'), identityModel([{ name, dtype: 'float32', shape: ['N', 1] }]));
    return (await publishModel(s3, LOCATION, folder, { now: () => clock.ms, ...options })).version;
  };
  const parts: WatchParts = {
    s3,
    location: LOCATION,
    counts: {
      async read() {
        for (const [name, count] of meter.take()) counted.set(name, (counted.get(name) ?? 0) + count);
        return counted;
      },
    },
    lookMs: 0,
    room: async () => ({ memoryMB: 1_000, diskMB: 512, isShared: true }),
    isCapturing: true,
    now: () => clock.ms,
    async askGolden(_directory, { version }) {
      asked.push(version);
      return world.golden();
    },
    replay: async () => undefined,
    onRolledBack: (version, reason) => void world.rolledBack.push(`${version}: ${reason}`),
  };
  const look = (more: Partial<WatchParts> = {}) => {
    clock.ms += MINUTE_MS;
    return watchTrials({ ...parts, ...more });
  };
  const canary = async () => (await readCurrent(s3, LOCATION)).canary?.version;
  const ended = async () => (await readCurrent(s3, LOCATION)).ended;
  return { ...store, s3, world, clock, meter, asked, publish, parts, look, canary, ended };
}

const CANARY = { trial: { kind: 'canary', share: 0.1 } } as const;

test('where nothing is on trial it says once an hour that somebody looks', async (t) => {
  const { look, s3, publish, clock, objects } = await worldOf(t);
  await publish('a');
  let writes = 0;
  const store = objects.set.bind(objects);
  objects.set = (key, body) => {
    if (key.endsWith('trial.json')) writes++;
    return store(key, body);
  };
  for (let minute = 0; minute < 130; minute++) assert.equal(await look(), undefined);
  assert.equal(writes, 3);
  const report = await readTrialReport(s3, LOCATION);
  assert.ok(report && clock.ms - Date.parse(report.at) <= HOUR_MS + MINUTE_MS);
  assert.deepEqual(report.room, { memoryMB: 1_000, diskMB: 512, isShared: true });
});

test('golden requests are asked once, and a canary that is as good stays until a day is over', async (t) => {
  const { look, publish, asked, meter, clock, canary, ended, world } = await worldOf(t);
  await publish('a');
  const b = await publish('b', CANARY);
  const first = await look();
  assert.deepEqual([first?.canary?.golden, first?.canary?.verdict], ['passed', 'not enough']);
  meter.answered('serving', 4_000);
  meter.answered('canary', 450);
  const second = await look();
  assert.deepEqual([second?.canary?.verdict, second?.canary?.looks], ['no worse', 2]);
  await look();
  assert.deepEqual(asked, [b]);
  assert.equal(await canary(), b);
  clock.ms = START_MS + 24 * HOUR_MS;
  await look();
  assert.equal(await canary(), undefined);
  assert.match((await ended())?.reason ?? '', /not promoted within 24 hours/);
  assert.equal((await ended())?.end, 'rolled back');
  assert.equal(world.rolledBack.length, 1);
});

test('a canary that fails more often is rolled back by itself, and its reason is kept', async (t) => {
  const { look, publish, meter, canary, ended, world, s3 } = await worldOf(t);
  const a = await publish('a');
  const b = await publish('b', CANARY);
  meter.answered('serving', 2_000);
  for (let i = 0; i < 200; i++) meter.failed('canary', 'model_failed');
  await look();
  assert.equal(await canary(), undefined);
  assert.equal((await readCurrent(s3, LOCATION)).version, a);
  assert.match((await ended())?.reason ?? '', /fails more often: .* 100 % failed \(200 model_failed\)/);
  assert.deepEqual(
    world.rolledBack.map((text) => text.slice(0, 12)),
    [b],
  );
  assert.equal(await look(), undefined);
});

test('a canary whose golden requests get another answer is rolled back at the first look', async (t) => {
  const { look, publish, canary, ended, world } = await worldOf(t);
  await publish('a');
  await publish('b', CANARY);
  world.golden = async () => {
    throw badModel('1 of 2 golden requests: digit: expected 3, got 5');
  };
  await look();
  assert.equal(await canary(), undefined);
  assert.equal((await ended())?.reason, '1 of 2 golden requests: digit: expected 3, got 5');
});

test('a look that ends while it opens the canary is known to the next one, and the third rolls it back', async (t) => {
  const { look, publish, canary, ended, world, s3 } = await worldOf(t);
  await publish('a');
  await publish('b', CANARY);
  // As a process that is ended: nothing after it happens.
  world.golden = () => new Promise(() => undefined);
  for (const attempts of [1, 2]) {
    void look();
    await waitUntil(async () => (await readTrialReport(s3, LOCATION))?.canary?.attempts === attempts);
  }
  assert.ok(await canary());
  await look();
  assert.equal(await canary(), undefined);
  assert.match((await ended())?.reason ?? '', /ended 2 times while it opened it/);
});

test('S3 that is away ends nothing, and counts as no attempt', async (t) => {
  const { look, publish, canary, asked, objects } = await worldOf(t);
  await publish('a');
  const b = await publish('b', CANARY);
  const key = `${LOCATION.prefix}versions/${b}/model.onnx`;
  const body = objects.get(key) ?? assert.fail();
  objects.delete(key);
  for (let i = 0; i < 5; i++) await assert.rejects(look(), { code: 'model_unavailable' });
  objects.set(key, body);
  await look();
  assert.equal(await canary(), b);
  assert.deepEqual(asked, [b]);
});

test('counts that cannot be read end nothing, however long, and golden requests are not asked again', async (t) => {
  const { look, publish, canary, asked } = await worldOf(t);
  await publish('a');
  const b = await publish('b', CANARY);
  const read = async () => {
    throw badModel('away');
  };
  for (let i = 0; i < 5; i++) await assert.rejects(look({ counts: { read } }), /away/);
  assert.equal(await canary(), b);
  assert.deepEqual(asked, [b]);
  assert.equal((await look())?.canary?.golden, 'passed');
});

test('a pointer that was moved while it looked stays as it was moved', async (t) => {
  const { look, publish, s3, meter, world, parts } = await worldOf(t);
  const a = await publish('a');
  await publish('b', CANARY);
  meter.answered('serving', 2_000);
  for (let i = 0; i < 200; i++) meter.failed('canary', 'model_failed');
  let c = '';
  const counts = {
    async read(trial: string) {
      await rollBack(s3, LOCATION, undefined);
      c = await publish('c');
      return parts.counts.read(trial);
    },
  };
  await look({ counts });
  const current = await readCurrent(s3, LOCATION);
  assert.deepEqual([current.version, current.canary, current.ended?.reason], [c, undefined, 'by hand']);
  assert.deepEqual(world.rolledBack, []);
  assert.notEqual(c, a);
});

test('a second trial of the same version starts again', async (t) => {
  const { look, publish, asked, clock, s3 } = await worldOf(t);
  await publish('a');
  const b = await publish('b', CANARY);
  await look();
  await rollBack(s3, LOCATION, undefined);
  clock.ms += MINUTE_MS;
  await publish('b', CANARY);
  const again = await look();
  assert.deepEqual(asked, [b, b]);
  assert.deepEqual([again?.canary?.attempts, again?.canary?.looks], [1, 0]);
});

const REPLAY: Replay = {
  lines: 10,
  versions: { a: 10 },
  from: 0,
  to: 0,
  compared: 8,
  bits: { records: 0, differ: 0 },
  tolerance: { records: 8, differ: 3 },
  because: [],
  settings: [],
  outputs: [],
  flips: 2,
  worst: [],
  failures: { records: 1, differ: 1 },
  otherEnds: [],
  notReplayable: 1,
  leftOut: [],
  unreadable: 0,
  unread: [],
  lost: 0,
  slices: undefined,
};
const SHADOW = { version: 'b', since: new Date(START_MS).toISOString() };

test('a shadow is asked each capture once, when it is settled, and what differs adds up', async () => {
  const windows: (readonly [number | undefined, number | undefined])[] = [];
  const told: number[] = [];
  const onAsked: WatchParts['onAsked'] = ({ compared, flips, differ }) =>
    void told.push(compared, flips, differ);
  let report: Awaited<ReturnType<typeof askShadow>> | undefined;
  for (let minute = 0; minute <= 60; minute++) {
    const now = () => START_MS + minute * MINUTE_MS;
    const replay: WatchParts['replay'] = async (_, { since, until }) => {
      windows.push([since, until]);
      return REPLAY;
    };
    report = await askShadow(SHADOW, report, { replay, now, onAsked }, async () => undefined);
  }
  const [first] = windows;
  assert.equal(first?.[0], START_MS);
  for (const [i, [since, until = 0]] of windows.entries()) {
    assert.equal(windows[i + 1]?.[0] ?? until + 1, until + 1, 'without a gap, and nothing twice');
    assert.ok(until + 1 - (since ?? 0) >= 3 * MINUTE_MS);
  }
  const times = windows.length;
  assert.deepEqual(told.slice(0, 6), [8, 2, 3, 8, 2, 3]);
  assert.equal(told.length, 3 * times);
  assert.ok(times >= 15 && times <= 20, `${times}`);
  assert.deepEqual(
    [report?.compared, report?.flips, report?.differ, report?.otherEnds, report?.notReplayable],
    [8, 2, 3, 1, 1].map((count) => count * times),
  );
});

test('a replay that ends its function is asked for less the next time, and one that fails says why', async () => {
  const kept: number[] = [];
  const now = () => START_MS + 5 * HOUR_MS;
  let report: Awaited<ReturnType<typeof askShadow>> | undefined;
  for (let i = 0; i < 8; i++)
    await Promise.race([
      askShadow(SHADOW, report, { replay: () => new Promise(() => undefined), now }, async (asking) => {
        report = asking;
        kept.push(asking.windowMs / MINUTE_MS);
      }),
      new Promise((resolve) => setImmediate(resolve)),
    ]);
  assert.deepEqual(kept, [30, 15, 7.5, 3.75, 1.875, 1.5, 1.5, 1.5]);
  const failing = async () => {
    throw badModel('no memory');
  };
  const failed = await askShadow(SHADOW, report, { replay: failing, now }, async () => undefined);
  assert.equal(failed.problem, 'no memory');
  assert.equal(failed.until, START_MS);
  const good = await askShadow(SHADOW, failed, { replay: async () => REPLAY, now }, async () => undefined);
  assert.deepEqual([good.problem, good.until - START_MS, good.compared], [undefined, 3 * MINUTE_MS, 8]);
});
