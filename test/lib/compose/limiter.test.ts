import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { limiter } from '../../../lib/compose/limiter.ts';
import { connection, results } from '../../../lib/compose/results.ts';
import { Scope } from '../../../lib/compose/scope.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { resultKey } from '../../../lib/contract/names.ts';
import { redisUrl } from '../../support/redis.ts';

const DAY_MS = 86_400_000;

function scopeOf(tokenBucketEnabled: boolean): Scope {
  const http = { ...DEFAULT_JOB.http, tokenBucketEnabled };
  const variables = {
    CLUSTER_SERVING_REDIS_URL: 'redis://127.0.0.1:9',
    CLUSTER_SERVING_CONFIG: JSON.stringify({ http }),
  };
  return new Scope(readEnvironment(variables));
}

test('a result stays for a day by default', async (t) => {
  const url = await redisUrl(t);
  const scope = new Scope(readEnvironment({ CLUSTER_SERVING_REDIS_URL: url }));
  const store = scope.get(results);
  t.after(() => store.close());
  const fields = { status: 'succeeded', value: '[]', error: '', outputs: '', exact: '' } as const;
  await store.save([{ uri: 'a', fields }], 'v');
  const { redis } = scope.get(connection);
  const leftMs = await redis.pttl(resultKey(DEFAULT_JOB.jobName, 'a'));
  assert.ok(leftMs > DAY_MS - 60_000 && leftMs <= DAY_MS, `${leftMs}`);
});

test('only a job that asks for a limit has one', () => {
  assert.equal(limiter(scopeOf(false)), undefined);
  assert.ok(limiter(scopeOf(true)));
});

test('a caller who leaves while it waits for a token leaves neither a timer nor a listener behind', async (t) => {
  const scope = scopeOf(true);
  t.mock.method(scope.get(connection), 'use', async () => 60_000);
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const left = new AbortController();
  const caller = { presence: 'gone', signal: left.signal } as const;
  const waiting = limiter(scope)?.acquire(caller);
  await new Promise((resolve) => setImmediate(resolve));
  left.abort();
  await assert.rejects(waiting as Promise<void>, { code: 'cancelled' });
  await assert.rejects(limiter(scope)?.acquire(caller) as Promise<void>, { code: 'cancelled' });
  // Timers of earlier tests may end meanwhile.
  assert.ok(timers() <= before);
  assert.deepEqual(getEventListeners(left.signal, 'abort'), []);
});
