/** `cluster-serving init <folder>`: what a project consists of, and what is refused. test/infra/packages/install.deploy.test.ts walks through one. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { packagesFor } from '../../cli/init/packages.ts';
import { createProject, type ProjectRequest } from '../../cli/init/project.ts';
import { stageParameters } from '../../infra/template/stage-parameters.ts';
import { readConfigText } from '../../lib/config/file.ts';
import { temporaryFolder } from '../support/runner.ts';
import { IMAGES, MODEL, ROOT } from './cli.ts';
import { runHere } from './in-process.ts';

const NAME = '@cluster-serving/cli';
const PATH = `node_modules/${NAME}`;
const COMMON = ['.gitignore', '.npmrc', 'README.md', 'config.yaml', 'package.json', 'request.json'];
const ALWAYS = [...COMMON, 'serverless.yml', join('test', 'service.js')];

interface Made {
  readonly folder: string;
  readonly files: Readonly<Record<string, string>>;
  readonly answer: Readonly<Record<string, unknown>>;
}

/** An installation of our packages from a registry, in a folder of its own. */
async function installed(t: TestContext, dependencies: Readonly<Record<string, string>>) {
  const home = await temporaryFolder(t);
  await mkdir(join(home, PATH), { recursive: true });
  await writeFile(join(home, 'package.json'), JSON.stringify({ dependencies }));
  return { home, from: { folder: join(home, PATH), name: NAME, version: '1.2.3', command: '' } };
}

async function make(
  t: TestContext,
  request: Omit<ProjectRequest, 'folder'> & { folder?: string } = {},
): Promise<Made> {
  const { home, from } = await installed(t, { [NAME]: '^1.2.0' });
  const folder = join(home, request.folder ?? 'reader');
  let answer: unknown;
  const silent = () => assert.fail('said more than its answer');
  const output = { json: true, piece: silent, note: silent, failure: silent };
  const code = await createProject(
    { ...request, folder },
    { ...output, answer: (it) => (answer = it) },
    from,
  );
  assert.equal(code, 0);
  const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
  const texts = names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')] as const);
  return { folder, files: Object.fromEntries(await Promise.all(texts)), answer: answer as Made['answer'] };
}

for (const [title, request, own, config] of [
  ['the sample', {}, [join('model', 'model.onnx')], { postProcessing: 'topN(1)' }],
  ['a worker in Python', { worker: 'python' }, ['server.py'], { batchSize: 16 }],
  ['a worker in TypeScript', { worker: 'typescript' }, ['server.mts'], { batchSize: 16 }],
  ['a model file', { model: join(MODEL, 'model.onnx') }, [join('model', 'import-report.json')], {}],
] as const) {
  test(`a project of ${title} has all its files, each with its name, and settings that are right`, async (t) => {
    const { files, answer, folder } = await make(t, request);
    for (const file of [...ALWAYS, ...own]) assert.ok(file in files, file);
    const rest = Object.keys(files).filter((file) => ![...ALWAYS, ...own].includes(file));
    assert.ok(
      rest.every((file) => /^(model|images)/.test(file)),
      rest.join(),
    );
    for (const file of ALWAYS) assert.doesNotMatch(files[file] as string, /my-service|\{\{|undefined/, file);
    const { job, notes } = readConfigText(files['config.yaml'] as string, 'config.yaml');
    assert.deepEqual(notes, []);
    assert.equal(job.jobName, 'reader');
    for (const [key, value] of Object.entries(config))
      assert.deepEqual(job[key as keyof typeof job], value, key);
    const { instances } = JSON.parse(files['request.json'] as string) as { instances: object[] };
    assert.ok(Object.keys(instances[0] as object).length > 0);
    assert.deepEqual(answer, {
      folder,
      name: 'reader',
      written: (await readdir(folder)).sort(),
      dependencies: { [NAME]: '1.2.3', 'cluster-serving': '1.2.3' },
      next: answer['next'],
    });
    assert.deepEqual((answer['next'] as string[]).slice(1), ['npm install', 'npm test', 'npm start']);
  });
}

test('its package.json has the exact versions, and a script for each step', async (t) => {
  const { files } = await make(t, { worker: 'typescript', name: 'other' });
  const manifest = JSON.parse(files['package.json'] as string) as Record<string, Record<string, string>>;
  assert.equal(manifest['name'], 'other');
  assert.deepEqual(manifest['dependencies'], { [NAME]: '1.2.3', 'cluster-serving': '1.2.3' });
  assert.deepEqual(Object.keys(manifest['scripts'] as object).sort(), [
    'deploy',
    'doctor',
    'package',
    'start',
    'stop',
    'test',
  ]);
  const infra = JSON.parse(await readFile(join(ROOT, 'infra/package.json'), 'utf8')) as typeof manifest;
  assert.deepEqual(manifest['devDependencies'], { esbuild: infra['dependencies']?.['esbuild'] });
});

test('its serverless.yml and its README refer to files of the package that are there', async (t) => {
  const { files } = await make(t);
  const text = files['serverless.yml'] as string;
  const taken = [...text.matchAll(/\$\{file\(([^)]+)\):(\w+)\}/g)];
  assert.deepEqual(
    taken.map(([, , part]) => part),
    ['service', 'settings', 'provider', 'package', 'functions', 'resources'],
  );
  for (const [, path = '', part = ''] of taken)
    assert.match(await inRepository(path), new RegExp(`^(  async )?${part}[:(]`, 'm'), part);
  // All that ours has, but for the version of the framework, which is the one of the package.
  const keys = (of: string) => Object.keys(parse(of, { logLevel: 'silent' }) as object);
  const ours = keys(await readFile(join(ROOT, 'serverless.yml'), 'utf8'));
  assert.deepEqual(new Set([...keys(text), 'frameworkVersion']), new Set(ours));
  const named = `${files['README.md']}${text}${files['config.yaml']}`.matchAll(
    /node_modules\/[\w@/.-]+\.(?:md|yml)/g,
  );
  for (const [path] of named) if (!path.endsWith('cli/README.md')) await inRepository(path);
});

const inRepository = (path: string) => readFile(join(ROOT, path.replace(`${PATH}/`, '')), 'utf8');

test('packages that were installed from files, folders and addresses are named as these', async (t) => {
  const { home, from } = await installed(t, {
    [NAME]: 'file:packed/cli.tgz',
    'cluster-serving': 'https://example.com/cluster-serving-1.2.3.tgz',
  });
  const project = join(home, 'below', 'reader');
  assert.throws(() => packagesFor(project, from), {
    code: 'bad_config',
    message: /packed\/cli\.tgz is not there/,
  });
  await mkdir(join(home, 'packed'));
  await writeFile(join(home, 'packed', 'cli.tgz'), '');
  assert.deepEqual(packagesFor(project, from), {
    dependencies: {
      [NAME]: 'file:../../packed/cli.tgz',
      'cluster-serving': 'https://example.com/cluster-serving-1.2.3.tgz',
    },
    fromFolders: false,
  });
  await writeFile(
    join(home, 'package.json'),
    JSON.stringify({ devDependencies: { [NAME]: 'file:packed/cli.tgz' } }),
  );
  assert.throws(() => packagesFor(project, from), { message: /needs cluster-serving, too/ });
  // The repository after `npm run build:packages`.
  const clone = { ...from, folder: home };
  assert.throws(() => packagesFor(project, clone), {
    message: /dist\/packages\/cli is not there; `npm run build:packages`/,
  });
  for (const name of ['cli', 'sdk']) {
    await mkdir(join(home, 'dist', 'packages', name), { recursive: true });
    await writeFile(join(home, 'dist', 'packages', name, 'package.json'), '{}');
  }
  const { dependencies, fromFolders } = packagesFor(project, clone);
  assert.deepEqual(Object.values(dependencies), [
    'file:../../dist/packages/cli',
    'file:../../dist/packages/sdk',
  ]);
  assert.ok(fromFolders);
});

test('a folder that is not empty, or no folder, is refused, and what is there stays', async (t) => {
  const { folder, files } = await make(t);
  const again = await runHere(['init', folder]);
  assert.equal(again.code, 2);
  assert.match(
    again.text,
    /the folder is not empty \(\.gitignore, \.npmrc, README\.md, …\); name one that is new or empty$/,
  );
  assert.equal(await readFile(join(folder, 'config.yaml'), 'utf8'), files['config.yaml']);
  const file = await runHere(['init', join(folder, 'config.yaml'), '--name', 'x']);
  assert.equal(file.code, 2);
  assert.match(file.text, /this is no folder that can be read: ENOTDIR/);
});

test('where a model cannot be imported, nothing is left behind', async (t) => {
  const { home, from } = await installed(t, {});
  const output = { json: true, answer() {}, piece() {}, note() {}, failure() {} };
  const model = join(IMAGES, 'digit-3.png');
  for (const there of [false, true]) {
    const folder = join(home, 'new', 'reader');
    if (there) await mkdir(folder, { recursive: true });
    await assert.rejects(createProject({ folder, model }, output, from), {
      code: 'bad_model',
      message: /digit-3\.png holds no model/,
    });
    assert.deepEqual(
      await readdir(home),
      there ? ['new', 'node_modules', 'package.json'] : ['node_modules', 'package.json'],
    );
    if (there) assert.deepEqual(await readdir(folder), []);
  }
});

for (const [title, args, message] of [
  ['a folder with a name that npm refuses', ['My Service'], /got "My Service"; --name gives another/],
  ['a folder with a name that is no job', ['a.b'], /got "a\.b"; --name gives another/],
  [
    'the name of a dependency',
    ['x', '--name', 'cluster-serving'],
    /^--name: expected .* not cluster-serving/,
  ],
  ['a name that is too long', ['x', '--name', 'a'.repeat(61)], /1 to 60 small letters/],
  ['a model and a worker', ['x', '--model', 'm', '--worker', 'python'], /give one of them/],
  [
    'a worker in another language',
    ['x', '--worker', 'perl'],
    /--worker: expected python, typescript, got "perl"/,
  ],
  [
    'options of a project without one',
    ['--worker', 'python'],
    /--worker goes with the folder of a new project/,
  ],
  ['options of a file with a project', ['x', '--force'], /--force goes without a folder/],
  ['two folders', ['x', 'y'], /unexpected "y"/],
] as const) {
  test(`${title}: refused with one clear error`, async (t) => {
    const cwd = await temporaryFolder(t);
    const { code, text } = await runHere([
      'init',
      ...args.map((arg) => (arg === 'x' ? join(cwd, 'x') : arg)),
    ]);
    assert.equal(code, 2);
    assert.match(text, message);
    assert.deepEqual(await readdir(cwd), []);
  });
}

test('a file has the parameters of its stage, over those of all stages', async (t) => {
  const path = join(await temporaryFolder(t), 'serverless.yml');
  await writeFile(path, 'params: { default: { redisNodes: 1, auth: jwt }, prod: { redisNodes: 3 } }\n');
  assert.deepEqual(await stageParameters(path, 'prod'), { redisNodes: 3, auth: 'jwt' });
  assert.deepEqual(await stageParameters(path, 'dev'), { redisNodes: 1, auth: 'jwt' });
  assert.equal((await stageParameters(join(ROOT, 'serverless.yml'), 'prod'))['redisNodes'], 2);
  await writeFile(path, 'service: x\n');
  assert.deepEqual(await stageParameters(path, 'dev'), {});
  await writeFile(path, 'a: [\n');
  await assert.rejects(stageParameters(path, 'dev'), {
    code: 'bad_config',
    message: /serverless\.yml cannot be read/,
  });
});
