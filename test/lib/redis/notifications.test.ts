/** Waiting for a result ends by messages, and by looking again. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import type { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultNotifications } from '../../../lib/redis/notifications.ts';

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

/** True if a wait has ended once all due timers have run. */
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
