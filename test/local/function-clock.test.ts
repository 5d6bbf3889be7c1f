/** The clock of the queue's invocations: the clock and the model are given. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Inputs, Outcome, Runner, RunPolicy } from '../../lib/contract/values.ts';
import { withoutWaits } from '../../local/service/function-clock.ts';

const MOST_MS = 5_000;

function setUp(steps: (policy: RunPolicy, pass: (ms: number) => void) => void = () => undefined) {
  let nowMs = 0;
  const pass = (ms: number) => {
    nowMs += ms;
  };
  // A class, as a user's own worker may be one.
  class Worker implements Runner {
    readonly version = 'v1';
    closed = false;
    async run(records: readonly Inputs[], policy: RunPolicy = {}): Promise<Outcome[]> {
      steps(policy, pass);
      if (records.length === 0) throw new TypeError('no records');
      return records.map(() => ({ ok: true, outputs: [] }));
    }
    async runIsolated(records: readonly Inputs[]): Promise<Outcome[]> {
      pass(70);
      return records.map(() => ({ ok: true, outputs: [] }));
    }
    async close() {
      this.closed = true;
    }
  }
  const worker = new Worker();
  return { ...withoutWaits({ use: (work) => work(worker) }, () => nowMs, MOST_MS), pass, worker };
}

const RECORDS: readonly Inputs[] = [new Map()];

/** An invocation's clock during its run. */
async function spentMs({ model, invoke, functionClock }: ReturnType<typeof setUp>): Promise<number> {
  return invoke(async () => {
    const startedMs = functionClock();
    await model.use((runner) => runner.run(RECORDS));
    return functionClock() - startedMs;
  });
}

test('the time for which records wait does not count for their invocation', async () => {
  const set = setUp((policy, pass) => {
    pass(1_000);
    policy.onWait?.(false);
    pass(10);
    policy.onWait?.(true);
    pass(1_000);
    policy.onWait?.(false);
    pass(10);
  });
  assert.equal(await spentMs(set), 20);
});

test('while records wait the clock stands, up to the time for which messages may wait', async () => {
  const seen: number[] = [];
  const set = setUp((_, pass) => {
    for (const ms of [1_000, 4_000, 500]) {
      pass(ms);
      seen.push(set.functionClock());
    }
  });
  assert.equal(await spentMs(set), 500);
  assert.deepEqual(seen, [0, 0, 500]);
});

test('two invocations have clocks of their own, and other code has the real one', async () => {
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const set = setUp();
  const { model, invoke, functionClock, pass } = set;
  const calls = gates.map((gate) =>
    invoke(async () => {
      const startedMs = functionClock();
      await gate.promise;
      await model.use((runner) => runner.run(RECORDS));
      return functionClock() - startedMs;
    }),
  );
  pass(30);
  gates[0]?.resolve();
  assert.equal(await calls[0], 30);
  pass(40);
  gates[1]?.resolve();
  assert.equal(await calls[1], 70);
  assert.equal(functionClock(), 70);
});

test('what runs in an isolated process does not wait', async () => {
  const { model, invoke, functionClock, worker } = setUp();
  const ms = await invoke(async () => {
    const startedMs = functionClock();
    await model.use(async (runner) => {
      assert.equal((await runner.runIsolated?.(RECORDS, 1_000))?.length, 1);
      assert.equal(runner.version, 'v1');
      await runner.close();
    });
    return functionClock() - startedMs;
  });
  assert.deepEqual([ms, worker.closed], [70, true]);
});

test('an invocation whose run fails has a clock that continues', async () => {
  const { model, invoke, functionClock, pass } = setUp();
  await invoke(async () => {
    const startedMs = functionClock();
    await assert.rejects(
      model.use((runner) => runner.run([])),
      TypeError,
    );
    pass(70);
    assert.equal(functionClock() - startedMs, 70);
  });
});
