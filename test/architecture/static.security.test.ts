/** The source does not contain these. The list of exceptions is part of the promise: each gives its reason. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = [
  'lib',
  'functions',
  'sdk',
  'onnx-import',
  'release',
  'local',
  'embedded-redis',
  'cli',
  'infra',
];
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
  assert.deepEqual(filesWith(/(?<!pipeline\.|redis\.|model\.|pretrained=True\)\.)\beval\s*\(/), []);
  assert.deepEqual(filesWith(/\bnew\s+Function\b|[^.\w]Function\s*\(|\bsetTimeout\s*\(\s*['"`]/), []);
  assert.deepEqual(filesWith(/['"](node:)?(vm|repl|inspector)['"]/), [
    // The function's own files, beside the loader, and the cache of them.
    'infra/build/cold-start/code-cache.ts',
    'infra/build/cold-start/joined.ts',
  ]);
  assert.deepEqual(filesWith(/process\.(dlopen|binding)|\.constructor\s*\(/), []);
});

test('the Python package loads no pickle, and makes no code of a text', async () => {
  const files = (await readdir(join(ROOT, 'python'), { recursive: true })).filter((name) =>
    name.endsWith('.py'),
  );
  assert.ok(files.length > 10);
  for (const file of files) {
    const text = await readFile(join(ROOT, 'python', file), 'utf8');
    // numpy reads pickles of its own.
    const makes =
      /\b(pickle|marshal|shelve|dill|joblib)\b|(?<![\w.])(eval|exec|compile)\(|\b(numpy|np)\.load\b/;
    assert.doesNotMatch(text.replaceAll(/"{3}[\s\S]*?"{3}|#.*$/gm, ''), makes, file);
  }
});

test('a worker that runs a text runs a constant one', () => {
  assert.deepEqual(filesWith(/eval:\s*true/), ['lib/inference/end-with-parent.ts']);
  const text = sources.get('lib/inference/end-with-parent.ts') as string;
  assert.match(text, /new Worker\(WATCH, \{ eval: true, execArgv: \[\], workerData: process\.ppid \}\)/);
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
    // The editor of VISUAL or EDITOR, for `dlq replay --edit`.
    'cli/dlq/edit.ts',
    'cli/tune/process.ts',
    // Packaging, on the developer's machine.
    'infra/build/cold-start/code-cache.ts',
    'infra/packages/declarations.ts',
    // Asks docker whether it answers before a deployment builds an image. No caller's text is involved.
    'infra/plugin.mjs',
    // A suspicious record's run: this very program.
    'lib/inference/isolated-runner.ts',
    // Ends such a process, and starts none.
    'lib/inference/starting.ts',
    // A worker's process: this very program, or the Python that the config names.
    'lib/workers/process.ts',
    // Clients of a user's class, with the Python that the person at the machine names.
    'local/decentral/process.ts',
    // redis-server, by the name or path that the person at the machine gives.
    'local/redis/installed.ts',
    // Checks an import where a crash does no harm: this very program.
    'onnx-import/process/model-process.ts',
    // `model import --with-python`: the Python that the person at the machine names, after a question where the file is code.
    'onnx-import/python/environment.ts',
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
    // A file of a package that is pinned, beside one that is written in the same file.
    'lib/codecs/image/webp/decode.ts',
    // The user's own worker, which the process is for.
    'lib/workers/load.ts',
    // A file of a package that is pinned, by a path that is written in the same file.
    'local/aws/storage.ts',
  ]);
});

test('a pickle is distinguished from other files and never executed', () => {
  assert.deepEqual(filesWith(/pickle\.loads?|unpickle\(|jpickle|from 'pickle/i), []);
});

test('the server opens connections by its three clients only, S3, SQS and Redis, to read from S3 and Systems Manager, and to receivers of spans and of notices', () => {
  // Without `node:` the name counts only where a module is named: `http` is a group of settings, too.
  const network =
    /(['"]node:|(from|import|require|getBuiltinModule)\s*\(?\s*['"])(https?|net|tls|dgram|dns|http2)(\/promises)?['"]|[^.\w](fetch|WebSocket|EventSource)\(/;
  assert.deepEqual(filesWith(network, DEPLOYED), [
    // Parameters of Systems Manager: passwords and secrets.
    'lib/aws/call.ts',
    // The receivers that the job's config.yaml names, by addresses that are public.
    'lib/notify/public-address.ts',
    'lib/notify/webhook.ts',
    // The type of what the client's proxy hands to the clients of AWS.
    'lib/queue/sender.ts',
    'lib/s3/client.ts',
    // Reads of S3 that the client need not be loaded for.
    'lib/s3/connection.ts',
    // Loaded only where OpenTelemetry's variables name it.
    'lib/trace/exporter.ts',
    // The pipes between the service and a worker's process.
    'lib/workers/connection.ts',
    // The client, where no other fetch is given; the object to which the API redirects.
    'sdk/fetch.ts',
    'sdk/proxy.ts',
    // Its method that gives results is called fetch.
    'sdk/worker-client.ts',
  ]);
  // Types are not code.
  const clients = /^import (?!type)[^;]*from '(@aws-sdk\/[\w-]+|ioredis)'/m;
  const owners = filesWith(clients, /^(lib|functions)\//).map((file) => dirname(file));
  assert.deepEqual([...new Set(owners)], ['lib/queue', 'lib/redis', 'lib/s3']);
});

test('files are touched only where models, settings and the image decoders are, and by the client', () => {
  const touching = filesWith(/['"](node:)?fs(\/promises)?['"]/, DEPLOYED);
  assert.deepEqual(
    touching.filter((file) => !/^lib\/(inference|registry|s3)\//.test(file)),
    [
      'lib/codecs/image/webassembly.ts',
      'lib/config/file.ts',
      // The tokenizer beside a model.
      'lib/text/files.ts',
      'lib/text/layers.ts',
      // A worker's process finds its class and has a folder of its own; the service writes its log files.
      'lib/workers/command.ts',
      'lib/workers/load.ts',
      'lib/workers/log.ts',
      'lib/workers/loop.ts',
      'lib/workers/memory.ts',
      'sdk/image-file.ts',
    ],
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
  const file = sources.get('lib/registry/model-file.ts') as string;
  assert.match(file, /export async function downloadFile[\s\S]*await verify\(target, file, digest\);\n}/);
  const folder = sources.get('lib/registry/download.ts') as string;
  assert.match(folder, /await downloadFile\([\s\S]*await rename\(partial\.folder, folder\)/);
  const open = sources.get('lib/compose/versions.ts') as string;
  assert.match(
    open,
    /await this\.#download\([\s\S]*this\.#options\.open\(folder, [\s\S]*await downloadModel\(/,
  );
});
