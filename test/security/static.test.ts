/** What the source does not contain. A list of exceptions is part of the promise: each says why it is none. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = ['lib', 'functions', 'sdk', 'convert', 'local', 'embedded-redis', 'cli', 'infra'];
const DEPLOYED = /^(lib|functions|sdk)\//;

/** Without comments: those may name what the code does not do. */
const sources = new Map<string, string>();

before(async () => {
  for (const folder of FOLDERS) {
    for (const entry of await readdir(join(ROOT, folder), { recursive: true })) {
      const file = join(folder, entry);
      if (!/\.(ts|mjs|cjs)$/.test(file) || file.endsWith('.d.ts')) continue;
      const text = await readFile(join(ROOT, file), 'utf8');
      sources.set(file, text.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, ''));
    }
  }
  assert.ok(sources.size > 100);
});

function filesWith(pattern: RegExp, within = /./): string[] {
  return [...sources]
    .filter(([file, text]) => within.test(file) && pattern.test(text))
    .map(([file]) => file)
    .sort();
}

test('no text becomes code', () => {
  // Redis calls a command of its own EVAL, and a hint tells people of Python's `model.eval()`.
  assert.deepEqual(filesWith(/(?<!pipeline\.|redis\.|model\.)\beval\s*\(/), []);
  assert.deepEqual(filesWith(/\bnew\s+Function\b|[^.\w]Function\s*\(|\bsetTimeout\s*\(\s*['"`]/), []);
  assert.deepEqual(filesWith(/['"](node:)?(vm|repl|inspector)['"]/), []);
  assert.deepEqual(filesWith(/process\.(dlopen|binding)|\.constructor\s*\(/), []);
});

test('a worker that runs a text runs a constant one', () => {
  assert.deepEqual(filesWith(/eval:\s*true/), ['lib/inference/end-with-parent.ts']);
  const text = sources.get('lib/inference/end-with-parent.ts') as string;
  assert.match(text, /new Worker\(WATCH, \{ eval: true, execArgv: \[\] \}\)/);
  assert.doesNotMatch(/const WATCH = `([^`]*)`/.exec(text)?.[1] as string, /\$\{/);
});

test('processes are started by these files only, never through a shell', () => {
  assert.deepEqual(filesWith(/['"](node:)?child_process['"]/), [
    // The service in the background: this very program.
    'cli/background.ts',
    // The same command line, on the Node that came with the package.
    'cli/bin/launch.mjs',
    // `serverless package`, to see whether it would work: this very Node, no word of a caller.
    'cli/commands/doctor.ts',
    // Measures a point of `tune`: this very program.
    'cli/tune/process.ts',
    // Checks an import where a crash does no harm: this very program.
    'convert/check/check.ts',
    // Packaging, on the developer's machine.
    'infra/packages/declarations.ts',
    // A suspicious record's run: this very program.
    'lib/inference/isolated-runner.ts',
    // redis-server, by the name or path that the person at the machine gives.
    'local/redis/installed.ts',
  ]);
  assert.deepEqual(filesWith(/\bshell:|\bexecSync\b|\bspawnSync\b/), []);
  for (const [file, text] of sources)
    for (const [, names] of text.matchAll(/import \{([^}]*)\} from 'node:child_process'/g))
      assert.match(names as string, /^(\s*(type ChildProcess|fork|spawn|execFile),?)+\s*$/, file);
});

test('what is loaded on demand is written out, never put together from what comes in', () => {
  const dynamic = [...sources].flatMap(([file, text]) =>
    [...text.matchAll(/\bimport\(\s*([^)]*)/g)]
      .map(([, what]) => (what as string).trim())
      .filter((what) => !/^'[^'$]+'$/.test(what))
      .map(() => file),
  );
  assert.deepEqual(dynamic.toSorted(), [
    // Our own code: what was just built, or came built with the package.
    'infra/load.cjs',
    // A file of a package that is pinned, by a path that is written in the same file.
    'local/aws/storage.ts',
  ]);
});

test('a pickle is distinguished from other files and never executed', () => {
  assert.deepEqual(filesWith(/pickle\.loads?|unpickle\(|jpickle|from 'pickle/i), []);
});

test('the server opens connections by its three clients only: S3, SQS and Redis', () => {
  // Without `node:` the name counts only where a module is named: `http` is a group of settings, too.
  const network =
    /(['"]node:|(from|import|require|getBuiltinModule)\s*\(?\s*['"])(https?|net|tls|dgram|dns|http2)(\/promises)?['"]|[^.\w](fetch|WebSocket|EventSource)\(/;
  assert.deepEqual(filesWith(network, DEPLOYED), []);
  // Types are not code.
  const clients = /^import (?!type)[^;]*from '(@aws-sdk\/[\w-]+|ioredis)'/m;
  const owners = filesWith(clients, /^(lib|functions)\//).map((file) => dirname(file));
  assert.deepEqual([...new Set(owners)], ['lib/queue', 'lib/redis', 'lib/s3']);
});

test('files are touched only where models, settings and the image decoder are, and by the client', () => {
  const touching = filesWith(/['"](node:)?fs(\/promises)?['"]/, DEPLOYED);
  assert.deepEqual(
    touching.filter((file) => !/^lib\/(inference|registry|s3)\//.test(file)),
    ['lib/codecs/image/libjpeg.ts', 'lib/config/file.ts', 'sdk/inputs.ts'],
  );
});

test('no function loads the code that reads a file for a client', () => {
  for (const [file, text] of sources)
    if (DEPLOYED.test(file) && !file.startsWith('sdk/')) assert.doesNotMatch(text, /sdk\/inputs/, file);
});

test('a session opens from a path: from a buffer, weights would be looked for in the working directory', () => {
  assert.deepEqual(filesWith(/InferenceSession\.create/), ['lib/inference/session.ts']);
  assert.match(
    sources.get('lib/inference/session.ts') as string,
    /openSession\(path: string,[\s\S]*InferenceSession\.create\(path,/,
  );
});

test('a checksum is compared before a session opens: the only way to a folder of the model is through verify', () => {
  const source = sources.get('lib/registry/download.ts') as string;
  assert.match(source, /await verify\(target, file\);/);
  const open = sources.get('lib/compose/model.ts') as string;
  assert.match(open, /await downloadModel\([\s\S]*await openOnnx\(/);
});
