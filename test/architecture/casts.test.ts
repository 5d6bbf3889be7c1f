/**
 * Types are proven, not asserted: an assertion is for a hot loop and for what a library gives untyped. Elsewhere a guard,
 * `elementAt`, `present` or `asError` says the same and is checked when it runs.
 */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Casts, castsIn } from './casts.ts';

/** Most of them by folder, 350 together. The converter has its own way to go. */
const MOST: Readonly<Record<string, number>> = {
  bench: 52,
  cli: 24,
  console: 10,
  'embedded-redis': 1,
  functions: 0,
  infra: 21,
  lib: 168,
  local: 54,
  sdk: 20,
};

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

async function castsOf(folder: string): Promise<Casts> {
  const names = await readdir(join(ROOT, folder), { recursive: true });
  const paths = names.filter((path) => /\.tsx?$/.test(path) && !path.includes('node_modules/'));
  assert.ok(paths.length > 0);
  const found = await Promise.all(
    paths.map(async (path) => castsIn(path, await readFile(join(ROOT, folder, path), 'utf8'))),
  );
  return {
    all: found.reduce((sum, { all }) => sum + all, 0),
    throughUnknown: found.reduce((sum, { throughUnknown }) => sum + throughUnknown, 0),
  };
}

for (const [folder, most] of Object.entries(MOST)) {
  test(`${folder} has at most ${most} type assertions, and none through unknown`, async () => {
    const { all, throughUnknown } = await castsOf(folder);
    assert.equal(throughUnknown, 0);
    assert.ok(all <= most, `${all} assertions, ${all - most} too many: prove the type instead`);
  });
}

test('every workspace but the converter is counted, and all together have at most 350', async () => {
  const { workspaces }: { workspaces: readonly string[] } = JSON.parse(
    await readFile(join(ROOT, 'package.json'), 'utf8'),
  );
  assert.deepEqual(
    workspaces.filter((folder) => !(folder in MOST)),
    ['onnx-import'],
  );
  assert.ok(Object.values(MOST).reduce((sum, most) => sum + most, 0) <= 350);
});

test('an assertion is counted wherever it stands, `as const` and what is none are not', () => {
  const count = (text: string) => castsIn('a.ts', text);
  assert.deepEqual(count('const a = b as T;'), { all: 1, throughUnknown: 0 });
  assert.deepEqual(count('f((x as A).b, [y as B]);'), { all: 2, throughUnknown: 0 });
  assert.deepEqual(count('const a = b as unknown as T;'), { all: 2, throughUnknown: 1 });
  assert.deepEqual(count('const a = [1] as const; const b = c satisfies T;'), { all: 0, throughUnknown: 0 });
  assert.deepEqual(count("import { a as b } from 'c'; // d as E"), { all: 0, throughUnknown: 0 });
});
