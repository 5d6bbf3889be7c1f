/** How the local stack cuts a batch: the clock, the line and the model are given. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Inputs, Outcome, Runner } from '../../../lib/contract/values.ts';
import { inTimeSlices } from '../../../local/time-slices.ts';

/** A model that takes `wholeMs` for a run and `recordMs` more for each record; an outcome has its record's name. */
function setUp({ limitMs = 100, wholeMs = 0, recordMs = 0 } = {}) {
  let nowMs = 0;
  let costMs = recordMs;
  const sizes: number[] = [];
  let othersMs = 0;
  let last: Promise<unknown> = Promise.resolve();
  let inLine = 0;
  let isolatedInLine = false;
  const line = {
    sliceLimitMs: limitMs,
    runSlice<T>(work: () => Promise<T>): Promise<T> {
      const turn = last.then(async () => {
        nowMs += othersMs;
        inLine++;
        try {
          return await work();
        } finally {
          inLine--;
        }
      });
      last = turn.catch(() => undefined);
      return turn;
    },
  };
  const outcomes = (records: readonly Inputs[]) =>
    records.map((record): Outcome => {
      const name = [...record.keys()].join();
      return { ok: true, outputs: [{ name, dtype: 'float32', shape: [1], data: Float32Array.of(0) }] };
    });
  // A class, as a user's own worker may be one.
  class Worker implements Runner {
    readonly version = 'v1';
    closed = false;
    async run(records: readonly Inputs[]) {
      assert.equal(inLine, 1);
      sizes.push(records.length);
      nowMs += wholeMs + costMs * records.length;
      return outcomes(records);
    }
    async runIsolated(records: readonly Inputs[]) {
      isolatedInLine ||= inLine > 0;
      return this.closed ? [] : outcomes(records);
    }
    async close() {
      this.closed = true;
    }
  }
  const worker = new Worker();
  const slices = inTimeSlices({ use: (work) => work(worker) }, line, () => nowMs);
  return {
    ...slices,
    pass: (ms: number) => (nowMs += ms),
    /** Others have the line for so long before each slice. */
    othersTake: (ms: number) => (othersMs = ms),
    sizes,
    worker,
    wasIsolatedInLine: () => isolatedInLine,
    limit: (ms: number) => (line.sliceLimitMs = ms),
    cost: (ms: number) => (costMs = ms),
  };
}

const records = (count: number): Inputs[] =>
  Array.from({ length: count }, (_, i) => new Map([[`r${i}`, { kind: 'json' as const, value: i }]]));

const namesOf = (outcomes: readonly Outcome[]) =>
  outcomes.map((outcome) => (outcome.ok ? outcome.outputs[0]?.name : outcome.error.code));

test('a batch is cut into slices of the time they may take, and its outcomes keep their order', async () => {
  const { model, sizes } = setUp({ limitMs: 100, recordMs: 10 });
  const outcomes = await model.use((runner) => runner.run(records(35)));
  assert.deepEqual(sizes, [1, 10, 10, 10, 4]);
  assert.deepEqual(
    namesOf(outcomes),
    Array.from({ length: 35 }, (_, i) => `r${i}`),
  );
});

test('where a run of many takes as long as a run of one, slices grow to the whole batch', async () => {
  const { model, sizes } = setUp({ limitMs: 20, wholeMs: 10 });
  for (let event = 0; event < 4; event++) await model.use((runner) => runner.run(records(20)));
  assert.deepEqual(sizes.slice(0, 4), [1, 2, 4, 8]);
  assert.equal(sizes.at(-1), 20);
});

test('a record that takes longer than a slice may runs alone', async () => {
  const { model, sizes } = setUp({ limitMs: 5, recordMs: 1_000 });
  await model.use((runner) => runner.run(records(3)));
  assert.deepEqual(sizes, [1, 1, 1]);
});

test('records that fail in no time let the next slice be twice as large and no more', async () => {
  const { model, sizes, cost } = setUp({ limitMs: 100, recordMs: 10 });
  await model.use((runner) => runner.run(records(11)));
  cost(0);
  await model.use((runner) => runner.run(records(40)));
  assert.deepEqual(sizes, [1, 10, 10, 20, 10]);
});

test('slices follow a limit that changes while the batch is under way', async () => {
  const { model, sizes, limit } = setUp({ limitMs: 100, recordMs: 10 });
  await model.use((runner) => runner.run(records(11)));
  limit(20);
  await model.use((runner) => runner.run(records(4)));
  assert.deepEqual(sizes, [1, 10, 2, 2]);
});

test('a batch without records asks for no turn, and what runs in an isolated process waits for none', async () => {
  const { model, sizes, worker, wasIsolatedInLine } = setUp();
  await model.use(async (runner) => {
    assert.deepEqual(await runner.run([]), []);
    assert.equal((await runner.runIsolated?.(records(2), 1_000))?.length, 2);
    assert.equal(runner.version, 'v1');
    await runner.close();
  });
  assert.deepEqual([sizes, wasIsolatedInLine(), worker.closed], [[], false, true]);
});

test('the time for which its slices wait is no time of the invocation', async () => {
  const { model, invoke, functionClock, othersTake } = setUp({ limitMs: 1, recordMs: 10 });
  othersTake(1_000);
  const overMs = await Promise.all(
    [3, 5].map((count) =>
      invoke(async () => {
        const startedMs = functionClock();
        await model.use((runner) => runner.run(records(count)));
        return functionClock() - startedMs - 10 * count;
      }),
    ),
  );
  // Behind its last slice it waits in no line, and one of the other's may have the thread.
  for (const ms of overMs) assert.ok(ms === 0 || ms === 1_010, `${ms} ms more than its own runs`);
});

test('an invocation whose slice fails has a clock that goes on', async () => {
  const { model, invoke, functionClock, pass } = setUp();
  await invoke(async () => {
    const startedMs = functionClock();
    const failing = model.use((runner) => runner.run(undefined as never));
    await assert.rejects(failing, TypeError);
    pass(70);
    assert.equal(functionClock() - startedMs, 70);
  });
});
