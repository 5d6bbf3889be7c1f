/** `cluster-serving model push, list, rollback, prune`, as a person calls them. */
import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import type { Verification } from '../../../lib/contract/verification.ts';
import { readPointer } from '../../../lib/registry/download.ts';
import { type LocalAws, startAws } from '../../../local/aws/aws.ts';
import { identityModel, onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';
import { type CliAnswer, MODEL, serviceFolder } from '../cli.ts';
import { runHere } from '../in-process.ts';
import { warmCli, warmCliJson } from '../warm.ts';

const NET = `
name: "tiny"
input: "data"
input_shape { dim: 1 dim: 3 dim: 4 dim: 6 }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE global_pooling: true } }
`;

interface Pushed {
  readonly version: string;
  readonly format: string;
  readonly uploaded: number;
  readonly skipped: number;
  readonly serves: boolean;
  readonly before: string | null;
  readonly verification: Verification;
}

interface Listed {
  readonly versions: readonly {
    readonly version: string;
    readonly format?: string;
    readonly serves: boolean;
    readonly verification?: Verification;
  }[];
}

interface Failed {
  readonly error: string;
  readonly code: string;
}

async function bucket(t: TestContext): Promise<LocalAws> {
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket('models-here');
  return aws;
}

const TO = ['--to', 's3://models-here/jobs/a'];
const LOCATION = { bucket: 'models-here', prefix: 'jobs/a/' };

test('push uploads an ONNX directory and a Caffe one, list tells which serves and what it was, rollback and prune', async (t) => {
  const aws = await bucket(t);
  const cwd = await temporaryFolder(t);
  await mkdir(join(cwd, 'net'));
  await writeFile(join(cwd, 'net', 'deploy.prototxt'), NET);
  const options = { cwd, env: aws.environment };
  const call = async <T>(...args: string[]) =>
    (await warmCliJson(['model', ...args, ...TO], options)) as CliAnswer<T>;

  const onnx = await call<Pushed>('push', MODEL);
  assert.equal(onnx.code, 0, onnx.stderr);
  assert.deepEqual(
    [onnx.json.format, onnx.json.uploaded, onnx.json.serves, onnx.json.before],
    ['onnx', 1, true, null],
  );
  const caffe = await call<Pushed>('push', 'net', '--input', 'data:N,3,8,8', '--accept', 'all');
  assert.equal(caffe.code, 0, caffe.stderr);
  assert.deepEqual([caffe.json.format, caffe.json.before], ['caffe', onnx.json.version]);
  assert.equal((await readPointer(aws.s3, LOCATION)).version, caffe.json.version);
  // Nothing of the import is left beside the model.
  assert.deepEqual(await readdir(cwd), ['net']);

  const { json: listed } = await call<Listed>('list');
  assert.deepEqual(
    listed.versions.map(({ version, format, serves }) => [version, format, serves]),
    [
      [caffe.json.version, 'caffe', true],
      [onnx.json.version, 'onnx', false],
    ],
  );
  const text = await warmCli(['model', 'list', ...TO], options);
  const proven = '  records share runs: the graph shows that none changes the answer of another';
  assert.deepEqual(
    text.stdout.split('\n').map((line) => line.replace(/^\w{12}.*? (onnx|caffe) /, '$1')),
    [text.stdout.split('\n')[0], 'caffe <- serves', proven, 'onnx <- rollback goes here', proven, ''],
  );

  const back = await warmCli(['model', 'rollback', ...TO], options);
  assert.deepEqual(
    [back.code, back.stdout],
    [
      0,
      `version ${onnx.json.version} serves from s3://models-here/jobs/a/ again, instead of ${caffe.json.version}\n`,
    ],
  );
  const none = await call<Failed>('rollback');
  assert.deepEqual([none.code, none.json.code], [1, 'not_found']);

  const asked = await call<Failed>('prune', '--keep', '1');
  assert.deepEqual([asked.code, asked.json.code], [2, 'bad_config']);
  assert.match(
    asked.json.error,
    new RegExp(`deletes 1 of the versions .*: ${caffe.json.version}, .* pass --yes`),
  );
  const pruned = await call<{ deleted: string[] }>('prune', '--keep', '1', '-y');
  assert.deepEqual([pruned.code, pruned.json.deleted], [0, [caffe.json.version]]);
  const objects = await aws.s3.send(new ListObjectsV2Command({ Bucket: 'models-here' }));
  assert.deepEqual(
    objects.Contents?.map(({ Key = '' }) => Key.replace(onnx.json.version, 'V')),
    ['jobs/a/current.json', 'jobs/a/manifests/V.json', 'jobs/a/versions/V/model.onnx'],
  );
});

test('push and list say where the proof of a model ended, and --config whose word counts', async (t) => {
  const aws = await bucket(t);
  const cwd = await temporaryFolder(t);
  const model = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 3] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 3] }],
    nodes: [{ op: 'Softmax', name: 'over rows', inputs: ['x'], outputs: ['y'], attributes: { axis: 0 } }],
  });
  await mkdir(join(cwd, 'mixing'));
  await writeFile(join(cwd, 'mixing', 'model.onnx'), model);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: mixing\nbatching: always\n');
  const options = { cwd, env: aws.environment };
  const line = 'records run one by one: Softmax (node "over rows"): it normalizes along the batch axis';
  const expected = { verdict: 'not proven', operator: 'Softmax', node: 'over rows' };
  const verdictOf = ({ batching }: Verification) => ({
    verdict: batching.verdict,
    operator: batching.operator,
    node: batching.node,
  });

  const pushed = await warmCli(['model', 'push', 'mixing', ...TO], options);
  assert.equal(pushed.stdout.split('\n')[2], line);
  const { json } = (await warmCliJson(['model', 'push', 'mixing', ...TO], options)) as CliAnswer<Pushed>;
  assert.deepEqual(verdictOf(json.verification), expected);
  const listed = (await warmCliJson(['model', 'list', ...TO], options)) as CliAnswer<Listed>;
  assert.deepEqual(verdictOf(listed.json.versions[0]?.verification as Verification), expected);
  assert.equal((await warmCli(['model', 'list', ...TO], options)).stdout.split('\n')[2], `  ${line}`);
  const checked = await warmCli(['model', 'check', 'mixing'], options);
  assert.ok(checked.stdout.includes(`- verification: ${line}\n`), checked.stdout);
  const owned = await warmCli(['model', 'push', 'mixing', '-c', 'config.yaml', ...TO], options);
  assert.match(owned.stdout, /records share runs: batching is set to always, whatever the proof says\n$/);
});

test('an import that uploads stores what it verified', async (t) => {
  const aws = await bucket(t);
  const options = { cwd: await temporaryFolder(t), env: aws.environment };
  const imported = await warmCli(['model', 'import', MODEL, '--out', 'out', ...TO], options);
  assert.equal(imported.code, 0, imported.stderr);
  assert.equal((await readPointer(aws.s3, LOCATION)).verification?.batching.verdict, 'proven');
});

test('a pushed folder says of which format its model was', async (t) => {
  const aws = await bucket(t);
  const cwd = await temporaryFolder(t);
  await mkdir(join(cwd, 'net'));
  await writeFile(join(cwd, 'net', 'deploy.prototxt'), NET);
  assert.equal((await warmCli(['model', 'import', 'net', '--input', 'data:N,3,8,8'], { cwd })).code, 0);
  const options = { cwd, env: aws.environment };
  const { json } = (await warmCliJson(['model', 'push', 'net-onnx', ...TO], options)) as CliAnswer<Pushed>;
  assert.equal(json.format, 'caffe');
});

test('a model that onnxruntime cannot load, or that gives other outputs than its reference, is not uploaded', async (t) => {
  const aws = await bucket(t);
  const cwd = await temporaryFolder(t);
  await mkdir(join(cwd, 'broken'));
  const bytes = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]);
  await writeFile(join(cwd, 'broken', 'model.onnx'), bytes.subarray(0, bytes.length - 20));
  const { code, json } = (await warmCliJson(['model', 'push', 'broken', ...TO], {
    cwd,
    env: aws.environment,
  })) as CliAnswer<Failed>;
  assert.deepEqual([code, json.code], [1, 'bad_model']);
  const file = join(cwd, 'broken', 'model.onnx');
  assert.ok(json.error.startsWith(`${file}: the file is damaged or cut off`), json.error);
  const objects = await aws.s3.send(new ListObjectsV2Command({ Bucket: 'models-here' }));
  assert.deepEqual(objects.Contents ?? [], []);
});

test('without a place it is the service of this folder: --no-activate changes nothing there, a rollback does', async (t) => {
  const cwd = await serviceFolder(t);
  await writeFile(join(cwd, 'config.yaml'), `modelPath: ${MODEL}\nmodelRefreshSeconds: 1\n`);
  const nowhere = (await warmCliJson(['model', 'list'], { cwd })) as CliAnswer<Failed>;
  assert.deepEqual([nowhere.code, nowhere.json.code], [3, 'not_running']);
  const started = (await warmCliJson(['start', '--port', '0'], { cwd })) as CliAnswer<{
    http: string;
    model: string;
  }>;
  assert.equal(started.code, 0, started.stderr);
  const { http, model } = started.json;
  await mkdir(join(cwd, 'other'));
  await writeFile(
    join(cwd, 'other', 'model.onnx'),
    identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]),
  );
  const pushed = (await warmCliJson(['model', 'push', 'other', '--no-activate'], {
    cwd,
  })) as CliAnswer<Pushed>;
  assert.deepEqual([pushed.code, pushed.json.serves, pushed.json.before], [0, false, model], pushed.stderr);
  const served = async () => ((await (await fetch(`${http}/ready`)).json()) as { model: string }).model;
  assert.equal(await served(), model);
  assert.equal((await warmCli(['model', 'rollback', pushed.json.version], { cwd })).code, 0);
  await until(async () => (await served()) === pushed.json.version);
  assert.equal((await warmCli(['model', 'rollback'], { cwd })).code, 0);
  await until(async () => (await served()) === model);
  await warmCli(['stop'], { cwd });
});

const WRONG: readonly (readonly [what: string, args: readonly string[], message: RegExp])[] = [
  ['a push of nothing', ['push', ...TO], /model push: which directory\?/],
  ['a list of a directory', ['list', 'net', ...TO], /model list: unexpected "net"/],
  ['a prune to no number', ['prune', ...TO], /how many versions to keep\? Pass --keep/],
  ['a prune to a wrong one', ['prune', '--keep', '-1', ...TO], /--keep.*(ambiguous|whole number)/s],
  ['an option of another action', ['rollback', '--keep', '3', ...TO], /--keep belongs to model prune/],
  ['an output for a push', ['push', 'net', '--out', 'x', ...TO], /--out belongs to model import/],
  ['two places', ['list', ...TO, '--job', 'a'], /use it without --job/],
  ['a place that is not a bucket', ['list', '--to', '/tmp/x'], /--to: expected s3:\/\/bucket\/prefix/],
  ['a shape for an ONNX model', ['push', MODEL, '--output', 'y', ...TO], /an ONNX model is used unchanged/],
];
for (const [what, args, message] of WRONG) {
  test(`${what} is exit code 2 and says what to do`, async () => {
    const { code, text } = await runHere(['model', ...args]);
    assert.match(text, message);
    assert.equal(code, 2);
  });
}

test("a worker's folder is pushed unchanged, with the job's config, and its options are refused", async (t) => {
  const aws = await bucket(t);
  const cwd = await temporaryFolder(t);
  await mkdir(join(cwd, 'files', 'words'), { recursive: true });
  await writeFile(join(cwd, 'files', 'words', 'faq.json'), '{}');
  // No ONNX files that load, and two of them: only the worker knows what they are.
  for (const name of ['a.onnx', 'b.onnx']) await writeFile(join(cwd, 'files', name), 'none');
  await writeFile(join(cwd, 'config.yaml'), 'worker: { class: server.Worker, modelName: a.onnx }\n');
  const options = { cwd, env: aws.environment };
  const call = async (...args: string[]) =>
    (await warmCliJson(
      ['model', 'push', 'files', '-c', 'config.yaml', ...args, ...TO],
      options,
    )) as CliAnswer<Pushed & Failed>;
  const pushed = await call();
  assert.equal(pushed.code, 0, pushed.stderr);
  const { json } = pushed;
  assert.deepEqual(
    [json.format, json.uploaded, json.serves, json.verification],
    ['worker', 3, true, undefined],
  );
  const { files } = await readPointer(aws.s3, LOCATION, 'server.Worker');
  assert.deepEqual(files.map(({ path }) => path).sort(), ['a.onnx', 'b.onnx', 'words/faq.json']);
  const refused = await call('--input', 'x:N,3');
  assert.equal(refused.code, 2);
  assert.match(refused.stderr + refused.json?.error, /files of a worker are uploaded unchanged/);
});
