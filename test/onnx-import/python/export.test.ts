/** What happens around an exporter in Python: which file, which versions, what is run, and how each step ends. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PythonEnvironment } from '../../../onnx-import/python/environment.ts';
import { commands, exportable, withExport } from '../../../onnx-import/python/export.ts';
import { RECIPES } from '../../../onnx-import/python/recipes.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { folderOf } from '../support/folder.ts';

const PICKLE = fileURLToPath(new URL('models/pipeline.pkl', import.meta.url));
const isWindows = process.platform === 'win32';

/** An interpreter that makes an environment whose python runs these lines of sh. */
async function interpreter(t: TestContext, lines: string): Promise<string> {
  const file = join(await temporaryFolder(t), 'python3');
  const inner = `#!/bin/sh\n${lines}\n`;
  await writeFile(
    file,
    `#!/bin/sh\nmkdir -p "$3/bin"\ncat > "$3/bin/python" <<'END'\n${inner}END\nchmod +x "$3/bin/python"\n`,
  );
  await chmod(file, 0o755);
  return file;
}

test('every version in the table is pinned, and a file that is code is said to be', () => {
  for (const { packages, title } of RECIPES)
    assert.ok(
      packages.every((name) => /==|^numpy$|^setuptools</.test(name)),
      `${title}: ${packages.join(' ')}`,
    );
  const isCode = (file: string) => RECIPES.find(({ files }) => files.test(file))?.isCode;
  assert.deepEqual(
    [
      'm.pkl',
      'm.joblib',
      'm.h5',
      'm.pt2',
      'm.cbm',
      'm.keras',
      'm.skops',
      'm.pdiparams',
      'm.weights.h5',
      'm.onnx',
    ].map(isCode),
    [true, true, true, true, false, false, false, false, undefined, undefined],
  );
});

test('the one file with a recipe is found, and a pickle of scikit-learn is loaded by the version that wrote it', async (t) => {
  const { packages, recipe } = await exportable(PICKLE);
  assert.equal(recipe.isCode, true);
  assert.equal(packages[0], 'scikit-learn==1.9.1');
  const old = Buffer.from(
    await readFile(PICKLE, 'latin1').then((text) => text.replaceAll('\u00051.9.1', '\u00051.3.2')),
    'latin1',
  );
  const folder = await folderOf(t, { 'old.pkl': old, 'notes.txt': 'x' });
  assert.equal((await exportable(folder)).packages[0], 'scikit-learn==1.3.2');
  await assert.rejects(
    exportable(await folderOf(t, { 'a.txt': 'x' })),
    /--with-python: expected one file of CatBoost, Keras, .*; found none in /,
  );
  await assert.rejects(
    exportable(await folderOf(t, { 'a.pkl': 'x', 'b.cbm': 'x' })),
    /found a\.pkl, b\.cbm in /,
  );
});

test('without Python, or without the packages, the commands are printed, and nothing is left behind', {
  skip: isWindows,
}, async (t) => {
  const found = await exportable(PICKLE);
  const before = (await readdir(tmpdir())).filter((name) => name.startsWith('onnx-import-python-')).length;
  const work = () => assert.fail('nothing was exported');
  const shown =
    /env\/bin\/pip install "scikit-learn==1\.9\.1" "skl2onnx==1\.20\.0" "onnx==1\.23\.2"\nmkdir exported\nenv\/bin\/python - "/;
  await assert.rejects(withExport(found, { python: '/no/such/python' }, work), (error: Error) => {
    assert.match(
      error.message,
      /making an environment by \/no\/such\/python -m venv failed:\nspawn \/no\/such\/python ENOENT/,
    );
    assert.match(error.message, shown);
    return true;
  });
  const offline = await interpreter(t, 'echo "no matching distribution" >&2; exit 1');
  await assert.rejects(withExport(found, { python: offline }, work), (error: Error) => {
    assert.match(error.message, /installing scikit-learn==1\.9\.1 .* failed:\nno matching distribution/);
    assert.match(error.message, shown);
    return true;
  });
  const after = (await readdir(tmpdir())).filter((name) => name.startsWith('onnx-import-python-')).length;
  assert.ok(after <= before, `${after} folders, ${before} before`);
  assert.match(commands(PICKLE, found), /joblib\.load\(source\)/);
});

test('what the exporter makes is handed on with its reference and removed, and its error is shown', {
  skip: isWindows,
}, async (t) => {
  const found = await exportable(PICKLE);
  // pip is called with -m, the exporter with -I -c lines file folder.
  const works =
    'if [ "$1" = "-m" ]; then exit 0; fi; mkdir "$5/reference"; echo x > "$5/model.onnx"; echo y > "$5/reference/in0.npy"';
  let seen = '';
  await withExport(found, { python: await interpreter(t, works) }, async ({ directory, reference, note }) => {
    seen = directory;
    assert.deepEqual(await readdir(directory), ['model.onnx']);
    assert.deepEqual(await readdir(reference ?? ''), ['in0.npy']);
    assert.match(
      note,
      /pipeline\.pkl was exported in Python by scikit-learn==1\.9\.1, .*its answers there are the reference/,
    );
  });
  assert.equal(existsSync(seen), false);
  const fails = 'if [ "$1" = "-m" ]; then exit 0; fi; echo "ValueError: no" >&2; exit 1';
  await assert.rejects(
    withExport(found, { python: await interpreter(t, fails) }, async () => undefined),
    /pipeline\.pkl: exporting pipeline\.pkl failed:\nValueError: no/,
  );
});

test('a step ends at its limit of time with all that it started, and sees no credentials', {
  skip: isWindows,
  timeout: 60_000,
}, async (t) => {
  const folder = await temporaryFolder(t);
  const environment = new PythonEnvironment(folder, 1, undefined);
  const run = (lines: string, ms: number) =>
    environment.run({ command: 'sh', args: ['-c', lines], what: 'the step', ms });
  await assert.rejects(run(`sleep 60 & echo $! > ${folder}/pid; wait`, 500), /the step took over 0\.5 s/);
  const pid = Number(await readFile(join(folder, 'pid'), 'utf8'));
  const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => 'gone');
  assert.match(state, /^gone$|\) Z /);
  process.env['AWS_SECRET_ACCESS_KEY'] = 'secret';
  t.after(() => delete process.env['AWS_SECRET_ACCESS_KEY']);
  assert.equal((await run('env >&2; exit 1', 10_000))?.printed.includes('secret'), false);
  const much = await run('yes | head -c 3000000; echo the end; exit 3', 10_000);
  assert.match(much?.printed ?? '', /the end$/);
  assert.ok((much?.printed ?? '').length < 64 * 1024);
});

test('an abort ends the step with its reason', { skip: isWindows }, async (t) => {
  const stop = new AbortController();
  const environment = new PythonEnvironment(await temporaryFolder(t), 1, stop.signal);
  const running = environment.run({ command: 'sleep', args: ['60'], what: 'the step', ms: 60_000 });
  setImmediate(() => stop.abort(new Error('called off')));
  await assert.rejects(running, /called off/);
});

test('a step that takes more disk than it may is ended', { skip: isWindows, timeout: 60_000 }, async (t) => {
  const folder = await temporaryFolder(t);
  const environment = new PythonEnvironment(folder, 0.1, undefined);
  const lines = `head -c 300000000 /dev/zero > ${folder}/large; sync; sleep 50`;
  await assert.rejects(
    environment.run({ command: 'sh', args: ['-c', lines], what: 'the step', ms: 50_000 }),
    /the step took over 0\.1 GB of disk/,
  );
});
