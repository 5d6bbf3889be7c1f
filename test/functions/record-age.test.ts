/** `queue.recordTtlSeconds`: a record that waited too long fails, and the model never sees it. */
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

const NOW = 1_800_000_000_000;
const INPUTS: Inputs = new Map([
  ['x', { kind: 'tensor', tensor: { dtype: 'float32', shape: [1], data: Float32Array.of(1) } }],
]);
const OUTPUT = { name: 'y', dtype: 'float32' as const, shape: [1], data: Float32Array.of(2) };

function eventOf(messages: readonly (readonly [body: string, ageMs: number])[]): SQSEvent {
  const Records = messages.map(([body, ageMs], i) => ({
    messageId: `m${i}`,
    body,
    attributes: { SentTimestamp: String(NOW - ageMs), ApproximateReceiveCount: '1' },
  }));
  return { Records } as unknown as SQSEvent;
}

test('a record older than the time to live fails with record_expired and is not run; younger ones run', async (t) => {
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
  const event = eventOf([
    [encodeMessage('young', INPUTS), 59_000],
    [encodeMessage('at-the-limit', INPUTS), 60_000],
    [encodeMessage('old', INPUTS), 60_001],
    [encodePointer('old-and-large', 'payloads/job/1', 4), 3_600_000],
    ['not a record', 3_600_000],
  ]);
  // What has no uri goes back, and to the dead letters in the end, as without a time to live.
  assert.deepEqual(await serve(60)(event), { batchItemFailures: [{ itemIdentifier: 'm4' }] });
  assert.equal(ran, 2);
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
