/** Cluster mode without a cluster: names, addresses, the route to a node, and the error that names the setting. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Redis } from 'ioredis';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { SLOTS, slotOf, tagOf } from '../../../lib/redis/cluster/slots.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
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

type Answer = string | Error;

/**
 * Nodes with prepared answers, each its commands in turn and then 'OK', without a network.
 * @param owners of all slots, as one answer to CLUSTER SLOTS after the other; the last of them stays
 */
function nodesOf(t: TestContext, owners: [string, number][], answers: Record<number, Answer[]>) {
  const calls: string[] = [];
  t.mock.method(RedisConnection.prototype, 'use', async function (this: RedisConnection, work) {
    const { host, port = 0 } = this.redis.options;
    const redis = {
      cluster: async () => {
        calls.push(`${port} slots`);
        return [[0, SLOTS - 1, (owners.length > 1 ? owners.shift() : owners[0]) as [string, number]]];
      },
      asking: async () => void calls.push(`${port} asking`),
      get: async () => {
        calls.push(host === '10.0.0.1' ? `${port} get` : `${host}:${port} get`);
        const answer = answers[port]?.shift() ?? 'OK';
        if (typeof answer !== 'string') throw answer;
        return answer;
      },
    };
    return work(redis as unknown as Redis).catch((error) => {
      throw this.unavailable(error);
    });
  } satisfies RedisConnection['use']);
  return calls;
}

const replied = (message: string) => Object.assign(new Error(message), { name: 'ReplyError' });
const LOST = new Error('Connection is closed.');
const [one, two] = [
  ['10.0.0.1', 1],
  ['10.0.0.1', 2],
] as [string, number][] as [[string, number], [string, number]];

const getBy = (connection: RedisConnection, repeatable = true) =>
  connection.use((redis) => redis.get('key'), repeatable, 'key');

test('a command goes where the nodes send it, and the next one where they sent the first for good', async (t) => {
  const ways: [string, [string, number][], Record<number, Answer[]>, string[]][] = [
    ['the owner is asked', [two], {}, ['1 slots', '2 get', '2 get']],
    [
      'a slot on its way, for one command',
      [one],
      { 1: [replied('ASK 1 10.0.0.1:2')] },
      ['1 slots', '1 get', '2 asking', '2 get', '1 get'],
    ],
    [
      'a slot that has moved, whose owner is looked up again',
      [one, two],
      { 1: [replied('MOVED 1 10.0.0.1:2')] },
      ['1 slots', '1 get', '1 slots', '2 get', '2 get'],
    ],
    [
      'a node that leaves out its host is where the first one is',
      [['', 2], one],
      { 2: [replied('MOVED 1 :3')] },
      ['1 slots', '2 get', '1 slots', '2 slots', '3 get', '1 get'],
    ],
    ['an unknown host too', [['?', 2]], {}, ['1 slots', '2 get', '2 get']],
    [
      'keys on both nodes wait for their slot',
      [one],
      { 1: [replied('TRYAGAIN Multiple keys')] },
      ['1 slots', '1 get', '1 slots', '1 get', '1 get'],
    ],
    ['a lost node', [one, two], { 1: [LOST] }, ['1 slots', '1 get', '1 slots', '2 get', '2 get']],
    ['an address of IPv6', [['::1', 5]], {}, ['1 slots', '::1:5 get', '::1:5 get']],
  ];
  for (const [name, owners, answers, expected] of ways) {
    const calls = nodesOf(t, [...owners], answers);
    const connection = openRedis('redis://10.0.0.1:1?cluster=on');
    assert.deepEqual([await getBy(connection), await getBy(connection)], ['OK', 'OK'], name);
    assert.deepEqual(calls, expected, name);
    t.mock.restoreAll();
  }
});

test('an error that no other node would answer better is thrown at once', async (t) => {
  const wrong = replied('WRONGTYPE Operation against a key');
  for (const [answer, owners, repeatable, expected] of [
    [wrong, [one, two], true, ['1 slots', '1 get']],
    [LOST, [one, two], false, ['1 slots', '1 get']],
    [LOST, [one], true, ['1 slots', '1 get', '1 slots']],
  ] as [Error, [string, number][], boolean, string[]][]) {
    const calls = nodesOf(t, [...owners], { 1: [answer] });
    const connection = openRedis('redis://10.0.0.1:1?cluster=on');
    await assert.rejects(getBy(connection, repeatable), { code: 'results_unavailable', cause: answer });
    assert.deepEqual(calls, expected, `${answer.message} ${repeatable}`);
    t.mock.restoreAll();
  }
});
