/** `cluster-serving model golden`, and that nothing serves which answers a golden request otherwise. */
import assert from 'node:assert/strict';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readPointer } from '../../lib/registry/download.ts';
import { readManifest } from '../../lib/registry/versions.ts';
import { startAws } from '../../local/aws/aws.ts';
import type { StackRecord } from '../../local/service/data-folder.ts';
import { onnxModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { type CliAnswer, serviceFolder } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

/** y = x + added, for rows of two numbers. */
const plus = (added: number) =>
  onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 2] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2] }],
    weights: [{ name: 'added', dtype: 'float32', shape: [1], data: Float32Array.of(added) }],
    nodes: [{ op: 'Add', inputs: ['x', 'added'], outputs: ['y'] }],
  });

interface Answer {
  readonly version: string;
  readonly code: string;
  readonly error: string;
  readonly requests: readonly unknown[];
  readonly results: readonly { readonly difference?: { readonly got: string } }[];
}

const TO = ['--to', 's3://models-here/jobs/a'];
const LOCATION = { bucket: 'models-here', prefix: 'jobs/a/' };
const REQUEST = '{"instances":[{"x":[1,2]},{"x":[3,40]}]}';

/** A folder for a service, with the models `old`, whose golden request only it answers rightly, and `new`. */
async function twoVersions(t: TestContext): Promise<string> {
  const cwd = await serviceFolder(t);
  for (const [name, added] of [
    ['old', 1],
    ['new', 2],
  ] as const) {
    await mkdir(join(cwd, name));
    await writeFile(join(cwd, name, 'model.onnx'), plus(added));
  }
  await mkdir(join(cwd, 'old', 'golden'));
  const golden = { instances: [{ x: [1, 2] }], predictions: ['{value={"data":[2.0,3.0],"shape":[2]}}'] };
  await writeFile(join(cwd, 'old', 'golden', 'first.json'), JSON.stringify(golden));
  return cwd;
}

test('an answer of the running service becomes a golden request, and a start refuses a model that gives another', async (t) => {
  const cwd = await serviceFolder(t);
  await mkdir(join(cwd, 'model'));
  await writeFile(join(cwd, 'model', 'model.onnx'), plus(1));
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: model\n');
  await writeFile(join(cwd, 'ask.json'), REQUEST);
  const started = (await warmCliJson(['start', '--port', '0'], { cwd })) as CliAnswer<StackRecord>;
  assert.equal(started.code, 0, started.stderr);
  const add = ['model', 'golden', 'add', 'model', '--request', 'ask.json'];
  const added = await warmCliJson(add, { cwd });
  assert.deepEqual(added.json, {
    path: join(cwd, 'model', 'golden', 'ask.json'),
    name: 'ask',
    instances: 2,
    tolerance: 1e-4,
  });
  const { predictions } = JSON.parse(await readFile(join(cwd, 'model', 'golden', 'ask.json'), 'utf8'));
  assert.deepEqual(predictions, [
    '{value={"data":[2.0,3.0],"shape":[2]}}',
    '{value={"data":[4.0,41.0],"shape":[2]}}',
  ]);
  assert.match((await warmCli(add, { cwd })).stderr, /ask\.json exists; choose another --name/);
  assert.equal((await warmCli(['stop'], { cwd })).code, 0);

  assert.equal((await warmCli(['start', '--port', '0'], { cwd })).code, 0);
  assert.equal((await warmCli(['stop'], { cwd })).code, 0);
  await writeFile(join(cwd, 'model', 'model.onnx'), plus(2));
  const refused = await warmCli(['start', '--port', '0'], { cwd });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /ask: instance 0, output 0, element 0: expected 2\.0, got 3\.0/);
});

test('list and run show the golden requests; push and rollback refuse a version that answers otherwise', async (t) => {
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket('models-here');
  const cwd = await temporaryFolder(t);
  const options = { cwd, env: aws.environment };
  const call = async (...args: string[]) =>
    (await warmCliJson(['model', ...args], options)) as CliAnswer<Answer>;
  const serving = async () => (await readPointer(aws.s3, LOCATION)).version;
  const folder = async (name: string, added: number, expected: string) => {
    await mkdir(join(cwd, name, 'golden'), { recursive: true });
    await writeFile(join(cwd, name, 'model.onnx'), plus(added));
    const golden = { instances: [{ x: [1, 2] }], predictions: [expected], tolerance: 0.01 };
    await writeFile(join(cwd, name, 'golden', 'first.json'), JSON.stringify(golden));
  };
  await folder('right', 1, '{value={"data":[2.0,3.0],"shape":[2]}}');
  await folder('wrong', 2, '{value={"data":[2.0,3.0],"shape":[2]}}');

  const listed = await call('golden', 'list', 'right');
  assert.deepEqual(listed.json.requests, [{ name: 'first', instances: 1, tolerance: 0.01 }]);
  assert.equal((await call('golden', 'run', 'right')).code, 0);
  const ran = await call('golden', 'run', 'wrong');
  assert.equal(ran.code, 1);
  assert.equal(ran.json.results[0]?.difference?.got, '3.0');

  const first = await call('push', 'right', ...TO);
  assert.equal(first.code, 0, first.stderr);
  // Functions do not download what only a person needs.
  assert.deepEqual(
    (await readPointer(aws.s3, LOCATION)).files.map(({ path }) => path),
    ['model.onnx'],
  );
  const refused = await call('push', 'wrong', ...TO);
  assert.deepEqual([refused.code, refused.json.code], [1, 'bad_model']);
  assert.match(refused.json.error, /first: instance 0, output 0, element 0: expected 2\.0, got 3\.0/);
  assert.equal(await serving(), first.json.version);

  // A version that was right under other settings: its answers are filtered now.
  await folder('filtered', 3, '{value=[[1,5.0]]}');
  await writeFile(join(cwd, 'config.yaml'), 'postProcessing: topN(1)\n');
  const second = await call('push', 'filtered', '--config', 'config.yaml', ...TO);
  assert.equal(second.code, 0, second.stderr);
  const back = await call('rollback', '--config', 'config.yaml', ...TO);
  assert.equal(back.code, 1);
  assert.match(back.json.error, /first: instance 0.*expected \{value=\{"data":\[2\.0,3\.0\]/);
  assert.equal(await serving(), second.json.version);
  assert.equal((await call('rollback', ...TO)).code, 0);
  assert.equal(await serving(), first.json.version);
});

test('golden requests outlive the version that brought them, until --drop-golden', async (t) => {
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket('models-here');
  const cwd = await temporaryFolder(t);
  const push = async (...args: string[]) =>
    (await warmCliJson(['model', 'push', ...args, ...TO], { cwd, env: aws.environment })) as CliAnswer<{
      readonly version: string;
      readonly error: string;
      readonly keptGolden: number;
    }>;
  const serving = async () => (await readPointer(aws.s3, LOCATION)).version;
  const stored = async (version: string) =>
    (await readManifest(aws.s3, LOCATION, version))?.files.map(({ path }) => path);
  const folder = async (name: string, added: number) => {
    await mkdir(join(cwd, name));
    await writeFile(join(cwd, name, 'model.onnx'), plus(added));
    await writeFile(join(cwd, name, 'notes.txt'), name);
  };
  const golden = (expected: string) =>
    JSON.stringify({
      instances: [{ x: [1, 2] }],
      predictions: [`{value={"data":[${expected}],"shape":[2]}}`],
    });
  await folder('guarded', 1);
  await mkdir(join(cwd, 'guarded', 'golden'));
  await writeFile(join(cwd, 'guarded', 'golden', 'first.json'), golden('2.0,3.0'));
  await folder('same', 1);
  await folder('other', 2);
  const first = await push('guarded');
  assert.deepEqual([first.code, first.json.keptGolden], [0, 0], first.stderr);

  const refused = await push('other');
  assert.equal(refused.code, 1);
  assert.match(refused.json.error, /first: instance 0, output 0, element 0: expected 2\.0, got 3\.0/);
  assert.match(refused.json.error, new RegExp(`Version ${first.json.version}, which serves.*--drop-golden`));
  assert.equal(await serving(), first.json.version);

  const kept = await push('same');
  assert.deepEqual([kept.code, kept.json.keptGolden], [0, 1], kept.stderr);
  assert.deepEqual(await stored(kept.json.version), ['golden/first.json', 'model.onnx', 'notes.txt']);
  assert.equal((await push('other')).code, 1, 'a version that took them over guards the next one');
  assert.equal((await push('same')).json.version, kept.json.version, 'the same files are the same version');

  // Recorded again under the same name: the directory counts.
  await mkdir(join(cwd, 'other', 'golden'));
  await writeFile(join(cwd, 'other', 'golden', 'first.json'), golden('3.0,4.0'));
  const changed = await push('other');
  assert.deepEqual([changed.code, changed.json.keptGolden], [0, 0], changed.stderr);

  assert.equal((await push('same')).code, 1);
  const dropped = await push('same', '--drop-golden');
  assert.deepEqual([dropped.code, dropped.json.keptGolden], [0, 0], dropped.stderr);
  assert.deepEqual(await stored(dropped.json.version), ['model.onnx', 'notes.txt']);
});

test('a start with another model directory asks the golden requests of the version before', async (t) => {
  const cwd = await twoVersions(t);
  const start = async (...options: string[]) => {
    const started = await warmCli(['start', '--port', '0', ...options], { cwd });
    if (started.code === 0) assert.equal((await warmCli(['stop'], { cwd })).code, 0);
    return started;
  };
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: old\n');
  assert.equal((await start()).code, 0);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: new\n');
  const refused = await start();
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /expected 2\.0, got 3\.0[^]*--drop-golden/);
  assert.equal((await start('--drop-golden')).code, 0);
  assert.equal((await start()).code, 0, 'what was dropped is gone');
});

test('a restart that golden requests refuse leaves the service running, with its model', async (t) => {
  const cwd = await twoVersions(t);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: old\n');
  const { json: first } = (await warmCliJson(['start', '--port=0'], { cwd })) as CliAnswer<{ pid: number }>;
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: new\n');
  const refused = await warmCli(['restart'], { cwd });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /expected 2\.0, got 3\.0[^]*--drop-golden/);
  const { json: status } = (await warmCliJson(['status'], { cwd })) as CliAnswer<{ pid: number }>;
  assert.equal(status.pid, first.pid);
  await writeFile(join(cwd, 'ask.json'), '{"instances":[{"x":[1,2]}]}');
  const predicted = await warmCli(['predict', 'ask.json'], { cwd });
  assert.match(predicted.stdout, /2\.0,3\.0/);
  assert.equal((await warmCli(['restart', '--drop-golden'], { cwd })).code, 0);

  await mkdir(join(cwd, 'further', 'broken'), { recursive: true });
  await writeFile(join(cwd, 'further', 'broken', 'model.onnx'), 'no model');
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: new\nmodels:\n  folder: further\n');
  const broken = await warmCli(['restart'], { cwd });
  assert.equal(broken.code, 1);
  assert.match(broken.stderr, /model broken: /);
  assert.equal((await warmCli(['predict', 'ask.json'], { cwd })).code, 0);

  await rm(join(cwd, 'further', 'broken', 'model.onnx'));
  const empty = await warmCli(['restart'], { cwd });
  assert.equal(empty.code, 1);
  assert.match(empty.stderr, /model broken: /);
  assert.equal((await warmCli(['predict', 'ask.json'], { cwd })).code, 0);
});

test('a restart of a service whose S3 does not answer stops it all the same, and says what was not tried', async (t) => {
  const cwd = await twoVersions(t);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: old\n');
  assert.equal((await warmCli(['start', '--port=0'], { cwd })).code, 0);
  const path = join(cwd, '.cluster-serving', 'stack.json');
  const record = JSON.parse(await readFile(path, 'utf8')) as StackRecord;
  const environment = { ...record.environment, AWS_ENDPOINT_URL: 'http://127.0.0.1:1' };
  await writeFile(path, JSON.stringify({ ...record, environment }));
  const { code, json, stderr } = (await warmCliJson(['restart'], { cwd })) as CliAnswer<{ pid: number }>;
  assert.equal(code, 0, stderr);
  assert.notEqual(json.pid, record.pid);
  assert.match(stderr, /its models were not tried before the stop: .*127\.0\.0\.1:1/);
});

test('an import takes the golden requests along and fails where its model answers otherwise', async (t) => {
  const cwd = await temporaryFolder(t);
  await mkdir(join(cwd, 'net', 'golden'), { recursive: true });
  await writeFile(
    join(cwd, 'net', 'deploy.prototxt'),
    'name: "n"\ninput: "data"\ninput_shape { dim: 1 dim: 2 }\n' +
      'layer { name: "y" type: "Power" bottom: "data" top: "y" power_param { scale: 2 } }\n',
  );
  const save = (values: string) => {
    const golden = {
      instances: [{ data: [1, 2] }],
      predictions: [`{value={"data":[${values}],"shape":[2]}}`],
    };
    return writeFile(join(cwd, 'net', 'golden', 'twice.json'), JSON.stringify(golden));
  };
  await save('2.0,5.0');
  const refused = await warmCli(['model', 'import', 'net', '--out', 'made'], { cwd });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /twice: instance 0, output 0, element 1: expected 5\.0, got 4\.0/);
  assert.deepEqual(await readdir(cwd), ['net']);
  await save('2.0,4.0');
  const made = await warmCli(['model', 'import', 'net', '--out', 'made'], { cwd });
  assert.equal(made.code, 0, made.stderr);
  assert.deepEqual(await readdir(join(cwd, 'made', 'golden')), ['twice.json']);
  // A request recorded from the output outlives the next import.
  await cp(join(cwd, 'made', 'golden', 'twice.json'), join(cwd, 'made', 'golden', 'own.json'));
  assert.equal((await warmCli(['model', 'import', 'net', '--out', 'made'], { cwd })).code, 0);
  assert.deepEqual((await readdir(join(cwd, 'made', 'golden'))).sort(), ['own.json', 'twice.json']);
});
