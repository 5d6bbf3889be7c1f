/** Waits for a result: how long they may be, and what they leave behind. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { assertWaitMs, orAborted } from '../../../lib/results/wait-deadline.ts';

test('a wait is a number of ms from 0 on; anything else would always compare as false', () => {
  for (const timeoutMs of [Number.NaN, -1, '5', undefined, null]) {
    assert.throws(() => assertWaitMs(timeoutMs as number), { code: 'bad_request' }, String(timeoutMs));
  }
  assert.deepEqual([0, 0.5, 1_000].map(assertWaitMs), [0, 1, 1_000]);
});

test('a wait that is longer than a timer can take is as long as a timer can take', () => {
  assert.deepEqual([2 ** 31 - 1, 2 ** 31, Infinity].map(assertWaitMs), Array(3).fill(2 ** 31 - 1));
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('work that continues after its signal is ignored, and no listener stays however it ends', async () => {
  const stop = new AbortController();
  const listeners = () => getEventListeners(stop.signal, 'abort').length;
  assert.equal(await orAborted(Promise.resolve(7), stop.signal), 7);
  await assert.rejects(orAborted(Promise.reject(new Error('failed')), stop.signal), /failed/);
  assert.equal(listeners(), 0);
  const { promise, reject } = Promise.withResolvers<void>();
  const waiting = orAborted(promise, stop.signal);
  assert.equal(listeners(), 1);
  stop.abort(new Error('left'));
  await assert.rejects(waiting, /left/);
  assert.equal(listeners(), 0);
  reject(new Error('too late'));
  await turn();
});
