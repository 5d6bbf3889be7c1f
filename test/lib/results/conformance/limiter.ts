/** The requests per second of all environments together. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ServingError } from '../../../../lib/contract/errors.ts';
import type { At, Environment } from './world.ts';

/** Notes how long each sleep would be, and does not sleep. */
function limiters(tokensPerSecond: number, acquireTimeoutMs: number) {
  const slept: number[] = [];
  const signals: unknown[] = [];
  const make = (environment: Environment) =>
    environment.openLimiter({
      tokensPerSecond,
      acquireTimeoutMs,
      sleep: async (ms, signal) => {
        slept.push(ms);
        signals.push(signal);
      },
      onError: (error) => assert.fail(String(error)),
    });
  return { make, slept, signals };
}

export function describeLimiter(at: At): void {
  test("two environments share one second's tokens, and what is over waits or is refused", async (t) => {
    // One token a minute: no token comes back while this runs, however slow the machine.
    const place = at(t);
    const { make, slept } = limiters(1 / 60, 100);
    const [one, two] = [make(place.open()), make(place.open())];
    await one.acquire();
    for (const limiter of [one, two]) {
      await assert.rejects(limiter.acquire(), (error: ServingError) => {
        assert.deepEqual([error.code, error.status], ['rate_limited', 429]);
        assert.ok((error.retryAfterSeconds as number) > 50 && (error.retryAfterSeconds as number) <= 60);
        return true;
      });
    }
    assert.deepEqual(slept, []);
    await make(place.openOther()).acquire();
  });

  test('a request waits for its token as long as it may', async (t) => {
    const { make, slept } = limiters(1 / 10, 60_000);
    const limiter = make(at(t).open());
    for (let i = 0; i < 5; i++) await limiter.acquire();
    // The first goes at once; each next one waits ten seconds longer, less the time that passed.
    assert.equal(slept.length, 4);
    for (const [i, ms] of slept.entries()) assert.ok(ms <= (i + 1) * 10_000 && ms > i * 10_000, slept.join());
    assert.ok((slept.at(-1) as number) > (slept[0] as number));
  });

  test('the bucket holds the tokens of one second, and what is over waits for those of the next', async (t) => {
    const { make, slept } = limiters(4, 60_000);
    const limiter = make(at(t).open());
    await limiter.acquire();
    const startedMs = performance.now();
    for (let i = 1; i < 20; i++) await limiter.acquire();
    // The last is the sixteenth beyond the first second's four.
    const elapsedMs = performance.now() - startedMs;
    const lastMs = slept.at(-1) as number;
    assert.ok(lastMs <= 4_000 && lastMs >= 4_000 - elapsedMs - 250, `${lastMs} after ${elapsedMs} ms`);
  });

  test('a caller who leaves while it waits gives its token back', async (t) => {
    const { make, slept, signals } = limiters(1 / 10, 15_000);
    const limiter = make(at(t).open());
    await limiter.acquire();
    const gone = { presence: 'gone', signal: AbortSignal.abort() } as const;
    for (let i = 0; i < 5; i++) await assert.rejects(limiter.acquire(gone), { code: 'cancelled' });
    await limiter.acquire();
    assert.equal(slept.length, 6);
    assert.ok(slept.every((ms) => ms <= 10_000));
    assert.deepEqual(new Set(signals), new Set([gone.signal, undefined]), 'who leaves is not waited for');
    await assert.rejects(limiter.acquire(), { code: 'rate_limited' });
  });
}
