/** Notices of outcomes on their way to the outbox, with a real store. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { attributesBytes, type MessageAttributes } from '../../../lib/codecs/attributes.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import type { Notice } from '../../../lib/contract/notice.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import { awsSender } from '../../../lib/notify/aws.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { announceOutcomes } from '../../../lib/results/announce.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';

const DATA = Float32Array.of(1);
const GOOD: Outcome = { ok: true, outputs: [{ name: 'y', dtype: 'float32', shape: [1], data: DATA }] };
const BAD: Outcome = { ok: false, error: new ServingError('bad_input', 'no') };
const recordOf = (uri: string, outcome: Outcome, replays = 0) => ({
  id: `m-${uri}`,
  uri,
  enqueue: { identity: `i-${uri}`, sentAt: 1_000, replays, notify: 'shop' },
  outcome,
});

test('the longest notice of each kind fits into 256 kB with its attributes, as SQS, SNS and EventBridge count', async (t) => {
  quietLog(t);
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
  const results = new ResultStore(connection, { job: 'job', ttlSeconds: 60, now: Date.now });
  t.after(() => results.close());
  const put: Notice[] = [];
  const announce = announceOutcomes({
    targets: { shop: { sqs: 'arn:aws:sqs:us-east-1:123456789012:done', include: 'result' } },
    results,
    put: async (notices) => void put.push(...notices),
    job: 'j'.repeat(60),
    place: 'bucket',
  });
  const sink = resultSink(results, { announce });
  // Characters that JSON and SQS write as six.
  const uri = '\uffff'.repeat(Math.floor(LIMITS.uriBytes / 3));
  const outcomes: Outcome[] = [
    { ok: false, error: new ServingError('bad_input', '\u0001'.repeat(1_000_000)) },
    {
      ok: true,
      outputs: [
        { name: 'y', dtype: 'float32', shape: [7_000], data: new Float32Array(7_000).fill(0.123_456) },
      ],
    },
    { ok: true, outputs: [{ name: 'y', dtype: 'string', shape: [1], data: ['\uffff'.repeat(21_000)] }] },
  ];
  for (const [i, outcome] of outcomes.entries()) {
    const enqueue = { identity: 'i'.repeat(63) + i, sentAt: 1_000 + i, replays: 0, notify: 'shop' };
    assert.deepEqual(await sink.save([{ id: 'm', uri, enqueue, outcome }], 'v'.repeat(12)), []);
  }
  assert.equal(put.length, outcomes.length);
  const sizes: number[] = [];
  const api = createServer((request, response) => {
    void (async () => {
      const sent: { MessageBody: string; MessageAttributes: MessageAttributes } = JSON.parse(
        await text(request),
      );
      sizes.push(Buffer.byteLength(sent.MessageBody) + attributesBytes(sent.MessageAttributes));
      response.end('{}');
    })();
  }).listen(0, '127.0.0.1');
  await once(api, 'listening');
  t.after(() => api.close());
  const endpoint = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
  const credentials = { accessKeyId: 'a', secretAccessKey: 's', sessionToken: undefined };
  const send = awsSender({ place: () => ({ region: 'us-east-1', credentials, endpoint }) });
  for (const notice of put)
    assert.deepEqual(await send(notice, { service: 'sqs', name: 'done' }), { ok: true });
  assert.ok(
    put.slice(1).every(({ body }) => body.includes('"result":')),
    'a result was left out',
  );
  for (const size of sizes) assert.ok(size > 40_000 && size <= 262_144, `${size} bytes`);
});

test('each outcome with a target is announced as it is stored, under one id; others cost no call', async (t) => {
  quietLog(t);
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
  const results = new ResultStore(connection, { job: 'job', ttlSeconds: 60, now: Date.now });
  t.after(() => results.close());
  const states = new RecordStates(connection, { job: 'job', now: Date.now });
  let isAway = false;
  let reads = 0;
  const put: (readonly Notice[])[] = [];
  const announce = announceOutcomes({
    targets: { shop: { url: 'https://shop.example/' } },
    results: { get: (...given) => (reads++, results.get(...given)) },
    put: async (notices) => {
      if (isAway) throw new ServingError('results_unavailable', 'S3 is away');
      put.push(notices);
    },
    job: 'job',
    place: 'bucket',
  });
  const sink = resultSink(results, { announce });
  const last = () => (put.pop() ?? []).map(({ id, body }) => [id, JSON.parse(body).data.status as string]);

  const quiet = { ...recordOf('quiet', GOOD), enqueue: { identity: 'i', sentAt: 1_000, replays: 0 } };
  assert.deepEqual(await sink.save([quiet], 'v1'), []);
  assert.deepEqual([put.length, reads], [0, 0]);

  // S3 is away: the result is stored, and the message comes again.
  isAway = true;
  assert.deepEqual(await sink.save([recordOf('a', GOOD), recordOf('b', BAD)], 'v1'), ['m-a', 'm-b']);
  isAway = false;
  // Its second run ends in another way, which nobody is ever shown.
  assert.deepEqual(await sink.save([recordOf('a', BAD), recordOf('b', BAD)], 'v1'), []);
  const [[a, statusA], [b, statusB]] = last() as [[string, string], [string, string]];
  assert.deepEqual([statusA, statusB, reads], ['succeeded', 'failed', 2]);
  assert.notEqual(a, b);
  await sink.save([recordOf('a', GOOD)], 'v1');
  assert.deepEqual(last(), [[a, 'succeeded']]);
  // A replay has an outcome of its own.
  await sink.save([recordOf('a', GOOD, 1)], 'v1');
  assert.notEqual(last()[0]?.[0], a);

  await states.announce({ uri: 'c', identity: 'i-c', message: '{}' });
  assert.equal(await states.cancel('c'), true);
  await sink.save([recordOf('c', GOOD)], 'v1');
  assert.equal(last()[0]?.[1], 'cancelled');
});
