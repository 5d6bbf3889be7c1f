import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ServingError } from '../../../lib/contract/errors.ts';
import { limiterKey } from '../../../lib/contract/names.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RateLimiter } from '../../../lib/redis/rate-limiter.ts';
import { startRedis } from '../../../local/redis/start.ts';
import { temporaryFolder } from '../../support/runner.ts';

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  const limiters = async (t: TestContext, tokensPerSecond: number, acquireTimeoutMs: number) => {
    const redis = await startRedis({
      dataDir: await temporaryFolder(t),
      port: 0,
      preferEmbedded,
      log: () => undefined,
    });
    t.after(() => redis.close());
    const slept: number[] = [];
    const make = () => {
      const connection = openRedis(redis.url);
      t.after(() => connection.close());
      return new RateLimiter(connection, {
        job: 'job',
        tokensPerSecond,
        acquireTimeoutMs,
        sleep: async (ms) => void slept.push(ms),
        onError: (error) => assert.fail(String(error)),
      });
    };
    return { make, slept };
  };

  test(`${kind}: two environments share one second's tokens, and what is over waits or is refused`, async (t) => {
    // One token a minute: no token comes back while this runs, however slow the machine.
    const { make, slept } = await limiters(t, 1 / 60, 100);
    const [one, two] = [make(), make()];
    await one.acquire();
    for (const limiter of [one, two]) {
      await assert.rejects(limiter.acquire(), (error: ServingError) => {
        assert.deepEqual([error.code, error.status], ['rate_limited', 429]);
        assert.ok((error.retryAfterSeconds as number) > 50 && (error.retryAfterSeconds as number) <= 60);
        return true;
      });
    }
    assert.deepEqual(slept, []);
  });

  test(`${kind}: a request waits for its token as long as it may`, async (t) => {
    const { make, slept } = await limiters(t, 1 / 10, 60_000);
    const limiter = make();
    for (let i = 0; i < 5; i++) await limiter.acquire();
    // The first goes at once; each next one waits ten seconds longer, less the time that passed.
    assert.equal(slept.length, 4);
    for (const [i, ms] of slept.entries()) assert.ok(ms <= (i + 1) * 10_000 && ms > i * 10_000, slept.join());
    assert.ok((slept.at(-1) as number) > (slept[0] as number));
  });

  test(`${kind}: the bucket holds the tokens of one second, and what is over waits for those of the next`, async (t) => {
    const { make, slept } = await limiters(t, 4, 60_000);
    const limiter = make();
    await limiter.acquire();
    const startedMs = performance.now();
    for (let i = 1; i < 20; i++) await limiter.acquire();
    // The last is the sixteenth beyond the first second's four.
    const elapsedMs = performance.now() - startedMs;
    const lastMs = slept.at(-1) as number;
    assert.ok(lastMs <= 4_000 && lastMs >= 4_000 - elapsedMs - 250, `${lastMs} after ${elapsedMs} ms`);
  });

  test(`${kind}: a caller who leaves while it waits gives its token back`, async (t) => {
    const { make, slept } = await limiters(t, 1 / 10, 15_000);
    const limiter = make();
    await limiter.acquire();
    const gone = { presence: 'gone', signal: AbortSignal.abort() } as const;
    for (let i = 0; i < 5; i++) await assert.rejects(limiter.acquire(gone), { code: 'cancelled' });
    await limiter.acquire();
    assert.equal(slept.length, 6);
    assert.ok(slept.every((ms) => ms <= 10_000));
    await assert.rejects(limiter.acquire(), { code: 'rate_limited' });
  });
}

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

test('a Redis that is away lets requests pass and says so', async (t) => {
  const connection = openRedis('redis://127.0.0.1:1');
  t.after(() => connection.close());
  const errors: unknown[] = [];
  const limiter = new RateLimiter(connection, {
    job: 'job',
    tokensPerSecond: 1,
    acquireTimeoutMs: 1,
    sleep: async () => undefined,
    onError: (error) => errors.push(error),
  });
  await limiter.acquire();
  assert.equal((errors[0] as ServingError).code, 'results_unavailable');
});
