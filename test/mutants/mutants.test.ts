/** Keeps the list of mutants true; `npm run test:mutants` applies them. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MUTANTS } from './list.ts';
import { withBug } from './mutant.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const SAMPLE = { file: 'a.ts', find: '< 1', replace: '<= 1', guarantee: 'one', tests: [] };

test('every mutant still applies to its file, exactly once, and is TypeScript', async () => {
  for (const mutant of MUTANTS) withBug(await readFile(`${ROOT}${mutant.file}`, 'utf8'), mutant);
});

test('there are at least 200 mutants, no two alike', () => {
  assert.ok(MUTANTS.length >= 200, `${MUTANTS.length} mutants`);
  const keys = MUTANTS.map(({ file, find, replace }) => JSON.stringify([file, find, replace]));
  assert.equal(new Set(keys).size, MUTANTS.length);
});

test('every mutant names test files of npm test', () => {
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
