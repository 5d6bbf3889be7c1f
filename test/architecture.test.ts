import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FOLDERS = ['lib', 'functions', 'convert', 'local', 'cli', 'infra'];

interface Import {
  /** Path in the repository, or a package's name. */
  readonly target: string;
  /** Erased before it runs. */
  readonly typeOnly: boolean;
  /** `import()`. */
  readonly onDemand: boolean;
}

const imports = new Map<string, Import[]>();
const sources = new Map<string, string>();

before(async () => {
  for (const folder of FOLDERS) {
    const entries = await readdir(join(ROOT, folder), { recursive: true }).catch(() => []);
    for (const entry of entries) {
      if (!entry.endsWith('.ts') || entry.endsWith('.d.ts')) continue;
      const file = join(folder, entry);
      const text = await readFile(join(ROOT, file), 'utf8');
      sources.set(file, text);
      imports.set(file, importsOf(file, text));
    }
  }
});

function importsOf(file: string, text: string): Import[] {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '');
  const found: Import[] = [];
  for (const match of code.matchAll(/^(import|export)\s+(type\s)?([^'";]*?from\s+)?'([^']+)'/gm)) {
    found.push({
      target: targetOf(file, match[4] as string),
      typeOnly: isTypeOnly(match[2], match[3]),
      onDemand: false,
    });
  }
  for (const match of code.matchAll(/\bimport\('([^']+)'\)/g)) {
    found.push({ target: targetOf(file, match[1] as string), typeOnly: false, onDemand: true });
  }
  return found;
}

function isTypeOnly(type: string | undefined, names: string | undefined): boolean {
  if (type) return true;
  const inside = /\{([^}]*)\}/.exec(names ?? '')?.[1];
  return inside?.split(',').every((name) => name.trim() === '' || name.trim().startsWith('type ')) ?? false;
}

function targetOf(file: string, specifier: string): string {
  if (specifier.startsWith('.')) return relative(ROOT, resolve(ROOT, dirname(file), specifier));
  const parts = specifier.split('/');
  return specifier.startsWith('@') ? parts.slice(0, 2).join('/') : (parts[0] as string);
}

/** Lower may not import higher; folders of one number do not import each other unless listed. */
const LAYERS: readonly (readonly [RegExp, number])[] = [
  [/^lib\/errors\.ts$/, 0],
  [/^lib\/log\.ts$/, 1],
  [/^lib\/tensor\.ts$/, 1],
  [/^lib\/contract\//, 2],
  [/^lib\/codecs\//, 3],
  [/^lib\/pipeline\//, 4],
  [/^lib\/metrics\//, 5],
  [/^lib\/s3\//, 5],
  [/^lib\/(model|queue|results)\//, 6],
  [/^lib\/config\//, 5],
  [/^lib\/(http|client)\//, 7],
  [/^lib\/index\.ts$/, 8],
  [/^functions\//, 9],
  // Above functions: what a person runs once to bring a model is never part of a deployed function.
  [/^convert\//, 10],
  [/^infra\//, 11],
  [/^local\//, 12],
  [/^cli\//, 13],
];

function layerOf(file: string): number {
  const layer = LAYERS.find(([pattern]) => pattern.test(file))?.[1];
  assert.notEqual(layer, undefined, `${file} belongs to no layer; add it to LAYERS`);
  return layer as number;
}

const isOurs = (target: string) => FOLDERS.some((folder) => target.startsWith(`${folder}/`));

test('every import points downwards through the layers', () => {
  const wrong: string[] = [];
  for (const [file, targets] of imports) {
    for (const { target } of targets) {
      if (isOurs(target) && layerOf(target) > layerOf(file)) wrong.push(`${file} -> ${target}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('no import forms a cycle', () => {
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]) => {
    const start = path.indexOf(file);
    assert.equal(start, -1, `a cycle: ${[...path.slice(start), file].join(' -> ')}`);
    if (done.has(file)) return;
    for (const { target, typeOnly } of imports.get(file) ?? []) if (!typeOnly) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of imports.keys()) visit(file, []);
});

test('errors, tensors, contract, codecs and pipeline know no clock, no network and no environment', () => {
  const pure = [...sources].filter(([file]) => layerOf(file) <= 4 && file !== 'lib/log.ts');
  assert.ok(pure.length > 10);
  for (const [file, text] of pure) {
    const code = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
    assert.doesNotMatch(
      code,
      /process\.env|Date\.now|performance\.now|new Date\(\)|setTimeout|fetch\(|Math\.random/,
      file,
    );
    const outside = (imports.get(file) ?? []).map(({ target }) => target);
    assert.ok(!outside.some((target) => /^(node:)?(http|https|net|dns|child_process)$/.test(target)), file);
  }
});

test('process.env is read in lib/config/environment.ts alone', () => {
  const readers = [...sources].filter(
    ([file, text]) => /process\.env/.test(text) && !/^(local|cli|infra)\//.test(file),
  );
  assert.deepEqual(
    readers.map(([file]) => file),
    ['lib/config/environment.ts'],
  );
});

/** Packages that lib and functions may use, and the only folder that owns each. */
const OWNERS: Readonly<Record<string, RegExp>> = {
  'onnxruntime-node': /^lib\/model\/session\.ts$/,
  '@aws-sdk/client-s3': /^lib\/s3\//,
  '@aws-sdk/client-sqs': /^lib\/(queue|client)\//,
  ioredis: /^lib\/results\//,
  yaml: /^lib\/config\/file\.ts$/,
  '@cornerstonejs/codec-libjpeg-turbo-8bit': /^lib\/codecs\/image/,
  pngjs: /^lib\/codecs\/image/,
};

test('each outside package has one owner in lib, and functions import none', () => {
  for (const [file, targets] of imports) {
    if (!/^(lib|functions)\//.test(file)) continue;
    for (const { target, typeOnly } of targets) {
      if (isOurs(target) || typeOnly || target.startsWith('node:') || builtinModules.includes(target))
        continue;
      const owner = OWNERS[target];
      assert.ok(owner, `${file} imports ${target}, which has no owner`);
      assert.match(file, owner, `${file} imports ${target}`);
    }
  }
});

/** Everything `file` pulls in when it is loaded, packages included; what is imported on demand does not count. */
function reachable(file: string): Set<string> {
  const seen = new Set<string>();
  const visit = (at: string) => {
    if (seen.has(at)) return;
    seen.add(at);
    for (const { target, typeOnly, onDemand } of imports.get(at) ?? [])
      if (!typeOnly && !onDemand) visit(target);
  };
  visit(file);
  return seen;
}

const UNREACHABLE: readonly (readonly [string, readonly string[]])[] = [
  ['functions/predict.ts', ['@aws-sdk/client-sqs', 'ioredis', 'yaml']],
  ['functions/batch.ts', ['@aws-sdk/client-sqs', 'yaml']],
  [
    'functions/predictions.ts',
    ['onnxruntime-node', '@aws-sdk/client-s3', '@aws-sdk/client-sqs', 'ioredis', 'yaml'],
  ],
  ['functions/status.ts', ['onnxruntime-node', '@aws-sdk/client-sqs', 'yaml']],
  ['functions/dead-letter.ts', ['onnxruntime-node', '@aws-sdk/client-sqs', 'yaml']],
  [
    'lib/index.ts',
    ['onnxruntime-node', '@aws-sdk/client-s3', 'yaml', 'lib/config/environment.ts', 'lib/config/file.ts'],
  ],
];

for (const [file, packages] of UNREACHABLE) {
  test(`${file} never loads ${packages.join(', ')}`, () => {
    const loaded = reachable(file);
    assert.ok(loaded.size > 5);
    assert.deepEqual(
      packages.filter((name) => loaded.has(name)),
      [],
    );
  });
}

test('no function imports another, and each file of functions/ is at most 60 lines of code', () => {
  for (const [file, targets] of imports) {
    if (!file.startsWith('functions/')) continue;
    for (const { target } of targets) {
      assert.ok(!target.startsWith('functions/') || target === 'functions/live.ts', `${file} -> ${target}`);
    }
    const code = (sources.get(file) as string).replaceAll(/\/\*[\s\S]*?\*\//g, '').split('\n');
    const lines = code.filter((line) => line.trim() !== '' && !line.startsWith('import ')).length;
    assert.ok(lines <= 60, `${file}: ${lines} lines`);
  }
});

test('nothing exports everything, and no file is over 300 lines of code', () => {
  for (const [file, text] of sources) {
    const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '');
    assert.doesNotMatch(code, /export \* from/, file);
    const lines = code
      .split('\n')
      .filter((line) => line.trim() !== '' && !line.trim().startsWith('//')).length;
    assert.ok(lines <= 300, `${file}: ${lines} lines`);
  }
});
