/** The bucket of the rate limiter in Redis. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limiterKey } from '../../../lib/contract/names.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RateLimiter } from '../../../lib/redis/rate-limiter.ts';
import { startRedis } from '../../../local/redis/start.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('a bucket that a clock an hour ahead filled up refuses none', async (t) => {
  const redis = await startRedis({ dataDir: await temporaryFolder(t), port: 0, log: () => undefined });
  t.after(() => redis.close());
  const connection = openRedis(redis.url);
  t.after(() => connection.close());
  await connection.redis.connect();
  await connection.redis.set(limiterKey('job'), String(Date.now() + 3_600_000));
  const limiter = new RateLimiter(connection, {
    job: 'job',
    tokensPerSecond: 1,
    acquireTimeoutMs: 100,
    sleep: async () => undefined,
    onError: (error) => assert.fail(String(error)),
  });
  await limiter.acquire();
});
