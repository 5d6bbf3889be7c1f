/** Waits for a result: how long they may be, what wakes them, and what they leave behind. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import type { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultNotifications } from '../../../lib/redis/notifications.ts';
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

/** A Redis of which only the subscriptions are known. */
function subscriptions() {
  const done: string[] = [];
  let failures = 0;
  let isNeeded = () => false;
  let publish: (channel: string) => void = () => undefined;
  const connection = {
    subscriber: async (onMessage: typeof publish, needed: typeof isNeeded) => {
      [publish, isNeeded] = [onMessage, needed];
      done.push('open');
      return {
        subscribe: async (channel: string) => {
          if (failures-- > 0) throw new Error('broken');
          done.push(`+${channel}`);
        },
        unsubscribe: async (channel: string) => void done.push(`-${channel}`),
        disconnect: () => void done.push('end'),
      };
    },
    unavailable: (error: unknown) => error,
  } as unknown as RedisConnection;
  return {
    notifications: new ResultNotifications(connection),
    done,
    publish: (channel: string) => publish(channel),
    isNeeded: () => isNeeded(),
    /** How many of the next attempts to subscribe fail. */
    fail: (times: number) => {
      failures = times;
    },
  };
}

/** Whether a wait has ended, after what is due has run. */
async function hasEnded(wait: Promise<unknown>): Promise<boolean> {
  let ended = false;
  void wait.then(() => (ended = true));
  await turn();
  return ended;
}

test('a wait ends at a message, also one that came between two waits, and looks again after 5 s without one', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { notifications, publish } = subscriptions();
  const { signal } = new AbortController();
  const subscribed = await notifications.subscribe('a');
  const next: typeof subscribed.next = (...given) => subscribed.next(...given);
  const first = next(signal);
  publish('b');
  assert.equal(await hasEnded(first), false);
  publish('a');
  assert.equal(await hasEnded(first), true);
  publish('a');
  assert.equal(await hasEnded(next(signal)), true);
  // The look of a wait that a message ended does not take the message of a later one.
  t.mock.timers.tick(1_000);
  const later = next(signal);
  t.mock.timers.tick(4_500);
  publish('a');
  assert.equal(await hasEnded(later), true);
  const quiet = next(signal);
  t.mock.timers.tick(4_999);
  assert.equal(await hasEnded(quiet), false);
  t.mock.timers.tick(1);
  assert.equal(await hasEnded(quiet), true);
  assert.deepEqual(getEventListeners(signal, 'abort'), []);
});

test('a wait ends with its signal, and begins no more once that is aborted', async () => {
  const { notifications } = subscriptions();
  const subscribed = await notifications.subscribe('a');
  const next: typeof subscribed.next = (...given) => subscribed.next(...given);
  const stop = new AbortController();
  const waiting = next(stop.signal);
  stop.abort(new Error('left'));
  await assert.rejects(waiting, /left/);
  await assert.rejects(next(stop.signal), /left/);
  assert.deepEqual(getEventListeners(stop.signal, 'abort'), []);
});

test('a channel is left with its last listener, and the connection is needed as long as there is one', async () => {
  const { notifications, done, isNeeded } = subscriptions();
  const [one, two] = [await notifications.subscribe('a'), await notifications.subscribe('a')];
  one.stop();
  await turn();
  assert.deepEqual([done, isNeeded()], [['open', '+a', '+a'], true]);
  two.stop();
  two.stop();
  await turn();
  assert.deepEqual([done.slice(3), isNeeded()], [['-a'], false]);
  notifications.close();
  await turn();
  assert.equal(done.at(-1), 'end');
});

test('a kept connection that is broken is replaced once, and a failure leaves no listener', async () => {
  const { notifications, done, fail, isNeeded } = subscriptions();
  const kept = await notifications.subscribe('a');
  fail(1);
  const other = await notifications.subscribe('b');
  assert.deepEqual(done, ['open', '+a', 'open', 'end', '+b']);
  for (const one of [kept, other]) one.stop();
  fail(2);
  await assert.rejects(notifications.subscribe('c'), /broken/);
  assert.equal(isNeeded(), false);
});

test('work that goes on after its signal is ignored, and no listener stays however it ends', async () => {
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
