/** States in Redis: their keys, its channels, old clients, and lost answers. */
import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { sendAnnounced } from '../../../lib/pipeline/submit.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { enqueued } from '../../support/enqueue.ts';
import { PASS, startRedisProxy } from '../../support/faults/redis/proxy.ts';
import { directClient, PATIENT, redisUrl } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

const DAY_MS = 24 * 3600 * 1000;

function open(t: TestContext, url: string, ttlSeconds = 60) {
  const connection = openRedis(url, PATIENT);
  const results = new ResultStore(connection, { job: 'job', ttlSeconds, now: Date.now });
  const states = new RecordStates(connection, { job: 'job', now: Date.now });
  t.after(() => results.close());
  return { results, states, redis: directClient(t, connection) };
}

const success = (uri: string, value: number, identity?: string, sentAt = 1) => {
  const values = [value];
  const data = Float32Array.from(values);
  const outputs = [{ name: 'y', dtype: 'float32' as const, shape: [values.length], data }];
  const fields = serializeResult({ ok: true, outputs }, undefined);
  return { uri, fields, ...(identity === undefined ? {} : { enqueue: enqueued(identity, sentAt) }) };
};
const running = (uri: string, identity = 'one') => ({ uri, enqueue: enqueued(identity) });
const record = (uri: string, identity: string) => ({ uri, identity, message: `payload of ${identity}` });

test('marking records as running never throws where a key holds something else', async (t) => {
  const { states, redis } = open(t, await redisUrl(t));
  await states.announce(record('a', 'one'));
  await redis.rpush('cluster-serving-state_job:b', 'a list');
  await states.markRunning([running('b'), running('a')], 60_000);
  assert.equal(await states.status('a'), 'running');
});

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: a uri that is announced a hundred times keeps seven identities, and its state stays small`, async (t) => {
    const { states, redis } = open(t, await redisUrl(t, preferEmbedded));
    const identities = Array.from({ length: 100 }, (_, i) => `identity-${i}`);
    for (const identity of identities) await states.announce(record('a', identity));
    const pending = await redis.hget('cluster-serving-state_job:a', 'pending');
    assert.deepEqual(pending?.split(' '), identities.slice(-7).toReversed());
  });

  test(`${kind}: a cancellation lists fourteen identities, those of earlier ones last`, async (t) => {
    const { states, redis } = open(t, await redisUrl(t, preferEmbedded));
    const identities = Array.from({ length: 21 }, (_, i) => `e${i}`);
    for (const [i, identity] of identities.entries()) {
      await states.announce(record('a', identity));
      if (i % 7 === 6) await states.cancel('a');
    }
    const cancelled = await redis.hget('cluster-serving_job:a', 'cancelled');
    assert.deepEqual(cancelled?.split(' '), identities.slice(-14).toReversed());
  });

  test(`${kind}: it is too late to cancel what was taken, expired or deleted by an old client, and no one hears of it`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const { results, states, redis } = open(t, url);
    await results.save(
      [success('taken', 1, 'one'), success('expired', 1, 'two'), success('deleted', 1, 'three')],
      'v',
    );
    const heard: string[] = [];
    const listener = await openRedis(url).subscriber((channel) => heard.push(channel));
    t.after(() => listener.disconnect());
    await listener.psubscribe('*');
    listener.on('pmessage', (_pattern: string, channel: string) => heard.push(channel));
    await results.take('taken');
    await redis.pexpire('cluster-serving_job:expired', 1);
    await redis.del('cluster-serving_job:deleted');
    await until(async () => (await redis.exists('cluster-serving_job:expired')) === 0);
    const uris = ['taken', 'expired', 'deleted'];
    assert.deepEqual(await Promise.all(uris.map((uri) => states.cancel(uri))), [false, false, false]);
    for (const uri of uris) assert.equal(await results.get(uri), undefined);
    await redis.publish('the end', '');
    await until(() => heard.includes('the end'));
    assert.deepEqual(heard, ['the end']);
  });

  test(`${kind}: the index lists a cancellation for as long as it stays, after a short result and a drain that was broken off`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded));
    await Promise.all(['b', 'c'].map((uri) => states.cancel(uri)));
    // A later result of another record, with its shorter time to live, must not end the index early.
    await results.save([success('a', 1)], 'v');
    assert.ok((await redis.pttl('cluster-serving-index_job')) > 4 * DAY_MS);
    for await (const { uri } of results.drain()) {
      assert.equal(uri, 'a');
      break;
    }
    const [, score, , next] = await redis.zrange('cluster-serving-index_job', '0', '-1', 'WITHSCORES');
    for (const at of [score, next]) assert.ok(Number(at) > Date.now() + 4 * DAY_MS, at);
  });

  test(`${kind}: a result that is taken takes its state with it, unless a later record of the uri is queued`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded));
    const keys = () => redis.keys('cluster-serving-state*');
    for (const uri of ['done', 'again']) await states.announce(record(uri, 'one'));
    await states.announce(record('again', 'two'));
    await redis.rpush('cluster-serving-state_job:foreign', 'a list');
    await redis.hset('cluster-serving-state_job:over', 'pending', 'one', 'done', '1');
    const uris = ['done', 'again', 'foreign', 'over'];
    await results.save(
      uris.map((uri) => success(uri, 1, 'one')),
      'v',
    );
    await redis.hset('cluster-serving-state_job:over', 'pending', 'one');
    for (const uri of uris) assert.ok(await results.take(uri), uri);
    assert.deepEqual(await keys(), ['cluster-serving-state_job:again']);
    assert.equal(await states.status('again'), 'queued');
    assert.equal(await redis.hget('cluster-serving-state_job:again', 'pending'), 'two');
  });

  test(`${kind}: a cancellation is published on the channel of its uri`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const heard: string[] = [];
    const listener = await openRedis(url).subscriber((channel) => heard.push(channel));
    t.after(() => listener.disconnect());
    await listener.subscribe('cluster-serving-done_job:a');
    await open(t, url).states.cancel('a');
    await until(() => heard.length === 1);
  });

  test(`${kind}: announcements outlast the queue, then their results, and old clients take none for a result`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded), 60);
    await states.announce(record('a', 'one'));
    await states.cancel('c');
    for (const key of await redis.keys('*')) assert.ok((await redis.pttl(key)) > 4 * DAY_MS, key);
    await results.save([success('a', 1, 'one'), success('b', 1, 'two')], 'v');
    const leftMs = await redis.pttl('cluster-serving-state_job:a');
    assert.ok(leftMs > 60_000 && leftMs <= 120_000, `${leftMs}`);
    assert.deepEqual((await redis.keys('cluster-serving-state*')).sort(), ['cluster-serving-state_job:a']);
    assert.deepEqual((await redis.keys('cluster-serving_job:*')).sort(), [
      'cluster-serving_job:a',
      'cluster-serving_job:b',
      'cluster-serving_job:c',
    ]);
    for (const uri of ['a', 'b', 'c'])
      assert.ok((await redis.pttl(`cluster-serving-newest_job:${uri}`)) > 4 * DAY_MS);
  });
}

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: an announcement whose answer was lost, and that was made again, counts once`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const proxy = await startRedisProxy(t, url);
    const { states } = open(t, proxy.url);
    const others = open(t, url).states;
    // The server knows the script, so that the next command is the announcement itself.
    await states.announce(record('warm', 'up'));
    let lost = 0;
    proxy.onCommand = ({ name }) =>
      name.startsWith('EVAL') && lost++ === 0 ? { kind: 'cutReply', bytes: 0 } : PASS;
    const announcement = await states.announce(record('a', 'one'));
    proxy.onCommand = () => PASS;
    assert.equal(lost, 2);
    assert.equal(await others.status('a'), 'queued');
    await announcement.withdraw();
    assert.equal(await others.status('a'), 'unknown');
  });
}

test('a hash of the old server, which has no status, tells by its value', async (t) => {
  const { states, redis } = open(t, await redisUrl(t));
  assert.equal(await states.status('good'), 'unknown');
  await redis.hset('cluster-serving_job:good', 'value', '[[1,0.5]]');
  await redis.hset('cluster-serving_job:bad', 'value', 'NaN');
  assert.deepEqual([await states.status('good'), await states.status('bad')], ['succeeded', 'failed']);
  assert.equal(await states.cancel('good'), false);
});

test('a record that cannot be announced keeps all of its request from being sent, and the others are withdrawn', async (t) => {
  const { states, redis } = open(t, await redisUrl(t));
  await states.announce(record('warm', 'up'));
  await redis.set('cluster-serving-state_job:b', 'of another program');
  const send = () => assert.fail('sent');
  const records = ['a', 'b', 'c'].map((uri) => record(uri, 'one'));
  await assert.rejects(sendAnnounced(states, records, send), { code: 'results_unavailable' });
  assert.deepEqual(await Promise.all(['a', 'c'].map((uri) => states.status(uri))), ['unknown', 'unknown']);
});

/** A way to Redis that lets the next replies through only when `count` scripts have been asked for. */
async function holdingProxy(t: TestContext, url: string) {
  const sockets: Socket[] = [];
  let asked = '';
  let wanted = 0;
  let held: (() => void)[] = [];
  const mayPass = () => asked.split(/evalsha/i).length - 1 >= wanted;
  const server = createServer((client) => {
    const redis = connect(Number(new URL(url).port), '127.0.0.1');
    for (const socket of [client, redis]) sockets.push(socket.on('error', () => undefined));
    client.on('data', (chunk) => {
      asked += chunk.toString('latin1');
      redis.write(chunk);
      if (!mayPass()) return;
      for (const pass of held) pass();
      held = [];
    });
    redis.on('data', (chunk) => (mayPass() ? client.write(chunk) : held.push(() => client.write(chunk))));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address);
  return {
    url: `redis://127.0.0.1:${address.port}`,
    holdUntil: (count: number) => {
      asked = '';
      wanted = count;
    },
  };
}

test('announcements of one tick leave without waiting for each other', async (t) => {
  const proxy = await holdingProxy(t, await redisUrl(t));
  const { states } = open(t, proxy.url);
  await states.announce(record('warm', 'up'));
  proxy.holdUntil(100);
  const announced = await Promise.all(
    Array.from({ length: 100 }, (_, i) => states.announce(record(`uri-${i}`, 'one'))),
  );
  assert.equal(announced.length, 100);
});
