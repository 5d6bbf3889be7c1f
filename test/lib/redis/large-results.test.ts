/** Clients of Analytics Zoo Cluster Serving read a result that is too large for Redis. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeArrowResult } from '../../../lib/codecs/arrow/result.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import { finished, memoryS3, numbers } from '../../support/large-results.ts';
import { redisUrl } from '../../support/redis.ts';

test('the client of Analytics Zoo gets no numbers, but a stream whose error names the size', async (t) => {
  const connection = new RedisConnection(await redisUrl(t));
  const results = new ResultStore(connection, { job: 'job', ttlSeconds: 60, now: Date.now });
  t.after(() => results.close());
  const { large, objects } = memoryS3();
  await resultSink(results, { large }).save([finished('a', numbers(LIMITS.resultBytes / 4))], 'v');
  const value = await connection.redis.hget('cluster-serving_job:a', 'value');
  const stored = Buffer.from(value ?? '', 'base64');
  const [object] = objects.values();
  // pyarrow has to find the time zone of the column `shape`, and names it in its error.
  const said = stored.toString('latin1');
  assert.match(
    said,
    new RegExp(`the result has ${object?.bytes.length} bytes, over the 1048576 of one in Redis`),
  );
  assert.match(said, /GET \/predictions\?uri=/);
  assert.throws(() => decodeArrowResult(stored), { code: 'bad_request' });
});
