/**
 * F28: an old client's last write under a uri is its last enqueue, however long each send takes and even if the bridge
 * dies; and no entry, and no command that Redis refuses, stops the others.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { Redis } from 'ioredis';
import { enqueueOf } from '../../../lib/codecs/attributes.ts';
import { type Enqueue, isLater } from '../../../lib/contract/enqueue.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { type SentRecord, submit } from '../../../lib/pipeline/submit.ts';
import { QueueSender } from '../../../lib/queue/sender.ts';
import { startBridge } from '../../../local/bridge/bridge.ts';
import type { BridgeOptions } from '../../../local/bridge/options.ts';
import { toRecord } from '../../../local/event-source/event.ts';
import { type Random, seeded, shuffled, whole } from '../../support/faults/seeds.ts';
import { startQueue } from '../../support/faults/service.ts';
import { redisUrl } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

const STREAM = 'serving_stream';
const URIS = 12;
const EACH = 5;
const MOST_DELAY_MS = 600;

type Send = BridgeOptions['send'];

/** A queue, and what it got: for each uri the texts of its records in the order of their enqueues. */
async function queueOf(t: TestContext) {
  const queue = await startQueue(t);
  const sender = new QueueSender(queue.aws.sqs, { queueUrl: queue.url });
  const inOrder = async () => {
    const got = new Map<string, Map<string, { enqueue: Enqueue; data: string }>>();
    for (;;) {
      const { Messages } = await queue.aws.sqs.send(
        new ReceiveMessageCommand({
          QueueUrl: queue.url,
          MaxNumberOfMessages: 10,
          MessageAttributeNames: ['All'],
          MessageSystemAttributeNames: ['All'],
        }),
      );
      if (!Messages) break;
      for (const message of Messages) {
        const { uri, data } = JSON.parse(message.Body ?? '') as { uri: string; data: string };
        const enqueue = enqueueOf(toRecord(message, { arn: '', region: '' }));
        const enqueues = got.get(uri) ?? new Map<string, { enqueue: Enqueue; data: string }>();
        const before = enqueues.get(enqueue.identity);
        // A retry of an enqueue moves its place in the order.
        if (!before || before.enqueue.sentAt < enqueue.sentAt)
          enqueues.set(enqueue.identity, { enqueue, data });
        got.set(uri, enqueues);
      }
    }
    return Object.fromEntries(
      [...got].map(([uri, enqueues]) => [
        uri,
        [...enqueues.values()]
          .sort((a, b) => (isLater(a.enqueue, b.enqueue) ? 1 : -1))
          .map(({ data }) => data),
      ]),
    );
  };
  return { send: (record: SentRecord) => submit(sender, undefined, record), inOrder };
}

/** Sends that take up to 600 ms; some fail before the queue has the record, and some after it. */
function slow(random: Random, send: Send): Send {
  return async (record) => {
    const [ms, fate] = [whole(random, 0, MOST_DELAY_MS), whole(random, 0, 9)];
    await delay(ms);
    if (fate === 0) throw new ServingError('queue_unavailable', 'SQS did not take it');
    await send(record);
    if (fate === 1) throw new ServingError('queue_unavailable', 'the answer of SQS was lost');
  };
}

/** Entries that no bridge can enqueue. */
const UNREADABLE: readonly (readonly (string | Buffer)[])[] = [
  ['data', 'x'],
  ['uri', '', 'data', 'x'],
  ['uri', Buffer.from([0xff, 0xfe]), 'data', 'x'],
  ['uri', 'u'.repeat(1_025), 'data', 'x'],
  ['uri', 'no data'],
  ['uri', 'not utf-8', 'data', Buffer.from([0xc3, 0x28])],
  ['uri', 'line\nbreak', 'data', 'x'],
  ['uri', 'long', 'data', 'x'.repeat(33 * 1024 * 1024)],
  ['__proto__', 'x'],
];
const KINDS = UNREADABLE.length;

/** Adds five entries for each uri, unreadable ones between them. @returns what each uri must have been enqueued with */
async function fill(random: Random, redis: Redis): Promise<Record<string, string[]>> {
  const expected: Record<string, string[]> = {};
  const uris = Array.from({ length: URIS }, (_, i) => `uri-${i}`);
  const entries = shuffled(random, [...uris.flatMap((uri) => Array<string>(EACH).fill(uri)), ...UNREADABLE]);
  for (const [i, entry] of entries.entries()) {
    if (typeof entry !== 'string') {
      await redis.xadd(STREAM, '*', ...entry);
      continue;
    }
    const data = `data-${i}`;
    // If a field comes twice, the last one counts, as in the former server.
    await redis.xadd(STREAM, '*', 'uri', entry, 'data', 'before', 'data', data, 'serde', 'stream');
    (expected[entry] ??= []).push(data);
  }
  return expected;
}

async function client(t: TestContext, url: string): Promise<Redis> {
  const redis = new Redis(url);
  t.after(() => redis.disconnect());
  return redis;
}

for (const [seed, preferEmbedded] of [
  [1, true],
  [2, false],
  [3, true],
] as const) {
  test(`F28: slow sends keep the order of each uri, and unreadable entries stop none (seed ${seed})`, async (t) => {
    const random = seeded(seed);
    const url = await redisUrl(t, preferEmbedded);
    const [redis, queue] = [await client(t, url), await queueOf(t)];
    const expected = await fill(random, redis);
    const send = slow(random, queue.send);
    const bridge = await startBridge({ redisUrl: url, stream: STREAM, send, warn: () => undefined });
    t.after(() => bridge.close());
    await until(async () => (await redis.xlen(STREAM)) === 0);
    assert.deepEqual(await queue.inOrder(), expected);
    assert.equal(await redis.llen(`${STREAM}:dead`), KINDS);
    const sizes = (await redis.lrange(`${STREAM}:dead`, 0, -1)).map((text) => text.length);
    assert.ok(Math.max(...sizes) < 256 * 1024, 'a huge entry is listed in part');
    await bridge.close();
    assert.deepEqual(await bridge.ended, { enqueued: URIS * EACH, dead: KINDS });
  });

  test(`F28: a bridge that is cut off is replaced, and the order of each uri stays (seed ${seed})`, async (t) => {
    const random = seeded(seed);
    const url = await redisUrl(t, preferEmbedded);
    const [redis, queue] = [await client(t, url), await queueOf(t)];
    const expected = await fill(random, redis);
    const proxy = await cuttable(t, url);
    const common = { stream: STREAM, warn: () => undefined, claimAfterMs: 1_000 };
    let sent = 0;
    const end = new AbortController();
    const sendOnce: Send = async (record) => {
      // Some sends of the first bridge never end.
      if (whole(random, 0, 3) === 0) return void (await once(end.signal, 'abort'));
      await slow(random, queue.send)(record);
      sent++;
    };
    const first = await startBridge({ ...common, redisUrl: proxy.url, send: sendOnce });
    t.after(() => {
      end.abort();
      return first.close();
    });
    await until(() => sent >= 3);
    const second = await startBridge({ ...common, redisUrl: url, send: slow(random, queue.send) });
    t.after(() => second.close());
    proxy.cut();
    await until(async () => (await redis.xlen(STREAM)) === 0);
    assert.deepEqual(await queue.inOrder(), expected);
  });
}

test('F28: what Redis refuses stops no other entry: a foreign list of dead entries, a foreign lease', async (t) => {
  for (const preferEmbedded of [true, false]) {
    const url = await redisUrl(t, preferEmbedded);
    const redis = await client(t, url);
    await redis.set(`${STREAM}:dead`, 'of another program');
    await redis.hset(`${STREAM}:bridge`, 'of', 'another program');
    const [sent, warned]: [string[], string[]] = [[], []];
    const send: Send = async ({ uri }) => {
      if (uri === 'foreign state') throw refused('WRONGTYPE Operation against a key');
      if (uri.startsWith('unknown')) throw new RangeError('Invalid string length');
      sent.push(uri);
    };
    const warn = (message: string) => warned.push(message);
    const bridge = await startBridge({ redisUrl: url, stream: STREAM, send, warn, claimAfterMs: 50 });
    t.after(() => bridge.close());
    const good: string[] = [];
    for (let i = 0; i < 300; i++) {
      if (i % 3 === 0) await redis.xadd(STREAM, '*', 'data', 'x');
      if (i % 50 === 0)
        for (const uri of ['foreign state', `unknown-${i}`])
          await redis.xadd(STREAM, '*', 'uri', uri, 'data', 'x');
      await redis.xadd(STREAM, '*', 'uri', `good-${i}`, 'data', 'x');
      good.push(`good-${i}`);
    }
    await until(() => good.every((uri) => sent.includes(uri)));
    // Each once. Only those of one uri keep their order: what was interrupted comes again, after others.
    assert.deepEqual(sent.toSorted(), good.toSorted());
    // Each is warned about once, and the dead entries are moved when the key is free.
    assert.equal(warned.filter((text) => text.includes('cannot be listed')).length, 1);
    assert.equal(warned.filter((text) => text.includes('keep other bridges away')).length, 1);
    await redis.del(`${STREAM}:dead`);
    await until(async () => (await redis.xlen(STREAM)) === 0);
    assert.equal(await redis.llen(`${STREAM}:dead`), 112);
  }
});

test('F28: a bridge that may have been replaced sends nothing more', async (t) => {
  const url = await redisUrl(t);
  const redis = await client(t, url);
  const proxy = await cuttable(t, url);
  let sent = 0;
  const send: Send = async () => {
    await delay(10);
    sent++;
  };
  for (let i = 0; i < 250; i++) await redis.xadd(STREAM, '*', 'uri', 'a', 'data', 'x');
  const options = { redisUrl: proxy.url, stream: STREAM, warn: () => undefined, claimAfterMs: 1_000 };
  const bridge = await startBridge({ ...options, send });
  t.after(() => bridge.close());
  await until(() => sent >= 70);
  proxy.cut();
  // Half of its lease, and half a second more.
  await delay(1_000);
  const then = sent;
  await delay(300);
  assert.deepEqual([sent, sent < 250], [then, true]);
});

function refused(message: string): ServingError {
  const cause = Object.assign(new Error(message), { name: 'ReplyError' });
  return new ServingError('results_unavailable', `Redis: ${message}`, { cause });
}

/** A way to Redis that can be closed for good. */
async function cuttable(t: TestContext, url: string) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const other = connect(Number(new URL(url).port), '127.0.0.1');
    for (const one of [socket, other]) {
      sockets.add(one);
      one.on('error', () => one.destroy());
    }
    socket.pipe(other).pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  t.after(cut);
  return { url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`, cut };
}
