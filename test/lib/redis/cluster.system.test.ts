/** lib/redis against a Redis Cluster of three nodes with TLS: batches over all nodes, slots that move, a node that is lost. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, type TestContext, test } from 'node:test';
import { accessRules } from '../../../infra/template/redis-access.ts';
import { indexKey, newestKey, resultKey, stateKey } from '../../../lib/contract/names.ts';
import { Timers } from '../../../lib/metrics/timers.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { slotOf } from '../../../lib/redis/cluster/slots.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RateLimiter } from '../../../lib/redis/rate-limiter.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultReplacer } from '../../../lib/redis/replace-result.ts';
import { ResultIndex } from '../../../lib/redis/result-index.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import type { Finished } from '../../../lib/results/store.ts';
import { startBridge } from '../../../local/bridge/bridge.ts';
import { enqueued } from '../../support/enqueue.ts';
import { type ClusterNode, type RedisCluster, startRedisCluster } from '../../support/redis-cluster.ts';

const JOB = 'job';
const BRACES = ['a', 'a{b}c', '{}', '{', '}', '{a}', 'x{}y{z}', '{{a}}', 'ü{ß}', 'a:b', '../x', '*'];

let cluster: RedisCluster | undefined;
before(async () => {
  cluster = await startRedisCluster({ replica: true });
});
after(() => cluster?.close());
beforeEach(() => cluster?.clear());

/** Undefined, and the test is skipped, where there is no cluster. */
function open(t: TestContext) {
  if (!cluster) return t.skip('needs an installed redis-server and openssl');
  const connection = openRedis(cluster.url, { connectTimeoutMs: 5_000, commandTimeoutMs: 5_000 });
  const options = { job: JOB, ttlSeconds: 600, now: Date.now };
  const results = new ResultStore(connection, options);
  t.after(() => results.close());
  return { cluster, connection, results, states: new RecordStates(connection, options) };
}

const finished = (uri: string, value = 1, identity = 'one', sentAt = 1): Finished => ({
  uri,
  fields: serializeResult(
    { ok: true, outputs: [{ name: 'y', dtype: 'float32', shape: [1], data: Float32Array.of(value) }] },
    undefined,
  ),
  enqueue: enqueued(identity, sentAt),
});

async function drained(results: ResultStore): Promise<string[]> {
  const uris: string[] = [];
  for await (const { uri } of results.drain()) uris.push(uri);
  return uris.sort();
}

/** Saves as a queue does: what could not be saved comes again. */
async function saveAll(results: ResultStore, records: readonly Finished[], model: string): Promise<number> {
  let saved = 0;
  let left = records;
  while (left.length > 0) {
    const blocked = new Set<string>();
    const all = () => {
      for (const { uri } of left) blocked.add(uri);
      return 0;
    };
    saved += await results.save(left, model, undefined, (uri) => void blocked.add(uri)).catch(all);
    left = left.filter(({ uri }) => blocked.has(uri));
  }
  return saved;
}

/** The nodes that have the slot now and do not have it. */
async function nodesOf(slot: number): Promise<[ClusterNode, ClusterNode]> {
  const nodes = (cluster as RedisCluster).nodes.slice(0, 3);
  for (const [first, last, master] of (await nodes[0]?.redis.cluster('SLOTS')) ?? []) {
    const port = master?.[1];
    if (slot >= first && slot <= last)
      return [
        nodes.find((node) => node.port === port) as ClusterNode,
        nodes.find((node) => node.port !== port) as ClusterNode,
      ];
  }
  throw new Error(`nobody has slot ${slot}`);
}

async function beginMove(slot: number): Promise<[ClusterNode, ClusterNode]> {
  const [from, to] = await nodesOf(slot);
  await to.redis.cluster('SETSLOT', slot, 'IMPORTING', from.id);
  await from.redis.cluster('SETSLOT', slot, 'MIGRATING', to.id);
  return [from, to];
}

/** Moves these keys, all that are left without a list. */
async function moveKeys(
  [from, to]: [ClusterNode, ClusterNode],
  slot: number,
  some?: string[],
): Promise<void> {
  const keys = some ?? (await from.redis.cluster('GETKEYSINSLOT', slot, 1_000));
  for (const key of keys) await from.redis.migrate('127.0.0.1', to.port, key, 0, 60_000);
}

async function endMove([from, to]: [ClusterNode, ClusterNode], slot: number): Promise<void> {
  for (const { redis } of [to, from]) await redis.cluster('SETSLOT', slot, 'NODE', to.id);
}

test('our slots are those of Redis, and each tag is in its slot', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const redis = opened.cluster.nodes[0]?.redis;
  for (const uri of BRACES) {
    const key = resultKey(JOB, uri);
    assert.equal(await redis?.cluster('KEYSLOT', key), slotOf(key), uri);
    const home = opened.connection.home(JOB, uri);
    for (const name of [stateKey(home, uri), newestKey(home, uri), indexKey(home)])
      assert.equal(await redis?.cluster('KEYSLOT', name), slotOf(key), name);
  }
});

test('uris with braces are saved, read, taken and listed, each under the key that old clients read', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const { results, states } = opened;
  for (const uri of BRACES) await states.announce({ uri, identity: 'one', message: 'm' });
  const timers = new Timers();
  timers.record('zoo.serving.redis.put', 5);
  assert.equal(
    await results.save(
      BRACES.map((uri) => finished(uri)),
      'v',
      timers,
    ),
    BRACES.length,
  );
  assert.equal((await results.metrics()).find(({ name }) => name === 'zoo.serving.redis.put')?.count, 1);
  for (const uri of BRACES) {
    assert.equal(await opened.cluster.client.hget(resultKey(JOB, uri), 'status'), 'succeeded', uri);
    assert.deepEqual([await states.status(uri), (await results.get(uri))?.uri], ['succeeded', uri]);
  }
  const [first = '', ...others] = BRACES;
  assert.equal((await results.take(first))?.uri, first);
  assert.deepEqual(await drained(results), others.sort());
  assert.equal(
    await results.save(
      BRACES.map((uri) => finished(uri)),
      'v',
    ),
    0,
  );
});

test('10,000 records over three nodes have their results, each once', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const { results } = opened;
  const uris = Array.from({ length: 10_000 }, (_, i) => `r-${i}`);
  const records = uris.map((uri, i) => finished(uri, i));
  assert.equal(await results.save(records, 'v'), uris.length);
  assert.equal(await results.save(records, 'v'), 0);
  for (const { redis } of opened.cluster.nodes.slice(0, 3)) assert.ok((await redis.dbsize()) > 6_000);
  assert.deepEqual(await drained(results), uris.toSorted());
});

test('the rights that a deployment gives to its user are enough, and reach no other job', async (t) => {
  const scene = open(t);
  if (!scene) return;
  for (const { redis } of scene.cluster.nodes)
    await redis.acl('SETUSER', 'functions', 'reset', ...accessRules(JOB, true), '>secret');
  const signIn = { username: 'functions', password: () => 'secret' };
  const connection = openRedis(scene.cluster.url, {
    connectTimeoutMs: 5_000,
    commandTimeoutMs: 5_000,
    signIn,
  });
  const store = (job: string) => new ResultStore(connection, { job, ttlSeconds: 600, now: Date.now });
  const [results, foreign] = [store(JOB), store('other')];
  t.after(() => results.close());
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  for (const uri of BRACES) await states.announce({ uri, identity: 'one', message: '{}' });
  assert.equal(
    await results.save(
      BRACES.map((uri) => finished(uri)),
      'v',
      new Timers(),
    ),
    BRACES.length,
  );
  for (const uri of BRACES) assert.equal((await results.get(uri))?.outputs[0]?.data[0], 1);
  assert.equal((await results.take('{a}'))?.outputs[0]?.data[0], 1);
  assert.deepEqual(await drained(results), BRACES.filter((uri) => uri !== '{a}').sort());
  assert.ok((await results.metrics()).length > 0);
  await assert.rejects(foreign.get('a'), /NOPERM|No permissions/);
  await assert.rejects(foreign.save([finished('a')], 'v'), /NOPERM|No permissions/);
});

test('a poison key costs its own record, and no neighbour', async (t) => {
  const opened = open(t);
  if (!opened) return;
  await opened.cluster.client.set(resultKey(JOB, 'b'), 'foreign');
  const blocked: string[] = [];
  const records = ['a', 'b', 'c'].map((uri) => finished(uri));
  assert.equal(await opened.results.save(records, 'v', undefined, (uri) => void blocked.push(uri)), 2);
  assert.deepEqual([blocked, await drained(opened.results)], [['b'], ['a', 'c']]);
});

test('a waiting client hears of a result on another node', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const waiting = BRACES.map((uri) => opened.results.wait(uri, { timeoutMs: 60_000 }));
  await opened.results.save(
    BRACES.map((uri) => finished(uri)),
    'v',
  );
  assert.deepEqual(
    (await Promise.all(waiting)).map(({ uri }) => uri),
    BRACES,
  );
});

test('cancel, release, replace, limit and size limits of pages work as in one Redis', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const { connection, results, states } = opened;
  await states.announce({ uri: 'c{d}', identity: 'one', message: 'm' });
  await states.markRunning([{ uri: 'c{d}', enqueue: enqueued('one') }], 60_000);
  assert.equal(await states.status('c{d}'), 'running');
  assert.equal(await states.cancel('c{d}'), true);
  assert.equal(await results.save([finished('c{d}'), finished('a'), finished('b')], 'v'), 2);
  await assert.rejects(results.take('a', { use: () => assert.fail('not now') }), /not now/);
  const bytes = await opened.cluster.client.hstrlen(resultKey(JOB, 'a'), 'value');
  const first = await results.takePage(100, bytes);
  assert.equal(first?.length, 1);
  const rest = [
    ...((await results.takePage(100, bytes)) ?? []),
    ...((await results.takePage(100, bytes)) ?? []),
  ];
  assert.deepEqual([...(first ?? []), ...rest].map(({ uri }) => uri).sort(), ['a', 'b', 'c{d}']);
  const limiter = new RateLimiter(connection, {
    job: JOB,
    tokensPerSecond: 1,
    acquireTimeoutMs: 0,
    sleep: async () => undefined,
    onError: (error) => assert.fail(String(error)),
  });
  await limiter.acquire();
  await assert.rejects(limiter.acquire(), { code: 'rate_limited' });
  const replacer = new ResultReplacer(connection, { job: JOB, ttlSeconds: 60, now: Date.now });
  const replay = { uri: 'n{', messageId: 'm', message: 'm', enqueue: { ...enqueued('two', 5), replays: 1 } };
  assert.equal(await replacer.store(replay, finished('n{').fields, 'v'), 'replaced');
  assert.deepEqual(
    (await replacer.outcomes(['n{', 'none'])).map((one) => one?.status),
    ['succeeded', undefined],
  );
  assert.deepEqual(await drained(results), ['n{']);
});

test('a worker that ends between the list and the save costs nothing, and leaves nothing', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const {
    cluster: { client },
    connection,
    results,
  } = opened;
  const index = new ResultIndex(connection, JOB);
  await index.announce([connection.home(JOB, 'a'), connection.home(JOB, 'b')], 600_000);
  // Here the worker ended. Its record comes again, while a client asks in between.
  assert.equal(await results.takePage(100), undefined);
  assert.equal(await client.zcard(indexKey(JOB)), 2);
  await results.save([finished('a')], 'v');
  assert.deepEqual(await drained(results), ['a']);
  assert.equal(await results.save([finished('a')], 'v'), 0);
  // A minute later nobody can write into a slot that was listed for this.
  for (const uri of ['a', 'b'])
    await client.zadd(indexKey(JOB), Date.now() - 61_000, connection.home(JOB, uri));
  assert.equal(await results.takePage(100), undefined);
  assert.equal(await client.zcard(indexKey(JOB)), 0);
});

test('results whose answer was lost are asked for again, and the first of two clients has each', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const { connection, results } = opened;
  await results.save(
    BRACES.map((uri) => finished(uri)),
    'v',
  );
  const use = connection.use.bind(connection);
  let lost = 0;
  t.mock.method(connection, 'use', async (...args: Parameters<typeof use>) => {
    const answer = await use(...args);
    // The answers of three slots, whose results are taken by then.
    if (Array.isArray(answer) && answer[0]?.lease && lost++ < 3) throw new Error('the answer was lost');
    return answer;
  });
  await assert.rejects(drained(results), /the answer was lost/);
  const other = new ResultStore(openRedis(opened.cluster.url), { job: JOB, ttlSeconds: 60, now: Date.now });
  t.after(() => other.close());
  assert.deepEqual(await drained(other), []);
  assert.deepEqual(await drained(results), BRACES.toSorted());
});

test('a slot that was listed again since it was read stays listed', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const {
    cluster: { client },
    connection,
    results,
  } = opened;
  await client.zadd(indexKey(JOB), Date.now() - 61_000, connection.home(JOB, 'a'));
  const use = connection.use.bind(connection);
  let calls = 0;
  t.mock.method(connection, 'use', async (...args: Parameters<typeof use>) => {
    // The third call is the one that removes; a worker lists the slot right before it.
    if (++calls === 3) await client.zadd(indexKey(JOB), Date.now(), connection.home(JOB, 'a'));
    return use(...args);
  });
  assert.equal(await results.takePage(100), undefined);
  assert.equal(calls, 3);
  assert.equal(await client.zcard(indexKey(JOB)), 1);
});

test('a save while its slot moves waits for the rest of its keys, and writes once', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const { connection, results, states } = opened;
  const slot = slotOf(resultKey(JOB, 'm'));
  const home = connection.home(JOB, 'm');
  await states.announce({ uri: 'm', identity: 'one', message: 'm' });
  await results.save([finished('m', 1, 'one', 1)], 'v1');
  await results.take('m');
  const move = await beginMove(slot);
  // The idempotency record is already there, the state not yet.
  await moveKeys(move, slot, [newestKey(home, 'm')]);
  const again = saveAll(results, [finished('m', 2, 'one', 1), finished('n')], 'v2');
  const later = saveAll(results, [finished('m', 3, 'two', 2)], 'v3');
  await moveKeys(move, slot);
  await endMove(move, slot);
  assert.deepEqual([await again, await later], [1, 1]);
  assert.equal((await results.get('m'))?.model, 'v3');
  assert.deepEqual(await drained(results), ['m', 'n']);
});

test('a result that has moved ahead of its slot is read there', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const { results } = opened;
  const slot = slotOf(resultKey(JOB, 'ask'));
  await results.save([finished('ask')], 'v');
  const move = await beginMove(slot);
  await moveKeys(move, slot);
  assert.equal((await results.get('ask'))?.uri, 'ask');
  await endMove(move, slot);
  assert.equal((await results.take('ask'))?.uri, 'ask');
});

test('the error of a client without cluster mode says what to set, and an address with another query is refused', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const url = opened.cluster.url.replace('?cluster=on', '');
  const plain = new ResultStore(new RedisConnection(url), { job: JOB, ttlSeconds: 60, now: Date.now });
  t.after(() => plain.close());
  await assert.rejects(
    plain.save([finished('a'), finished('b')], 'v'),
    /write \?cluster=on after its address/,
  );
  assert.throws(() => openRedis(`${url}?cluster=yes`), { code: 'bad_config' });
});

test('a bridge refuses the Redis of its stream in cluster mode, whichever node it asks', async (t) => {
  const found = open(t);
  if (!found) return;
  const urls = found.cluster.nodes.map(({ port }) => `rediss://localhost:${port}`);
  for (const redisUrl of [found.cluster.url, ...urls]) {
    const started = startBridge({ redisUrl, stream: 'serving_stream', send: async () => {}, warn: () => {} });
    await assert.rejects(started, {
      code: 'bad_config',
      message: /^Redis at localhost:\d+ is in cluster mode/,
    });
  }
});

// The last test, because the cluster is not whole after it.
test('a lost node costs its own records until its replica has taken over, and then nothing', async (t) => {
  const opened = open(t);
  if (!opened) return;
  const {
    cluster: { nodes },
    results,
  } = opened;
  const [, , third, copy] = nodes as [ClusterNode, ClusterNode, ClusterNode, ClusterNode];
  const uris = Array.from({ length: 300 }, (_, i) => `u-${i}`);
  const lost = uris.filter((uri) => slotOf(resultKey(JOB, uri)) >= 10_923);
  const [kept = ''] = lost;
  await results.save([finished(kept)], 'v');
  const idle = new ResultStore(openRedis(opened.cluster.url), { job: JOB, ttlSeconds: 60, now: Date.now });
  t.after(() => idle.close());
  await idle.get(kept);
  await third.redis.wait(1, 60_000);
  await third.kill();
  const blocked: string[] = [];
  const saved = await results.save(
    uris.map((uri) => finished(uri)),
    'v',
    undefined,
    (uri) => void blocked.push(uri),
  );
  assert.deepEqual([saved, blocked.sort()], [uris.length - lost.length, lost.toSorted()]);
  await assert.rejects(results.get(kept), { code: 'results_unavailable' });
  await copy.redis.cluster('FAILOVER', 'TAKEOVER');
  // Its table of slots is from before.
  assert.equal((await idle.get(kept))?.uri, kept);
  // What was not saved comes again.
  assert.equal(
    await results.save(
      lost.map((uri) => finished(uri)),
      'v',
    ),
    lost.length - 1,
  );
  assert.deepEqual(await drained(results), uris.toSorted());
});
