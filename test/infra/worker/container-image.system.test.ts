/**
 * What a deployment with a worker in Python is packaged to: a template with two functions of an image, and what that
 * image is built from. No docker is needed: the files are laid out as the Dockerfile says, and run from there.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, lstat, mkdir, readdir, readFile, readlink, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { writeImage } from '../../../infra/build/worker-image.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { LOCATION, openScene } from '../../functions/lambda/support/scene.ts';
import { type Layout, layOut } from '../../support/image-layout.ts';
import { type Packaged, packageProject } from '../../support/packaging.ts';
import { PYTHON, PYTHON_PACKAGE, WITH_PYTHON } from '../../support/python.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { propertiesOf, resourcesOf, type Template } from '../../support/template.ts';
import { until } from '../../support/until.ts';
import { everyStackTests } from '../every-stack/tests.ts';
import { lintTest } from '../lint.ts';
import { deployedWorkerTests, encode, type PackagedWorker } from './deployed-worker.ts';

const CONFIG = `
jobName: lambda
batchSize: 3
modelPath: /somewhere/private
modelRefreshSeconds: 1
function: { memoryMB: 3008, timeoutSeconds: 60 }
worker: { class: scores.server.Worker, numWorker: 4, logDir: /somewhere/private, python: python3.13 }
`;

const WORKER = `
import os
import signal

import numpy as np
from scores.numbers import number_of
from wkr_serving.server import WKRHardWorker


class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        names = os.listdir(model_dir)
        if not names:
            return None
        with open(os.path.join(model_dir, names[0])) as file:
            return int(file.read())

    def predict(self, model, items):
        numbers = [number_of(item) for item in items]
        while -3 in numbers:
            pass
        if -2 in numbers:
            os.kill(os.getpid(), signal.SIGKILL)
        if -1 in numbers:
            raise ValueError("poison")
        answers = [2 * x if model is None else model + x for x in numbers]
        return [np.array([answer, len(items), os.getpid()], "float64") for answer in answers]
`;

const FILES = {
  'scores/server.py': WORKER,
  'scores/numbers.py': 'def number_of(item):\n    return float(item)\n',
  'scores/labels.json': '{}',
  '.hidden/secret.py': 'KEY = 1',
  'venv/pyvenv.cfg': '',
  'venv/lib/surplus.py': '',
  'requirements.txt': 'pillow==11.0.0\n',
};

/** Digests of all files, links and modes below a folder. */
async function stateOf(root: string): Promise<Record<string, string>> {
  const names = await readdir(root, { recursive: true });
  const states = names.sort().map(async (name) => {
    const path = join(root, name);
    const { mode } = await lstat(path);
    const type = mode & 0o170_000;
    const text =
      type === 0o120_000 ? await readlink(path) : type === 0o100_000 ? await readFile(path) : 'folder';
    return [name, `${mode.toString(8)} ${createHash('sha256').update(text).digest('hex')}`] as const;
  });
  return Object.fromEntries(await Promise.all(states));
}

async function writeAll(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), text);
  }
}

describe('serverless package with a worker in Python', () => {
  let packaged: Packaged;
  let template: Template;
  const context = () => join(packaged.folder, '.serverless', 'worker-image');

  before(async () => {
    packaged = await packageProject({ config: CONFIG, files: FILES, options: ['--param', 'provisioned=2'] });
    assert.equal(packaged.exitCode, 0, packaged.output);
    template = await packaged.template();
  });
  after(() => packaged?.remove());

  lintTest(() => packaged);
  describe('the template, as that of every stack', () => everyStackTests(() => packaged));

  test('predict and batch are of an image that the template asks for, the others are zips', async () => {
    const functions = resourcesOf(template, 'AWS::Lambda::Function');
    const images = functions.filter(([, { PackageType }]) => PackageType === 'Image');
    assert.deepEqual(images.map(([name]) => name).sort(), ['BatchLambdaFunction', 'PredictLambdaFunction']);
    for (const [name, properties] of images) {
      assert.deepEqual(properties['Code'], { ImageUri: { Ref: 'WorkerImage' } }, name);
      assert.deepEqual(properties['Architectures'], ['x86_64'], name);
      assert.equal(properties['MemorySize'], 3008, name);
    }
    assert.equal(propertiesOf(template, 'BatchLambdaFunction')['Timeout'], 60);
    // Without a default: CloudFormation refuses the template before it creates anything.
    assert.deepEqual(Object.keys(template.Parameters?.['WorkerImage'] as object), ['Type', 'Description']);
    for (const [name, properties] of resourcesOf(template, 'AWS::Lambda::Version'))
      assert.equal(properties['CodeSha256'], undefined, name);
    const zips = (await readdir(join(packaged.folder, '.serverless'))).filter((name) =>
      name.endsWith('.zip'),
    );
    assert.deepEqual(zips.sort(), ['dead-letter.zip', 'predictions.zip', 'status.zip', 'submit.zip']);
  });

  test('it says how the image is built, and what has no effect', () => {
    const { output } = packaged;
    assert.match(
      output,
      /docker build --platform linux\/amd64 --provenance=false \.serverless\/worker-image/,
    );
    assert.match(output, /--param workerImage=<uri>@sha256:<digest>/);
    for (const name of ['numWorker', 'logDir'])
      assert.equal(output.split(`worker.${name} has no effect when deployed`).length, 2, name);
    assert.doesNotMatch(output, /worker\.python has no effect/);
  });

  test('the context has the Python files of the worker, and neither data, nor secrets, nor environments', async () => {
    for (const name of ['predict', 'batch']) {
      const names = await readdir(join(context(), 'dist', name, 'worker'), { recursive: true });
      const own = names.filter((path) => /(^|\/)(server|numbers|secret|surplus)\.py$|\.json$/.test(path));
      assert.deepEqual(own.sort(), ['scores/numbers.py', 'scores/server.py']);
    }
    assert.equal(await readFile(join(context(), 'requirements.txt'), 'utf8'), 'pillow==11.0.0\nnumpy\n');
    const dockerfile = await readFile(join(context(), 'Dockerfile'), 'utf8');
    assert.match(dockerfile, /dnf install -y python3\.13 python3\.13-pip/);
    for (const name of await readdir(context(), { recursive: true }))
      assert.ok(
        !(await readFile(join(context(), name)).catch(() => '')).includes('/somewhere/private'),
        name,
      );
  });

  test('with an image that is there the template names it, and nothing is said about building', async (t) => {
    const uri = `123456789012.dkr.ecr.us-east-1.amazonaws.com/jobs/py@sha256:${'a'.repeat(64)}`;
    const other = await packageProject({
      config: CONFIG,
      files: FILES,
      options: ['--param', `workerImage=${uri}`],
    });
    t.after(() => other.remove());
    assert.equal(other.exitCode, 0, other.output);
    const found = await other.template();
    for (const name of ['Predict', 'Batch'])
      assert.deepEqual(propertiesOf(found, `${name}LambdaFunction`)['Code'], { ImageUri: uri });
    assert.equal(found.Parameters, undefined);
    assert.doesNotMatch(other.output, /docker/);
    // The same source gives the same context.
    assert.deepEqual(
      await stateOf(join(other.folder, '.serverless', 'worker-image')),
      await stateOf(context()),
    );
  });

  describe('what the Dockerfile lays out', WITH_PYTHON, () => {
    let layout: Layout;
    let root: string;
    let laidOut: Record<string, string>;

    before(async () => {
      root = join(packaged.folder, 'image');
      // A link needs the path of what PATH finds.
      const { stdout } = spawnSync(PYTHON, ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' });
      layout = await layOut(context(), root, { '/usr/bin/python3.13': stdout.trim() });
      laidOut = await stateOf(root);
    });

    const open = (): Promise<PackagedWorker> => {
      const { Variables } = propertiesOf(template, 'BatchLambdaFunction')['Environment'] as {
        Variables: Record<string, string>;
      };
      return Promise.resolve({
        bundles: { folder: (name) => layout.at(`/var/task/dist/${name}`) },
        settings: JSON.parse(Variables['CLUSTER_SERVING_CONFIG'] as string) as Record<string, unknown>,
        variables: layout.variables,
      });
    };

    test('any user can read it, and it is not run by root', async () => {
      assert.match(layout.user ?? '', /^[1-9]\d*:[1-9]\d*$/);
      for (const [name, state] of Object.entries(laidOut)) {
        const [mode = ''] = state.split(' ');
        if (!mode.startsWith('120')) assert.match(mode, name === '' ? /./ : /(100644|40755)$/, name);
      }
    });

    test('the commands of both functions are there', async () => {
      const commands = ['Predict', 'Batch'].flatMap((name) => {
        const { ImageConfig } = propertiesOf(template, `${name}LambdaFunction`);
        return (ImageConfig as { Command: readonly string[] }).Command;
      });
      for (const command of [...commands, ...layout.command]) {
        const file = layout.at(join('/var/task', command.replace(/\.handler$/, '.mjs')));
        assert.ok((await lstat(file)).isFile(), command);
      }
    });

    deployedWorkerTests(open);

    test('it gets the model folder of the bucket, and each new version of it', async (t) => {
      const { bundles, settings, ...options } = await open();
      const { start, bucket } = await openScene(t, bundles, settings);
      const publish = async (text: string) => {
        const folder = await temporaryFolder(t);
        await writeFile(join(folder, 'add.txt'), text);
        await publishModel(bucket, LOCATION, folder, { anyFiles: true });
      };
      await publish('100');
      const environment = start('predict', options);
      assert.equal((await encode(environment, 5))[0], 105);
      await publish('200');
      await until(async () => (await encode(environment, 5))[0] === 205);
    });

    test('nothing was written into it', async () => {
      assert.deepEqual(await stateOf(root), laidOut);
    });
  });
});

describe('the files of an image', () => {
  async function imageOf(t: TestContext, files: Readonly<Record<string, string>>, worker = 'server.Worker') {
    const [directory, folder] = [await temporaryFolder(t), await temporaryFolder(t)];
    await writeAll(directory, files);
    const made = join(folder, 'image');
    const bundle = await temporaryFolder(t);
    await writeAll(bundle, { 'index.mjs': '', 'node_modules/native.node': 'x' });
    const functions = (['predict', 'batch'] as const).map((name) => ({ name, folder: bundle }));
    const modelDirectory = join(directory, 'model');
    const modules = await writeImage({
      functions,
      directory,
      modelDirectory,
      worker,
      folder: made,
      python: 'python3.12',
      package: join(PYTHON_PACKAGE, 'wkr_serving'),
    });
    return { made, modules, directory };
  }
  const CLASS = 'class Worker: pass\n';

  test('the folder of the model, and caches, stay out', async (t) => {
    const files = {
      'server.py': CLASS,
      'model/a.py': '',
      '__pycache__/b.py': '',
      'a/b/c.py': '',
      'd.txt': '',
    };
    assert.deepEqual((await imageOf(t, files)).modules, ['a/b/c.py', 'server.py']);
  });

  test('onnxruntime lies there once, and modes do not follow the umask', async (t) => {
    const before_ = process.umask(0o077);
    t.after(() => process.umask(before_));
    const { made } = await imageOf(t, { 'server.py': CLASS });
    const links = (await readdir(made, { recursive: true, withFileTypes: true })).filter((entry) =>
      entry.isSymbolicLink(),
    );
    assert.deepEqual(
      links.map((entry) => relative(made, join(entry.parentPath, entry.name))),
      ['dist/batch/node_modules'],
    );
    assert.equal(await readFile(join(made, 'dist/batch/node_modules/native.node'), 'utf8'), 'x');
    for (const [name, state] of Object.entries(await stateOf(made)))
      assert.match(state, /^(100644|40755|120777) /, name);
  });

  for (const [name, given, expected] of [
    ['no requirements', {}, 'numpy\n'],
    ['a last line without its end', { 'requirements.txt': 'numpy-financial' }, 'numpy-financial\nnumpy\n'],
    ['numpy of their own', { 'requirements.txt': 'NumPy>=2\n' }, 'NumPy>=2\n'],
  ] as const) {
    test(`numpy is installed, with ${name}`, async (t) => {
      const { made } = await imageOf(t, { 'server.py': CLASS, ...given });
      assert.equal(await readFile(join(made, 'requirements.txt'), 'utf8'), expected);
    });
  }

  const REFUSED: readonly (readonly [string, Readonly<Record<string, string>>, RegExp])[] = [
    ['a module without the class', { 'server.py': 'class Other: pass' }, /server\.py has no class Worker/],
    [
      'hashes without one of numpy',
      { 'server.py': CLASS, 'requirements.txt': 'a==1 --hash=sha256:00\n' },
      /add numpy with its hash/,
    ],
    [
      'a folder of other code',
      Object.fromEntries(
        [['server', CLASS], ...Array.from({ length: 1_000 }, (_, i) => [`m${i}`, ''])].map(([name, text]) => [
          `${name}.py`,
          text as string,
        ]),
      ),
      /has 1001 Python files .* a folder of their own/,
    ],
    ['folders without an end', { 'server.py': CLASS, [`${'a/'.repeat(20)}b.py`]: '' }, /folders below/],
  ];
  for (const [name, files, message] of REFUSED) {
    test(`${name} is refused`, async (t) => {
      await assert.rejects(imageOf(t, files), { code: 'bad_config', message });
    });
  }

  test('a link to a file is followed, one to a folder is not', async (t) => {
    const shared = await temporaryFolder(t);
    await writeAll(shared, { 'helper.py': '1' });
    const directory = await temporaryFolder(t);
    await writeAll(directory, { 'server.py': CLASS });
    await symlink(join(shared, 'helper.py'), join(directory, 'helper.py'));
    await symlink(shared, join(directory, 'folder'));
    await chmod(join(shared, 'helper.py'), 0o600);
    const folder = join(await temporaryFolder(t), 'image');
    const modules = await writeImage({
      functions: [{ name: 'predict', folder: shared }],
      directory,
      folder,
      modelDirectory: '/none',
      worker: 'server.Worker',
      python: 'python3.12',
      package: join(PYTHON_PACKAGE, 'wkr_serving'),
    });
    assert.deepEqual(modules, ['helper.py', 'server.py']);
    assert.equal(await readFile(join(folder, 'dist/predict/worker/helper.py'), 'utf8'), '1');
  });
});
