import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { sendClaimed } from '../../../lib/pipeline/submit.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { serializeResult } from '../../../lib/redis/result/fields.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { PASS, startRedisProxy } from '../../faults/support/redis/proxy.ts';
import { redisUrl } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

const DAY_MS = 24 * 3600 * 1000;

function open(t: TestContext, url: string, ttlSeconds = 60) {
  const connection = new RedisConnection(url);
  const results = new ResultStore(connection, { job: 'job', ttlSeconds, now: Date.now });
  const states = new RecordStates(connection, { job: 'job', now: Date.now });
  t.after(() => results.close());
  return { results, states, redis: connection.redis };
}

const success = (uri: string, ...values: number[]) => {
  const data = Float32Array.from(values);
  const outputs = [{ name: 'y', dtype: 'float32' as const, shape: [values.length], data }];
  return { uri, fields: serializeResult({ ok: true, outputs }, undefined) };
};
const failure = (uri: string) => ({
  uri,
  fields: serializeResult({ ok: false, error: new ServingError('bad_input', 'no') }, undefined),
});
const record = (uri: string, payload: string) => ({ uri, message: payload });

test('marking records as running never throws, also when Redis is away or a key holds something else', async (t) => {
  const { states, redis } = open(t, await redisUrl(t));
  await states.claim(record('a', 'one'));
  await redis.rpush('cluster-serving-state_job:b', 'a list');
  await states.markRunning(['b', 'a'], 60_000);
  assert.equal(await states.status('a'), 'running');
  const gone = open(t, 'redis://127.0.0.1:1');
  await gone.states.markRunning(['a'], 60_000);
});

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: a record is unknown, queued, then succeeded or failed, expired, and unknown once taken`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded));
    const seen: string[] = [];
    const look = async (uri: string) => void seen.push(await states.status(uri));
    await look('a');
    await states.claim(record('a', 'one'));
    await look('a');
    await results.save([success('a', 1), failure('b')], 'v');
    await look('a');
    await look('b');
    await redis.pexpire('cluster-serving_job:a', 1);
    await until(async () => (await states.status('a')) !== 'succeeded');
    await look('a');
    await states.claim(record('c', 'one'));
    await results.save([success('c', 1)], 'v');
    await results.take('c');
    await look('c');
    assert.deepEqual(seen, ['unknown', 'queued', 'succeeded', 'failed', 'expired', 'unknown']);
  });

  test(`${kind}: a claimed record is running once a batch function has it, until its outcome or its time is up`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await Promise.all(['a', 'b', 'c'].map((uri) => states.claim(record(uri, 'one'))));
    await states.markRunning(['a', 'b', 'nobody'], 60_000);
    const seen = await Promise.all(['a', 'b', 'c', 'nobody'].map((uri) => states.status(uri)));
    assert.deepEqual(seen, ['running', 'running', 'queued', 'unknown']);
    await results.save([success('a', 1)], 'v');
    assert.equal(await states.status('a'), 'succeeded');
    await states.markRunning(['a'], 60_000);
    assert.equal(await states.status('a'), 'succeeded');
    // A worker that died says nothing more: the record is delivered again.
    await states.markRunning(['b'], -1);
    assert.equal(await states.status('b'), 'queued');
  });

  test(`${kind}: the same payload may be claimed again, and is not sent once it has its result`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    const sends = async () => (await states.claim(record('a', 'one'))).send;
    assert.deepEqual([await sends(), await sends()], [true, true]);
    await results.save([failure('a')], 'v');
    assert.equal(await sends(), false);
    await results.takePage(10);
    assert.equal(await sends(), true);
  });

  test(`${kind}: another payload is refused while the uri is in use, and taken once the result is`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    const refused = { code: 'conflict', uri: 'a', message: /in use for another payload/ };
    const other = () => states.claim(record('a', 'two'));
    await states.claim(record('a', 'one'));
    await assert.rejects(other(), refused);
    await results.take('a');
    await assert.rejects(other(), refused);
    await results.save([success('a', 1)], 'v');
    await assert.rejects(other(), refused);
    await results.take('a');
    assert.equal((await other()).send, true);
  });

  test(`${kind}: a result without a claim refuses every claim on its uri`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await results.save([success('a', 1)], 'v');
    await assert.rejects(states.claim(record('a', 'one')), { code: 'conflict', uri: 'a' });
  });

  test(`${kind}: a record whose result has expired is queued again by the same payload alone`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded));
    await states.claim(record('a', 'one'));
    await results.save([success('a', 1)], 'v');
    await redis.pexpire('cluster-serving_job:a', 1);
    await until(async () => (await states.status('a')) === 'expired');
    await assert.rejects(states.claim(record('a', 'two')), { code: 'conflict' });
    assert.equal((await states.claim(record('a', 'one'))).send, true);
    assert.equal(await states.status('a'), 'queued');
  });

  test(`${kind}: of two who claim one uri for different payloads exactly one wins, fifty times`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const one = open(t, url).states;
    const two = open(t, url).states;
    for (let i = 0; i < 50; i++) {
      const claims = [() => one.claim(record(`uri-${i}`, 'one')), () => two.claim(record(`uri-${i}`, 'two'))];
      // Who asks first takes turns, so that neither connection wins by its place.
      if (i % 2 === 1) claims.reverse();
      const outcomes = await Promise.allSettled(claims.map((claim) => claim()));
      const losers = outcomes.filter((outcome) => outcome.status === 'rejected');
      assert.equal(losers.length, 1, `uri-${i}`);
      assert.equal((losers[0]?.reason as ServingError).code, 'conflict');
      assert.equal(await one.status(`uri-${i}`), 'queued');
    }
  });

  test(`${kind}: a claim ends when all who made it have failed to send, and not before`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    const first = await states.claim(record('a', 'one'));
    const second = await states.claim(record('a', 'one'));
    await first.release();
    assert.equal(await states.status('a'), 'queued');
    await second.release();
    assert.equal(await states.status('a'), 'unknown');
    const late = await states.claim(record('a', 'one'));
    await results.save([success('a', 1)], 'v');
    await late.release();
    assert.equal((await states.claim(record('a', 'one'))).send, false);
    await results.take('a');
    await states.claim(record('a', 'two'));
    await late.release();
    assert.equal(await states.status('a'), 'queued');
  });

  test(`${kind}: a cancelled record keeps its outcome though it runs later, and though it is taken`, async (t) => {
    const { results, states } = open(t, await redisUrl(t, preferEmbedded));
    await states.claim(record('a', 'one'));
    assert.equal(await states.cancel('a'), true);
    assert.equal(await results.save([success('a', 1), success('b', 2)], 'v'), 1);
    const cancelled = { code: 'cancelled', uri: 'a', message: /cancelled before it had a result/ };
    await assert.rejects(results.get('a'), cancelled);
    await assert.rejects(results.take('a'), cancelled);
    assert.equal(await results.save([success('a', 1)], 'v'), 0);
    await assert.rejects(results.get('a'), cancelled);
    assert.equal(await states.status('a'), 'cancelled');
    assert.equal((await states.claim(record('a', 'one'))).send, false);
    await assert.rejects(states.claim(record('a', 'two')), { code: 'conflict' });
    assert.equal(await states.cancel('a'), true, 'cancelling again is no other answer');
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
    const listener = await new RedisConnection(url).subscriber((channel) => heard.push(channel));
    t.after(() => listener.disconnect());
    await listener.subscribe('cluster-serving-done_job:a');
    await open(t, url).states.cancel('a');
    await refused;
    await until(() => heard.length === 1);
  });

  test(`${kind}: claims outlast the queue, then their results, and old clients take none for a result`, async (t) => {
    const { results, states, redis } = open(t, await redisUrl(t, preferEmbedded), 60);
    await states.claim(record('a', 'one'));
    await states.cancel('c');
    for (const key of await redis.keys('*')) assert.ok((await redis.pttl(key)) > 4 * DAY_MS, key);
    await results.save([success('a', 1), success('b', 1)], 'v');
    const leftMs = await redis.pttl('cluster-serving-state_job:a');
    assert.ok(leftMs > 60_000 && leftMs <= 120_000, `${leftMs}`);
    assert.deepEqual((await redis.keys('cluster-serving-state*')).sort(), ['cluster-serving-state_job:a']);
    assert.deepEqual((await redis.keys('cluster-serving_job:*')).sort(), [
      'cluster-serving_job:a',
      'cluster-serving_job:b',
      'cluster-serving_job:c',
    ]);
  });
}

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: a claim whose answer was lost, and that was asked for again, counts once`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const proxy = await startRedisProxy(t, url);
    const { states } = open(t, proxy.url);
    const others = open(t, url).states;
    // The server knows the script, so that the next command is the claim itself.
    await states.claim(record('warm', 'up'));
    const claimLosing = async (uri: string) => {
      let lost = 0;
      proxy.onCommand = ({ name }) =>
        name.startsWith('EVAL') && lost++ === 0 ? { kind: 'cutReply', bytes: 0 } : PASS;
      const claim = await states.claim(record(uri, 'one'));
      proxy.onCommand = () => PASS;
      assert.equal(lost, 2);
      return claim;
    };
    const alone = await claimLosing('a');
    assert.equal(alone.send, true);
    await alone.release();
    assert.equal(await others.status('a'), 'unknown');
    assert.equal((await others.claim(record('a', 'two'))).send, true);

    const before = await others.claim(record('b', 'one'));
    const second = await claimLosing('b');
    await before.release();
    assert.equal(await others.status('b'), 'queued');
    await second.release();
    assert.equal(await others.status('b'), 'unknown');
  });

  test(`${kind}: a uri that is claimed a hundred times takes no more memory than one claimed ten times, and counts all`, async (t) => {
    const { states, redis } = open(t, await redisUrl(t, preferEmbedded));
    const claims = await Promise.all(Array.from({ length: 10 }, () => states.claim(record('a', 'one'))));
    const bytes = async () =>
      Object.values(await redis.hgetall('cluster-serving-state_job:a')).join('').length;
    const atTen = await bytes();
    for (let i = 10; i < 100; i++) claims.push(await states.claim(record('a', 'one')));
    assert.equal(await bytes(), atTen + 1, 'the count has a digit more');
    for (const claim of claims.slice(1)) await claim.release();
    assert.equal(await states.status('a'), 'queued');
    await claims[0]?.release();
    assert.equal(await states.status('a'), 'unknown');
  });
}

test('a claim of one job is none of another', async (t) => {
  const connection = new RedisConnection(await redisUrl(t));
  t.after(() => connection.close());
  const one = new RecordStates(connection, { job: 'one', now: Date.now });
  const two = new RecordStates(connection, { job: 'two', now: Date.now });
  await one.claim(record('a', 'one'));
  assert.equal((await two.claim(record('a', 'two'))).send, true);
});

test('a hash of the old server, which has no status, tells by its value', async (t) => {
  const { states, redis } = open(t, await redisUrl(t));
  assert.equal(await states.status('good'), 'unknown');
  await redis.hset('cluster-serving_job:good', 'value', '[[1,0.5]]');
  await redis.hset('cluster-serving_job:bad', 'value', 'NaN');
  assert.deepEqual([await states.status('good'), await states.status('bad')], ['succeeded', 'failed']);
  assert.equal(await states.cancel('good'), false);
});

test('one refused record keeps all of its request from being sent, and gives the claims of the others back', async (t) => {
  const { states } = open(t, await redisUrl(t));
  await states.claim(record('b', 'one'));
  const sent: string[] = [];
  const send = async ({ uri }: { uri: string }) => void sent.push(uri);
  const records = [record('a', 'two'), record('b', 'two'), record('c', 'two')];
  await assert.rejects(sendClaimed(states, records, send), { code: 'conflict', uri: 'b' });
  assert.deepEqual(sent, []);
  assert.deepEqual(await Promise.all(['a', 'b', 'c'].map((uri) => states.status(uri))), [
    'unknown',
    'queued',
    'unknown',
  ]);
});

test('a record that could not be sent gives its claim back, and the one beside it stays sent', async (t) => {
  const { states } = open(t, await redisUrl(t));
  const send = async ({ uri }: { uri: string }) => {
    if (uri === 'a') throw new ServingError('queue_unavailable', 'no', { uri });
  };
  const records = [record('a', 'one'), record('b', 'one')];
  await assert.rejects(sendClaimed(states, records, send), { code: 'queue_unavailable', uri: 'a' });
  assert.deepEqual([await states.status('a'), await states.status('b')], ['unknown', 'queued']);
});

test('a record that has its result is not sent again, the new one beside it is', async (t) => {
  const { results, states } = open(t, await redisUrl(t));
  await states.claim(record('a', 'one'));
  await results.save([success('a', 1)], 'v');
  const sent: string[] = [];
  await sendClaimed(states, [record('a', 'one'), record('b', 'one')], async ({ uri }) => void sent.push(uri));
  assert.deepEqual(sent, ['b']);
});

test('a Redis that is away is results_unavailable, and nothing is sent', async (t) => {
  const { states } = open(t, 'redis://127.0.0.1:1');
  const send = () => assert.fail('sent');
  const away = { code: 'results_unavailable' };
  await assert.rejects(sendClaimed(states, [record('a', 'one')], send), away);
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

test('claims of one tick leave without waiting for each other', async (t) => {
  const proxy = await holdingProxy(t, await redisUrl(t));
  const { states } = open(t, proxy.url);
  await states.claim(record('warm', 'up'));
  proxy.holdUntil(100);
  const claims = await Promise.all(
    Array.from({ length: 100 }, (_, i) => states.claim(record(`uri-${i}`, 'one'))),
  );
  assert.ok(claims.every(({ send }) => send));
});
