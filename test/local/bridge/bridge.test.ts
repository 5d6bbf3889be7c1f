/**
 * A record that a client of the original Cluster Serving writes with XADD reaches the queue once and is answered under
 * its uri.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { SentRecord } from '../../../lib/pipeline/submit.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { StreamConsumer } from '../../../lib/redis/stream.ts';
import { GROUP, startBridge } from '../../../local/bridge/bridge.ts';
import type { BridgeOptions } from '../../../local/bridge/options.ts';
import { redisUrl } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

const STREAM = 'serving_stream';

async function stream(t: TestContext, preferEmbedded = false) {
  const url = await redisUrl(t, preferEmbedded);
  const redis = new Redis(url);
  t.after(() => redis.disconnect());
  const add = (uri: string, data = 'ZGF0YQ==') => redis.xadd(STREAM, '*', 'uri', uri, 'data', data);
  const sent: SentRecord[] = [];
  const warned: string[] = [];
  const bridge = async (options: Partial<BridgeOptions> = {}) => {
    const started = await startBridge({
      redisUrl: url,
      stream: STREAM,
      send: async (record) => void sent.push(record),
      warn: (message) => warned.push(message),
      ...options,
    });
    t.after(() => started.close());
    return started;
  };
  const uris = () => sent.map(({ uri }) => uri);
  return { url, redis, add, sent, uris, warned, bridge };
}

for (const [server, preferEmbedded] of [
  ['redis-server, where it is installed', false],
  ['the embedded Redis', true],
] as const) {
  test(`records are enqueued in their order and leave the stream of ${server}`, async (t) => {
    const { redis, add, sent, uris, bridge } = await stream(t, preferEmbedded);
    const id = (await add('a:1 {x}')) as string;
    await redis.xadd(STREAM, '*', 'uri', 'a:1 {x}', 'data', '{"instances":[]}', 'serde', 'stream');
    const running = await bridge();
    await until(() => sent.length === 2);
    for (let i = 0; i < 200; i++) await add(`later-${i}`);
    await until(() => sent.length === 202);
    await until(async () => (await redis.xlen(STREAM)) === 0);
    await running.close();
    assert.deepEqual(await running.ended, { enqueued: 202, dead: 0 });
    assert.deepEqual(
      uris().slice(2),
      Array.from({ length: 200 }, (_, i) => `later-${i}`),
    );
    const [first, second] = sent as [SentRecord, SentRecord];
    assert.deepEqual(JSON.parse(first.message), { uri: 'a:1 {x}', data: 'ZGF0YQ==', serde: 'arrow' });
    assert.deepEqual(JSON.parse(second.message), {
      uri: 'a:1 {x}',
      data: '{"instances":[]}',
      serde: 'stream',
    });
    assert.equal(
      first.identity,
      `stream-${id.replace(/-(\d+)$/, (_, n: string) => `-${n.padStart(6, '0')}`)}`,
    );
    assert.ok(second.identity > first.identity);
  });
}

test('with once a bridge ends when the stream is empty', async (t) => {
  const { add, uris, bridge } = await stream(t);
  await add('one');
  await add('two');
  assert.deepEqual(await (await bridge({ once: true })).ended, { enqueued: 2, dead: 0 });
  assert.deepEqual(await (await bridge({ once: true })).ended, { enqueued: 0, dead: 0 });
  assert.deepEqual(uris(), ['one', 'two']);
});

test('an entry without a readable uri or data goes to the list of dead ones, and its neighbours do not', async (t) => {
  const { redis, add, uris, bridge } = await stream(t);
  await add('before');
  await redis.xadd(STREAM, '*', 'data', 'x');
  await redis.xadd(STREAM, '*', 'uri', Buffer.from([0xff, 0xfe]), 'data', 'x');
  await redis.xadd(STREAM, '*', 'uri', 'no data', 'image', 'x');
  await redis.xadd(STREAM, '*', 'uri', 'u'.repeat(1_025), 'data', 'x');
  await redis.xadd(STREAM, '*', 'uri', 'too large', 'data', 'x');
  await add('after');
  const send = async ({ uri }: SentRecord) => {
    if (uri === 'too large') throw new ServingError('too_large', 'over 1 MiB');
    seen.push(uri);
  };
  const seen: string[] = [];
  assert.deepEqual(await (await bridge({ once: true, send })).ended, { enqueued: 2, dead: 5 });
  assert.deepEqual(seen, ['before', 'after']);
  assert.deepEqual(uris(), []);
  const dead = (await redis.lrange(`${STREAM}:dead`, 0, -1)).map((text) => JSON.parse(text));
  assert.deepEqual(
    dead.map(({ reason, fields }) => [reason, Object.keys(fields)]),
    [
      ['uri: expected a text of 1 to 1024 bytes, got nothing', ['data']],
      ['uri: expected a text in UTF-8', ['uri', 'data']],
      ['data: expected a text, got nothing', ['uri', 'image']],
      ['uri: 1025 bytes are over the limit of 1024', ['uri', 'data']],
      ['over 1 MiB', ['uri', 'data']],
    ],
  );
  assert.equal(await redis.xlen(STREAM), 0);
});

test('a queue that does not answer loses nothing and is tried again, with one warning', async (t) => {
  const { redis, add, bridge, warned } = await stream(t);
  const [down, taken]: [Set<string>, string[]] = [new Set(['two']), []];
  let refused = 0;
  const send = async ({ uri }: SentRecord) => {
    if (down.has(uri)) {
      refused++;
      throw new ServingError('queue_unavailable', 'SQS is away');
    }
    taken.push(uri);
  };
  for (const uri of ['one', 'two', 'three']) await add(uri);
  await bridge({ send });
  await until(() => warned.length === 1);
  await until(async () => (await redis.xlen(STREAM)) === 1);
  await until(() => refused > 2);
  assert.deepEqual(taken, ['one', 'three']);
  down.clear();
  await until(async () => (await redis.xlen(STREAM)) === 0);
  assert.deepEqual(taken, ['one', 'three', 'two']);
  assert.match(warned.join(), /^stream serving_stream: SQS is away; it is tried again$/);
});

test('a bridge whose settings are wrong ends with the error, and its records stay', async (t) => {
  const { redis, add, bridge } = await stream(t);
  await add('one');
  const send = async () => {
    throw new ServingError('bad_config', 'no such bucket');
  };
  await assert.rejects((await bridge({ send })).ended, { code: 'bad_config' });
  assert.equal(await redis.xlen(STREAM), 1);
});

test('what two bridges send of one entry, because the first died before it removed it, has one identity', async (t) => {
  const { add, sent, bridge } = await stream(t);
  for (const uri of ['a', 'a', 'b']) await add(uri);
  const first: SentRecord[] = [];
  // Its queue has the record, and its end comes before the answer.
  const send = async (record: SentRecord) => {
    first.push(record);
    throw new ServingError('bad_config', 'ends the bridge');
  };
  await assert.rejects((await bridge({ send })).ended, { code: 'bad_config' });
  await bridge({ claimAfterMs: 1 });
  await until(() => sent.length === 3);
  const identities = (records: readonly SentRecord[]) => records.map(({ identity }) => identity);
  assert.ok(first.length > 0);
  for (const identity of identities(first)) assert.ok(identities(sent).includes(identity));
  assert.equal(new Set(identities(sent)).size, 3);
});

test('what a bridge read before it died is taken over by another, under the same identity', async (t) => {
  const { redis, add, sent, bridge } = await stream(t);
  await redis.xgroup('CREATE', STREAM, GROUP, '0', 'MKSTREAM');
  await add('left behind');
  await redis.xreadgroup('GROUP', GROUP, 'dead-bridge', 'COUNT', 9, 'STREAMS', STREAM, '>');
  await add('new');
  await bridge({ claimAfterMs: 50 });
  await until(async () => (await redis.xlen(STREAM)) === 0);
  assert.deepEqual(new Set(sent.map(({ uri }) => uri)), new Set(['left behind', 'new']));
  await until(async () => ((await redis.xinfo('CONSUMERS', STREAM, GROUP)) as unknown[]).length === 1);
});

test('what was read before is enqueued before what comes later, also when it was read just now', async (t) => {
  const { redis, add, sent, bridge } = await stream(t);
  await redis.xgroup('CREATE', STREAM, GROUP, '0', 'MKSTREAM');
  await add('a', 'Zmlyc3Q=');
  await redis.xreadgroup('GROUP', GROUP, 'killed', 'COUNT', 9, 'STREAMS', STREAM, '>');
  await add('a', 'bGFzdA==');
  await bridge();
  await until(() => sent.length === 2);
  assert.deepEqual(
    sent.map(({ message }) => (JSON.parse(message) as { data: string }).data),
    ['Zmlyc3Q=', 'bGFzdA=='],
  );
});

test('of two bridges one works; the other takes over when it ends', async (t) => {
  const { add, bridge } = await stream(t);
  const by: string[] = [];
  const send = (name: string) => async () => void by.push(name);
  const first = await bridge({ send: send('first'), name: 'service' });
  await add('a');
  await until(() => by.length === 1);
  const second = await bridge({ send: send('second') });
  for (let i = 0; i < 20; i++) await add(`b-${i}`);
  await until(() => by.length === 21);
  assert.deepEqual(new Set(by), new Set(['first']));
  await first.close();
  await add('c');
  await until(() => by.length === 22);
  assert.equal(by.at(-1), 'second');
  await second.close();
});

test('a service that was killed gets its stream back at once', async (t) => {
  const { redis, add, uris, bridge } = await stream(t);
  await redis.set(`${STREAM}:bridge`, 'service 1');
  await add('a');
  await bridge({ name: 'service', claimAfterMs: 600_000 });
  await until(() => uris().length === 1);
});

test('an entry whose consumer is cut off while it removes it is gone or still pending', async (t) => {
  const { url, redis, add } = await stream(t);
  // Forwards what is sent up to the end of the command XACK, and then ends the connection, as a kill does.
  const proxy = createServer((socket) => {
    const server = connect(Number(new URL(url).port), '127.0.0.1');
    const end = () => [socket, server].forEach((one) => one.destroy());
    for (const one of [socket, server]) one.on('error', end).on('close', end);
    server.pipe(socket);
    socket.on('data', (bytes) => {
      const text = bytes.toString('latin1');
      const at = text.search(/xack/i);
      if (at < 0) return void server.write(bytes);
      const next = text.indexOf('\r\n*', at);
      server.write(bytes.subarray(0, next < 0 ? bytes.length : next + 2), end);
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => proxy.close());
  const connection = new RedisConnection(`redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  t.after(() => connection.close());
  const consumer = new StreamConsumer(connection, { stream: STREAM, group: GROUP, consumer: 'one' });
  await add('a');
  await consumer.createGroup('0');
  const entries = await consumer.read(9, 1);
  assert.equal(entries.length, 1);
  await assert.rejects(consumer.remove(entries.map(({ id }) => id)), { code: 'results_unavailable' });
  const [pending] = (await redis.xpending(STREAM, GROUP)) as [number];
  assert.equal(await redis.xlen(STREAM), pending);
});

test('a read that waits for an entry ends when it is interrupted, and takes no entry with it', async (t) => {
  const { url, redis, add } = await stream(t);
  const connection = new RedisConnection(url, { commandTimeoutMs: 600_000 });
  t.after(() => connection.close());
  const consumer = new StreamConsumer(connection, { stream: STREAM, group: GROUP, consumer: 'one' });
  await consumer.createGroup('0');
  const reading = consumer.read(9, 300_000);
  await until(async () => /^blocked_clients:1/m.test(await redis.info('clients')));
  const other = new RedisConnection(url);
  t.after(() => other.close());
  await consumer.interrupt(other);
  assert.deepEqual(await reading, []);
  await add('later');
  assert.equal((await consumer.read(9, 1)).length, 1);
});

test('a stream that is deleted under a bridge is read again when it is back', async (t) => {
  const { redis, add, uris, bridge } = await stream(t);
  await add('one');
  await bridge();
  await until(() => uris().includes('one'));
  await redis.flushall();
  await add('two');
  await until(() => uris().includes('two'));
});

test('a bridge begins where a server of the original ended, and not where clients only made its group', async (t) => {
  const { redis, add, uris, warned, bridge } = await stream(t);
  await add('before the group');
  // Each client creates the group of the server.
  await redis.xgroup('CREATE', STREAM, 'serving', '$');
  await add('after it');
  assert.deepEqual(await (await bridge({ once: true })).ended, { enqueued: 2, dead: 0 });
  assert.deepEqual(uris(), ['before the group', 'after it']);

  await redis.del(STREAM);
  await add('answered by the former server');
  await redis.xgroup('CREATE', STREAM, 'serving', '0');
  await redis.xreadgroup('GROUP', 'serving', 'cli', 'COUNT', 9, 'STREAMS', STREAM, '>');
  await add('not yet');
  await (await bridge({ once: true })).ended;
  assert.deepEqual(uris().slice(2), ['not yet']);
  assert.match(warned.join(), /: 1 record that a former server read will not be enqueued again$/);
});

test('a Redis that does not answer is an error at the start, which leaves no connection', async (t) => {
  let closed = 0;
  t.mock.method(RedisConnection.prototype, 'close', async () => {
    await turn();
    closed++;
  });
  const options = { redisUrl: 'redis://127.0.0.1:1', stream: STREAM, send: async () => {}, warn: () => {} };
  await assert.rejects(startBridge(options), { code: 'results_unavailable' });
  assert.equal(closed, 2);
});
