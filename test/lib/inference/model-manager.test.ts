import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { modelUnavailable } from '../../../lib/contract/errors.ts';
import type { Runner } from '../../../lib/contract/values.ts';
import { LoadStopped } from '../../../lib/inference/load-time.ts';
import { ModelManager } from '../../../lib/inference/model-manager.ts';

class FakeRunner implements Runner {
  readonly version: string;
  closed = false;
  constructor(version: string) {
    this.version = version;
  }
  run = async () => [];
  close = async () => {
    this.closed = true;
  };
}

/** A source whose version is a variable, and every runner it opened. */
function host(versions: { current: string }) {
  const opened: FakeRunner[] = [];
  const model = new ModelManager(
    {
      version: async () => versions.current,
      open: async (version) => {
        const runner = new FakeRunner(version);
        opened.push(runner);
        return runner;
      },
    },
    { refreshMs: 1e9, now: () => 0, onError: (error) => assert.fail(error.message) },
  );
  return { model, opened };
}

test('work never runs on a closed runner, however uses and swaps interleave', async () => {
  const versions = { current: 'v0' };
  const { model, opened } = host(versions);
  await model.ready();
  const work = async (runner: Runner) => {
    assert.equal((runner as FakeRunner).closed, false);
    await Promise.resolve();
    assert.equal((runner as FakeRunner).closed, false);
  };
  for (let swap = 1; swap <= 50; swap++) {
    versions.current = `v${swap}`;
    const swapping = model.refresh();
    const uses: Promise<void>[] = [];
    // A use at every step of the swap: each waits another number of microtasks.
    for (let step = 0; step < 20; step++) {
      uses.push(model.use(work));
      await Promise.resolve();
    }
    await swapping;
    await Promise.all(uses);
  }
  assert.deepEqual(
    opened.filter(({ closed }) => !closed).map(({ version }) => version),
    ['v50'],
  );
  await model.close();
  assert.ok(opened.every(({ closed }) => closed));
});

test('a refresh before the first opening is done opens the model once', async () => {
  const { model, opened } = host({ current: 'v0' });
  await Promise.all([model.ready(), model.refresh(), model.ready()]);
  assert.equal(opened.length, 1);
});

test('a third version waits until the first is closed, and is found by the next request', async () => {
  const versions = { current: 'v0' };
  const { model, opened } = host(versions);
  await model.ready();
  let finish = () => {};
  const long = model.use(() => new Promise<void>((resolve) => (finish = resolve)));
  for (const version of ['v1', 'v2']) {
    versions.current = version;
    await model.refresh();
    assert.equal(model.version, 'v1');
    assert.equal(opened.length, 2);
  }
  finish();
  await long;
  await setImmediate();
  await model.refresh();
  assert.equal(model.version, 'v2');
  await model.close();
});

test('a use that has its runner, and loses it to a swap before it begins, takes the new one', async () => {
  const opened: FakeRunner[] = [];
  const model = new ModelManager(
    {
      version: async () => `v${opened.length}`,
      open: (version) => {
        const runner = new FakeRunner(version);
        opened.push(runner);
        return Promise.resolve(runner);
      },
    },
    { refreshMs: 1e9, now: () => 0, onError: (error) => assert.fail(error.message) },
  );
  const using = model.use(async (runner) => [runner.version, runner.closed]);
  // The use waits for the first runner. The swap replaces and closes it before the use begins.
  const swapped = new Promise<void>((resolve) => {
    const swap = () => (model.version ? void model.refresh().then(resolve) : queueMicrotask(swap));
    swap();
  });
  assert.deepEqual(await using, ['v1', false]);
  await swapped;
  assert.equal(opened[0]?.closed, true);
  assert.equal(opened.length, 2);
});

test('a refresh that finds the version that serves opens nothing', async () => {
  const { model, opened } = host({ current: 'v0' });
  await model.ready();
  await model.refresh();
  await model.refresh();
  assert.equal(opened.length, 1);
});

/** A source on Lambda, whose check and load end when the test says so. */
function onLambda(leftMs = 10_000) {
  const state = {
    current: 'v0',
    nowMs: 0,
    checks: 0,
    stalls: false,
    fails: false,
    progressed: true,
    isHere: true,
    aborted: 0,
  };
  const errors: string[] = [];
  const stall = (signal: AbortSignal | undefined) =>
    new Promise<never>((_, reject) => {
      signal?.addEventListener('abort', () => {
        state.aborted++;
        reject(signal.reason as Error);
      });
    });
  const model = new ModelManager<Runner>(
    {
      async version(signal) {
        state.checks++;
        if (state.stalls) await stall(signal);
        if (state.fails) throw modelUnavailable(`away at ${state.nowMs}`);
        return state.current;
      },
      async open(version) {
        if (!state.isHere) throw new LoadStopped('on its way', { progressed: state.progressed });
        return new FakeRunner(version);
      },
    },
    {
      refreshMs: 1_000,
      now: () => state.nowMs,
      leftMs: () => leftMs,
      onError: ({ message }) => errors.push(message),
    },
  );
  const serving = () => model.use(async ({ version }) => version);
  return { model, state, errors, serving };
}

test('on Lambda the call that finds a check due waits for it and for the new version, and others share it', async () => {
  const { model, state, serving } = onLambda();
  await model.ready();
  state.current = 'v1';
  assert.equal(await serving(), 'v0');
  state.nowMs = 1_000;
  assert.deepEqual(await Promise.all([serving(), serving(), serving()]), ['v1', 'v1', 'v1']);
  assert.equal(state.checks, 2);
});

test('on Lambda a check without an answer is aborted within 300 ms, the old version serves, and the next call asks again', async () => {
  const { model, state, errors, serving } = onLambda();
  await model.ready();
  Object.assign(state, { current: 'v1', nowMs: 1_000, stalls: true });
  assert.equal(await serving(), 'v0');
  assert.deepEqual([state.aborted, errors], [1, ['no answer of S3 within 300 ms']]);
  state.stalls = false;
  assert.equal(await serving(), 'v1');
});

test('on Lambda a check that fails is asked again by each call, and reported twice in an interval', async () => {
  const { model, state, errors, serving } = onLambda();
  await model.ready();
  state.fails = true;
  for (const [nowMs, reports] of [
    [1_000, ['away at 1000']],
    [1_001, []],
    [1_499, []],
    [1_500, ['away at 1500']],
    [1_999, []],
    [2_600, ['away at 2600']],
  ] as const) {
    state.nowMs = nowMs;
    const before = state.checks;
    assert.equal(await serving(), 'v0');
    assert.deepEqual([state.checks - before, errors.splice(0)], [1, reports], String(nowMs));
  }
});

test('on Lambda a load that gets further continues in the next call, one that does not waits for its turn', async () => {
  const { model, state, errors, serving } = onLambda();
  await model.ready();
  Object.assign(state, { current: 'v1', nowMs: 1_000, isHere: false });
  assert.deepEqual([await serving(), await serving(), state.checks, errors], ['v0', 'v0', 3, []]);
  state.progressed = false;
  assert.deepEqual([await serving(), await serving(), state.checks, errors.length], ['v0', 'v0', 4, 1]);
  Object.assign(state, { nowMs: 2_000, isHere: true });
  assert.equal(await serving(), 'v1');
});

test('on Lambda a first load that is stopped is an error of its call, and the next one continues', async () => {
  const { state, serving } = onLambda();
  state.isHere = false;
  await assert.rejects(serving(), { code: 'timeout' });
  state.isHere = true;
  assert.equal(await serving(), 'v0');
});

test('a clock that was set back does not keep a version from being looked for', async () => {
  const { model, state, serving } = onLambda();
  state.nowMs = 3_600_000;
  await model.ready();
  Object.assign(state, { current: 'v1', nowMs: 10 });
  assert.equal(await serving(), 'v1');
});

test('environments that start together look at different times, none of them later than the setting says', async () => {
  const checks: number[] = [];
  for (const random of [0, 0.25, 0.5, 0.75, 0.999]) {
    let nowMs = 0;
    const model = new ModelManager<Runner>(
      { version: async () => (checks.push(nowMs), 'v0'), open: async (version) => new FakeRunner(version) },
      { refreshMs: 1_000, now: () => nowMs, leftMs: () => 1_000, random: () => random, onError: assert.fail },
    );
    await model.ready();
    checks.pop();
    for (nowMs = 0; nowMs <= 1_000; nowMs += 50) await model.use(async () => undefined);
  }
  assert.deepEqual(checks.slice(0, 1), [1_000]);
  assert.ok(new Set(checks).size >= 5, checks.join());
});
