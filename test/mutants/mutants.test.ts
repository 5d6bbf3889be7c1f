/** Keeps the bugs by hand and by chance sound; `npm run test:mutants` applies them. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, realpath, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { describe, it, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse as parseLua } from 'luaparse';
import { parseDocument } from 'yaml';
import { PYTHON, WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { draw } from './chance/draw.ts';
import { placesInLua } from './chance/lua.ts';
import type { Place } from './chance/place.ts';
import { placesInPython } from './chance/python.ts';
import { placesInTypeScript } from './chance/typescript.ts';
import { placesInYml } from './chance/yml.ts';
import { copyRepository } from './copy.ts';
import { cover, isReached, testsThatReach } from './coverage.ts';
import { type ByHand, mutantByHand, readByHand, withBug } from './mutant.ts';
import { runTestFile } from './test-file.ts';
import { tryMutant } from './try.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LIST = join(ROOT, 'test/mutants/list.jsonl');
const signal = new AbortController().signal;

describe('bugs by hand', () => {
  const bugs = readFileSync(LIST, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ByHand);

  it('each still applies to its file, exactly once, and is TypeScript', () => {
    for (const mutant of readByHand(ROOT, LIST)) {
      const text = withBug(readFileSync(join(ROOT, mutant.file), 'utf8'), mutant);
      if (mutant.file.endsWith('.ts')) stripTypeScriptTypes(text);
      if (mutant.file.endsWith('.py')) placesInPython([text]);
    }
  });

  it('no two are alike', () => {
    const keys = bugs.map(({ file, find, replace }) => JSON.stringify([file, find, replace]));
    assert.equal(new Set(keys).size, bugs.length);
  });

  it('tests that a bug names are those that npm test does not run', () => {
    for (const { tests = [], guarantee } of bugs) {
      for (const path of tests) {
        assert.match(path, /^test\/.*\.system\.test\.ts$/, guarantee);
        assert.ok(existsSync(join(ROOT, path)), `${path} (${guarantee})`);
      }
    }
  });

  it('one whose text is gone, is there twice or changes nothing is refused', () => {
    const sample = { file: 'a.ts', guarantee: 'one', find: '< 1', replace: '<= 1' };
    const apply = (text: string, replace = '<= 1') =>
      withBug(
        text,
        mutantByHand({ ...sample, replace }, () => text),
      );
    assert.equal(apply('const a = b < 1;'), 'const a = b <= 1;');
    assert.throws(() => apply('const a = b < 2;'), /a\.ts: .* occurs 0 times, expected once \(one\)/);
    assert.throws(() => apply('const a = b < 1 || c < 1;'), /occurs 2 times/);
    assert.throws(() => apply('b < 1', '< 1'), /changes nothing/);
  });
});

describe('bugs by chance', () => {
  const all = (text: string, places: readonly Place[]) => places.map((place) => withBug(text, place)).sort();
  const inTypeScript = (text: string) => all(text, placesInTypeScript('a.ts', text));

  it('TypeScript: comparisons, conditions, numbers and truth values', () => {
    assert.deepEqual(inTypeScript('if (a < 9) b = true;'), [
      'if (!(a < 9)) b = true;',
      'if (a < 18) b = true;',
      'if (a < 9) b = false;',
      'if (a < 9) {}',
      'if (a <= 9) b = true;',
      'if (false) b = true;',
    ]);
  });

  it('TypeScript: what is waited for, called, given and returned', () => {
    assert.deepEqual(inTypeScript('await f(a, b);'), ['(f(a, b));', 'await f(b, a);', '{}']);
    assert.deepEqual(inTypeScript('async () => { return await f(); }'), []);
    assert.deepEqual(inTypeScript('x = Math.max(a, b)'), ['x = (a)', 'x = (b)', '{}']);
    assert.deepEqual(inTypeScript('f({ a: x, b })'), ['f({  b })', 'f({ a: x,  })', '{}']);
    assert.deepEqual(inTypeScript('class A extends B { constructor() { super(x); } }'), []);
  });

  it('TypeScript: types and texts have none, and what needs brackets gets them', () => {
    assert.deepEqual(inTypeScript('type A = 1 | true; let b: 2; c as 3'), []);
    assert.deepEqual(inTypeScript("`${a}` + 'b'"), []);
    assert.deepEqual(inTypeScript('let x = a && b || c'), [
      'let x = ((a && b) && (c))',
      'let x = ((a) || (b)) || c',
      'let x = (a && b)',
      'let x = (a) || c',
      'let x = (b) || c',
      'let x = (c)',
    ]);
  });

  it('Python', () => {
    const text = 'if a is not b and 1 < x:\n    é.f("ä", 2)\n';
    const [places = []] = placesInPython([text]);
    const bugs = all(text, places);
    assert.ok(bugs.includes('if a is b and 1 < x:\n    é.f("ä", 2)\n'), bugs.join());
    assert.ok(bugs.includes('if a is not b or 1 < x:\n    é.f("ä", 2)\n'));
    assert.ok(bugs.includes('if a is not b and 1 <= x:\n    é.f("ä", 2)\n'));
    assert.ok(bugs.includes('if a is not b and 1 < x:\n    é.f(2, "ä")\n'));
    assert.ok(bugs.includes('if a is not b and 1 < x:\n    pass\n'));
    assert.ok(bugs.includes('if False:\n    é.f("ä", 2)\n'));
    assert.equal(placesInPython(bugs).length, bugs.length);
  });

  it('Lua', () => {
    const text = "if a ~= 1 then redis.call('DEL', key) end return not b";
    const bugs = all(text, placesInLua(text));
    assert.deepEqual(bugs, [
      "if a == 1 then redis.call('DEL', key) end return not b",
      'if a ~= 1 then do end end return not b',
      "if a ~= 1 then redis.call('DEL', key) end return (b)",
      "if a ~= 1 then redis.call(key, 'DEL') end return not b",
      "if a ~= 2 then redis.call('DEL', key) end return not b",
      "if false then redis.call('DEL', key) end return not b",
      "if not (a ~= 1) then redis.call('DEL', key) end return not b",
    ]);
    for (const bug of bugs) parseLua(bug);
  });

  it('YAML', () => {
    const text = 'a: 1\nb: true\nc:\n  d: x\n  e: [y]\n';
    const bugs = all(text, placesInYml(text));
    assert.deepEqual(bugs, [
      '\nb: true\nc:\n  d: x\n  e: [y]\n',
      'a: 1\n\nc:\n  d: x\n  e: [y]\n',
      'a: 1\nb: false\nc:\n  d: x\n  e: [y]\n',
      'a: 1\nb: true\nc:\n  \n  e: [y]\n',
      'a: 1\nb: true\nc:\n  d: x\n  \n',
      'a: 2\nb: true\nc:\n  d: x\n  e: [y]\n',
    ]);
    for (const bug of bugs) assert.deepEqual(parseDocument(bug).errors, []);
  });

  it('the same seed draws the same, another seed others, and no bug comes twice', () => {
    const parts = [
      { name: 'redis', files: ['lib/redis/*.ts'], share: 0.7 },
      { name: 'python', files: ['python/wkr_serving/server/*.py'], share: 0.3 },
    ];
    const take = (seed: number) => draw(ROOT, seed, parts).take(40).toArray();
    const first = take(1);
    assert.deepEqual(take(1), first);
    assert.notDeepEqual(take(2), first);
    assert.equal(new Set(first.map((mutant) => JSON.stringify(mutant))).size, 40);
    for (const mutant of first.filter(({ file }) => file.endsWith('.ts'))) {
      stripTypeScriptTypes(withBug(readFileSync(join(ROOT, mutant.file), 'utf8'), mutant));
    }
  });
});

/** Blocks the event loop, and uses no processor. */
const SLEEP = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);';

const IMPORTS = `import assert from 'node:assert/strict';\nimport { describe, it, test } from 'node:test';\n`;

test('a test file is green, red with the title of its first failure, late, or broken when none of its tests ran', async (t) => {
  const folder = await temporaryFolder(t);
  const run = async (body: string, timeoutMs = 60_000) => {
    const path = join(folder, 'sample.test.mjs');
    await writeFile(path, IMPORTS + body);
    const { result, failed, passed } = await runTestFile({ path }, folder, timeoutMs, signal);
    return [result, failed, passed];
  };
  const good = `test('good', () => {});`;
  assert.deepEqual(await run(good), ['green', undefined, 1]);
  const [result, failed] = await run(
    `${good} describe('group', () => { it('inner', () => { throw 1; }); });`,
  );
  assert.deepEqual([result, failed], ['red', 'inner']);
  assert.equal((await run(`import './missing.mjs'; ${good}`))[0], 'broken');
  assert.equal((await run(`test('endless', () => { ${SLEEP} });`, 1_500))[0], 'timeout');
});

test('a bug is caught by a test that reaches it, survives one that does not look, and is taken out again', async (t) => {
  const copy = await temporaryFolder(t);
  await mkdir(join(copy, 'python'));
  const source = 'export const small = (a) => {\n  if (a < 3) return 1;\n  return 2;\n};\n';
  await writeFile(join(copy, 'a.mjs'), source);
  const body = (asserts: string) =>
    `${IMPORTS}import { small } from './a.mjs';\ntest('small', () => { ${asserts} });`;
  await writeFile(join(copy, 'looks.test.mjs'), body('assert.equal(small(3), 2);'));
  await writeFile(join(copy, 'runs.test.mjs'), body('small(5);'));
  const worker = { copy, signal };
  const looks = await cover('looks.test.mjs', worker);
  const runs = await cover('runs.test.mjs', worker);
  assert.ok(looks && runs);
  assert.equal(isReached(looks.reached['a.mjs'], source.indexOf('return 2')), true);
  assert.equal(isReached(looks.reached['a.mjs'], source.indexOf('return 1')), false);
  const start = source.indexOf('<');
  const bug = { file: 'a.mjs', start, end: start + 1, bug: '<=' };
  assert.equal(testsThatReach([looks, runs], 'a.mjs', start).length, 2);
  const outcome = await tryMutant(bug, worker, [looks, runs], 60_000);
  assert.deepEqual([outcome.result, outcome.by], ['caught', 'looks.test.mjs: small']);
  assert.equal((await tryMutant(bug, worker, [runs], 60_000)).result, 'survived');
  assert.equal((await tryMutant({ ...bug, bug: '< <' }, worker, [runs], 60_000)).result, 'broken');
  assert.equal(readFileSync(join(copy, 'a.mjs'), 'utf8'), source);
});

test(
  'the lines that Python ran are known by the test that started it, a call over several lines as a whole',
  WITH_PYTHON,
  async (t) => {
    const copy = await temporaryFolder(t);
    await mkdir(join(copy, 'python'));
    const source =
      'def of(a):\n    if a < 3:\n        return 1\n    return max(\n        2,\n        a,\n    )\n\n\nof(5)\n';
    await writeFile(join(copy, 'python', 'a.py'), source);
    const start = `spawnSync('${PYTHON}', ['-m', 'a'], { cwd: 'python', env: { PYTHONPATH: '.' } })`;
    const body = `import { spawnSync } from 'node:child_process';\n${IMPORTS}test('runs', () => assert.equal(${start}.status, 0));`;
    await writeFile(join(copy, 'runs.test.mjs'), body);
    const { reached } = (await cover('runs.test.mjs', { copy, signal })) ?? {};
    const isRun = (text: string) => isReached(reached?.['python/a.py'], source.indexOf(text));
    assert.deepEqual(['a < 3', 'return 1', 'return max', '2,', 'of(5)'].map(isRun), [
      true,
      false,
      true,
      true,
      true,
    ]);
    assert.deepEqual(await readdir(copy), ['python', 'runs.test.mjs'], 'nothing is left');
    assert.deepEqual(await readdir(join(copy, 'python')), ['__pycache__', 'a.py']);
  },
);

test('a copy of the repository imports its own workspaces, and the packages of the checkout', async (t) => {
  const parent = await temporaryFolder(t);
  const copy = await copyRepository(ROOT, parent, 'copy');
  const workspace = join('node_modules', '@cluster-serving', 'lib');
  assert.equal(await realpath(join(copy, workspace)), join(copy, 'lib'));
  const esbuild = join('node_modules', 'esbuild');
  assert.equal(await realpath(join(copy, esbuild)), await realpath(join(ROOT, esbuild)));
  const file = join('test', 'mutants', 'list.jsonl');
  assert.equal(readFileSync(join(copy, file), 'utf8'), readFileSync(join(ROOT, file), 'utf8'));
});
