import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { contains, type Inspection, inspect, newViolations } from './cruise.ts';
import { shapeOf } from './rooms.ts';
import {
  CROSSINGS,
  IMPORTED_BY,
  KNOWN,
  LEVELS,
  MAY_BE_ORPHANS,
  MAY_COMPUTE_IMPORTS,
  MAY_READ_ENVIRONMENT,
  MAY_SHARE_A_PREFIX,
  ONLY,
  OWNED,
  OWNERS,
  PURE,
  PURE_NODE_MODULES,
  SEPARATE,
  UNREACHABLE,
  WITHOUT_DEV_DEPENDENCIES,
} from './rules.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

let found: Inspection;
before(async () => {
  found = await inspect(ROOT);
});

test('dependency-cruiser reads every TypeScript file that git knows', async () => {
  const { stdout } = await run('git', ['ls-files', '*.ts'], { cwd: ROOT });
  const files = stdout.split('\n').filter((file) => file !== '' && existsSync(join(ROOT, file)));
  const cruised = new Set(found.modules.map(({ source }) => source));
  assert.ok(files.length > 0);
  assert.deepEqual(
    files.filter((file) => !cruised.has(file)),
    [],
  );
});

test('no file breaks a rule of the architecture', () => {
  assert.deepEqual(
    newViolations(found.violations).map(({ text }) => text),
    [],
  );
});

test('every violation that is known still exists', () => {
  const texts = found.violations.map(({ text }) => text);
  assert.deepEqual(
    KNOWN.filter((text) => !texts.includes(text)),
    [],
  );
});

test('every path that a rule names holds a source file', () => {
  const paths = [
    ...LEVELS.flat(),
    ...[...CROSSINGS, ...ONLY].flatMap(({ from, to }) => [from, to].flat()),
    ...IMPORTED_BY.flatMap(({ part, importers }) => [part, ...importers]),
    ...[SEPARATE, PURE, OWNED, WITHOUT_DEV_DEPENDENCIES, MAY_READ_ENVIRONMENT, MAY_BE_ORPHANS].flat(),
    ...[
      Object.keys(PURE_NODE_MODULES),
      Object.values(OWNERS).flat(),
      MAY_COMPUTE_IMPORTS,
      MAY_SHARE_A_PREFIX,
    ].flat(),
    ...UNREACHABLE.flatMap(({ entry, files = [] }) => [entry, ...files]),
  ];
  assert.deepEqual(
    paths.filter((path) => !found.files.some((file) => contains(file)(path))),
    [],
  );
});

test('lib/compose is the only part of lib and functions that imports several owners, and no observer does', () => {
  const owners = LEVELS.find((level) => level.includes('lib/s3/')) ?? [];
  const parts = LEVELS.flat().filter((part) => /^(lib|functions)\//.test(part));
  // Observers know none of each other: each is a part of its own.
  const files = found.modules.map(({ source }) => source).filter((file) => file.startsWith('lib/observe/'));
  const each = [...parts.filter((part) => part !== 'lib/observe/'), ...files];
  const importing = each.filter((part) => {
    const modules = found.modules.filter(({ source }) => contains(source)(part));
    const imported = modules.flatMap(({ dependencies }) => dependencies.map(({ resolved }) => resolved));
    const seen = owners.filter(
      (owner) => !part.startsWith(owner) && imported.some((file) => contains(file)(owner)),
    );
    return seen.length > 1;
  });
  assert.deepEqual(importing, ['lib/compose/']);
});

/** Files in a row that import each other, and folders that do so in a circle, at most. */
const SHAPES: readonly { readonly folder: string; readonly longest: number; readonly circles: number }[] = [
  { folder: 'local', longest: 9, circles: 0 },
  { folder: 'lib/pipeline', longest: 7, circles: 1 },
  { folder: 'lib/http', longest: 7, circles: 1 },
  { folder: 'lib/redis', longest: 6, circles: 1 },
  { folder: 'cli', longest: 5, circles: 1 },
  { folder: 'infra', longest: 5, circles: 1 },
  { folder: 'sdk', longest: 8, circles: 1 },
  { folder: 'onnx-import', longest: 14, circles: 0 },
];

test('the files of a folder do not lead deeper into each other, and its folders import each other in one direction', () => {
  for (const { folder, ...most } of SHAPES) {
    const { longest, circles } = shapeOf(folder, found.modules);
    assert.ok(longest.length > 1 && longest.length <= most.longest, `${folder}: ${longest.join(' > ')}`);
    assert.ok(circles.length <= most.circles, `${folder}: ${circles.join('; ')}`);
  }
});

test('functions and routes know no store: another one changes neither', () => {
  const files = globSync(['functions/**/*.ts', 'lib/http/**/*.ts'], { cwd: ROOT });
  const naming = files.filter((file) => /redis/i.test(readFileSync(join(ROOT, file), 'utf8')));
  assert.deepEqual(naming, []);
  assert.ok(files.length > 30, `${files.length}`);
});

test('every package with an owner is imported by its owner', () => {
  const unused = Object.entries(OWNERS).filter(([name, owners]) => {
    const theirs = found.modules.filter(({ source }) => owners.some(contains(source)));
    const imported = theirs.flatMap(({ dependencies }) => dependencies.map(({ resolved }) => resolved));
    return !imported.some((path) => path.includes(`node_modules/${name}/`));
  });
  assert.deepEqual(unused, []);
});

interface LintOverride {
  readonly files: readonly string[];
  readonly rules: Readonly<Record<string, unknown>>;
}

async function lintOverrides(): Promise<LintOverride[]> {
  const oxlint = join(ROOT, 'node_modules/.bin/oxlint');
  const { stdout } = await run(oxlint, ['--print-config'], { cwd: ROOT });
  const { overrides } = JSON.parse(stdout) as { overrides: LintOverride[] };
  return overrides;
}

/** A path of the table as oxlint writes it: `lib/codecs/**`. */
const glob = (path: string) => path.replace(/\/$/, '/**');

test('oxlint restricts the parts that the table names', async () => {
  const overrides = await lintOverrides();
  const withRule = (rule: string) =>
    overrides.filter(({ rules }) => Array.isArray(rules[rule])).map(({ files }) => files);
  const [pure] = withRule('no-restricted-globals');
  assert.deepEqual(pure, PURE.map(glob));
  const [environment] = withRule('no-restricted-properties');
  const parts = LEVELS.flat().filter((part) => !MAY_READ_ENVIRONMENT.some(contains(part)));
  const folders = new Set(parts.map((part) => `${part.split('/')[0]}/**`));
  assert.deepEqual(environment?.toSorted(), [...folders].toSorted());
});

test('every path in .oxlintrc.json exists', async () => {
  const files = (await lintOverrides()).flatMap((override) => override.files);
  assert.deepEqual(
    files.map((file) => file.replace(/\*\*.*$/, '')).filter((path) => !existsSync(join(ROOT, path))),
    [],
  );
});
