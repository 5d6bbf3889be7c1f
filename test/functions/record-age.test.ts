/** `queue.recordTtlSeconds` and `expiresAfter`: a record that waited too long fails, and the model never sees it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { encodePointer } from '../../lib/codecs/pointer.ts';
import type { Inputs } from '../../lib/contract/values.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { RecordStates } from '../../lib/redis/record-states.ts';
import { ResultStore } from '../../lib/redis/results.ts';
import { RunningReports } from '../../lib/results/running.ts';
import { resultSink } from '../../lib/results/sink.ts';
import { timersTo } from '../support/observers.ts';
import { PATIENT, redisUrl } from '../support/redis.ts';
import type { Hooks } from '../support/runner.ts';

const NOW = 1_800_000_000_000;
const INPUTS: Inputs = new Map([
  ['x', { kind: 'tensor', tensor: { dtype: 'float32', shape: [1], data: Float32Array.of(1) } }],
]);
const OUTPUT = { name: 'y', dtype: 'float32' as const, shape: [1], data: Float32Array.of(2) };

type Aged = readonly [body: string, ageMs: number, said?: Readonly<Record<string, number>>];

function eventOf(messages: readonly Aged[]): SQSEvent {
  const Records = messages.map(([body, ageMs, said = {}], i) => ({
    messageId: `m${i}`,
    body,
    messageAttributes: Object.fromEntries(
      Object.entries(said).map(([name, value]) => [name, { stringValue: String(value) }]),
    ),
    attributes: { SentTimestamp: String(NOW - ageMs), ApproximateReceiveCount: '1' },
  }));
  return { Records } as unknown as SQSEvent;
}

/** Serves events at NOW with a store in Redis. */
async function serving(t: Hooks) {
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
  const results = new ResultStore(connection, {
    job: 'job',
    ttlSeconds: 60,
    now: Date.now,
  });
  t.after(() => results.close());
  const { timers, observers } = timersTo(results);
  const states = new RecordStates(connection, { job: 'job', now: Date.now });
  let ran = 0;
  const serve = (recordTtlSeconds: number) =>
    serveEvent({
      model: {
        use: (work) =>
          work({
            version: 'v',
            run: async (records: readonly Inputs[]) => {
              ran += records.length;
              return records.map(() => ({ ok: true, outputs: [OUTPUT] }));
            },
          } as never),
      },
      sink: resultSink(results, { timers }),
      running: new RunningReports(states, 30_000, Date.now),
      // The payload of an old record is not read either.
      payloads: {
        resolve: async (bodies) => bodies.map((body) => (assert.doesNotMatch(body, /payloads/), body)),
      },
      observers,
      recordTtlSeconds,
      now: () => NOW,
    });
  return { serve, results, ran: () => ran };
}

test('a record older than the time to live fails with record_expired and is not run; younger ones run', async (t) => {
  const { serve, results, ran } = await serving(t);
  const event = eventOf([
    [encodeMessage('young', INPUTS), 59_000],
    [encodeMessage('at-the-limit', INPUTS), 60_000],
    [encodeMessage('old', INPUTS), 60_001],
    [encodePointer('old-and-large', 'payloads/job/1', 4), 3_600_000],
    ['not a record', 3_600_000],
  ]);
  // A record without a uri goes back, and finally to the dead letters, as without a time to live.
  assert.deepEqual(await serve(60)(event), { batchItemFailures: [{ itemIdentifier: 'm4' }] });
  assert.equal(ran(), 2);
  assert.ok(await results.get('young'));
  assert.ok(await results.get('at-the-limit'));
  for (const [uri, seconds] of [
    ['old', 60],
    ['old-and-large', 3600],
  ] as const)
    await assert.rejects(results.get(uri), {
      code: 'record_expired',
      message: `the record waited ${seconds} s in the queue, longer than queue.recordTtlSeconds 60, and was not run`,
    });
  assert.deepEqual(await serve(0)(eventOf([[encodeMessage('ancient', INPUTS), 10 * 86_400_000]])), {
    batchItemFailures: [],
  });
  assert.ok(await results.get('ancient'));
});

test('of expiresAfter and the time to live the smaller one counts, from the time of this message', async (t) => {
  const { serve, results, ran } = await serving(t);
  const record = (uri: string) => encodeMessage(uri, INPUTS);
  const event = eventOf([
    [record('own'), 10_001, { expiresAfter: 10 }],
    [record('own-at-the-limit'), 10_000, { expiresAfter: 10 }],
    [record('job'), 60_001, { expiresAfter: 600 }],
    // Sent again from the dead letters long after it was enqueued: the replay is as young as its message.
    [record('replayed'), 9_000, { expiresAfter: 10, originalSentTimestamp: NOW - 3_600_000, replays: 1 }],
    ['not a record', 3_600_000, { expiresAfter: 10 }],
  ]);
  assert.deepEqual(await serve(60)(event), { batchItemFailures: [{ itemIdentifier: 'm4' }] });
  assert.equal(ran(), 2);
  assert.ok(await results.get('own-at-the-limit'));
  assert.ok(await results.get('replayed'));
  await assert.rejects(results.get('own'), {
    code: 'record_expired',
    message: 'the record waited 10 s in the queue, longer than its expiresAfter 10, and was not run',
  });
  await assert.rejects(results.get('job'), { message: /longer than queue\.recordTtlSeconds 60,/ });
  // Without a time to live, a record's own counts alone.
  await serve(0)(eventOf([[record('alone'), 10_001, { expiresAfter: 10 }]]));
  await assert.rejects(results.get('alone'), { code: 'record_expired' });
  assert.equal(ran(), 2);
});

test('a late redelivery of a record that has its result does not replace it by record_expired', async (t) => {
  const { serve, results } = await serving(t);
  const said = { identity: 7, expiresAfter: 10 };
  await serve(0)(eventOf([[encodeMessage('done', INPUTS), 9_000, said]]));
  const { finishedAt } = (await results.get('done')) ?? {};
  await serve(0)(eventOf([[encodeMessage('done', INPUTS), 9_000, said]]));
  const again = eventOf([[encodeMessage('done', INPUTS), 9_000, said]]);
  again.Records.forEach((one) => Object.assign(one.attributes, { SentTimestamp: String(NOW - 11_000) }));
  await serve(0)(again);
  assert.equal((await results.get('done'))?.finishedAt, finishedAt);
});
