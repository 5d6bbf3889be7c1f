/** F11, F12: what lies in the folder of models before, while and after a version takes over. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { publishModel } from '../../../lib/registry/publish.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';
import { addModel, LOCATION, modelBucket, modelFolder, numberFrom, ONE, openHost } from './models.ts';

const WEIGHTS_MB = 16;
const TRIES = 24;

test('an event that began with the old model runs in an isolated process after another took over, and its file goes with it', async (t) => {
  const s3 = await modelBucket(t);
  const first = await publishModel(s3, LOCATION, await modelFolder(t, addModel(1)));
  const { model, directory, errors } = await openHost(t, s3);
  const second = await model.use(async (runner) => {
    const published = await publishModel(s3, LOCATION, await modelFolder(t, addModel(2)));
    await model.refresh();
    assert.equal(model.version, published.version);
    const runIsolated = runner.runIsolated?.bind(runner);
    assert.ok(runIsolated);
    assert.equal(await numberFrom({ run: () => runIsolated(ONE(), 20_000) }), 1);
    assert.deepEqual((await readdir(directory)).sort(), [first.version, published.version].sort());
    return published;
  });
  assert.equal(await model.use(numberFrom), 2);
  await until(async () => (await readdir(directory)).join() === second.version);
  assert.deepEqual(errors, []);
});

test('the old session is closed after its last user, not before', async (t) => {
  const s3 = await modelBucket(t);
  await publishModel(s3, LOCATION, await modelFolder(t, addModel(1)));
  const { model } = await openHost(t, s3);
  await model.ready();
  const users = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
  const served = users.map(({ promise }) =>
    model.use(async (runner) => {
      await promise;
      return { runner, number: await numberFrom(runner) };
    }),
  );
  await publishModel(s3, LOCATION, await modelFolder(t, addModel(2)));
  await model.refresh();
  const ended: number[] = [];
  for (const [i, user] of users.entries()) {
    user.resolve();
    const { number, runner } = await (served[i] as (typeof served)[number]);
    ended.push(number);
    if (i < users.length - 1) assert.equal(await numberFrom(runner), 1, 'closed while it has users');
    else await assert.rejects(numberFrom(runner), 'still open after its last user');
  }
  assert.deepEqual(ended, [1, 1, 1]);
});

test('what processes that died in a download left is removed, what a living one downloads is not', async (t) => {
  const s3 = await modelBucket(t);
  const { version } = await publishModel(s3, LOCATION, await modelFolder(t, addModel(1)));
  const directory = await temporaryFolder(t);
  const dead = spawnSync('true').pid;
  // Lambda gives the next process of an environment the same id, and its counters begin anew.
  const left = [`${version}.partial-${dead}-0`, `0ther.partial-${process.pid}-7`, `0ther.partial-${dead}-3`];
  const living = `0ther.partial-${process.ppid}-0`;
  for (const name of [...left, living]) {
    await mkdir(join(directory, name));
    await writeFile(join(directory, name, 'model.onnx'), Buffer.alloc(1000));
  }
  const { serving } = await openHost(t, s3, directory);
  assert.equal(await serving(), 1);
  assert.deepEqual((await readdir(directory)).sort(), [version, living].sort());
});

for (const [how, spoil] of [
  ['is cut', (folder: string) => truncate(join(folder, 'model.onnx'), 20)],
  ['is empty', (folder: string) => truncate(join(folder, 'model.onnx'), 0)],
] as const) {
  test(`a version's folder whose file ${how} is downloaded again`, async (t) => {
    const s3 = await modelBucket(t);
    const { version } = await publishModel(s3, LOCATION, await modelFolder(t, addModel(1)));
    const directory = await temporaryFolder(t);
    const before = await openHost(t, s3, directory);
    assert.equal(await before.serving(), 1);
    await before.model.close();
    await spoil(join(directory, version));
    const after = await openHost(t, s3, directory);
    assert.equal(await after.serving(), 1);
    assert.deepEqual(await readdir(directory), [version]);
  });
}

test('an empty folder or a file in the place of a version is replaced by the version', async (t) => {
  const s3 = await modelBucket(t);
  const { version } = await publishModel(s3, LOCATION, await modelFolder(t, addModel(1)));
  for (const put of [(path: string) => mkdir(path), (path: string) => writeFile(path, 'no folder')]) {
    const directory = await temporaryFolder(t);
    await put(join(directory, version));
    const { serving } = await openHost(t, s3, directory);
    assert.equal(await serving(), 1);
    assert.deepEqual(await readdir(directory), [version]);
  }
});

test('a file in the place of the whole folder is reported, and once it is gone the next request is served', async (t) => {
  const s3 = await modelBucket(t);
  await publishModel(s3, LOCATION, await modelFolder(t, addModel(1)));
  const directory = join(await temporaryFolder(t), 'models');
  await writeFile(directory, 'no folder');
  const { serving } = await openHost(t, s3, directory);
  await assert.rejects(serving(), { code: 'model_unavailable', message: /EEXIST/ });
  spawnSync('rm', [directory]);
  assert.equal(await serving(), 1);
});

test('versions that do not open do not pile up: two at most, and one once a good one serves', async (t) => {
  const s3 = await modelBucket(t);
  const { version } = await publishModel(s3, LOCATION, await modelFolder(t, addModel(1)));
  const { model, serving, errors, directory } = await openHost(t, s3);
  assert.equal(await serving(), 1);
  for (let i = 1; i <= 5; i++) {
    await publishModel(s3, LOCATION, await modelFolder(t, Buffer.from(`broken model ${i}`)));
    await model.refresh();
    const names = await readdir(directory);
    assert.ok(names.length <= 2 && names.includes(version), names.join());
    assert.equal(errors.length, i, 'not reported once per try');
    assert.equal(await serving(), 1);
  }
  const { version: good } = await publishModel(s3, LOCATION, await modelFolder(t, addModel(2)));
  await model.refresh();
  assert.equal(await serving(), 2);
  await until(async () => (await readdir(directory)).join() === good);
});

test('back and forth between two versions twenty times, each serves when it should and one folder is left', async (t) => {
  const s3 = await modelBucket(t);
  const folders = [await modelFolder(t, addModel(1)), await modelFolder(t, addModel(2))];
  await publishModel(s3, LOCATION, folders[0] as string);
  const { model, serving, errors, directory } = await openHost(t, s3);
  for (let swap = 0; swap < 20; swap++) {
    const { version } = await publishModel(s3, LOCATION, folders[swap % 2] as string);
    // A user of the version before is still there when it comes again.
    await model.use(async (runner) => {
      const number = await numberFrom(runner);
      // It stays out until the one before this is closed and its files are gone.
      await until(async () => {
        await model.refresh();
        return model.version === version;
      });
      assert.equal(await numberFrom(runner), number);
    });
    assert.equal(await serving(), (swap % 2) + 1);
    assert.ok((await readdir(directory)).length <= 2);
  }
  await until(async () => (await readdir(directory)).join() === model.version);
  assert.deepEqual(errors, []);
});

test('a version that cannot be served keeps no memory, however often it is tried', async (t) => {
  const s3 = await modelBucket(t);
  await publishModel(s3, LOCATION, await modelFolder(t, addModel(1)));
  const { model, serving, errors } = await openHost(t, s3);
  assert.equal(await serving(), 1);
  const weights = new Float32Array(WEIGHTS_MB * ((1024 * 1024) / 4));
  const noInputs = onnxModel({
    inputs: [],
    outputs: [{ name: 'y', dtype: 'float32', shape: [weights.length] }],
    nodes: [{ op: 'Add', inputs: ['n', 'n'], outputs: ['y'] }],
    weights: [{ name: 'n', dtype: 'float32', shape: [weights.length], data: weights }],
  });
  await publishModel(s3, LOCATION, await modelFolder(t, noInputs));
  await model.refresh();
  await model.refresh();
  const before = process.memoryUsage.rss();
  for (let i = 0; i < TRIES; i++) await model.refresh();
  const grownMb = (process.memoryUsage.rss() - before) / 1024 / 1024;
  // A try that kept its session would keep all of its weights. Half of that is left to the buffers of the downloads.
  assert.ok(grownMb < (TRIES / 2) * WEIGHTS_MB, `${grownMb} MB more after ${TRIES} tries`);
  assert.equal(errors.length, TRIES + 2);
  assert.match(errors[0]?.message ?? '', /the model has no inputs/);
  assert.equal(await serving(), 1);
});

test('an old version that cannot be removed is reported, and the new one serves', async (t) => {
  if (process.getuid?.() !== 0) return t.skip('needs root, to mount');
  const s3 = await modelBucket(t);
  const { version } = await publishModel(s3, LOCATION, await modelFolder(t, addModel(1)));
  const { model, serving, errors, directory } = await openHost(t, s3);
  const stuck = join(directory, 'stuck');
  await mkdir(stuck);
  if (spawnSync('mount', ['-t', 'tmpfs', 'tmpfs', stuck]).status !== 0) return t.skip('cannot mount here');
  try {
    assert.equal(await serving(), 1);
    assert.equal(model.version, version);
    assert.equal(errors.length, 1);
    assert.match(errors[0]?.message ?? '', /EBUSY/);
  } finally {
    // Here and not after the test: the folder is removed before.
    spawnSync('umount', [stuck]);
  }
});
