import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { Runner } from '../../../lib/contract/values.ts';
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
