import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limiter } from '../../../lib/compose/redis.ts';
import { connection, results } from '../../../lib/compose/results.ts';
import { Scope } from '../../../lib/compose/scope.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { resultKey } from '../../../lib/contract/names.ts';
import { redisUrl } from '../../support/redis.ts';

const DAY_MS = 86_400_000;

test('a result stays for a day by default, and its message counts as seen for twice its visibility timeout', async (t) => {
  const url = await redisUrl(t);
  const scope = new Scope(readEnvironment({ CLUSTER_SERVING_REDIS_URL: url }));
  const store = scope.get(results);
  t.after(() => store.close());
  const fields = { status: 'succeeded', value: '[]', error: '', outputs: '', exact: '' } as const;
  await store.save([{ uri: 'a', fields, message: 'm1' }], 'v');
  const { redis } = scope.get(connection);
  const key = resultKey(DEFAULT_JOB.jobName, 'a');
  const [leftMs, until] = await Promise.all([redis.pttl(key), redis.hget(key, 'until')]);
  assert.ok(leftMs > DAY_MS - 60_000 && leftMs <= DAY_MS, `${leftMs}`);
  // Twice six times the function's 30 s.
  const seenMs = Number(until) - Date.now();
  assert.ok(seenMs > 300_000 && seenMs <= 360_000, `${seenMs}`);
});

test('only a job that asks for a limit has one', () => {
  const limiterOf = (tokenBucketEnabled: boolean) => {
    const http = { ...DEFAULT_JOB.http, tokenBucketEnabled };
    const variables = {
      CLUSTER_SERVING_REDIS_URL: 'redis://127.0.0.1:9',
      CLUSTER_SERVING_CONFIG: JSON.stringify({ http }),
    };
    return limiter(new Scope(readEnvironment(variables)));
  };
  assert.equal(limiterOf(false), undefined);
  assert.ok(limiterOf(true));
});
