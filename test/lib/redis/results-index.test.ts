/** The index of finished results: what is expired leaves it little by little. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { indexKey } from '../../../lib/contract/names.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { serializeResult } from '../../../lib/redis/result/fields.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';

const JOB = 'job';
const EXPIRED = 5_000;

const success = (uri: string) => {
  const output = { name: 'y', dtype: 'float32', shape: [1], data: Float32Array.of(1) } as const;
  return { uri, fields: serializeResult({ ok: true, outputs: [output] }, undefined) };
};

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: no saving takes more than a thousand expired entries off the index, and the next ones take the rest`, async (t) => {
    const connection = new RedisConnection(await redisUrl(t, preferEmbedded), PATIENT);
    const results = new ResultStore(connection, { job: JOB, ttlSeconds: 60, now: Date.now });
    t.after(() => results.close());
    await results.save([success('kept')], 'v');
    const { redis } = connection;
    const expired = Array.from({ length: EXPIRED }, (_, i) => [1_000 + i, `gone-${i}`]).flat();
    await redis.zadd(indexKey(JOB), ...(expired as [number, string]));
    let before = EXPIRED;
    let savings = 0;
    while (before > 0) {
      const uri = `fresh-${savings++}`;
      await results.save([success(uri)], 'v');
      const left = await redis.zcount(indexKey(JOB), '-inf', 1_000 + EXPIRED);
      const taken = before - left;
      assert.ok(taken > 0 && taken <= 1_002, `${taken} were taken off`);
      before = left;
    }
    assert.ok(savings >= 5, `${savings} savings`);
    const uris = await redis.zrange(indexKey(JOB), '0', '-1');
    assert.deepEqual(
      uris.toSorted(),
      ['kept', ...Array.from({ length: savings }, (_, i) => `fresh-${i}`)].toSorted(),
    );
  });

  test(`${kind}: a large batch takes more expired entries off the index than it adds`, async (t) => {
    const connection = new RedisConnection(await redisUrl(t, preferEmbedded), PATIENT);
    const results = new ResultStore(connection, { job: JOB, ttlSeconds: 60, now: Date.now });
    t.after(() => results.close());
    await results.ping();
    const expired = Array.from({ length: EXPIRED }, (_, i) => [1_000 + i, `gone-${i}`]).flat();
    await connection.redis.zadd(indexKey(JOB), ...(expired as [number, string]));
    await results.save(
      Array.from({ length: 900 }, (_, i) => success(`fresh-${i}`)),
      'v',
    );
    const left = await connection.redis.zcount(indexKey(JOB), '-inf', 1_000 + EXPIRED);
    assert.equal(EXPIRED - left, 2 * 900 + 1_000);
  });
}
