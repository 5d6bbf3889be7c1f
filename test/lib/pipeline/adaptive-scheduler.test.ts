/** A batcher that follows how long runs take: overload, and the time slices of the queue. The test ends each batch. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Inputs, Outcome } from '../../../lib/contract/values.ts';
import { AdaptiveScheduler } from '../../../lib/pipeline/batch/adaptive-scheduler.ts';
import { Batcher, type BatchRunner } from '../../../lib/pipeline/batch/batcher.ts';
import { settled, TestClock } from '../../support/clock.ts';

const RUN_MS = 10;

const names = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

function nameOf(inputs: Inputs): string {
  return [...inputs.keys()].join();
}

function open({ batchSize = 1, sharesRuns = true, processes = 1 } = {}) {
  const clock = new TestClock();
  const running: (() => void)[] = [];
  const batches: string[][] = [];
  const runner: BatchRunner = {
    version: 'v',
    onFree: () => undefined,
    get free() {
      return processes - running.length;
    },
    run(records) {
      batches.push(records.map(nameOf));
      const outcomes = records.map((): Outcome => ({ ok: true, outputs: [] }));
      return new Promise((resolve) => running.push(() => resolve(outcomes)));
    },
    close: () => Promise.resolve(),
  };
  const scheduler = new AdaptiveScheduler({ now: clock.now, batchSize, sharesRuns });
  const batcher = new Batcher(runner, { scheduler, timeoutMs: 0, clock, wholeRequests: true });
  const served: string[] = [];
  const refused: string[] = [];
  const call = (records: readonly string[], failFast: boolean) =>
    batcher
      .run(
        records.map((name) => new Map([[name, { kind: 'json', value: 0 }]])),
        { failFast },
      )
      .then(
        () => served.push(...records),
        (error: { code: string; status: number; retryAfterSeconds: number }) => {
          assert.deepEqual([error.code, error.status, error.retryAfterSeconds], ['rate_limited', 429, 1]);
          refused.push(...records);
        },
      );
  /** Ends the oldest batch, after so long. */
  const finish = async (afterMs = RUN_MS) => {
    await clock.advance(afterMs);
    running.shift()?.();
    await settled();
  };
  return {
    clock,
    batcher,
    batches,
    served,
    refused,
    running,
    /** A request of one record for each name. */
    ask: async (...each: readonly string[]) => {
      for (const name of each) void call([name], true);
      await settled();
    },
    /** One request. */
    askTogether: async (...all: readonly string[]) => {
      void call(all, true);
      await settled();
    },
    /** One event. */
    queue: async (...all: readonly string[]) => {
      void call(all, false);
      await settled();
    },
    finish,
    finishAll: async (costMs: (batch: readonly string[]) => number = () => RUN_MS) => {
      while (running.length > 0) await finish(costMs(batches[batches.length - running.length] as string[]));
    },
    sizes: () => batches.map(({ length }) => length),
  };
}

describe('requests', () => {
  test('as many as may wait are served, one after the other and in order', async () => {
    const { ask, finishAll, served, refused } = open();
    const all = names('r', 1 + 512);
    await ask(...all);
    await finishAll(() => 1);
    assert.deepEqual([served, refused], [all, []]);
  });

  test('one more sends all who wait away, and then only what the next batch takes may wait', async () => {
    const { batcher, ask, finish, served, refused } = open();
    const all = names('r', 1 + 512 + 1);
    await ask(...all);
    assert.deepEqual(refused.toSorted(), all.slice(1).toSorted());
    assert.equal(batcher.waiting, 0);
    assert.equal(batcher.refuses(), false);
    await ask('next', 'over');
    assert.equal(batcher.refuses(), true);
    assert.deepEqual(refused.slice(-1), ['over']);
    await finish();
    await finish();
    assert.deepEqual(served, ['r0', 'next']);
  });

  test('while more comes than can be served it stays so, and once less comes requests may wait again', async () => {
    const { clock, batcher, ask, finish, finishAll, served, refused } = open();
    await ask(...names('r', 1 + 512 + 1));
    const before = refused.length;
    // Two requests for each run, for two seconds.
    for (let i = 0; i < 200; i++) {
      await ask(`a${i}`, `b${i}`);
      await finish();
    }
    assert.equal(refused.length - before, 200);
    await finishAll();
    // Half as many as can be served, for two seconds.
    for (let i = 0; i < 100; i++) {
      await ask(`c${i}`);
      await finish();
      await clock.advance(RUN_MS);
    }
    const calm = refused.length;
    await ask(...names('d', 5));
    assert.equal(batcher.refuses(), false);
    await finishAll();
    assert.equal(refused.length, calm);
    assert.ok(served.length > 200);
  });

  test('what is refused before its body is read counts as an arrival: it alone keeps the service closed', async () => {
    const { clock, batcher, ask, finish, finishAll, refused } = open();
    await ask(...names('r', 1 + 512 + 1));
    await finishAll();
    const before = refused.length;
    // Those that are read need two thirds of the time.
    for (let i = 0; i < 100; i++) {
      await ask('runs', 'waits');
      for (let more = 0; more < 3; more++) assert.equal(batcher.refuses(), true);
      await finish();
      await finish();
      await clock.advance(RUN_MS);
    }
    assert.equal(refused.length, before);
  });

  test('of long runs only as many wait as are served in two seconds, but always 128', async () => {
    for (const [runMs, processes, room] of [
      [1, 1, 512],
      [10, 1, 200],
      [10, 2, 400],
      [100, 1, 128],
    ] as const) {
      const { ask, finish, finishAll, refused } = open({ processes });
      for (let i = 0; i < 3; i++) {
        await ask(`first${i}`);
        await finish(runMs);
      }
      await ask(...names('r', processes + room));
      assert.deepEqual(refused, []);
      await ask('over');
      assert.equal(refused.length, room + 1, `runs of ${runMs} ms in ${processes} processes`);
      await finishAll(() => runMs);
    }
  });

  test('the queue is never refused, also when requests are', async () => {
    const { batcher, ask, queue, finishAll, served } = open();
    await ask(...names('r', 1 + 512 + 1), 'next');
    assert.equal(batcher.refuses(), true);
    for (const name of names('q', 100)) await queue(name);
    await finishAll();
    assert.deepEqual(served, ['r0', 'next', ...names('q', 100)]);
  });

  test('in an overload requests are served while the queue waits', async () => {
    const { batcher, ask, queue, finish, served, refused } = open();
    await ask(...names('r', 1 + 512 + 1));
    await queue(...names('q', 20));
    for (let i = 0; i < 50; i++) {
      await ask(`a${i}`, `b${i}`);
      assert.equal(batcher.refuses(), true);
      await finish();
    }
    const ofQueue = 50 / 5;
    assert.equal(served.filter((name) => /^[ab]/.test(name)).length, 50 - 1 - ofQueue);
    assert.equal(refused.filter((name) => /^[ab]/.test(name)).length, 100 - (50 - ofQueue));
  });

  test('what runs one by one goes to its process together where that takes no millisecond, else alone', async () => {
    const { ask, finish, sizes } = open({ batchSize: 16, sharesRuns: false });
    await ask(...names('r', 40));
    await finish(0.25);
    await finish(1);
    await finish(100);
    await finish(100);
    assert.deepEqual(sizes(), [1, 4, 4, 1, 1]);
  });
});

describe('the queue', () => {
  /** Sizes of the batches of an event. */
  async function sizesOf(count: number, costMs: (size: number) => number): Promise<number[]> {
    const { queue, finishAll, sizes } = open({ batchSize: 32 });
    await queue(...names('q', count));
    await finishAll(({ length }) => costMs(length));
    return sizes();
  }

  test('is cut into slices of the time they may take, and its outcomes come together', async () => {
    const { queue, finishAll, batches, served } = open({ batchSize: 32 });
    await queue(...names('q', 35));
    await finishAll(({ length }) => 10 * length);
    assert.deepEqual(
      batches.map(({ length }) => length),
      [1, 10, 10, 10, 4],
    );
    assert.deepEqual(served, names('q', 35));
  });

  test('runs whole batches where a run of many takes as long as a run of one', async () => {
    assert.deepEqual(await sizesOf(127, () => 10), [1, 10, 20, 32, 32, 32]);
  });

  test('a record that takes longer than a slice may runs alone', async () => {
    assert.deepEqual(await sizesOf(3, (size) => 1_000 * size), [1, 1, 1]);
  });

  test('records that fail at once let the next slice be twice as large and no more', async () => {
    const costs = [10, 50];
    assert.deepEqual(await sizesOf(46, () => costs.shift() ?? 0), [1, 10, 20, 15]);
  });

  test('while requests come a slice is as long as their batches, at least 5 ms', async () => {
    for (const [requestMs, size] of [
      [1, 5],
      [20, 20],
    ] as const) {
      const { ask, queue, finish, sizes } = open({ batchSize: 32 });
      await queue(...names('q', 100));
      await finish(1);
      await ask('r');
      await finish(32);
      await finish(requestMs);
      assert.deepEqual(sizes(), [1, 32, 1, size], `requests of ${requestMs} ms`);
    }
  });

  test('runs with a request where that does not delay it, and never fills its batch', async () => {
    for (const [recordMs, along] of [
      [0.1, 9],
      [2, 0],
    ] as const) {
      const { ask, queue, finish, batches } = open({ batchSize: 32 });
      await queue(...names('q', 100));
      await finish(recordMs);
      await ask('r');
      await finish((batches[1] as string[]).length * recordMs);
      assert.equal(batches[2]?.[0], 'r');
      assert.equal(batches[2]?.length, 1 + along, `records of ${recordMs} ms`);
    }
  });

  test('requests that wait go first, and every fifth batch begins with the queue', async () => {
    const { ask, queue, finishAll, batches } = open();
    await queue(...names('q', 3));
    await ask(...names('r', 20));
    await finishAll();
    const places = names('q', 3).map((name) => batches.flat().indexOf(name));
    assert.deepEqual(places, [0, 5, 10]);
  });

  test('after a slice requests have four times its length, a second at most', async () => {
    for (const [sliceMs, requests] of [
      [100, 400 / RUN_MS],
      [60_000, 1_000 / RUN_MS],
    ] as const) {
      const { ask, queue, finish, finishAll, batches } = open();
      await queue('q0', 'q1');
      await ask(...names('r', 128));
      await finish(sliceMs);
      await finishAll(([name]) => (name === 'q1' ? sliceMs : RUN_MS));
      assert.equal(batches.flat().indexOf('q1'), 1 + requests, `slices of ${sliceMs} ms`);
    }
  });

  test('of two processes a slice takes one', async () => {
    const { ask, queue, batches } = open({ processes: 2 });
    await queue('q0', 'q1');
    await ask('r');
    assert.deepEqual(batches, [['q0'], ['q1']]);
  });
});

describe('a scheduler that adapts, by itself', () => {
  const line = (requests: number) => ({ requests, records: requests, processes: 1 });

  /** A scheduler in an overload, of requests of 100 ms. */
  function overloaded() {
    const clock = new TestClock();
    const scheduler = new AdaptiveScheduler({ now: clock.now, batchSize: 32, sharesRuns: true });
    scheduler.ran({ requests: 1, requested: 1, queued: 0 }, 100);
    const arrive = (count: number) => Array.from({ length: count }, () => scheduler.admit(line(100)));
    assert.equal(scheduler.admit(line(128)), 'sheds');
    /** The next period begins, in which the arrivals of this one are judged. */
    const next = () => {
      clock.leap(1_000);
      return scheduler.admit(line(100));
    };
    return { scheduler, arrive, next };
  }

  test('it is calm again below nine tenths of the time that the queue leaves, of which that is a fifth at most', () => {
    for (const [arrivals, left, queueMs, expected] of [
      [9, 0, 0, 'waits'],
      [10, 0, 0, 'refused'],
      [10, 1, 0, 'waits'],
      [8, 0, 100, 'waits'],
      [9, 0, 100, 'refused'],
      [7, 0, 500, 'waits'],
      [8, 0, 500, 'refused'],
    ] as const) {
      const { scheduler, arrive, next } = overloaded();
      arrive(arrivals - 1);
      scheduler.left(left);
      if (queueMs > 0) scheduler.ran({ requests: 0, requested: 0, queued: 1 }, queueMs);
      assert.equal(next(), expected, `${arrivals} arrivals, ${left} left, ${queueMs} ms of the queue`);
    }
  });

  test('what ran of the queue counts in its own period alone', () => {
    const { scheduler, arrive, next } = overloaded();
    arrive(20);
    scheduler.ran({ requests: 0, requested: 0, queued: 1 }, 500);
    assert.equal(next(), 'refused');
    arrive(8);
    assert.equal(next(), 'waits');
  });

  test('slices are long again once no request has come for a second', () => {
    const clock = new TestClock();
    const scheduler = new AdaptiveScheduler({ now: clock.now, batchSize: 200, sharesRuns: true });
    scheduler.ran({ requests: 0, requested: 0, queued: 1 }, 1);
    scheduler.arrived(line(0));
    clock.leap(1_000);
    assert.equal(scheduler.queued(0), 5);
    clock.leap(1);
    assert.equal(scheduler.queued(0), 100);
  });

  test('records of the queue beside requests are no slice of its own', () => {
    const clock = new TestClock();
    const scheduler = new AdaptiveScheduler({ now: clock.now, batchSize: 32, sharesRuns: true });
    scheduler.ran({ requests: 0, requested: 0, queued: 1 }, 50);
    scheduler.ran({ requests: 1, requested: 1, queued: 1 }, 400);
    clock.leap(199);
    assert.equal(scheduler.isQueueDue(), false);
    clock.leap(1);
    assert.equal(scheduler.isQueueDue(), true);
  });
});
