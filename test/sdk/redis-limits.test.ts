/** A client has more time for Redis than the service, because it may be far from it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { openStates } from '../../sdk/redis-results.ts';

test('a client waits 5 s for a connection to Redis and for an answer, the service 1 s', async () => {
  const client = openStates('redis://127.0.0.1:1', 'j').connection;
  const service = new RedisConnection('redis://127.0.0.1:1');
  const limits = [client, service].map(({ redis: { options } }) => [
    options.connectTimeout,
    options.commandTimeout,
  ]);
  assert.deepEqual(limits, [
    [5_000, 5_000],
    [1_000, 1_000],
  ]);
  await Promise.all([client.close(), service.close()]);
});
