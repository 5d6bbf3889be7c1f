/** Keeps the list of mutants true; `npm run test:mutants` applies them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PYTHON, WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { copyRepository } from './copy.ts';
import { MUTANTS } from './list.ts';
import { withBug } from './mutant.ts';
import { runTestFile } from './test-file.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const SAMPLE = { file: 'a.ts', find: '< 1', replace: '<= 1', guarantee: 'one', tests: [] };

test('every mutant still applies to its file, exactly once, and is TypeScript', async () => {
  for (const mutant of MUTANTS) withBug(await readFile(`${ROOT}${mutant.file}`, 'utf8'), mutant);
});

test('every mutant of a file in Python can be parsed', WITH_PYTHON, async () => {
  const inPython = MUTANTS.filter(({ file }) => file.endsWith('.py'));
  const texts = inPython.map(async (mutant) =>
    withBug(await readFile(`${ROOT}${mutant.file}`, 'utf8'), mutant),
  );
  const parse = 'import ast, json, sys\nfor text in json.load(sys.stdin): ast.parse(text)';
  const input = JSON.stringify(await Promise.all(texts));
  const { status, stderr } = spawnSync(PYTHON, ['-c', parse], { input, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
});

test('there are at least 200 mutants, no two alike', () => {
  assert.ok(MUTANTS.length >= 200, `${MUTANTS.length} mutants`);
  const keys = MUTANTS.map(({ file, find, replace }) => JSON.stringify([file, find, replace]));
  assert.equal(new Set(keys).size, MUTANTS.length);
});

test('every mutant names test files of npm test or npm run test:system', () => {
  for (const { tests, guarantee } of MUTANTS) {
    assert.ok(tests.length > 0, guarantee);
    for (const path of tests) {
      assert.match(path, /^test\/(?!long\/).*\.test\.ts$/);
      assert.ok(existsSync(`${ROOT}${path}`), `${path} (${guarantee})`);
    }
  }
});

test('a mutant whose text is gone, or is there twice, is refused', () => {
  assert.equal(withBug('const a = b < 1;', SAMPLE), 'const a = b <= 1;');
  assert.throws(() => withBug('const a = b < 2;', SAMPLE), /a\.ts: .* occurs 0 times, expected once \(one\)/);
  assert.throws(() => withBug('const a = b < 1 || c < 1;', SAMPLE), /occurs 2 times/);
});

test('a mutant that changes nothing, or is no TypeScript, is refused', () => {
  assert.throws(() => withBug('b < 1', { ...SAMPLE, replace: '< 1' }), /changes nothing/);
  assert.throws(() => withBug('const a = b < 1;', { ...SAMPLE, replace: '< = 1' }), /Unexpected/);
});

test('a test file is green, red with the title of its first failure, late, or broken when none of its tests ran', async (t) => {
  const folder = await temporaryFolder(t);
  const run = async (
    body: string,
    { skip, timeoutMs = 60_000 }: { skip?: string; timeoutMs?: number } = {},
  ) => {
    const path = join(folder, 'sample.test.mjs');
    await writeFile(path, `import { describe, it, test } from 'node:test';\n${body}`);
    const { result, failed, passed } = await runTestFile(
      { path, skip },
      folder,
      timeoutMs,
      new AbortController().signal,
    );
    return [result, failed, passed];
  };
  const good = `test('good', () => {});`;
  const bad = `test('bad', () => { throw new Error('no'); });`;
  assert.deepEqual(await run(good), ['green', undefined, 1]);
  const [result, failed] = await run(
    `${good} describe('group', () => { it('inner', () => { throw 1; }); });`,
  );
  assert.deepEqual([result, failed], ['red', 'inner']);
  assert.deepEqual(await run(`${good}${bad}`, { skip: '^bad' }), ['green', undefined, 1]);
  assert.equal((await run(`import './missing.mjs'; ${good}`))[0], 'broken');
  assert.equal((await run(`test('endless', () => { for (;;); });`, { timeoutMs: 1_500 }))[0], 'timeout');
});

test('a copy of the repository imports its own workspaces, and the packages of the checkout', async (t) => {
  const parent = await temporaryFolder(t);
  const copy = await copyRepository(ROOT, parent, 'copy');
  const workspace = join('node_modules', '@cluster-serving', 'lib');
  assert.equal(await realpath(join(copy, workspace)), join(copy, 'lib'));
  const esbuild = join('node_modules', 'esbuild');
  assert.equal(await realpath(join(copy, esbuild)), await realpath(join(ROOT, esbuild)));
  const file = join('test', 'mutants', 'list.ts');
  assert.equal(await readFile(join(copy, file), 'utf8'), await readFile(join(ROOT, file), 'utf8'));
});
