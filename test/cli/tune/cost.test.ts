/** The price of a million predictions, computed by hand; the document and the code use the same prices. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  batchCost,
  memoryForPeak,
  msAt,
  predictCost,
  type SettingResult,
  settingResults,
} from '../../../cli/tune/cost.ts';
import { timesOf } from '../../../cli/tune/points.ts';
import { PRICES } from '../../../lib/contract/prices.ts';
import { billedMs, gigabyteSeconds } from '../../../lib/metrics/cost.ts';
import { ROOT } from '../cli.ts';
import { measuredAt } from './support.ts';

const near = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual - expected) < 1e-6 * Math.max(1, expected), `${actual} is not ${expected}`);

test('the prices are those of docs/explanation/costs.md', async () => {
  const costs = await readFile(join(ROOT, 'docs/explanation/costs.md'), 'utf8');
  const price = (pattern: RegExp) => Number(pattern.exec(costs)?.[1]);
  assert.equal(PRICES.perGBSecond.x86_64, price(/^\| Lambda, time .*\| ([\d.]+) per GB-second; arm64/m));
  assert.equal(PRICES.perGBSecond.arm64, price(/^\| Lambda, time .* arm64 ([\d.]+) \|$/m));
  assert.equal(PRICES.invocationsPerMillion, price(/^\| Lambda, requests .*\| ([\d.]+) per million \|$/m));
  assert.equal(PRICES.apiRequestsPerMillion, price(/^\| HTTP API .*\| ([\d.]+) per million \|$/m));
  assert.equal(PRICES.queueRequestsPerMillion, price(/^\| SQS .*\| ([\d.]+) per million \|$/m));
  const s3 = /^\| S3 .*; ([\d.]+) and ([\d.]+) per million \|$/m.exec(costs);
  assert.deepEqual([PRICES.s3PutsPerMillion, PRICES.s3GetsPerMillion], [Number(s3?.[1]), Number(s3?.[2])]);
  assert.ok(costs.includes(PRICES.region));
});

test('the GB-seconds of the examples in docs/explanation/costs.md come out of the same formula', async () => {
  const costs = await readFile(join(ROOT, 'docs/explanation/costs.md'), 'utf8');
  const examples = [...costs.matchAll(/([\d.,]+( M)?) × ([\d.]+) ms × m = ([\d,]+) GB-s: ([\d.]+)/g)];
  assert.equal(examples.length, 2);
  for (const [, count = '', million, ms, told = '', dollars] of examples) {
    const calls = Number(count.replace(/,| M/g, '')) * (million ? 1e6 : 1);
    const seconds = gigabyteSeconds(calls, Number(ms), 1769);
    // The document rounds m to 1.7275 GB.
    const share = seconds / Number(told.replace(',', ''));
    assert.ok(Math.abs(share - 1) < 1e-4, `${seconds} is not ${told}`);
    assert.equal((seconds * PRICES.perGBSecond.x86_64).toFixed(2), dollars);
  }
});

test('a started millisecond is billed whole, and a whole one is not billed twice', () => {
  assert.deepEqual([4.1, 4, 4.000_000_000_001, 0.03].map(billedMs), [5, 4, 4, 1]);
});

test('a million requests: 4.1 ms with 1,769 MB are 5 ms of 1.7275 GB, and 1.20 for requests', () => {
  const cost = predictCost(4.1, 1769, 2_000, 'x86_64');
  // 1e6 × 0.005 s × 1769 / 1024 GB = 8,637.695 GB-s, × 0.0000166667
  near(cost.time, 0.143_961_9);
  near(cost.requests, 1.2);
  near(cost.total, 1.343_961_9);
  near(predictCost(4.1, 1769, 2_000, 'arm64').time, 0.115_169_8);
});

test('of a million requests, one in 100 that starts an environment has its INIT billed, and 99 do not', () => {
  const { time, requests } = predictCost(4.1, 1024, 2_000, 'x86_64', { share: 0.01, ms: 200.3 });
  // 990,000 × 5 ms and 10,000 × 201 ms of 1 GB
  near(time, (4_950 + 2_010) * PRICES.perGBSecond.x86_64);
  near(requests, 1.2);
});

test('what takes 1 ms with a vCPU takes as much longer as the memory buys less, and no less with more', () => {
  near(msAt(1, 1769 / 4), 4);
  assert.deepEqual([msAt(1, 1769), msAt(1, 3538)], [1, 1]);
});

test('the least memory that holds a peak is a whole MB, and 128 at least', () => {
  assert.deepEqual([53.7, 128, 128.2].map(memoryForPeak), [128, 128, 129]);
});

test('a request over 512 KB counts as two at the HTTP API', () => {
  near(predictCost(4.1, 1769, 512 * 1024, 'x86_64').requests, 1.2);
  near(predictCost(4.1, 1769, 512 * 1024 + 1, 'x86_64').requests, 2.2);
});

test('a million records in events of 32: 31,250 events, and a tenth of three requests to SQS for each record', () => {
  const cost = batchCost({ ms: 38.2, memoryMB: 1769, records: 32, messageBytes: 1_000 }, 'x86_64');
  // 31,250 × 0.039 s × 1769 / 1024 GB = 2,105.438 GB-s
  near(cost.time, 0.035_090_7);
  // 31,250 × 0.20 per million, and 300,000 × 0.40 per million
  near(cost.requests, 0.006_25 + 0.12);
  near(cost.total, 0.161_340_7);
});

test('messages of 20 kB in events of 4: ten sent are 4 units, four received 2, four deleted 1', () => {
  const { requests } = batchCost({ ms: 1, memoryMB: 1024, records: 4, messageBytes: 20_000 }, 'x86_64');
  near(requests, 0.2 / 4 + (4 / 10 + 2 / 4 + 1 / 4) * 0.4);
});

test('a message of 800 kB is sent and received alone, 13 units each', () => {
  const { requests } = batchCost({ ms: 1, memoryMB: 1024, records: 7, messageBytes: 800_000 }, 'x86_64');
  near(requests, 0.2 / 7 + (13 + 13 + 1 / 7) * 0.4);
});

test('a record over 1 MiB is a PUT and a GET in S3, and a small message', () => {
  const { requests } = batchCost({ ms: 1, memoryMB: 1024, records: 10, messageBytes: 2_000_000 }, 'x86_64');
  near(requests, 0.02 + 0.12 + 5.4);
});

const FACTS = { messageBytes: 1_000, requestBytes: 1_000 };
const SETTINGS = { cores: 2, overheadMs: 3, timeoutSeconds: 30 };

function at(results: readonly SettingResult[], memoryMB: number, threads: number): SettingResult {
  const found = results.find(({ setting }) => setting.memoryMB === memoryMB && setting.threads === threads);
  assert.ok(found, `${memoryMB} MB with ${threads}`);
  return found;
}

test('below one vCPU the time is divided by the share, and what Lambda adds is not', () => {
  const points = [measuredAt('predict', 1, 1, 10)];
  const { results } = settingResults(points, FACTS, { ...SETTINGS, memories: [885, 1769] });
  near(at(results, 1769, 1).predict?.ms ?? 0, 13);
  near(at(results, 885, 1).predict?.ms ?? 0, (10 * 1769) / 885 + 3);
  assert.deepEqual(
    results.map(({ setting }) => setting.basis),
    ['scaled', 'measured'],
  );
});

test('a thread count needs its vCPUs: two threads appear from 3,538 MB on', () => {
  const points = [measuredAt('predict', 1, 1, 10), measuredAt('predict', 2, 1, 6)];
  const { results } = settingResults(points, FACTS, { ...SETTINGS, memories: [1769, 3537, 3538] });
  const pairs = results.map(({ setting }) => [setting.memoryMB, setting.threads]);
  assert.deepEqual(pairs, [
    [1769, 1],
    [3537, 1],
    [3538, 1],
    [3538, 2],
  ]);
});

test('a memory that does not hold the model is left out with what it needs, a batch that does not fit alone', () => {
  const points = [
    measuredAt('predict', 1, 1, 10, { neededMB: 600 }),
    measuredAt('batch', 1, 1, 10, { neededMB: 600 }),
  ];
  points.push(measuredAt('batch', 1, 64, 300, { neededMB: 1_500 }));
  const { results, excluded } = settingResults(points, FACTS, { ...SETTINGS, memories: [512, 1024, 1769] });
  assert.deepEqual(excluded, [{ memoryMB: 512, reason: 'too little: the model needs 600 MB' }]);
  assert.deepEqual(
    at(results, 1024, 1).batches.map(({ records }) => records),
    [1],
  );
  assert.deepEqual(
    at(results, 1769, 1).batches.map(({ records }) => records),
    [1, 64],
  );
});

test('memory with more vCPUs than this machine has is said not to be measured', () => {
  const points = [measuredAt('predict', 1, 1, 10), measuredAt('predict', 2, 1, 6)];
  const { results, excluded } = settingResults(points, FACTS, { ...SETTINGS, memories: [5307] });
  assert.deepEqual(excluded, [{ memoryMB: 5307, reason: '3 vCPUs, this machine has 2: not measured' }]);
  assert.ok(results.every(({ setting }) => setting.basis === 'fewer cores'));
});

test('a batch that takes more than half of the time limit is not offered', () => {
  const points = [measuredAt('batch', 1, 8, 996), measuredAt('batch', 1, 16, 998)];
  const { results } = settingResults(points, FACTS, { ...SETTINGS, timeoutSeconds: 2, memories: [1769] });
  assert.deepEqual(
    at(results, 1769, 1).batches.map(({ records }) => records),
    [8],
  );
});

test('a median is that of the blocks, so one slow block does not move it; p99 sees every call', () => {
  const times = timesOf([
    [1, 1, 1],
    [2, 2, 2],
    [90, 80, 100],
  ]);
  assert.deepEqual(times, { median: 2, low: 1, high: 90, p99: 100, calls: 9 });
});
