import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { sendAnnounced } from '../../../lib/pipeline/submit.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import type { Finished } from '../../../lib/results/store.ts';
import { PASS, startRedisProxy } from '../../faults/support/redis/proxy.ts';
import { enqueued } from '../../support/enqueue.ts';
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
const failure = (uri: string) => ({
  uri,
  fields: serializeResult({ ok: false, error: new ServingError('bad_input', 'no') }, undefined),
});
const running = (uri: string, identity = 'one') => ({ uri, enqueue: enqueued(identity) });
const record = (uri: string, identity: string) => ({ uri, identity, message: `payload of ${identity}` });

test('marking records as running never throws, also when Redis is away or a key holds something else', async (t) => {
  const { states, redis } = open(t, await redisUrl(t));
  await states.announce(record('a', 'one'));
  await redis.rpush('cluster-serving-state_job:b', 'a list');
  await states.markRunning([running('b'), running('a')], 60_000);
  assert.equal(await states.status('a'), 'running');
  const gone = open(t, 'redis://127.0.0.1:1');
  await gone.states.markRunning([running('a')], 60_000);
});

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: a record is unknown, queued, then succeeded or failed, expired, and unknown once taken`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded));
    const seen: string[] = [];
    const look = async (uri: string) => void seen.push(await states.status(uri));
    await look('a');
    await states.announce(record('a', 'one'));
    await look('a');
    await results.save([success('a', 1, 'one'), failure('b')], 'v');
    await look('a');
    await look('b');
    await redis.pexpire('cluster-serving_job:a', 1);
    await until(async () => (await states.status('a')) !== 'succeeded');
    await look('a');
    await states.announce(record('c', 'one'));
    await results.save([success('c', 1, 'one')], 'v');
    await results.take('c');
    await look('c');
    assert.deepEqual(seen, ['unknown', 'queued', 'succeeded', 'failed', 'expired', 'unknown']);
  });

  test(`${kind}: an announced record is running once a batch function has it, until its outcome or its time is up`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await Promise.all(['a', 'b', 'c'].map((uri) => states.announce(record(uri, 'one'))));
    await states.markRunning(
      ['a', 'b', 'nobody'].map((uri) => running(uri)),
      60_000,
    );
    const seen = await Promise.all(['a', 'b', 'c', 'nobody'].map((uri) => states.status(uri)));
    assert.deepEqual(seen, ['running', 'running', 'queued', 'unknown']);
    await results.save([success('a', 1, 'one')], 'v');
    assert.equal(await states.status('a'), 'succeeded');
    await states.markRunning([running('a')], 60_000);
    assert.equal(await states.status('a'), 'succeeded');
    // A worker that died says nothing more: the record is delivered again.
    await states.markRunning([running('b')], -1);
    assert.equal(await states.status('b'), 'queued');
  });

  test(`${kind}: a uri with a result that is enqueued again is queued again, until that has its result too`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await states.announce(record('a', 'one'));
    await results.save([success('a', 1, 'one', 1)], 'v');
    await states.announce(record('a', 'two'));
    const statuses = () =>
      Promise.all([{}, { identity: 'one' }, { identity: 'two' }].map((query) => states.status('a', query)));
    assert.deepEqual(await statuses(), ['queued', 'succeeded', 'queued']);
    assert.equal((await results.get('a'))?.outputs[0]?.data[0], 1);
    await states.markRunning([running('a', 'one')], 60_000);
    assert.deepEqual(await statuses(), ['queued', 'succeeded', 'queued']);
    await states.markRunning([running('a', 'two')], 60_000);
    assert.deepEqual(await statuses(), ['running', 'succeeded', 'running']);
    await results.save([success('a', 2, 'two', 2)], 'v');
    assert.deepEqual(await statuses(), ['succeeded', 'unknown', 'succeeded']);
    assert.equal((await results.get('a'))?.outputs[0]?.data[0], 2);
    await results.take('a');
    assert.deepEqual(await statuses(), ['unknown', 'unknown', 'unknown']);
  });

  test(`${kind}: a run is that of its own enqueue, and another enqueue of the uri neither runs with it nor hides it`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    const statuses = () =>
      Promise.all([{}, { identity: 'one' }, { identity: 'two' }].map((query) => states.status('a', query)));
    for (const identity of ['one', 'two']) await states.announce(record('a', identity));
    await states.markRunning([running('a', 'one')], 60_000);
    assert.deepEqual(await statuses(), ['running', 'running', 'queued']);
    await results.save([success('a', 1, 'one', 1)], 'v');
    assert.deepEqual(await statuses(), ['queued', 'succeeded', 'queued']);
    await states.markRunning([running('a', 'two')], 60_000);
    // The message of the first comes again while the second runs.
    await states.markRunning([running('a', 'one')], 60_000);
    assert.deepEqual(await statuses(), ['running', 'succeeded', 'running']);
  });

  test(`${kind}: a uri that is queued again stays queued when its earlier result is taken`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await states.announce(record('a', 'one'));
    await results.save([success('a', 1, 'one', 1)], 'v');
    await states.announce(record('a', 'two'));
    assert.equal((await results.take('a'))?.identity, 'one');
    assert.deepEqual(
      [await states.status('a'), await states.status('a', { identity: 'two' })],
      ['queued', 'queued'],
    );
    assert.equal(await states.cancel('a'), true, 'the second enqueue can still be cancelled');
  });

  test(`${kind}: a uri is queued as long as one of its announced enqueues has no outcome, whichever comes first`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    for (const identity of ['one', 'two', 'three']) await states.announce(record('a', identity));
    await results.save([success('a', 3, 'three', 3)], 'v');
    assert.equal(await states.status('a'), 'queued');
    // These were sent before, and count no more; their messages are done all the same.
    await results.save([success('a', 1, 'one', 1)], 'v');
    assert.equal(await states.status('a'), 'queued');
    await results.save([success('a', 2, 'two', 2)], 'v');
    assert.equal(await states.status('a'), 'succeeded');
    assert.equal((await results.get('a'))?.outputs[0]?.data[0], 3);
  });

  test(`${kind}: a uri that is announced a hundred times keeps seven identities, and its state stays small`, async (t) => {
    const { states, redis } = open(t, await redisUrl(t, preferEmbedded));
    const identities = Array.from({ length: 100 }, (_, i) => `identity-${i}`);
    for (const identity of identities) await states.announce(record('a', identity));
    const pending = await redis.hget('cluster-serving-state_job:a', 'pending');
    assert.deepEqual(pending?.split(' '), identities.slice(-7).toReversed());
  });

  test(`${kind}: what could not be sent is withdrawn, and what else was announced or stored stays`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    const first = await states.announce(record('a', 'one'));
    const second = await states.announce(record('a', 'two'));
    await first.withdraw();
    assert.equal(await states.status('a'), 'queued');
    await second.withdraw();
    await second.withdraw();
    assert.equal(await states.status('a'), 'unknown');
    await states.announce(record('a', 'three'));
    await results.save([success('a', 1, 'three')], 'v');
    const again = await states.announce(record('a', 'four'));
    assert.equal(await states.status('a'), 'queued');
    await again.withdraw();
    assert.equal(await states.status('a'), 'succeeded');
  });

  test(`${kind}: an enqueue that was sent after all, and had its outcome, is not withdrawn by the error of its sender`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded));
    const announcement = await states.announce(record('a', 'one'));
    await results.save([success('a', 1, 'one')], 'v');
    await redis.pexpire('cluster-serving_job:a', 1);
    await until(async () => (await states.status('a')) === 'expired');
    await announcement.withdraw();
    assert.equal(await states.status('a'), 'expired');
  });

  test(`${kind}: a cancelled uri is cancelled before its message comes, and gives that to no enqueue but its own`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await states.announce(record('a', 'one'));
    await states.cancel('a');
    assert.equal(await states.status('a'), 'cancelled');
    assert.equal(await results.take('a', { identity: 'two' }), undefined);
    await assert.rejects(results.take('a', { identity: 'one' }), { code: 'cancelled', uri: 'a' });
  });

  test(`${kind}: a cancelled record keeps its outcome though it runs later, and though it is taken`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await states.announce(record('a', 'one'));
    assert.equal(await states.cancel('a'), true);
    assert.equal(await results.save([success('a', 1, 'one'), success('b', 2, 'two')], 'v'), 1);
    const cancelled = { code: 'cancelled', uri: 'a', message: /cancelled before it had a result/ };
    await assert.rejects(results.get('a'), cancelled);
    await assert.rejects(results.get('a', { identity: 'one' }), cancelled);
    assert.equal(await results.get('a', { identity: 'two' }), undefined);
    await assert.rejects(results.take('a'), cancelled);
    await assert.rejects(results.take('a', { identity: 'one' }), cancelled);
    assert.equal(await results.save([success('a', 1, 'one')], 'v'), 0);
    await assert.rejects(results.get('a'), cancelled);
    assert.deepEqual(
      [await states.status('a'), await states.status('a', { identity: 'one' })],
      ['cancelled', 'cancelled'],
    );
    assert.equal(await states.cancel('a'), true, 'cancelling again is no other answer');
  });

  test(`${kind}: what is enqueued after a cancellation is not cancelled, and what was announced before it is`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded));
    await states.announce(record('a', 'one'));
    const [seconds] = await redis.time();
    const later = (Number(seconds) + 60) * 1000;
    await states.cancel('a');
    // The clock of SQS may be ahead of that of Redis.
    assert.equal(await results.save([success('a', 1, 'one', later)], 'v'), 0);
    await states.announce(record('a', 'two'));
    assert.equal(await states.status('a'), 'queued');
    assert.equal(await results.save([success('a', 2, 'two', later + 1)], 'v'), 1);
    assert.equal((await results.get('a'))?.outputs[0]?.data[0], 2);
    assert.equal(await results.save([success('a', 1, 'one', later)], 'v'), 0);
  });

  test(`${kind}: a record that was not announced hears that it was cancelled when it has run`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await results.save([success('a', 1, 'one', 1)], 'v');
    await results.take('a');
    await states.announce(record('a', 'three'));
    await states.cancel('a');
    await results.save([success('a', 2, 'two', 2), success('a', 1, 'one', 1)], 'v');
    await assert.rejects(results.get('a', { identity: 'two' }), { code: 'cancelled' });
    assert.equal(await results.get('a', { identity: 'one' }), undefined, 'it had its result before');
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

  test(`${kind}: it is too late to cancel what has a result, and the result stays`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await results.save([success('a', 1), failure('b')], 'v');
    assert.deepEqual([await states.cancel('a'), await states.cancel('b')], [false, false]);
    assert.ok(await results.get('a'));
    assert.deepEqual([await states.status('a'), await states.status('b')], ['succeeded', 'failed']);
  });

  test(`${kind}: a cancelled record is dequeued once, by one of two`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const one = open(t, url);
    const two = open(t, url);
    const uris = Array.from({ length: 30 }, (_, i) => `uri-${i}`);
    await Promise.all(uris.map((uri) => one.states.cancel(uri)));
    // A later result of another record, with its shorter time to live, must not end the index early.
    await one.results.save([success('last', 1)], 'v');
    assert.ok((await one.redis.pttl('cluster-serving-index_job')) > 4 * DAY_MS);
    const drain = async (results: ResultStore) => {
      const seen: string[] = [];
      for await (const { uri } of results.drain()) seen.push(uri);
      return seen;
    };
    // Both connections stand, so that both read the index before either takes from it.
    await two.results.ping();
    const [first, second] = await Promise.all([drain(one.results), drain(two.results)]);
    assert.deepEqual([...first, ...second].sort(), [...uris, 'last'].sort());
  });

  test(`${kind}: who breaks off a drain leaves a cancelled record for the next one, once`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded));
    await results.save([success('a', 1)], 'v');
    await Promise.all(['b', 'c'].map((uri) => states.cancel(uri)));
    const drainSome = async (count: number) => {
      const seen: string[] = [];
      for await (const { uri } of results.drain()) if (seen.push(uri) === count) break;
      return seen;
    };
    assert.deepEqual(await drainSome(1), ['a']);
    const [score] = (await redis.zrange('cluster-serving-index_job', '0', '-1', 'WITHSCORES')).slice(1);
    assert.ok(Number(score) > Date.now() + 4 * DAY_MS);
    const [next = ''] = await drainSome(1);
    assert.deepEqual([next, ...(await drainSome(9))].sort(), ['b', 'c']);
    assert.deepEqual(await drainSome(9), []);
  });

  test(`${kind}: a waiting client is notified of the cancellation`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const waiting = open(t, url).results.wait('a', { timeoutMs: 10_000 });
    const refused = assert.rejects(waiting, { code: 'cancelled', uri: 'a' });
    const heard: string[] = [];
    const listener = await openRedis(url).subscriber((channel) => heard.push(channel));
    t.after(() => listener.disconnect());
    await listener.subscribe('cluster-serving-done_job:a');
    await open(t, url).states.cancel('a');
    await refused;
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

test('what is announced for one job is not queued in another', async (t) => {
  const connection = openRedis(await redisUrl(t), PATIENT);
  t.after(() => connection.close());
  const one = new RecordStates(connection, { job: 'one', now: Date.now });
  const two = new RecordStates(connection, { job: 'two', now: Date.now });
  await one.announce(record('a', 'one'));
  assert.deepEqual([await one.status('a'), await two.status('a')], ['queued', 'unknown']);
});

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

test('a record that could not be sent is withdrawn, and the one beside it stays sent', async (t) => {
  const { states } = open(t, await redisUrl(t));
  const send = async ({ uri }: { uri: string }) => {
    if (uri === 'a') throw new ServingError('queue_unavailable', 'no', { uri });
  };
  const records = [record('a', 'one'), record('b', 'one')];
  await assert.rejects(sendAnnounced(states, records, send), { code: 'queue_unavailable', uri: 'a' });
  assert.deepEqual([await states.status('a'), await states.status('b')], ['unknown', 'queued']);
});

test('a Redis that is away is results_unavailable, and nothing is sent', async (t) => {
  const { states } = open(t, 'redis://127.0.0.1:1');
  const send = () => assert.fail('sent');
  const away = { code: 'results_unavailable' };
  await assert.rejects(sendAnnounced(states, [record('a', 'one')], send), away);
  await assert.rejects(states.status('a'), away);
  await assert.rejects(states.cancel('a'), away);
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

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: a retry with the same identity makes no second result, and what was sent before it is earlier`, async (t) => {
    const orders = [
      [success('a', 1, 'one', 1), success('a', 1, 'one', 3), success('a', 2, 'two', 2)],
      [success('a', 1, 'one', 3), success('a', 2, 'two', 2), success('a', 1, 'one', 1)],
      [success('a', 2, 'two', 2), success('a', 1, 'one', 1), success('a', 1, 'one', 3)],
    ];
    const { results, redis } = open(t, await redisUrl(t, preferEmbedded));
    await results.ping();
    for (const order of orders) {
      await redis.flushall();
      assert.equal(await results.save([order[0] as Finished], 'v'), 1);
      assert.equal(await results.save(order.slice(1), 'v'), order[0]?.enqueue?.identity === 'two' ? 1 : 0);
      assert.equal((await results.get('a'))?.identity, 'one');
    }
  });
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
