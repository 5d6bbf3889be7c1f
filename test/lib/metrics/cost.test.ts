/** The costs of calls, against sums that are calculated here by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callCost, objectCost, queueCost, requestCost, timeCost } from '../../../lib/metrics/cost.ts';

const near = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual - expected) < 1e-15, `${actual} is not ${expected}`);

test('a second of 1,769 MB costs 1769/1024 GB-seconds, by processor', () => {
  near(timeCost(1_000, { memoryMB: 1_769, arch: 'x86_64' }), (1_769 / 1_024) * 0.000_016_666_7);
  near(timeCost(1_000, { memoryMB: 1_769, arch: 'arm64' }), (1_769 / 1_024) * 0.000_013_333_4);
});

test('a call is an invocation with 900 bytes of log, and a trace where it is recorded', () => {
  near(callCost(false), 0.2e-6 + 900e-9 * 0.5);
  near(callCost(true), 0.2e-6 + 5e-6 + 900e-9 * 0.5);
});

test('a request is billed for each 512 KB of its body, and has 400 bytes of log', () => {
  const log = 400e-9 * 0.5;
  near(requestCost(0), 1e-6 + log);
  near(requestCost(512 * 1_024), 1e-6 + log);
  near(requestCost(512 * 1_024 + 1), 2e-6 + log);
  near(requestCost(6 * 1_024 * 1_024), 12e-6 + log);
});

test('messages are sent, received and deleted in tens, and each 64 KB of them is a request', () => {
  near(queueCost(0, 0), 0);
  near(queueCost(1, 100), 3 * 0.4e-6);
  near(queueCost(10, 10_000), 3 * 0.4e-6);
  near(queueCost(32, 32_000), 3 * 4 * 0.4e-6);
  near(queueCost(1, 1_048_576), (2 * 16 + 1) * 0.4e-6);
});

test('objects are put for 5 and got for 0.4 dollars a million', () => {
  near(objectCost(2, 1), 10.4e-6);
});
