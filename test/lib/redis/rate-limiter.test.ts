/** The bucket of the rate limiter in Redis. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { limiterKey } from '../../../lib/contract/names.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RateLimiter } from '../../../lib/redis/rate-limiter.ts';
import { startRedis } from '../../../local/redis/start.ts';
import { temporaryFolder } from '../../support/runner.ts';

async function bucket(t: TestContext, tokensPerSecond: number) {
  const redis = await startRedis({ dataDir: await temporaryFolder(t), port: 0, log: () => undefined });
  t.after(() => redis.close());
  const connection = openRedis(redis.url);
  t.after(() => connection.close());
  await connection.redis.connect();
  const limiter = new RateLimiter(connection, {
    job: 'job',
    tokensPerSecond,
    acquireTimeoutMs: 100,
    sleep: async () => undefined,
    onError: (error) => assert.fail(String(error)),
  });
  return { limiter, redis: connection.redis };
}

test('a bucket that a clock an hour ahead filled up refuses none', async (t) => {
  const { limiter, redis } = await bucket(t, 1);
  await redis.set(limiterKey('job'), String(Date.now() + 3_600_000));
  await limiter.acquire();
});

test('a caller who has gone gives its token back to the next one', async (t) => {
  const { limiter } = await bucket(t, 0.01);
  const gone = { presence: 'gone', signal: AbortSignal.abort() } as const;
  await assert.rejects(limiter.acquire(gone));
  await limiter.acquire();
  await assert.rejects(limiter.acquire(), { code: 'rate_limited' });
});
