import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ServingError } from '../../../lib/contract/errors.ts';
import type { Inputs, Outcome, RunPolicy } from '../../../lib/contract/values.ts';
import { Batcher, type BatcherOptions, type BatchRunner } from '../../../lib/pipeline/batch/batcher.ts';
import { FixedScheduler } from '../../../lib/pipeline/batch/scheduler.ts';
import { settled, TestClock } from '../../support/clock.ts';

/** Notes the batches that it is given; the test ends them. */
class Recorder implements BatchRunner {
  readonly version = 'v';
  onFree: () => void = () => undefined;
  readonly batches: string[][] = [];
  readonly policies: RunPolicy[] = [];
  readonly #slots: number;
  #running: (() => void)[] = [];

  constructor(slots = 1) {
    this.#slots = slots;
  }

  get free(): number {
    return this.#slots - this.#running.length;
  }

  run(records: readonly Inputs[], policy: RunPolicy = {}): Promise<Outcome[]> {
    const names = records.map(nameOf);
    this.batches.push(names);
    this.policies.push(policy);
    return new Promise((resolve) => {
      this.#running.push(() => resolve(names.map((name) => ({ ok: true, outputs: [], value: name }))));
    });
  }

  /** Ends the oldest batch. */
  async end(): Promise<void> {
    this.#running.shift()?.();
    this.onFree();
    await settled();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const record = (name: string): Inputs => new Map([['x', { kind: 'json', value: name }]]);
const records = (...names: string[]) => names.map(record);

function nameOf(inputs: Inputs): string {
  const value = inputs.get('x');
  return value?.kind === 'json' ? String(value.value) : '';
}

const valuesOf = (outcomes: readonly Outcome[]) =>
  outcomes.map((outcome) => (outcome.ok ? outcome.value : outcome.error.code));

const REQUEST: RunPolicy = { failFast: true };

function open(options: Partial<BatcherOptions> = {}, slots = 1) {
  const clock = new TestClock();
  const runner = new Recorder(slots);
  return {
    clock,
    runner,
    batcher: new Batcher(runner, { scheduler: new FixedScheduler(4), timeoutMs: 0, clock, ...options }),
  };
}

describe('a batcher', () => {
  test('runs what comes to an idle runner at once, and joins what waits for a busy one', async () => {
    const { runner, batcher } = open();
    const calls = [records('a'), records('b'), records('c', 'd')].map((call) => batcher.run(call, REQUEST));
    assert.deepEqual(runner.batches, [['a']]);
    await runner.end();
    assert.deepEqual(runner.batches[1], ['b', 'c', 'd']);
    await runner.end();
    assert.deepEqual((await Promise.all(calls)).map(valuesOf), [['a'], ['b'], ['c', 'd']]);
  });

  describe('that reads first what has arrived', () => {
    const turns: (() => void)[] = [];
    const nextTurn = (call: () => void) => void turns.push(call);
    const turn = () => {
      for (const call of turns.splice(0)) call();
    };
    const ask = (batcher: Batcher, ...names: string[]) => {
      for (const name of names) void batcher.run(records(name), REQUEST);
    };

    test('starts in the next turn, with all that came in this one', () => {
      const { runner, batcher } = open({ nextTurn });
      ask(batcher, 'a', 'b', 'c', 'd', 'e');
      assert.deepEqual([runner.batches, turns.length], [[], 1]);
      turn();
      assert.deepEqual(runner.batches, [['a', 'b', 'c', 'd']]);
    });

    test('waits a turn for what its answers bring, and for nothing when nothing waits', async () => {
      const { runner, batcher } = open({ nextTurn });
      ask(batcher, 'a');
      turn();
      ask(batcher, 'b');
      turn();
      await runner.end();
      turn();
      assert.deepEqual(runner.batches, [['a']]);
      ask(batcher, 'c');
      turn();
      assert.deepEqual(runner.batches, [['a']]);
      turn();
      assert.deepEqual(runner.batches, [['a'], ['b', 'c']]);
      await runner.end();
      assert.deepEqual(turns, []);
    });

    test('waits as long as each turn brings calls, for a full batch and for a number of turns at most', () => {
      const { runner, batcher } = open({ nextTurn, scheduler: new FixedScheduler(3) });
      ask(batcher, 'a');
      turn();
      assert.deepEqual(runner.batches, [['a']]);
      const other = open({ nextTurn, scheduler: new FixedScheduler(3) });
      ask(other.batcher, 'a');
      for (const name of ['b', 'c']) {
        ask(other.batcher, name);
        assert.deepEqual(other.runner.batches, []);
        turn();
      }
      assert.deepEqual(other.runner.batches, [['a', 'b', 'c']]);
      const slow = open({ nextTurn, scheduler: new FixedScheduler(100) });
      ask(slow.batcher, 'first');
      let waited = 0;
      for (; slow.runner.batches.length === 0 && waited < 99; waited++) {
        ask(slow.batcher, `r${waited}`);
        turn();
      }
      assert.equal(waited, 16);
      assert.equal(slow.runner.batches[0]?.length, 17);
    });

    test('gives each process that is free its share', () => {
      const { runner, batcher } = open({ nextTurn, scheduler: new FixedScheduler(8) }, 2);
      void batcher.run(records('q1', 'q2', 'q3'), {});
      ask(batcher, 'a', 'b', 'c');
      turn();
      turn();
      assert.deepEqual(runner.batches, [['a', 'b', 'q1', 'q2', 'q3'], ['c']]);
    });
  });

  test('waits for others up to its time, and no longer', async () => {
    const { clock, runner, batcher } = open({ timeoutMs: 200 });
    const first = batcher.run(records('a'), REQUEST);
    await clock.advance(199);
    assert.deepEqual(runner.batches, []);
    void batcher.run(records('b'), REQUEST);
    await clock.advance(1);
    assert.deepEqual(runner.batches, [['a', 'b']]);
    await runner.end();
    assert.deepEqual(valuesOf(await first), ['a']);
  });

  test('a full batch does not wait, and ten records at once are one batch of ten', async () => {
    const { runner, batcher } = open({ timeoutMs: 200, scheduler: new FixedScheduler(10) });
    const names = Array.from({ length: 10 }, (_, i) => `r${i}`);
    for (const name of names) void batcher.run(records(name), REQUEST);
    assert.deepEqual(runner.batches, [names]);
  });

  test('calls take turns, so that a large one does not keep the others waiting', async () => {
    const { runner, batcher } = open();
    void batcher.run(records('0'), REQUEST);
    void batcher.run(records('a1', 'a2', 'a3', 'a4', 'a5'), REQUEST);
    void batcher.run(records('b1'), REQUEST);
    await runner.end();
    assert.deepEqual(runner.batches[1], ['a1', 'b1', 'a2', 'a3']);
  });

  test('requests go before the queue, but every fifth batch begins with a record of the queue', async () => {
    const { runner, batcher } = open({ scheduler: new FixedScheduler(1) });
    void batcher.run(records('q1', 'q2'), {});
    for (let i = 0; i < 9; i++) void batcher.run(records(`r${i}`), REQUEST);
    for (let i = 0; i < 10; i++) await runner.end();
    assert.deepEqual(runner.batches.flat(), [
      'q1',
      'r0',
      'r1',
      'r2',
      'q2',
      'r3',
      'r4',
      'r5',
      'r6',
      'r7',
      'r8',
    ]);
  });

  test('records with different keys, and those of another signature, do not share a batch', async () => {
    const { runner, batcher } = open({ keyOf: (one) => nameOf(one).slice(0, 1) });
    void batcher.run(records('0'), REQUEST);
    void batcher.run(records('a1', 'b1', 'a2'), REQUEST);
    void batcher.run(records('a3'), REQUEST);
    void batcher.run(records('a4'), { ...REQUEST, exactSignature: true });
    void batcher.run(records('a5'), { ...REQUEST, isRow: true });
    for (let i = 0; i < 5; i++) await runner.end();
    const rest = runner.batches.slice(1);
    assert.deepEqual(rest, [['a1', 'a3'], ['a4'], ['a5'], ['b1'], ['a2']]);
    assert.deepEqual(
      runner.policies.map(({ isRow }) => isRow),
      runner.batches.map((batch) => batch[0] === 'a5'),
    );
    assert.deepEqual(
      runner.policies.map(({ exactSignature }) => exactSignature),
      runner.batches.map((batch) => batch[0] === 'a4'),
    );
  });

  test('reports when records of a call run, and when all that are left wait', async () => {
    const { runner, batcher } = open({ scheduler: new FixedScheduler(1) }, 2);
    const waits: boolean[] = [];
    const onWait = (isWaiting: boolean) => waits.push(isWaiting);
    for (const name of ['x', 'y']) void batcher.run(records(name), REQUEST);
    const call = batcher.run(records('a', 'b', 'c'), { onWait });
    void batcher.run(records('r0', 'r1'), REQUEST);
    assert.deepEqual(waits, []);
    for (let i = 0; i < 3; i++) await runner.end();
    // r0 ran in the place of x, r1 in that of y, then a beside r1.
    assert.deepEqual([runner.batches.flat(), waits], [['x', 'y', 'r0', 'r1', 'a'], [false]]);
    await runner.end();
    assert.deepEqual([runner.batches.at(-1), waits], [['b'], [false]]);
    void batcher.run(records('r2', 'r3'), REQUEST);
    await runner.end();
    assert.deepEqual([runner.batches.at(-1), waits], [['r2'], [false]]);
    await runner.end();
    assert.deepEqual([runner.batches.at(-1), waits], [['r3'], [false, true]]);
    await runner.end();
    assert.deepEqual([runner.batches.at(-1), waits], [['c'], [false, true, false]]);
    await runner.end();
    await runner.end();
    assert.deepEqual(valuesOf(await call), ['a', 'b', 'c']);
    assert.deepEqual(waits, [false, true, false]);
  });

  test('several free processes get a batch each', () => {
    const { runner, batcher } = open({ scheduler: new FixedScheduler(2) }, 2);
    void batcher.run(records('a', 'b', 'c', 'd', 'e'), REQUEST);
    assert.deepEqual(runner.batches, [
      ['a', 'b'],
      ['c', 'd'],
    ]);
  });

  test('a call whose time is over is not run, and its neighbor is, also while no process is free', async () => {
    const { clock, runner, batcher } = open();
    void batcher.run(records('a'), REQUEST);
    let isOver = false;
    const late = batcher.run(records('late', 'later'), { ...REQUEST, isOver: () => isOver });
    const good = batcher.run(records('b'), REQUEST);
    isOver = true;
    await clock.advance(250);
    assert.deepEqual(valuesOf(await late), ['timeout', 'timeout']);
    await runner.end();
    assert.deepEqual(runner.batches[1], ['b']);
    await runner.end();
    assert.deepEqual(valuesOf(await good), ['b']);
  });

  test('refuses requests when too many records wait, and never the queue', async () => {
    const { runner, batcher } = open({ scheduler: new FixedScheduler(4, 3) });
    void batcher.run(records('a'), REQUEST);
    void batcher.run(records('b', 'c', 'd'), REQUEST);
    assert.equal(batcher.refuses(), true);
    await assert.rejects(batcher.run(records('e'), REQUEST), (error: ServingError) => {
      return error.code === 'rate_limited' && error.retryAfterSeconds === 1;
    });
    const queued = batcher.run(records('q'), {});
    await runner.end();
    assert.equal(batcher.refuses(), false);
    await runner.end();
    assert.deepEqual(valuesOf(await queued), ['q']);
    assert.equal(batcher.waiting, 0);
  });

  test('an error of the runner is the outcome of each record of its batch, and of no other', async () => {
    const clock = new TestClock();
    const runner = new Recorder();
    const good = runner.run.bind(runner);
    runner.run = (batch, policy) =>
      nameOf(batch[0] as Inputs) === 'bad' ? Promise.reject(new Error('broken')) : good(batch, policy);
    const batcher = new Batcher(runner, { scheduler: new FixedScheduler(1), timeoutMs: 0, clock });
    assert.deepEqual(valuesOf(await batcher.run(records('bad'), REQUEST)), ['internal']);
    const next = batcher.run(records('good'), REQUEST);
    await runner.end();
    assert.deepEqual(valuesOf(await next), ['good']);
  });

  test('a runner that gives fewer outcomes answers none', async () => {
    const runner = new Recorder();
    runner.run = () => Promise.resolve([]);
    const batcher = new Batcher(runner, {
      scheduler: new FixedScheduler(2),
      timeoutMs: 0,
      clock: new TestClock(),
    });
    assert.deepEqual(valuesOf(await batcher.run(records('a', 'b'), REQUEST)), ['internal', 'internal']);
  });

  test('with whole requests, one is not cut, shares a batch only where it fits, and the queue is cut', async () => {
    const { runner, batcher } = open({ wholeRequests: true });
    void batcher.run(records('0'), REQUEST);
    void batcher.run(records('a1', 'a2', 'a3', 'a4', 'a5', 'a6'), REQUEST);
    void batcher.run(records('b1', 'b2', 'b3'), REQUEST);
    void batcher.run(records('c1', 'c2'), REQUEST);
    void batcher.run(records('d1'), REQUEST);
    void batcher.run(records('q1', 'q2', 'q3', 'q4', 'q5'), {});
    for (let i = 0; i < 6; i++) await runner.end();
    assert.deepEqual(runner.batches, [
      ['0'],
      ['a1', 'a2', 'a3', 'a4', 'a5', 'a6'],
      ['b1', 'b2', 'b3', 'd1'],
      ['c1', 'c2', 'q1', 'q2'],
      ['q3', 'q4', 'q5'],
    ]);
    // Only what is one request and nothing else fails as a whole.
    assert.deepEqual(
      runner.policies.map(({ failFast }) => failFast),
      [true, true, false, false, false],
    );
  });

  test('a request that did not fit is the first of the next batch, however many small ones come', async () => {
    const { runner, batcher } = open({ wholeRequests: true });
    const ask = (...names: string[]) => void batcher.run(records(...names), REQUEST);
    ask('0');
    for (const name of ['a', 'b']) ask(name);
    ask('c1', 'c2', 'c3');
    for (const name of ['d', 'e', 'f']) ask(name);
    for (let i = 0; i < 3; i++) await runner.end();
    assert.deepEqual(runner.batches, [['0'], ['a', 'b', 'd', 'e'], ['c1', 'c2', 'c3', 'f']]);
  });

  test('the error of a whole request is thrown unchanged', async () => {
    const runner = new Recorder();
    const broken = new Error('instance 3: broken');
    runner.run = () => Promise.reject(broken);
    const batcher = new Batcher(runner, {
      scheduler: new FixedScheduler(4),
      timeoutMs: 0,
      clock: new TestClock(),
      wholeRequests: true,
    });
    await assert.rejects(batcher.run(records('a', 'b'), REQUEST), (error) => error === broken);
    assert.deepEqual(valuesOf(await batcher.run(records('a', 'b'), {})), ['internal', 'internal']);
  });

  test('no records need no run', async () => {
    const { runner, batcher } = open();
    assert.deepEqual(await batcher.run([], REQUEST), []);
    assert.deepEqual(runner.batches, []);
  });
});
