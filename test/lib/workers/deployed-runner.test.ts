/** How records become batches of the one process of a function, and what becomes of them when its time ends. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Inputs, Outcome } from '../../../lib/contract/values.ts';
import { type DeployedRunnerOptions, deployedRunner } from '../../../lib/workers/deployed-runner.ts';
import { settled, TestClock } from '../../support/clock.ts';

const record = (name: string): Inputs => new Map([['x', { kind: 'json', value: name }]]);
const nameOf = (inputs: Inputs) => {
  const value = inputs.get('x');
  return value?.kind === 'json' ? String(value.value) : '';
};
const done: Outcome = { ok: true, outputs: [] };
const failed: Outcome = { ok: false, error: new ServingError('model_failed', 'its own') };
const codesOf = (outcomes: readonly Outcome[]) =>
  outcomes.map((outcome) => (outcome.ok ? 'ok' : outcome.error.code));

/** A process that fails the records whose name begins with `bad`, and does not end with one whose name is `endless`. */
function scene(options: Partial<DeployedRunnerOptions> = {}) {
  const clock = new TestClock();
  const batches: string[] = [];
  const ended: string[] = [];
  const pool = {
    free: 1,
    endBusy: (why: string) => void ended.push(why),
    close: async (limitMs = 0) => void ended.push(`closed within ${limitMs}`),
  };
  const runner = deployedRunner({
    pool,
    batches: {
      version: 'v',
      run(records) {
        const names = records.map(nameOf);
        batches.push(names.join(' '));
        if (names.includes('endless')) return new Promise(() => undefined);
        return Promise.resolve(names.map((name) => (name.startsWith('bad') ? failed : done)));
      },
      close: async () => undefined,
    },
    batchSize: 3,
    stopMs: 70,
    clock,
    ...options,
  });
  const run = (names: string, policy?: Parameters<typeof runner.run>[1]) =>
    runner.run(names.split(' ').map(record), policy);
  return { clock, pool, runner, run, batches, ended };
}

describe('a worker on Lambda', () => {
  test('runs neighbours together that may share a batch, up to its size', async () => {
    const keyOf = (inputs: Inputs) => nameOf(inputs)[0] as string;
    for (const [names, options, expected] of [
      ['a1 a2', {}, ['a1 a2']],
      ['a1 b1 a2 a3 b2 b3 a4', {}, ['a1 b1 a2', 'a3 b2 b3', 'a4']],
      ['a1 a2 a3 a4', { batchSize: 1 }, ['a1', 'a2', 'a3', 'a4']],
      ['a1 a2 b1 a3 a4 a5 a6', { keyOf }, ['a1 a2', 'b1', 'a3 a4 a5', 'a6']],
    ] as const) {
      const { run, batches } = scene(options);
      assert.deepEqual(codesOf(await run(names)), Array(names.split(' ').length).fill('ok'));
      assert.deepEqual(batches, expected);
    }
  });

  test('a failed record fails the request that wants all of them, and no batch follows', async () => {
    for (const [failFast, codes, expected] of [
      [false, ['ok', 'model_failed', 'ok', 'ok'], ['a bad', 'c d']],
      [true, ['ok', 'model_failed', 'model_failed', 'model_failed'], ['a bad']],
    ] as const) {
      const { run, batches } = scene({ batchSize: 2 });
      assert.deepEqual(codesOf(await run('a bad c d', { failFast })), codes);
      assert.deepEqual(batches, expected);
    }
  });

  test('what has no time left is not begun, and what is not over in time ends its process', async () => {
    const { run, clock, batches, ended } = scene({ batchSize: 1 });
    const running = run('a endless c', { isOver: () => clock.now() >= 120 });
    await clock.advance(120);
    assert.deepEqual(ended, []);
    await clock.advance(50);
    assert.deepEqual(codesOf(await running), ['ok', 'timeout', 'timeout']);
    assert.deepEqual(batches, ['a', 'endless']);
    assert.deepEqual([ended, clock.pending], [['the invocation had no time left'], 0]);
  });

  test('it waits for its process as long as there is time', async () => {
    for (const [readyMs, code, expected] of [
      [80, 'ok', ['a']],
      [130, 'timeout', []],
    ] as const) {
      const { run, clock, pool, batches } = scene();
      pool.free = 0;
      clock.after(readyMs, () => (pool.free = 1));
      const running = run('a', { isOver: () => clock.now() >= 120 });
      await clock.advance(200);
      assert.deepEqual(codesOf(await running), [code]);
      assert.deepEqual(batches, expected);
    }
  });

  test('alone, a record has a time of its own', async () => {
    const { runner, clock, pool } = scene();
    assert.deepEqual(codesOf((await runner.runIsolated?.([record('a')], 100)) ?? []), ['ok']);
    assert.deepEqual(codesOf((await runner.runIsolated?.([record('bad')], 100)) ?? []), ['model_failed']);
    const late = { code: 'timeout', message: 'the worker did not end within 100 ms' };
    const endless = assert.rejects(
      runner.runIsolated?.([record('endless')], 99.6) ?? Promise.resolve(),
      late,
    );
    await clock.advance(150);
    await endless;
    pool.free = 0;
    const absent = assert.rejects(runner.runIsolated?.([record('a')], 100) ?? Promise.resolve(), late);
    await clock.advance(150);
    await absent;
  });

  test('alone, a record that ended its process is the reason, and several are asked one by one', async () => {
    const { runner, pool } = scene({
      batches: {
        version: 'v',
        run: async (records) => {
          pool.free = 0;
          return records.map(() => failed);
        },
        close: async () => undefined,
      },
    });
    await assert.rejects(runner.runIsolated?.([record('a')], 100) ?? Promise.resolve(), failed.error);
    pool.free = 1;
    const both = await runner.runIsolated?.([record('a'), record('b')], 100);
    assert.deepEqual(codesOf(both ?? []), ['model_failed', 'model_failed']);
  });

  test('an error after the deadline is ignored, and closing gives batches their time', async () => {
    let fail: (error: Error) => void = () => undefined;
    const { runner, run, clock, ended } = scene({
      batches: {
        version: 'v',
        run: () => new Promise((_, reject) => (fail = reject)),
        close: async () => undefined,
      },
    });
    const running = run('a', { isOver: () => clock.now() >= 50 });
    await clock.advance(50);
    assert.deepEqual(codesOf(await running), ['timeout']);
    fail(new Error('the process ended'));
    await settled();
    await runner.close();
    assert.deepEqual([runner.version, ended.at(-1)], ['v', 'closed within 70']);
  });
});
