/** The staged package, packed by npm, unpacked as an installation, and used as its users do. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { access, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { buildPackage } from '../../infra/build/package.ts';
import { testStack } from '../support/stack.ts';
import { cleaningUp, IMAGES, ROOT, serviceFolder } from './cli.ts';

const execute = promisify(execFile);

const SDK_PROGRAM = `
import { InputQueue, OutputQueue, ServingError } from 'cluster-serving';

const [frontendUrl, redisUrl, image] = process.argv.slice(2);
const input = new InputQueue({ frontendUrl });
const output = new OutputQueue({ url: redisUrl });
await input.enqueue('packed', { image });
const { outputs } = await output.wait('packed', { timeoutMs: 20_000 });
const data = Array.from(outputs[0].data);
const error = await input.predict({ instances: [] }).catch((thrown) => thrown);
console.log(JSON.stringify({ class: data.indexOf(Math.max(...data)), code: error instanceof ServingError && error.code }));
await output.close();
`;

const TYPED_PROGRAM = `
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

// @ts-expect-error a uri is a text
void new InputQueue().enqueue(1, { image: 'x' });
// @ts-expect-error there is no such option
void new OutputQueue({ uri: 'x' });
`;

describe('the package as it is installed', () => {
  const cleanups: (() => Promise<void>)[] = [];
  let folder: string;
  let installed: string;

  before(
    cleaningUp(cleanups, async () => {
      folder = await serviceFolder({ after: (cleanup) => cleanups.push(cleanup) });
      const staged = join(folder, 'staged');
      await buildPackage({ root: ROOT, outFolder: staged });
      const { stdout } = await execute('npm', ['pack', staged, '--silent', '--offline'], { cwd: folder });
      installed = join(folder, 'node_modules', 'cluster-serving');
      await mkdir(installed, { recursive: true });
      const archive = join(folder, stdout.trim());
      await execute('tar', ['-xzf', archive, '-C', installed, '--strip-components=1']);
      await link('dependencies');
      await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
    }),
  );

  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  /** Only what the manifest names: a package it forgets is not found. */
  async function link(kind: 'dependencies' | 'optionalDependencies'): Promise<void> {
    const text = await readFile(join(installed, 'package.json'), 'utf8');
    const manifest = JSON.parse(text) as Record<typeof kind, Record<string, string>>;
    for (const name of Object.keys(manifest[kind])) {
      const path = join(installed, 'node_modules', name);
      await mkdir(dirname(path), { recursive: true });
      await symlink(join(ROOT, 'node_modules', name), path);
    }
  }

  const command = (name: string, ...args: string[]) =>
    execute(process.execPath, [join(installed, 'bin', `${name}.mjs`), ...args], { cwd: folder });

  test('it holds no TypeScript that would run, and nothing of the tests', async () => {
    const names = await readdir(installed, { recursive: true });
    const ours = names.filter((name) => !name.startsWith('node_modules'));
    assert.deepEqual(
      ours.filter((name) => /(?<!\.d)\.ts$|test/.test(name)),
      [],
    );
    for (const name of ['README.md', 'LICENSE', 'sdk.mjs', 'cli.mjs', 'types/sdk/index.d.ts']) {
      assert.ok(ours.includes(name), name);
    }
  });

  test('every script its manifest names is there, runs, and tells the version of the repository', async () => {
    const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as {
      version: string;
      bin: Record<string, string>;
    };
    const repository = JSON.parse(
      await readFile(join(ROOT, 'cli', 'package.json'), 'utf8'),
    ) as typeof manifest;
    assert.deepEqual(Object.keys(manifest.bin), Object.keys(repository.bin));
    assert.equal(manifest.version, repository.version);
    for (const path of Object.values(manifest.bin)) {
      // 1 is X_OK: npm links these, the shell runs them.
      await access(join(installed, path), 1);
      assert.match(await readFile(join(installed, path), 'utf8'), /^#!\/usr\/bin\/env node\n/);
    }
    assert.equal((await command('cluster-serving', '--version')).stdout, `${manifest.version}\n`);
  });

  test('the SDK runs as JavaScript with its own dependencies alone', async (t) => {
    const stack = await testStack(t);
    const program = join(folder, 'program.mjs');
    await writeFile(program, SDK_PROGRAM);
    const args = [program, stack.url, stack.redisUrl, join(IMAGES, 'digit-4.png')];
    const { stdout, stderr } = await execute(process.execPath, args, { cwd: folder });
    assert.deepEqual(JSON.parse(stdout), { class: 4, code: 'bad_request' });
    assert.equal(stderr, '');

    const predicted = await command(
      'cluster-serving',
      'predict',
      '--url',
      stack.url,
      join(IMAGES, 'digit-4.png'),
    );
    assert.match(predicted.stdout, /digit-4\.png {2}\{value=/);
    const found = await command('cluster-serving', 'query', 'packed', '--redis-url', stack.redisUrl);
    assert.match(found.stdout, /^packed {2}probabilities float32\[10\]/);
  });

  test('the local service says which package it lacks when only the SDK was installed', async () => {
    await assert.rejects(command('cluster-serving', 'start', '--once', '--port', '0'), {
      code: 2,
      stderr: /^error: the package [\w-]+ is missing, which the local service needs: npm install [\w-]+\n$/,
    });
  });

  for (const [module, moduleResolution] of [
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ]) {
    test(`a strict TypeScript program checks against its declarations (${moduleResolution})`, async () => {
      const project = join(folder, `typed-${moduleResolution}`);
      await mkdir(project);
      await writeFile(join(project, 'program.ts'), TYPED_PROGRAM);
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
    await link('optionalDependencies');
    await command('cluster-serving-init');
    assert.match(await readFile(join(folder, 'config.yaml'), 'utf8'), /# modelPath: model/);
    await rm(join(folder, 'config.yaml'));
    assert.match((await command('cluster-serving', 'help', 'start')).stdout, /^Usage: cluster-serving start/);
    const { stdout } = await command('cluster-serving-start', '--once', '--port', '0', '--embedded-redis');
    assert.match(stdout, /10 of 10 right, both ways the same/);
    const started = await command('cluster-serving', 'start', '--port', '0', '--json');
    const { pid } = JSON.parse(started.stdout) as { pid: number };
    assert.match(
      (await command('cluster-serving-shutdown', '--yes')).stdout,
      new RegExp(`stopped process ${pid} `),
    );
  });
});

test('the repository itself is imported by its name, unbuilt', async () => {
  assert.equal((await import('cluster-serving')).InputQueue, (await import('../../sdk/index.ts')).InputQueue);
});
