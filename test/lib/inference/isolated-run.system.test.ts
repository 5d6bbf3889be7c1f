import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import type { ServingError } from '../../../lib/contract/errors.ts';
import type { Inputs } from '../../../lib/contract/values.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import { ENDLESS, loopModel, QUICK } from '../../support/endless.ts';
import { busyIsolated, deliverToNeighbors, isolatedCost, isolatedPids } from '../../support/isolated.ts';
import { timersTo } from '../../support/observers.ts';
import { redisUrl } from '../../support/redis.ts';
import { openModelBytes } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

function inputsOf(rounds: number): Inputs {
  const tensor = { dtype: 'float64' as const, shape: [], data: Float64Array.of(rounds) };
  return new Map([['rounds', { kind: 'tensor', tensor }]]);
}

/** A batch function on the model, and how many processes it has started. */
async function open(t: TestContext, batchSize = 32) {
  const runner = await openModelBytes(t, loopModel(), { batchSize });
  const results = new ResultStore(new RedisConnection(await redisUrl(t)), {
    job: 'job',
    ttlSeconds: 60,
    now: Date.now,
  });
  t.after(() => results.close());
  const { timers, observers } = timersTo(results);
  const handler = serveEvent({
    now: Date.now,
    model: { use: (work) => work(runner) },
    sink: resultSink(results, { timers }),
    running: { begin: () => async () => undefined },
    payloads: { resolve: async (bodies) => [...bodies] },
    observers,
  });
  /** @param attempts how often the messages were delivered */
  const deliver = async (records: Readonly<Record<string, number>>, attempts: number, timeoutMs: number) => {
    const endsAt = performance.now() + timeoutMs;
    const Records = Object.entries(records).map(([uri, rounds]) => ({
      messageId: uri,
      body: encodeMessage(uri, inputsOf(rounds)),
      attributes: { SentTimestamp: '0', ApproximateReceiveCount: String(attempts) },
    }));
    const context = { getRemainingTimeInMillis: () => endsAt - performance.now() };
    const { batchItemFailures } = await handler({ Records } as unknown as SQSEvent, context);
    return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  };
  const outcomeOf = (uri: string) =>
    results.get(uri).then(
      (result) => result?.outputs[0]?.data[0],
      (error: ServingError) => error.code,
    );
  return { runner, deliver, outcomeOf };
}

test('the neighbours of a record that never ends get their results; it comes again, and fails when it had all the time', async (t) => {
  const { deliver, outcomeOf } = await open(t);
  const rounds = { a: QUICK, endless: ENDLESS, b: QUICK };
  const returned = await deliverToNeighbors(t, rounds, 14_000, (records, timeoutMs) =>
    deliver(records, 2, timeoutMs),
  );
  assert.deepEqual(returned, ['endless']);
  assert.deepEqual(await Promise.all(['a', 'endless', 'b'].map(outcomeOf)), [QUICK, undefined, QUICK]);
  assert.deepEqual(await deliver({ endless: ENDLESS }, 3, 3_000), []);
  assert.equal(await outcomeOf('endless'), 'model_failed');
});

test('a record that ends the process fails alone, and the next one finds a new process', async (t) => {
  const { deliver, outcomeOf } = await open(t);
  const { busyMs } = await isolatedCost(t);
  // The record stands for one that a defect of the native runtime ends: it is killed whenever it runs.
  const over = new AbortController();
  const killer = (async () => {
    while (!over.signal.aborted) {
      for (const pid of await busyIsolated(busyMs)) process.kill(pid, 'SIGSEGV');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  })();
  const returned = await deliver({ a: QUICK, deadly: ENDLESS, b: QUICK }, 2, 120_000).finally(() =>
    over.abort(),
  );
  await killer;
  assert.deepEqual(returned, []);
  assert.deepEqual(await Promise.all(['a', 'deadly', 'b'].map(outcomeOf)), [QUICK, 'model_failed', QUICK]);
});

test('records that came back for no fault of their own run together, and one process serves the next event too', async (t) => {
  const { runner, deliver, outcomeOf } = await open(t);
  assert.deepEqual(await deliver({ a: 1, b: 2, c: 3 }, 2, 20_000), []);
  assert.deepEqual(await Promise.all(['a', 'b', 'c'].map(outcomeOf)), [1, 2, 3]);
  const [pid] = await isolatedPids();
  assert.ok(pid !== undefined);
  assert.deepEqual(await deliver({ d: 4 }, 5, 20_000), []);
  assert.deepEqual(await isolatedPids(), [pid]);
  await runner.close();
  await until(async () => (await isolatedPids()).length === 0);
});

test('a record that is delivered for the first time starts no process', async (t) => {
  const { deliver, outcomeOf } = await open(t);
  assert.deepEqual(await deliver({ a: 1 }, 1, 20_000), []);
  assert.equal(await outcomeOf('a'), 1);
  assert.deepEqual(await isolatedPids(), []);
});

test('runs that would outlive the function are not begun: those before are saved, those after come again', async (t) => {
  const RECORDS = 60;
  const { runner, deliver, outcomeOf } = await open(t, 1);
  // As many rounds as take about half a second here; enough records that a machine that gets faster has some left over.
  await runner.run([inputsOf(200_000)]);
  const startedMs = performance.now();
  await runner.run([inputsOf(200_000)]);
  const rounds = Math.ceil((200_000 * 500) / (performance.now() - startedMs));
  const records = Object.fromEntries(Array.from({ length: RECORDS }, (_, i) => [`r${i}`, rounds + i]));
  const returned = await deliver(records, 1, 3_000);
  assert.ok(returned.length > 0 && returned.length < RECORDS, `${returned.length} came back`);
  for (const [uri, value] of Object.entries(records)) {
    assert.equal(await outcomeOf(uri), returned.includes(uri) ? undefined : value);
  }
});
