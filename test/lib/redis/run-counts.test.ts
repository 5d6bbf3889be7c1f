/** The keys in which Redis counts the runs of redelivered records. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { runCountKey } from '../../../lib/contract/names.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { StoredRunCounts } from '../../../lib/redis/run-counts.ts';
import { enqueued } from '../../support/enqueue.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';

const JOB = 'job';

async function open(t: TestContext, embedded = false) {
  const connection = openRedis(await redisUrl(t, embedded), PATIENT);
  t.after(() => connection.close());
  const runs = new StoredRunCounts(connection, { job: JOB, retentionSeconds: 60, most: 5 });
  const at = (uri: string, attempts: number) => ({
    uri,
    attempts,
    enqueue: enqueued(`id-${uri}`, 1),
  });
  return { connection, runs, at };
}

for (const embedded of [false, true]) {
  const where = embedded ? 'the embedded Redis' : 'Redis';

  test(`${where} keeps a count as long as the queue keeps a message, and nothing of one that was taken back`, async (t) => {
    const { connection, runs, at } = await open(t, embedded);
    await runs.begin([at('a', 2), at('b', 2)]);
    await runs.takeBack([at('b', 2)]);
    const leftMsOf = (uri: string) => {
      const home = connection.home(JOB, uri);
      return connection.use((redis) => redis.pttl(runCountKey(home, `id-${uri}.0`, uri)), true, home);
    };
    const leftMs = await leftMsOf('a');
    assert.ok(leftMs > 50_000 && leftMs <= 60_000, String(leftMs));
    assert.equal(await leftMsOf('b'), -2);
  });

  test(`${where} counts where the key holds something else, and beside it`, async (t) => {
    const { connection, runs, at } = await open(t, embedded);
    const home = connection.home(JOB, 'a');
    await connection.use((redis) => redis.hset(runCountKey(home, 'id-a.0', 'a'), 'x', 1), true, home);
    await runs.begin([at('a', 2), at('b', 2)]);
    assert.deepEqual(await runs.read([at('a', 3), at('b', 3)]), [1, 1]);
  });
}
