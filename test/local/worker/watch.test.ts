/** Files of a worker that count, and the reports of changes. */
import assert from 'node:assert/strict';
import { mkdir, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FileWatch, type WatchedFolders } from '../../../local/worker/watch.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

async function folders(t: TestContext) {
  const root = await temporaryFolder(t);
  const [directory, modelDir] = [join(root, 'code'), join(root, 'models')];
  const watched: WatchedFolders = { directory, modelDir, modelName: 'm', ignored: [join(directory, 'logs')] };
  const write = async (path: string, text = '') => {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  };
  await write('code/server.py', '1');
  await write('models/m/weights.bin', '1');
  return { root, watched, write };
}

const quiet = { changed: () => undefined, failed: (error: Error) => assert.fail(error.message) };

async function fingerprint(watched: WatchedFolders): Promise<string> {
  const watch = await FileWatch.open(watched, quiet);
  watch.close();
  return watch.fingerprint;
}

test('code and the files of the model count by their contents and times; what is written beside them does not', async (t) => {
  const { root, watched, write } = await folders(t);
  const first = await fingerprint(watched);
  assert.match(first, /^[0-9a-f]{8}$/);
  for (const path of [
    'code/notes.txt',
    'code/.hidden.py',
    'code/.git/hook.py',
    'code/node_modules/a/index.js',
    'code/__pycache__/a.py',
    'code/logs/a.py',
    'code/venv/pyvenv.cfg',
    'code/venv/lib/a.py',
  ])
    await write(path, 'x');
  assert.equal(await fingerprint(watched), first);
  const seen = new Set([first]);
  const differs = async (what: string) => {
    const now = await fingerprint(watched);
    assert.ok(!seen.has(now), what);
    seen.add(now);
  };
  for (const path of [
    'code/a.py',
    'code/deep/b.ts',
    'code/c.mjs',
    'code/d.cts',
    'models/m/x',
    'models/m/in/y',
  ]) {
    await write(path, 'x');
    await differs(path);
  }
  await write('code/a.py', 'xx');
  await differs('another size');
  await utimes(join(root, 'code/a.py'), 1, 1);
  await differs('another time');
  await write('code/new', 'xx');
  await utimes(join(root, 'code/new'), 1, 1);
  await rename(join(root, 'code/new'), join(root, 'code/a.py'));
  await differs('another file of the same size and time');
  // Every file in a model's own folder counts.
  await write('models/other', 'x');
  await differs('beside the model');
});

test('of a model that is in the folder of the code, the named one counts', async (t) => {
  const { watched, write } = await folders(t);
  await write('code/m.bin', 'x');
  const inside = { ...watched, modelDir: watched.directory, modelName: 'm.bin' };
  const first = await fingerprint(inside);
  await write('code/other.bin', 'x');
  assert.equal(await fingerprint(inside), first);
  await write('code/m.bin', 'xx');
  assert.notEqual(await fingerprint(inside), first);
  const none = { ...inside, modelName: '' };
  const without = await fingerprint(none);
  await write('code/m.bin', 'xxx');
  assert.equal(await fingerprint(none), without);
});

test('a change is reported once it is over, with the fingerprint of the files as they are then, and none after the end', async (t) => {
  const { root, watched, write } = await folders(t);
  const told: string[] = [];
  const watch = await FileWatch.open(watched, { ...quiet, changed: (now) => void told.push(now) });
  t.after(() => watch.close());
  await write('code/notes.txt', 'x');
  for (const text of ['22', '333', '4444']) await write('code/server.py', text);
  await until(() => told.length > 0);
  assert.deepEqual(told, [await fingerprint(watched)]);
  assert.equal(watch.fingerprint, told[0]);
  // A folder that is new is watched from then on.
  await write('code/more/a.py', '1');
  await until(() => told.length > 1);
  await write('code/more/a.py', '22');
  await until(() => told.length > 2);
  assert.equal(told[2], await fingerprint(watched));
  await write('models/m/weights.bin', '22');
  await until(() => told.length > 3);
  await rm(join(root, 'code/more'), { recursive: true });
  await until(() => told.length > 4);
  assert.equal(new Set(told).size, 5);
  watch.close();
  const again = await FileWatch.open(watched, { ...quiet, changed: (now) => void told.push(`new ${now}`) });
  t.after(() => again.close());
  await write('code/server.py', '55555');
  await until(() => told.length > 5);
  assert.match(told[5] ?? '', /^new /);
  assert.equal(told.length, 6);
});
