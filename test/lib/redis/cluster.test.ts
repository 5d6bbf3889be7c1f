/** What cluster mode is without a cluster: names, addresses and the error that names the setting. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { SLOTS, slotOf, tagOf } from '../../../lib/redis/cluster/slots.ts';
import { redisUrl } from '../../support/redis.ts';

test('a slot is decided by the first braces with something between them', () => {
  // As CLUSTER KEYSLOT answers.
  assert.equal(slotOf('123456789'), 12_739);
  for (const [key, same] of [
    ['a{b}c', 'b'],
    ['{a}', 'a'],
    ['{{a}}', '{a'],
    ['}{a}', 'a'],
    ['ü{ß}', 'ß'],
  ] as const)
    assert.equal(slotOf(key), slotOf(same), key);
  for (const key of ['{}b', '{b', 'b}', 'x{}y{b}']) assert.notEqual(slotOf(key), slotOf('b'), key);
  assert.notEqual(slotOf('{}b'), slotOf('{}c'));
});

test('each slot has a tag of its own, which never changes, because keys are named after it', () => {
  const tags = Array.from({ length: SLOTS }, (_, slot) => tagOf(slot));
  assert.deepEqual(
    tags.filter((tag, slot) => slotOf(tag) !== slot || !/^\w{1,4}$/.test(tag)),
    [],
  );
  assert.deepEqual([tags[0], tags[1], tags[SLOTS - 1]], ['1bz', 'emj', 'hia']);
});

test('keys beside a result are in its slot in cluster mode, and have the old names otherwise', () => {
  const cluster = openRedis('redis://localhost:1?cluster=on');
  assert.equal(slotOf(cluster.home('job', 'a{b}')), slotOf('b'));
  assert.match(cluster.home('job', 'a{b}'), /^\{\w+\}job$/);
  assert.equal(openRedis('redis://localhost:1').home('job', 'a{b}'), 'job');
  for (const url of ['redis://localhost:1?cluster=yes', 'redis://localhost:1?cluster=on&x'])
    assert.throws(() => openRedis(url), { code: 'bad_config' }, url);
});

test('a server in cluster mode is recognised by its answer, and the error says what to set', async (t) => {
  const connection = openRedis(await redisUrl(t, true));
  t.after(() => connection.close());
  const answer = Object.assign(new Error("CROSSSLOT Keys in request don't hash"), { name: 'ReplyError' });
  await assert.rejects(
    connection.use(() => Promise.reject(answer), true),
    { code: 'results_unavailable', message: /write \?cluster=on after its address/ },
  );
});
