import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';

test('what may be repeated is tried twice when the connection breaks, anything else once', async (t) => {
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
  t.after(() => connection.close());
  let tries = 0;
  const failing = () => {
    tries++;
    return Promise.reject(new Error('the connection broke'));
  };
  await assert.rejects(connection.use(failing, false), { code: 'results_unavailable' });
  assert.equal(tries, 1);
  await assert.rejects(connection.use(failing, true), { code: 'results_unavailable' });
  assert.equal(tries, 3);
});

test('the late error of an old connection does not end the one that has taken its place', async (t) => {
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
  t.after(() => connection.close());
  let fail: (error: Error) => void = () => undefined;
  const late = connection.use(
    () =>
      new Promise((_, reject) => {
        fail = reject;
      }),
    false,
  );
  const idOf = () => connection.use((redis) => redis.client('ID'), true);
  const first = await idOf();
  await assert.rejects(
    connection.use(() => Promise.reject(new Error('the connection broke')), false),
    { code: 'results_unavailable' },
  );
  const second = await idOf();
  assert.notEqual(second, first);
  fail(new Error('too late'));
  await assert.rejects(late, { code: 'results_unavailable' });
  assert.equal(await idOf(), second);
});
