/** In which order entries of a stream are written elsewhere and removed, with a Redis that fails where a test says so. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { type DeadEntry, StreamConsumer } from '../../../lib/redis/stream.ts';
import { redisUrl } from '../../support/redis.ts';

const DEAD: readonly DeadEntry[] = ['1-0', '2-0'].map((id) => ({
  entry: { id, fields: new Map([['uri', Buffer.from('a')]]) },
  reason: 'no data',
}));
const REPLY = new Error('OOM command not allowed');

/** @param failing the command that fails */
function consumer(failing: string) {
  const done: string[] = [];
  const command = async (name: string, ...values: unknown[]) => {
    await nextTurn();
    if (name === failing) throw REPLY;
    done.push([name, ...values].join(' '));
    return values.length;
  };
  const chain: [Error | null, unknown][] = [];
  const queued = (name: string, ...values: unknown[]) => {
    chain.push([name === failing ? REPLY : null, values.length]);
    done.push([name, ...values].join(' '));
    return multi;
  };
  const multi = {
    xack: (...values: unknown[]) => queued('xack', ...values),
    xdel: (...values: unknown[]) => queued('xdel', ...values),
    exec: async () => chain.splice(0),
  };
  const redis = {
    rpush: (list: string, ...texts: string[]) => command('rpush', list, texts.length),
    ltrim: (...values: unknown[]) => command('ltrim', ...values),
    multi: () => multi,
  };
  const connection = new RedisConnection('redis://localhost:1');
  connection.use = (work) => work(redis as unknown as Redis);
  const stream = new StreamConsumer(connection, { stream: 's', group: 'g', consumer: 'c' });
  return { stream, done };
}

const LISTED = ['rpush s:dead 2'];
const REMOVED = ['xack s g 1-0 2-0', 'xdel s 1-0 2-0'];

test("a dead entry leaves the stream when it is in the list, even if the list's length cannot be set", async () => {
  for (const [failing, expected] of [
    ['', [...LISTED, 'ltrim s:dead -1000 -1', ...REMOVED]],
    ['ltrim', [...LISTED, ...REMOVED]],
  ] as const) {
    const { stream, done } = consumer(failing);
    await stream.reject(DEAD);
    assert.deepEqual(done, expected, failing);
  }
  const { stream, done } = consumer('rpush');
  await assert.rejects(stream.reject(DEAD), REPLY);
  assert.deepEqual(done, []);
});

test('an entry that could not be removed is an error, and no entry needs no Redis', async () => {
  for (const failing of ['xack', 'xdel']) {
    const { stream } = consumer(failing);
    await assert.rejects(stream.reject(DEAD), { code: 'results_unavailable', cause: REPLY }, failing);
  }
  const { stream, done } = consumer('');
  await stream.remove([]);
  await stream.reject([]);
  assert.deepEqual(done, []);
});

test('consumers that are idle are forgotten, but none with entries, none that was heard of, and not this one', async () => {
  const facts = (name: string, pending: number, idle: number) => [
    'name',
    name,
    'pending',
    pending,
    'idle',
    idle,
  ];
  const asked: unknown[][] = [];
  const redis = {
    xinfo: async (...values: unknown[]) => {
      asked.push(values);
      return [facts('gone', 0, 1_000), facts('busy', 1, 9_000), facts('new', 0, 999), facts('c', 0, 9_000)];
    },
    xgroup: async (...values: unknown[]) => {
      await nextTurn();
      asked.push(values);
      throw REPLY;
    },
  };
  const connection = new RedisConnection('redis://localhost:1');
  connection.use = (work) => work(redis as unknown as Redis);
  const stream = new StreamConsumer(connection, { stream: 's', group: 'g', consumer: 'c' });
  await assert.rejects(stream.forgetConsumers(1_000), REPLY);
  assert.deepEqual(asked, [
    ['CONSUMERS', 's', 'g'],
    ['DELCONSUMER', 's', 'g', 'gone'],
  ]);
});

for (const preferEmbedded of [false, true])
  test(`${preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine'}: a stream has one holder, until it gives it back or was silent for too long`, async (t) => {
    const connection = openRedis(await redisUrl(t, preferEmbedded));
    t.after(() => connection.close());
    const stream = new StreamConsumer(connection, { stream: 's', group: 'g', consumer: 'c' });
    assert.equal(await stream.hold('ab', '1', ''), '');
    // Neither is it that of a holder whose name begins or ends alike.
    for (const other of ['a', 'abc', 'b', 'xb'])
      assert.equal(await stream.hold(other, '1', ''), 'ab 1', other);
    assert.equal(await stream.hold('ab', '2', ''), '');
    assert.equal(await stream.hold('b', '1', 'ab 1'), 'ab 2');
    assert.equal(await stream.hold('b', '1', 'ab 2'), '');
    for (const other of ['ab', 'xb', '']) await stream.release(other);
    assert.equal(await stream.hold('ab', '3', ''), 'b 1');
    await stream.release('b');
    assert.equal(await stream.hold('ab', '3', ''), '');
  });
