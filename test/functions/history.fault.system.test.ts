import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redis } from 'ioredis';
import { doneChannel } from '../../lib/contract/names.ts';
import { serializeResult } from '../../lib/results/fields.ts';
import { CLEAN, findings, History } from '../support/faults/history.ts';
import { seeded, shuffled } from '../support/faults/seeds.ts';
import { openStore } from '../support/faults/service.ts';
import { redisUrl } from '../support/redis.ts';
import { until } from '../support/until.ts';

const allowed = new Map([
  ['a', [1]],
  ['b', [2, 'bad_input']],
]);

test('the checker finds nothing where every uri has one outcome that was allowed', () => {
  assert.deepEqual(findings(allowed, [['a', 1], ['b', 'bad_input']]), CLEAN); // biome-ignore format: one line
});

test('the checker finds each lost, doubled, unasked and wrong outcome', () => {
  assert.deepEqual(findings(allowed, [['b', 2]]).lost, ['a']);
  assert.deepEqual(findings(allowed, [['a', 1], ['a', 1], ['b', 2]]).doubled, ['a']); // biome-ignore format: one line
  assert.deepEqual(findings(allowed, [['a', 1], ['b', 2], ['c', 3]]).unasked, ['c']); // biome-ignore format: one line
  assert.deepEqual(findings(allowed, [['a', 2], ['b', 2]]).wrong, ['a: 2, expected 1']); // biome-ignore format: one line
});

test('an outcome that was announced twice is doubled though the store holds one', async (t) => {
  const url = await redisUrl(t);
  const history = new History();
  history.enqueued('a', 1);
  await history.listen(t, url, 'job');
  const store = openStore(t, { redisUrl: url, job: 'job' });
  const data = Float32Array.of(1);
  const fields = serializeResult(
    { ok: true, outputs: [{ name: 'y', dtype: 'float32', shape: [1], data }] },
    undefined,
  );
  await store.save([{ uri: 'a', fields }], 'v');
  const redis = new Redis(url);
  t.after(() => redis.disconnect());
  assert.equal(await redis.publish(doneChannel('job', 'a'), 'succeeded'), 1);
  // A channel of its own behind the two: what it hears, it heard after them.
  await redis.publish(doneChannel('job', 'marker'), '');
  await until(() => history.announcements('marker') === 1);
  assert.deepEqual((await history.check(url, 'job')).doubled, ['a']);
});

test('a seed gives the same choices every time, and another seed gives others', () => {
  const items = Array.from({ length: 50 }, (_, i) => i);
  assert.deepEqual(shuffled(seeded(7), items), shuffled(seeded(7), items));
  assert.notDeepEqual(shuffled(seeded(7), items), shuffled(seeded(8), items));
});
