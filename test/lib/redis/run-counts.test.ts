/** How runs of redelivered records are counted in Redis, in a redis-server and in the embedded one. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { runCountKey } from '../../../lib/contract/names.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { StoredRunCounts } from '../../../lib/redis/run-counts.ts';
import { enqueued } from '../../support/enqueue.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';

const JOB = 'job';

async function open(t: TestContext, embedded = false) {
  const connection = openRedis(await redisUrl(t, embedded), PATIENT);
  t.after(() => connection.close());
  const runs = new StoredRunCounts(connection, { job: JOB, retentionSeconds: 60, most: 5 });
  const at = (uri: string, attempts: number, replays = 0) => ({
    uri,
    attempts,
    enqueue: enqueued(`id-${uri}`, 1, replays),
  });
  return { connection, runs, at };
}

for (const embedded of [false, true]) {
  const where = embedded ? 'the embedded Redis' : 'Redis';

  test(`${where} counts a delivery once, however often it is sent, and the next one again`, async (t) => {
    const { runs, at } = await open(t, embedded);
    for (const attempts of [2, 2, 3, 3, 400]) await runs.begin([at('a', attempts), at('b', 2)]);
    assert.deepEqual(await runs.read([at('a', 401), at('b', 3), at('c', 2)]), [3, 1, 0]);
  });

  test(`${where} takes back the delivery that was counted last, once, and leaves nothing of it`, async (t) => {
    const { connection, runs, at } = await open(t, embedded);
    await runs.begin([at('a', 2), at('b', 2)]);
    await runs.begin([at('a', 3)]);
    for (let times = 0; times < 3; times++) await runs.takeBack([at('a', 3), at('b', 2)]);
    assert.deepEqual(await runs.read([at('a', 4), at('b', 3)]), [1, 0]);
    // Another delivery of it is under way.
    await runs.takeBack([at('a', 2)]);
    assert.deepEqual(await runs.read([at('a', 4)]), [1]);
    const home = connection.home(JOB, 'b');
    assert.equal(
      await connection.use((redis) => redis.exists(runCountKey(home, 'id-b.0', 'b')), true, home),
      0,
    );
  });

  test(`${where} counts a replay from the start, and keeps a count as long as the queue keeps a message`, async (t) => {
    const { connection, runs, at } = await open(t, embedded);
    await runs.begin([at('a', 2)]);
    assert.deepEqual(await runs.read([at('a', 2, 1)]), [0]);
    const home = connection.home(JOB, 'a');
    const leftMs = await connection.use((redis) => redis.pttl(runCountKey(home, 'id-a.0', 'a')), true, home);
    assert.ok(leftMs > 50_000 && leftMs <= 60_000, String(leftMs));
  });

  test(`${where} counts where the key holds something else, and for a thousand records at once`, async (t) => {
    const { connection, runs, at } = await open(t, embedded);
    const home = connection.home(JOB, 'a');
    await connection.use((redis) => redis.hset(runCountKey(home, 'id-a.0', 'a'), 'x', 1), true, home);
    const many = Array.from({ length: 1_000 }, (_, i) => at(i === 0 ? 'a' : `r-${i}`, 2));
    await runs.begin(many);
    assert.deepEqual(new Set(await runs.read(many)), new Set([1]));
  });
}

test('counts that cannot be read or written are results_unavailable, and taking back is never an error', async () => {
  const away = new RedisConnection('redis://127.0.0.1:1', { connectTimeoutMs: 200 });
  const runs = new StoredRunCounts(away, { job: JOB, retentionSeconds: 60, most: 5 });
  const record = { uri: 'a', attempts: 2, enqueue: enqueued('id') };
  await assert.rejects(runs.read([record]), { code: 'results_unavailable' });
  await assert.rejects(runs.begin([record]), { code: 'results_unavailable' });
  await runs.takeBack([record]);
  await away.close();
});
