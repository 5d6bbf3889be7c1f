/** Replacing a failure in a Redis that has lost data the decision needs, or in which others wrote it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { newestKey, resultKey } from '../../../lib/contract/names.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { ResultReplacer } from '../../../lib/redis/replace-result.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { enqueued } from '../../support/enqueue.ts';
import { directClient, PATIENT, redisUrl } from '../../support/redis.ts';

const JOB = 'job';

for (const embedded of [false, true]) {
  const kind = embedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: without an idempotency record, another result stays, and one of the original server always does`, async (t) => {
    const connection = openRedis(await redisUrl(t, embedded), PATIENT);
    const options = { job: JOB, ttlSeconds: 60, now: Date.now };
    const results = new ResultStore(connection, options);
    t.after(() => results.close());
    await results.ping();
    const redis = directClient(t, connection);
    const failure = new ServingError('max_receives_exceeded', 'the record failed 5 times');
    const fail = () => {
      const fields = serializeResult({ ok: false, error: failure }, undefined);
      return results.save([{ uri: 'u', fields, enqueue: enqueued('m0') }], '');
    };
    const replace = () => {
      const outputs = [{ name: 'y', dtype: 'float32', shape: [1], data: Float32Array.of(1) } as const];
      const record = { uri: 'u', enqueue: enqueued('m1', 1, 1), message: 'the message' };
      const fields = serializeResult({ ok: true, outputs }, undefined);
      return new ResultReplacer(connection, options).store(record, fields, '');
    };
    await fail();
    await redis.del(newestKey(JOB, 'u'));
    assert.equal(await replace(), 'conflict');
    await assert.rejects(results.get('u'), { code: 'max_receives_exceeded' });
    await redis.del(resultKey(JOB, 'u'));
    await fail();
    await redis.del(resultKey(JOB, 'u'));
    await redis.hset(resultKey(JOB, 'u'), 'value', '[[1,0.5]]');
    assert.equal(await replace(), 'conflict');
    assert.equal(await redis.hget(resultKey(JOB, 'u'), 'value'), '[[1,0.5]]');
  });
}
