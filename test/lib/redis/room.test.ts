import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { Room } from '../../../lib/redis/room.ts';
import { redisUrl } from '../../support/redis.ts';

const record = (uri: string) => ({ uri, identity: uri, message: '{}' });

test('a record is announced while Redis has room, and refused when it would evict results', async (t) => {
  const url = await redisUrl(t);
  const reader = openRedis(url);
  t.after(() => reader.close());
  const used = Number(
    /^used_memory:(\d+)/m.exec(await reader.use((redis) => redis.info('memory'), true))?.[1],
  );
  assert.ok(used > 0);
  for (const [maxBytes, isFull] of [
    [used * 3, false],
    [used, true],
  ] as const) {
    const connection = openRedis(url, { maxBytes });
    t.after(() => connection.close());
    const states = new RecordStates(connection, { job: `room-${maxBytes}`, now: Date.now });
    const announced = states.announce(record('u'));
    if (isFull)
      await assert.rejects(announced, { code: 'results_unavailable', message: /^Redis is \d+ % full/ });
    else await announced;
  }
});

test('Redis is asked once in five seconds, at once again when it did not answer', async () => {
  let asked = 0;
  let works = true;
  let now = 0;
  const ask = () => {
    asked++;
    return works ? Promise.resolve('used_memory:1\r\n') : Promise.reject(new Error('away'));
  };
  const room = new Room(2 ** 40, ask, () => now);
  await Promise.all([room.assert(), room.assert()]);
  now = 5_000;
  await room.assert();
  assert.equal(asked, 1);
  now = 5_001;
  works = false;
  await assert.rejects(room.assert(), /away/);
  works = true;
  await room.assert();
  assert.equal(asked, 3);
});

test('an answer that does not say how much is used refuses nothing', async () => {
  await new Room(
    1,
    () => Promise.resolve('redis_version:9.0.0'),
    () => 0,
  ).assert();
});
