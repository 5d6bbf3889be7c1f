/** The bucket of the rate limiter in Redis. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { limiterKey } from '../../../lib/contract/names.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RateLimiter } from '../../../lib/redis/rate-limiter.ts';
import { startRedis } from '../../../local/redis/start.ts';
import { temporaryFolder } from '../../support/runner.ts';

async function bucket(t: TestContext, tokensPerSecond: number, acquireTimeoutMs = 100) {
  const waits: number[] = [];
  const redis = await startRedis({ dataDir: await temporaryFolder(t), port: 0, log: () => undefined });
  t.after(() => redis.close());
  const connection = openRedis(redis.url);
  t.after(() => connection.close());
  await connection.redis.connect();
  const limiter = new RateLimiter(connection, {
    job: 'job',
    tokensPerSecond,
    acquireTimeoutMs,
    sleep: async (ms) => void waits.push(ms),
    onError: (error) => assert.fail(String(error)),
  });
  return { limiter, waits, redis: connection.redis };
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

test('a call waits until the bucket has a token, by the clock of Redis, and the next one as much longer', async (t) => {
  const { limiter, waits, redis } = await bucket(t, 1, 5_000);
  const [seconds, micros] = await redis.time();
  const now = Number(seconds) * 1_000 + Number(micros) / 1_000;
  await redis.set(limiterKey('job'), String(now + 1_000));
  for (let i = 0; i < 3; i++) await limiter.acquire();
  const [first = 0, second = 0, third = 0] = waits;
  assert.ok(first <= 1_000 && second <= first + 1_000 && third <= second + 1_000, waits.join());
  assert.ok(second > first && third > second, waits.join());
});
