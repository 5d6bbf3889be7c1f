import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertWaitMs } from '../../../lib/redis/wait-deadline.ts';

test('a wait is a number of ms from 0 on; anything else would always compare as false', () => {
  for (const timeoutMs of [Number.NaN, -1, '5', undefined, null]) {
    assert.throws(() => assertWaitMs(timeoutMs as number), { code: 'bad_request' }, String(timeoutMs));
  }
  assert.deepEqual([0, 0.5, 1_000].map(assertWaitMs), [0, 1, 1_000]);
});

test('a wait that is longer than a timer can take is as long as a timer can take', () => {
  assert.deepEqual([2 ** 31 - 1, 2 ** 31, Infinity].map(assertWaitMs), Array(3).fill(2 ** 31 - 1));
});
