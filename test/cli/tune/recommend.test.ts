/** Which settings follow from measurements that were made up so that the answer is known. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CostSettings, settingResults } from '../../../cli/tune/cost.ts';
import type { MeasuredPoint } from '../../../cli/tune/points.ts';
import { type Aim, recommend, type Wishes } from '../../../cli/tune/recommend.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { type Extra, measuredAt } from './support.ts';

const WISHES: Wishes = {
  arch: 'x86_64',
  traffic: 'both',
  limitMs: undefined,
  job: DEFAULT_JOB,
  hasFreeBatch: true,
};
const SETTINGS: CostSettings = { memories: [885, 1769, 3538], cores: 2, overheadMs: 3, timeoutSeconds: 30 };
const FACTS = { messageBytes: 1_000, requestBytes: 1_000 };

function chosen(
  points: readonly MeasuredPoint[],
  aim: Aim,
  wishes: Partial<Wishes> = {},
  settings = SETTINGS,
) {
  const { results } = settingResults(points, FACTS, settings);
  return recommend(aim, results, { ...WISHES, ...wishes });
}

/** 100 ms a record with one thread, 60 ms with two; p99 5 ms above; batches save nothing but invocations. */
function heavy(extra: Extra = {}): MeasuredPoint[] {
  return [1, 2].flatMap((threads) => {
    const ms = threads === 1 ? 100 : 60;
    return [
      measuredAt('predict', threads, 1, ms, { p99: ms + 5, ...extra }),
      ...[1, 2, 4, 8, 16].map((records) =>
        measuredAt('batch', threads, records, ms * records, { p99: ms * records + 5, ...extra }),
      ),
    ];
  });
}

/** 0.5 ms of an event and 0.1 ms of a record, threads do not help. */
function light(): MeasuredPoint[] {
  return [1, 2].flatMap((threads) => [
    measuredAt('predict', threads, 1, 0.5 * threads),
    ...[1, 2, 4, 8, 16, 32, 64].map((records) =>
      measuredAt('batch', threads, records, (0.5 + 0.1 * records) * threads),
    ),
  ]);
}

test('of settings that cost the same the faster one is chosen: half a vCPU saves nothing on a heavy model', () => {
  const found = chosen(heavy(), 'cheapest');
  assert.equal(found?.setting.memoryMB, 1769);
  assert.match(
    found?.reasons[0] ?? '',
    /1 % dearer than the cheapest of 4 settings \(885 MB\), and 2\.0 times as fast/,
  );
});

test('the lowest latency takes the second vCPU, which the cheapest does not', () => {
  const found = chosen(heavy(), 'latency');
  assert.deepEqual([found?.setting.memoryMB, found?.setting.threads], [3538, 2]);
  assert.equal(found?.config['threadPerModel'], 0);
});

test('a p99 that one vCPU keeps is met by the cheaper setting, a lower one by the dearer, and one too low by none', () => {
  const memoryFor = (limitMs: number) =>
    chosen(heavy(), 'latency', { limitMs, traffic: 'predict' })?.setting.memoryMB;
  assert.equal(memoryFor(110), 1769);
  assert.equal(memoryFor(70), 3538);
  assert.equal(memoryFor(10), undefined);
});

test('the lowest latency is never a setting whose time was computed, where one was measured', () => {
  const settings = { ...SETTINGS, memories: [512, 1769] };
  assert.equal(chosen(light(), 'latency', {}, settings)?.setting.basis, 'measured');
  assert.equal(chosen(light(), 'cheapest', {}, settings)?.setting.basis, 'scaled');
  assert.equal(chosen(light(), 'latency', {}, { ...settings, memories: [512] })?.setting.basis, 'scaled');
});

test('where more threads are slower, threadPerModel says one', () => {
  const found = chosen(light(), 'cheapest', {}, { ...SETTINGS, memories: [3538] });
  assert.deepEqual(found?.config['threadPerModel'], 1);
});

test('a batch is as large as it takes until more save less than 5 %, with a window above 10 records', () => {
  const found = chosen(light(), 'cheapest', {}, { ...SETTINGS, memories: [1769] });
  // Dollars per million: 16 records 0.1433, 32 records 0.1326, 64 records 0.1276.
  assert.deepEqual(found?.config, {
    threadPerModel: 0,
    'function.memoryMB': 1769,
    batchSize: 32,
    'queue.batchSize': 32,
    'queue.windowSeconds': 1,
  });
});

test('a longer window of the job stays', () => {
  const job = { ...DEFAULT_JOB, queue: { ...DEFAULT_JOB.queue, windowSeconds: 20 } };
  assert.equal(chosen(light(), 'cheapest', { job })?.config['queue.windowSeconds'], 20);
});

test('for the lowest latency no record waits in a window', () => {
  const found = chosen(light(), 'latency');
  assert.ok((found?.batch?.records ?? 99) <= 10);
  assert.equal(found?.config['queue.windowSeconds'], 0);
});

test('with a limit the batch keeps it too', () => {
  // 8 records take 480 ms with two threads, 4 take 240.
  const found = chosen(heavy(), 'latency', { limitMs: 300, traffic: 'batch' });
  assert.ok((found?.batch?.p99Ms ?? 999) <= 300);
  assert.equal(found?.predict, undefined);
});

test('a model whose batch is fixed gets no batchSize, and events all the same', () => {
  const found = chosen(light(), 'cheapest', { hasFreeBatch: false });
  assert.equal(found?.config['batchSize'], undefined);
  assert.ok(found?.config['queue.batchSize'] !== undefined);
});

test('for predict alone nothing of the queue is changed', () => {
  const found = chosen(light(), 'cheapest', { traffic: 'predict' });
  assert.deepEqual(Object.keys(found?.config ?? {}), ['threadPerModel', 'function.memoryMB']);
  assert.equal(found?.batch, undefined);
});

test('a setting that was run with fewer cores is not recommended, also where nothing else holds the model', () => {
  const memories = [1769, 5307];
  assert.equal(chosen(heavy(), 'latency', {}, { ...SETTINGS, memories })?.setting.memoryMB, 1769);
  assert.equal(chosen(heavy({ neededMB: 4_000 }), 'cheapest', {}, { ...SETTINGS, memories }), undefined);
});

test('nothing is recommended where nothing was measured', () => {
  assert.equal(chosen([], 'cheapest'), undefined);
  assert.equal(chosen([measuredAt('predict', 1, 1, 5)], 'cheapest'), undefined);
});

test('arm64 is chosen by its own price', () => {
  const found = chosen(heavy(), 'cheapest', { arch: 'arm64' });
  const costs = found?.predict?.costs;
  assert.ok(costs && costs.arm64.time < costs.x86_64.time);
});
