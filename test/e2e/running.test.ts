import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { batch } from '../../functions/batch.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import type { Inputs, Outcome, Runner } from '../../lib/contract/values.ts';
import { RedisConnection } from '../../lib/results/redis.ts';
import { liveReporter } from '../../lib/results/reporter.ts';
import { RunningNews } from '../../lib/results/running.ts';
import { RecordStates } from '../../lib/results/states.ts';
import { ResultStore } from '../../lib/results/store.ts';
import { redisUrl } from '../support/redis.ts';
import { until } from '../support/until.ts';

const JOB = { job: 'job', now: Date.now };
const INPUTS: Inputs = new Map([
  ['x', { kind: 'tensor', tensor: { dtype: 'float32', shape: [1], data: Float32Array.of(1) } }],
]);

const OUTPUT = { name: 'y', dtype: 'float32' as const, shape: [1], data: Float32Array.of(2) };

test('a record is running while the model has it, and a record that cannot be read never is', async (t) => {
  const connection = new RedisConnection(await redisUrl(t));
  const results = new ResultStore(connection, { ...JOB, ttlSeconds: 60 });
  t.after(() => results.close());
  const states = new RecordStates(connection, JOB);
  const gate = Promise.withResolvers<void>();
  const runner = {
    version: 'v',
    async run(records: readonly Inputs[]): Promise<Outcome[]> {
      await gate.promise;
      return records.map(() => ({ ok: true, outputs: [OUTPUT] }));
    },
  } satisfies Partial<Runner>;
  const handler = batch({
    model: { use: (work) => work(runner as never) },
    results,
    running: new RunningNews(states, 30_000, Date.now),
    payloads: { resolve: async (bodies) => [...bodies] },
    filter: undefined,
    reporter: liveReporter(results),
  });
  const bodies = [encodeMessage('a', INPUTS), JSON.stringify({ uri: 'broken', data: '!' })];
  await states.claim({ uri: 'a', message: bodies[0] as string });
  await states.claim({ uri: 'broken', message: bodies[1] as string });
  await states.claim({ uri: 'later', message: 'm' });
  const attributes = { SentTimestamp: String(Date.now()) };
  const Records = bodies.map((body, i) => ({ messageId: `m${i}`, body, attributes }));
  const answered = handler({ Records } as unknown as SQSEvent);
  await until(async () => (await states.status('a')) === 'running');
  assert.equal(await states.status('broken'), 'queued');
  assert.equal(await states.status('later'), 'queued');
  gate.resolve();
  assert.deepEqual(await answered, { batchItemFailures: [] });
  assert.equal(await states.status('a'), 'succeeded');
  assert.equal(await states.status('broken'), 'failed');
});

test('runs under 100 ms are not told, longer ones are, by what the last one took', async () => {
  let nowMs = 0;
  const told: string[][] = [];
  const markRunning = async (uris: readonly string[]) => void told.push([...uris]);
  const running = new RunningNews({ markRunning }, 30_000, () => nowMs);
  const run = async (ms: number, ...uris: string[]) => {
    const ended = running.begin(uris);
    nowMs += ms;
    await ended();
  };
  await run(10, 'first');
  await run(20, 'a', 'b');
  await run(0);
  await run(90, 'c', 'd', 'e');
  await run(90, 'f', 'g', 'h');
  await run(120, 'i', 'j', 'k', 'l');
  await run(1, 'm');
  await run(1, ...Array.from({ length: 150 }, (_, i) => String(i)));
  assert.deepEqual(
    told.map((uris) => uris.join('')).map((text) => text.slice(0, 6)),
    ['first', 'ijkl', '012345'],
  );
});
