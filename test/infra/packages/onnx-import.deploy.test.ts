/**
 * The package onnx-import, built, packed and installed by npm (or unpacked, where the registry cannot be reached), and used as
 * people use it who have nothing else of this repository: its command and its code, on this Node and on an older one.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { importModel } from '../../../onnx-import/index.ts';
import { convertOptionsOf } from '../../../onnx-import/options.ts';
import { cleaningUp, serviceFolder } from '../../cli/cli.ts';
import { childEnvironment } from '../../support/environment.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { install, npmInstall, olderNode, packPackages } from '../../support/installed.ts';
import { ROOT } from '../../support/start.ts';

const execute = promisify(execFile);
const DIGITS = join(ROOT, 'examples/digits/model');

/** One small model of each kind; those that their file leaves open with the shape of an input. */
const MODELS: readonly (readonly [kind: string, folder: string, input?: string])[] = [
  ['onnx', DIGITS],
  ['caffe', sharedPath('corpus/caffe/layer_batch_norm_local_stats')],
  ['openvino', sharedPath('corpus/openvino/ovms_scalar')],
  ['bigdl', sharedPath('corpus/bigdl/bigdl_lenet'), 'input:N,784'],
  ['pytorch', sharedPath('corpus/pytorch/pickled_simple_py310_cp220'), 'x:N,2'],
  ['tf_checkpoint', sharedPath('corpus/tf_checkpoint/tf2onnx_regression')],
  ['tf_frozen', sharedPath('corpus/tf_frozen/batch_norm')],
  ['tf_saved_model', sharedPath('corpus/tf_saved_model/matrix_half_plus_two')],
  ['xgboost', sharedPath('corpus/fresh/trees/xgb_binary')],
  ['lightgbm', sharedPath('corpus/fresh/trees/lgb_multi')],
];

/** Kinds that this Node imports too. An older one imports all of them, and so do both in `npm run test:long`. */
const ON_BOTH = ['onnx', 'pytorch'];

async function nodesOf(kind: string): Promise<string[]> {
  const older = await olderNode();
  if (older === undefined) return [process.execPath];
  return process.env['EVERY_NODE'] === '1' || ON_BOTH.includes(kind) ? [process.execPath, older] : [older];
}

const TYPED_PROGRAM = `
import { ImportError, type Imported, type ImportReport, importModel, supported, verify } from 'onnx-import';
import { convertOptionsOf } from 'onnx-import/options';
import { ModelProcess } from 'onnx-import/process';
import { readMessage } from 'onnx-import/protobuf';
import { singleRows } from 'onnx-import/inputs';

export async function shapesOf(folder: string): Promise<ImportReport['inputs']> {
  const process = new ModelProcess();
  try {
    const convert = convertOptionsOf({ input: ['x:N,2'] });
    const { importReport }: Imported = await importModel(folder, { out: 'out', convert, process });
    return importReport.inputs;
  } catch (error) {
    if (error instanceof ImportError && error.code === 'bad_model') return [];
    throw error;
  } finally {
    process.close();
  }
}
export const others = { readMessage, singleRows, supported, verify };

// @ts-expect-error it needs a folder for what it writes
void importModel('model', {});
`;

interface Answer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

describe('onnx-import, as it is installed', () => {
  const cleanups: (() => Promise<void>)[] = [];
  const newFolder = () => serviceFolder({ after: (cleanup) => cleanups.push(cleanup) });
  let folder: string;
  let path: string;
  /** False: it was unpacked, and its dependencies are those of the checkout. */
  let isByNpm: boolean;

  before(
    cleaningUp(cleanups, async () => {
      const { onnxImport } = await packPackages(await newFolder());
      folder = await newFolder();
      path = join(folder, 'node_modules', 'onnx-import');
      isByNpm = await npmInstall(folder, [onnxImport]);
      if (!isByNpm) ({ folder, path } = await install(onnxImport, await newFolder()));
    }),
  );

  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  async function run(command: string, ...words: string[]): Promise<Answer> {
    const env = childEnvironment({ npm_config_loglevel: 'error' });
    try {
      return { code: 0, ...(await execute(command, words, { cwd: folder, env, maxBuffer: 2 ** 24 })) };
    } catch (error) {
      return error as Answer & Error;
    }
  }

  const command = (node: string, ...words: string[]) =>
    run(node, join(path, 'bin/onnx-import.mjs'), ...words);

  test('it asks for few packages, none of them of the service, and contains onnxruntime without its install script', async () => {
    const runtime = await readFile(join(path, 'node_modules/onnxruntime-node/package.json'), 'utf8');
    assert.ok(!('scripts' in (JSON.parse(runtime) as object)));
    const { dependencies } = JSON.parse(await readFile(join(path, 'package.json'), 'utf8')) as {
      dependencies: object;
    };
    assert.deepEqual(Object.keys(dependencies), [
      '@cornerstonejs/codec-libjpeg-turbo-8bit',
      '@huggingface/tokenizers',
      'fast-xml-parser',
      'icodec',
      'onnxruntime-node',
      'yaml',
    ]);
  });

  test('npm installs it alone, with nothing of the service', async (t) => {
    if (!isByNpm) return t.skip('the registry cannot be reached; it was unpacked');
    const lock = await readFile(join(folder, 'node_modules', '.package-lock.json'), 'utf8');
    const { packages }: { packages: object } = JSON.parse(lock);
    assert.ok(Object.keys(packages).includes('node_modules/onnx-import'));
    assert.deepEqual(
      Object.keys(packages).filter((name) => /cluster-serving(?!\/onnxruntime-)/.test(name)),
      [],
    );
  });

  test('npx finds the command, which tells its version and what it takes', async () => {
    const npx = (...words: string[]) => run('npx', '--offline', '--no', '--', 'onnx-import', ...words);
    const { version } = JSON.parse(await readFile(join(path, 'package.json'), 'utf8')) as { version: string };
    assert.equal((await npx('--version')).stdout, `${version}\n`);
    const { stdout } = await npx('--help');
    for (const option of ['--out <dir>', '--input <name[:shape]>', '--json'])
      assert.ok(stdout.includes(option), option);
  });

  test('an error is one line, with an exit code, and with --json a document', async () => {
    const empty = await newFolder();
    const failed = await command(process.execPath, empty, '--json');
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /^error: [^\n]+\n$/);
    const { code, error } = JSON.parse(failed.stdout) as { code: string; error: string };
    assert.equal(code, 'bad_model');
    assert.equal(failed.stderr, `error: ${error}\n`);
    for (const words of [
      [],
      ['--outt', 'x'],
      [empty, 'b'],
      [empty, '--input', 'x:,'],
      [empty, '--tolerance', '1'],
    ]) {
      const wrong = await command(process.execPath, ...words);
      assert.equal(wrong.code, 2, words.join(' '));
      assert.match(wrong.stderr, /^error: [^\n]+\n$/);
      assert.equal(wrong.stdout, '');
    }
  });

  for (const [kind, source, input] of MODELS) {
    test(`a model of ${kind} becomes what the repository makes of it`, async (t) => {
      if (!existsSync(source)) return t.skip('needs ../shared, which is not on this machine');
      const made = await newFolder();
      const convert = convertOptionsOf({ ...(input && { input: [input] }) });
      const { importReport } = await importModel(source, { out: join(made, 'ours'), convert });
      assert.equal(importReport.source.format, kind);
      const { measured: _, ...expected } = importReport;
      for (const node of await nodesOf(kind)) {
        const out = join(made, `of-${node === process.execPath ? 'this' : 'older'}`);
        const words = [source, '--out', out, '--json', ...(input === undefined ? [] : ['--input', input])];
        const { code, stdout, stderr } = await command(node, ...words);
        assert.deepEqual([code, stderr], [0, '']);
        const answer = JSON.parse(stdout) as { directory: string; importReport: { measured: object } };
        assert.equal(answer.directory, out);
        const { measured: __, ...report } = answer.importReport;
        assert.deepEqual(report, JSON.parse(JSON.stringify(expected)));
        const [theirs, ours] = [join(out, 'model.onnx'), join(made, 'ours', 'model.onnx')];
        assert.ok((await readFile(theirs)).equals(await readFile(ours)));
      }
    });
  }

  test('without --json the report is text, in a folder beside the model', async () => {
    await cp(DIGITS, join(folder, 'digits'), { recursive: true });
    const { stdout, stderr } = await command(process.execPath, 'digits');
    assert.equal(stderr, '');
    assert.match(
      stdout,
      /^# ONNX -> model\.onnx\n[^]*- check: loads; runs\n[^]*\n\nwritten to .*digits-onnx\n$/,
    );
    // It knows no service: neither in what it prints nor in what it writes beside the model.
    const written = await Promise.all(
      ['import-report.json', 'import-report.md'].map((name) =>
        readFile(join(folder, 'digits-onnx', name), 'utf8'),
      ),
    );
    for (const text of [stdout, ...written]) assert.doesNotMatch(text, /cluster-serving|config\.yaml/);
    for (const text of [stdout, written[1]]) assert.doesNotMatch(String(text), /Lambda/);
  });

  test('the program of its README runs as it stands', async () => {
    const readme = await readFile(join(path, 'README.md'), 'utf8');
    const [program, ...others] = [...readme.matchAll(/```js\n([\s\S]*?)```/g)].map(
      ([, text]) => text as string,
    );
    assert.deepEqual(others, []);
    await cp(DIGITS, join(folder, 'model'), { recursive: true });
    await writeFile(join(folder, 'readme.mjs'), program ?? '');
    for (const node of [process.execPath, (await olderNode()) ?? process.execPath])
      assert.match((await run(node, 'readme.mjs')).stdout, /^\S+model-onnx\n\[[^]*float32[^]*\]\nproven\n$/);
  });

  for (const [module, moduleResolution] of [
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ]) {
    test(`a strict TypeScript program checks against its declarations (${moduleResolution})`, async () => {
      const project = join(folder, `typed-${moduleResolution}`);
      await mkdir(project);
      await writeFile(join(project, 'program.mts'), TYPED_PROGRAM);
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
      assert.equal((await run(process.execPath, compiler, '-p', project)).stdout, '');
    });
  }
});
