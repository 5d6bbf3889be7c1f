import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { encodeMessage } from '../../lib/codecs/message.ts';
import type { Inputs, Outcome, Runner } from '../../lib/contract/values.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { RecordStates } from '../../lib/redis/record-states.ts';
import { ResultStore } from '../../lib/redis/results.ts';
import { RunningReports } from '../../lib/results/running.ts';
import { resultSink } from '../../lib/results/sink.ts';
import { enqueued } from '../support/enqueue.ts';
import { startRedisProxy } from '../support/faults/redis/proxy.ts';
import { timersTo } from '../support/observers.ts';
import { PATIENT, redisUrl } from '../support/redis.ts';
import { until } from '../support/until.ts';

const JOB = { job: 'job', now: Date.now };
const INPUTS: Inputs = new Map([
  ['x', { kind: 'tensor', tensor: { dtype: 'float32', shape: [1], data: Float32Array.of(1) } }],
]);

const OUTPUT = { name: 'y', dtype: 'float32' as const, shape: [1], data: Float32Array.of(2) };

function batchOf(runner: Partial<Runner>, results: ResultStore, running: RunningReports) {
  const { timers, observers } = timersTo(results);
  return serveEvent({
    now: Date.now,
    model: { use: (work) => work(runner as never) },
    sink: resultSink(results, { timers }),
    running,
    payloads: { resolve: async (bodies) => [...bodies] },
    observers,
  });
}

function eventOf(bodies: readonly string[]): SQSEvent {
  const attributes = { SentTimestamp: String(Date.now()) };
  const Records = bodies.map((body, i) => ({ messageId: `m${i}`, body, attributes }));
  return { Records } as unknown as SQSEvent;
}

test('a record is running while the model has it, and a record that cannot be read never is', async (t) => {
  const connection = new RedisConnection(await redisUrl(t), PATIENT);
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
  const handler = batchOf(runner, results, new RunningReports(states, 30_000, Date.now));
  const bodies = [encodeMessage('a', INPUTS), JSON.stringify({ uri: 'broken', data: '!' })];
  await states.announce({ uri: 'a', identity: 'm0', message: bodies[0] as string });
  await states.announce({ uri: 'broken', identity: 'm1', message: bodies[1] as string });
  await states.announce({ uri: 'later', identity: 'm2', message: 'm' });
  const answered = handler(eventOf(bodies));
  await until(async () => (await states.status('a')) === 'running');
  assert.equal(await states.status('broken'), 'queued');
  assert.equal(await states.status('later'), 'queued');
  gate.resolve();
  assert.deepEqual(await answered, { batchItemFailures: [] });
  assert.equal(await states.status('a'), 'succeeded');
  assert.equal(await states.status('broken'), 'failed');
});

test('runs that hold the thread for longer than Redis may take keep their connection', async (t) => {
  // The limit of a command is 1 s by default, and the runs 1.5 s; here both are shorter.
  const connection = new RedisConnection(await redisUrl(t), { commandTimeoutMs: 300 });
  const results = new ResultStore(connection, { ...JOB, ttlSeconds: 60 });
  t.after(() => results.close());
  const states = new RecordStates(connection, JOB);
  let connections = 0;
  connection.redis.on('connect', () => connections++);
  const seen: string[] = [];
  const runner = {
    version: 'v',
    async run(records: readonly Inputs[]): Promise<Outcome[]> {
      // As onnxruntime does: it begins in the next turn and holds the thread.
      await new Promise(setImmediate);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 450);
      return records.map(() => ({ ok: true, outputs: [OUTPUT] }));
    },
  } satisfies Partial<Runner>;
  const handler = batchOf(runner, results, new RunningReports(states, 30_000, Date.now));
  for (const uri of ['a', 'b', 'c', 'd', 'e']) {
    const message = encodeMessage(uri, INPUTS);
    await states.announce({ uri, identity: 'm0', message });
    assert.deepEqual(await handler(eventOf([message])), { batchItemFailures: [] });
    seen.push(await states.status(uri));
  }
  assert.deepEqual(seen, Array(5).fill('succeeded'));
  assert.equal(connections, 1);
});

test('a Redis that never answers keeps a run waiting for a second at most, and what it says later is waited for after the run', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const answer = Promise.withResolvers<void>();
  const running = new RunningReports({ markRunning: () => answer.promise }, 30_000, () => 0);
  let began = false;
  const beginning = Promise.resolve(running.begin([{ uri: 'a', enqueue: enqueued('m0') }])).finally(() => {
    began = true;
  });
  t.mock.timers.tick(999);
  await new Promise(setImmediate);
  assert.equal(began, false);
  t.mock.timers.tick(1);
  const ended = await beginning;
  let heard = false;
  const over = ended().finally(() => {
    heard = true;
  });
  await new Promise(setImmediate);
  assert.equal(heard, false);
  answer.resolve();
  await over;
});

test('a batch of short runs asks Redis for one thing: to save', async (t) => {
  const url = await redisUrl(t);
  const proxy = await startRedisProxy(t, url);
  const connection = new RedisConnection(proxy.url);
  const results = new ResultStore(connection, { ...JOB, ttlSeconds: 60 });
  t.after(() => results.close());
  const runner = {
    version: 'v',
    run: async (records: readonly Inputs[]): Promise<Outcome[]> =>
      records.map(() => ({ ok: true, outputs: [OUTPUT] })),
  } satisfies Partial<Runner>;
  // A clock that stands still: every run after the first is known to be short.
  const handler = batchOf(
    runner,
    results,
    new RunningReports(new RecordStates(connection, JOB), 30_000, () => 0),
  );
  await handler(eventOf([encodeMessage('first', INPUTS)]));
  const { length } = proxy.seen;
  await handler(eventOf(['a', 'b', 'c'].map((uri) => encodeMessage(uri, INPUTS))));
  assert.deepEqual(proxy.seen.slice(length), ['EVALSHA']);
});

test('runs under 100 ms are not told, longer ones are, by what the last one took', async () => {
  let nowMs = 0;
  const told: string[][] = [];
  const markRunning = async (records: readonly { readonly uri: string }[]) =>
    void told.push(records.map(({ uri }) => uri));
  const running = new RunningReports({ markRunning }, 30_000, () => nowMs);
  const run = async (ms: number, ...uris: string[]) => {
    const ended = await running.begin(uris.map((uri) => ({ uri, enqueue: enqueued(uri) })));
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
