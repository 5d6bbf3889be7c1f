/** `cluster-serving model`: what it converts, says, writes, publishes and refuses. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { uploadRefusal } from '../../../cli/upload-refusal.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { readPointer } from '../../../lib/registry/download.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { supportedOpsText } from '../../../onnx-import/formats/supported.ts';
import { GraphBuilder } from '../../../onnx-import/graph/builder.ts';
import type { Value } from '../../../onnx-import/graph/value.ts';
import { onnxBytes } from '../../../onnx-import/onnx/write.ts';
import { convertOptionsOf } from '../../../onnx-import/options.ts';
import type { ImportReport } from '../../../onnx-import/report/import-report.ts';
import type { ImageAdvice } from '../../../release/image-advice.ts';
import { npyBytes } from '../../onnx-import/support/npy-bytes.ts';
import { childEnvironment } from '../../support/environment.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';
import { type CliAnswer, cli, MODEL, ROOT, serviceFolder } from '../cli.ts';
import { warmCli, warmCliJson } from '../warm.ts';

const NET = `
name: "tiny"
input: "data"
input_shape { dim: 1 dim: 3 dim: 4 dim: 6 }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "prob" type: "Softmax" bottom: "pool" top: "prob" }
`;

async function caffeFolder(t: TestContext, net = NET): Promise<string> {
  const cwd = await temporaryFolder(t);
  await mkdir(join(cwd, 'net'));
  await writeFile(join(cwd, 'net', 'deploy.prototxt'), net);
  return cwd;
}

interface ImportAnswer {
  readonly directory: string;
  readonly importReport: ImportReport;
  readonly imageAdvice?: ImageAdvice;
  readonly published?: { readonly to: string; readonly version: string };
}

test('model import makes an ONNX model beside the directory and prints its import report', async (t) => {
  const cwd = await caffeFolder(t);
  const { code, stdout, stderr } = await cli(['model', 'import', 'net'], { cwd });
  assert.equal(code, 0, stderr);
  assert.match(
    stdout,
    /^# Caffe -> model\.onnx\n[\s\S]*- input data: float32 \[N,3,4,6\] \(rows freed by the import, dtype of the format\)\n- output prob: float32/,
  );
  assert.match(stdout, new RegExp(`\nwritten to ${join(cwd, 'net-onnx')}\n$`));
  assert.deepEqual((await readdir(join(cwd, 'net-onnx'))).sort(), [
    'import-report.json',
    'import-report.md',
    'model.onnx',
  ]);
  // Without a terminal nothing is drawn.
  assert.equal(stderr, '');
  assert.deepEqual(await readdir(join(cwd, 'net')), ['deploy.prototxt']);
});

test('--json gives the import report, and what was said of inputs, outputs and place is done', async (t) => {
  const cwd = await caffeFolder(t);
  const { json, code } = (await warmCliJson(
    ['model', 'import', 'net', '--out', 'made/here', '--input', 'data:N,3,8,8', '--output', 'pool'],
    { cwd },
  )) as CliAnswer<ImportAnswer>;
  assert.equal(code, 0);
  assert.equal(json.directory, join(cwd, 'made', 'here'));
  assert.deepEqual(json.importReport.options, {
    inputShapes: { data: ['N', 3, 8, 8] },
    outputNames: ['pool'],
  });
  assert.deepEqual(json.importReport.inputs[0]?.shape, ['N', 3, 8, 8]);
  assert.deepEqual(
    json.importReport.outputs.map(({ name }) => name),
    ['pool'],
  );
  assert.deepEqual(
    json.importReport,
    JSON.parse(await readFile(join(json.directory, 'import-report.json'), 'utf8')),
  );
});

test('model import and check name how images go in, as text and as data, until config.yaml says it', async (t) => {
  const cwd = await caffeFolder(t);
  const { stdout } = await warmCli(['model', 'import', 'net'], { cwd });
  assert.match(stdout, /\nImages go in as BGR 0\.\.255, .*\n\n```yaml\nimage: caffe {2}/);
  const { json } = (await warmCliJson(['model', 'check', 'net'], { cwd })) as CliAnswer<ImportAnswer>;
  assert.match(json.imageAdvice?.text ?? '', /^Images go in as BGR 0\.\.255/);
  const lines = json.imageAdvice?.choices.map(({ config }) => config) ?? [];
  assert.deepEqual([lines[0], lines.at(-1)], ['image: caffe', 'image: {channels: bgr}']);
  for (const line of lines) assert.ok(stdout.includes(`\n${line} `), line);

  await writeFile(join(cwd, 'job.yaml'), 'image: caffe\n');
  const silent = await warmCli(['model', 'import', 'net', '-c', 'job.yaml'], { cwd });
  assert.equal(silent.code, 0, silent.stderr);
  assert.doesNotMatch(silent.stdout, /Images go in/);
  const args = ['model', 'check', 'net', '-c', 'job.yaml'];
  const checked = (await warmCliJson(args, { cwd })) as CliAnswer<ImportAnswer>;
  assert.deepEqual([checked.code, checked.json.imageAdvice], [0, undefined]);
});

test('model check says the same and writes nothing', async (t) => {
  const cwd = await caffeFolder(t);
  const { code, stdout } = await warmCli(['model', 'check', 'net'], { cwd });
  assert.equal(code, 0);
  assert.match(stdout, /^# Caffe -> model\.onnx/);
  assert.doesNotMatch(stdout, /written to/);
  assert.deepEqual(await readdir(cwd), ['net']);
});

test('model check of a model that could not be run is exit code 1, unless its reference was met', async (t) => {
  const cwd = await temporaryFolder(t);
  await mkdir(join(cwd, 'net'));
  const bytes = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 'M'] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: [1, 7, 11] }],
    weights: [{ name: 's', dtype: 'int64', shape: [3], data: BigInt64Array.of(1n, 7n, 11n) }],
    nodes: [{ op: 'Reshape', inputs: ['x', 's'], outputs: ['y'] }],
  });
  await writeFile(join(cwd, 'net', 'model.onnx'), bytes);
  const { code, json, stderr } = (await warmCliJson(['model', 'check', 'net'], {
    cwd,
  })) as CliAnswer<ImportAnswer>;
  assert.deepEqual([code, json.importReport.check.runs], [1, false]);
  assert.equal(json.importReport.measured.lambda.fits, null);
  assert.match(stderr, /^not verified: the model was not run/);
  await mkdir(join(cwd, 'ref'));
  for (const [name, shape] of [
    ['in', [7, 11]],
    ['out', [1, 7, 11]],
  ] as const) {
    await writeFile(join(cwd, 'ref', `${name}.npy`), npyBytes([...shape], new Float32Array(77)));
  }
  const met = await warmCli(['model', 'check', 'net', '--reference', 'ref'], { cwd });
  assert.equal(met.code, 0, met.stderr);
});

for (const [signal, exit] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  test(`${signal} during an import is one line, exit code ${exit}, and leaves nothing behind`, async (t) => {
    const cwd = await temporaryFolder(t);
    await mkdir(join(cwd, 'net'));
    await writeFile(join(cwd, 'net', 'model.onnx'), endlessModel());
    const bin = join(ROOT, 'cli', 'bin', 'cluster-serving.mjs');
    const child = spawn(process.execPath, [bin, 'model', 'import', 'net'], {
      cwd,
      env: childEnvironment(),
    });
    t.after(() => child.kill('SIGKILL'));
    const ended = Promise.all([once(child, 'close'), textOf(child.stderr), textOf(child.stdout)]);
    await until(async () => (await readdir(cwd)).some((name) => name.includes('.partial-')));
    child.kill(signal);
    const [[code, by], stderr, stdout] = await ended;
    assert.deepEqual([code, by, stdout], [exit, null, '']);
    assert.equal(stderr, 'error: interrupted; the import was called off\n');
    assert.deepEqual(await readdir(cwd), ['net']);
  });
}

/** A loop whose condition stays true. */
function endlessModel(): Uint8Array {
  const builder = new GraphBuilder();
  const x = builder.input('x', 'float32', [1]);
  const body = builder.body();
  body.input('step', 'int64', []);
  const again = body.input('again', 'bool', []);
  const before = body.input('value', 'float32', [1]);
  body.output('again', again);
  body.output('value', body.one('Neg', [before]));
  const [truth] = builder.add('Reshape', [builder.one('Equal', [x, x]), builder.ints([])]);
  const results = [{ dtype: 'float32', shape: [1] }] as const;
  const inner = { body: { body: body.finish() } };
  builder.output('y', builder.add('Loop', [undefined, truth, x], inner, { results })[0] as Value);
  return onnxBytes(builder.finish());
}

test('-c takes the section import of a config.yaml, and what the line says comes before it', async (t) => {
  const cwd = await caffeFolder(t);
  const section = 'import:\n  inputs: {data: [N, 3, 8, 8]}\n  outputs: [pool]\n';
  await writeFile(join(cwd, 'job.yaml'), section);
  const args = ['model', 'import', 'net', '-c', 'job.yaml', '--output', 'prob'];
  const { json, code, stderr } = (await warmCliJson(args, { cwd })) as CliAnswer<ImportAnswer>;
  assert.equal(code, 0, stderr);
  assert.deepEqual(json.importReport.options, {
    inputShapes: { data: ['N', 3, 8, 8] },
    outputNames: ['prob'],
  });
});

test('every layer that cannot be converted is named in one error, and nothing is left behind', async (t) => {
  const net = `${NET}
layer { name: "odd" type: "Mystery" bottom: "prob" top: "odd" }
layer { name: "odder" type: "Python" bottom: "odd" top: "odder" }
`;
  const cwd = await caffeFolder(t, net);
  const { code, json, stderr } = (await warmCliJson(['model', 'import', 'net'], { cwd })) as CliAnswer<{
    error: string;
    code: string;
  }>;
  assert.deepEqual([code, json.code], [1, 'bad_model']);
  assert.match(json.error, /deploy\.prototxt: 2 nodes cannot be converted:\n.*"odd".*\n.*"odder"/);
  assert.equal(stderr, `error: ${json.error}\n`);
  assert.deepEqual(await readdir(cwd), ['net']);
});

test('--to uploads the model and promotes it, and twice the same model is one version', async (t) => {
  const cwd = await caffeFolder(t);
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket('models-here');
  const args = ['model', 'import', 'net', '--to', 's3://models-here/jobs/a'];
  const versions: (string | undefined)[] = [];
  for (let i = 0; i < 2; i++) {
    const { json, code, stderr } = (await warmCliJson(args, {
      cwd,
      env: aws.environment,
    })) as CliAnswer<ImportAnswer>;
    assert.equal(code, 0, stderr);
    assert.equal(json.published?.to, 's3://models-here/jobs/a/');
    versions.push(json.published?.version);
  }
  const pointer = await readPointer(aws.s3, { bucket: 'models-here', prefix: 'jobs/a/' });
  assert.deepEqual(versions, [pointer.version, pointer.version]);
  assert.deepEqual(
    pointer.files.map(({ path }) => path),
    ['model.onnx'],
  );
});

const NO_ACCOUNT = { AWS_EC2_METADATA_DISABLED: 'true' };

test('--to without region, credentials or bucket says what to set and where the model lies', async (t) => {
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  const home = await temporaryFolder(t);
  const alone = { ...NO_ACCOUNT, HOME: home };
  const there = { ...alone, AWS_ENDPOINT_URL: aws.url };
  const cases: readonly (readonly [Readonly<Record<string, string>>, RegExp])[] = [
    [alone, /no region is set: AWS_REGION/],
    [{ ...there, AWS_REGION: 'eu-west-1' }, /no AWS credentials were found: AWS_PROFILE/],
    [{ ...alone, ...aws.environment }, /there is no bucket nobody-has-it; --to or --bucket names it/],
  ];
  for (const [env, message] of cases) {
    const cwd = await caffeFolder(t);
    const { code, stderr } = await warmCli(['model', 'import', 'net', '--to', 's3://nobody-has-it/a'], {
      cwd,
      env,
    });
    assert.equal(code, 2, stderr);
    assert.match(stderr, message);
    assert.match(stderr, /^error: the model was not uploaded to s3:\/\/nobody-has-it\/a\/: [^\n]*\n$/);
    assert.ok(stderr.includes(`The converted model lies in ${join(cwd, 'net-onnx')}`), stderr);
    assert.ok(existsSync(join(cwd, 'net-onnx', 'model.onnx')));
  }
});

test('a refusal of S3 is reported as a missing permission, never as a defect of this program', () => {
  const location = { bucket: 'bucket', prefix: 'a/' };
  const place = { location, endpoint: undefined, region: undefined, text: 's3://bucket/a/' };
  const denied = Object.assign(new Error('UnknownError'), {
    name: '403',
    $metadata: { httpStatusCode: 403 },
  });
  const wrapped = new ServingError('model_unavailable', 's3://bucket/a/: UnknownError', { cause: denied });
  for (const error of [denied, wrapped]) {
    const { code, message } = uploadRefusal(error, place, '/made');
    assert.equal(code, 'bad_config');
    assert.match(
      message,
      /access denied; these credentials need s3:GetObject.* on s3:\/\/bucket\/a\/\. .* lies in \/made/,
    );
  }
  const reset = uploadRefusal(new Error('read ECONNRESET'), place, '/made');
  assert.equal(reset.code, 'model_unavailable');
  const conflict = new ServingError('conflict', 'version b was made to serve in the meantime');
  assert.equal(uploadRefusal(conflict, place, '/made').code, 'conflict');
});

test('--job publishes for a job of the local service, which takes the model over', async (t) => {
  const cwd = await serviceFolder(t);
  await mkdir(join(cwd, 'net'));
  await writeFile(join(cwd, 'net', 'deploy.prototxt'), NET);
  await writeFile(join(cwd, 'config.yaml'), `modelPath: ${MODEL}\nmodelRefreshSeconds: 1\n`);
  const { code, stdout, stderr } = await warmCli(['start', '--port', '0'], { cwd });
  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stdout, /imported/);
  const args = ['model', 'import', 'net', '--job', 'serving_stream', '--accept', 'all'];
  const { json } = (await warmCliJson(args, { cwd })) as CliAnswer<ImportAnswer>;
  assert.equal(json.published?.to, 's3://cluster-serving/models/serving_stream/');
  const url = /ready (\S+)/.exec(stdout)?.[1] as string;
  const ready = async () => (await (await fetch(`${url}/ready`)).json()) as { model: string };
  await until(async () => (await ready()).model === json.published?.version);
  // The channels' means: another model than that of the digits, which has 10 outputs.
  const instance = {
    data: new Array(3).fill(0).map(() => new Array(4).fill(0).map(() => new Array(6).fill(1))),
  };
  await until(async () => {
    const response = await fetch(`${url}/predict`, {
      method: 'POST',
      body: JSON.stringify({ instances: [instance] }),
    });
    return response.status === 200 && (await response.text()).includes('"shape\\\":[3');
  });
  await warmCli(['stop'], { cwd });
});

test('model ops lists what the converters know, and docs/reference/operators.md holds the same list', async () => {
  const { json, code } = (await warmCliJson(['model', 'ops'])) as CliAnswer<
    Record<'bigdl' | 'caffe' | 'openvino' | 'tensorflow' | 'pytorch' | 'xgboost' | 'lightgbm', string[]>
  >;
  assert.equal(code, 0);
  assert.ok(json.caffe.includes('Convolution') && json.caffe.includes('Input'));
  assert.ok(json.bigdl.includes('SpatialConvolution') && json.bigdl.includes('Recurrent'));
  assert.ok(json.tensorflow.includes('Conv2D') && json.tensorflow.includes('While'));
  assert.ok(json.pytorch.includes('conv2d') && json.pytorch.includes('lstm'));
  const document = await readFile(join(ROOT, 'docs/reference/operators.md'), 'utf8');
  assert.ok(document.includes(supportedOpsText(json)), 'npm run docs writes the list');
});

test('an ONNX directory is checked and copied', async (t) => {
  const cwd = await temporaryFolder(t);
  const { json, code } = (await warmCliJson(['model', 'import', MODEL, '--out', 'copy'], {
    cwd,
  })) as CliAnswer<ImportAnswer>;
  assert.equal(code, 0);
  assert.equal(json.importReport.source.format, 'onnx');
  assert.ok(existsSync(join(cwd, 'copy', 'model.onnx')));
});

const WRONG: readonly (readonly [what: string, args: readonly string[], message: RegExp])[] = [
  [
    'no action',
    [],
    /expected import, check, push, diff, replay, golden, list, trial, promote, rollback, prune or ops, got nothing/,
  ],
  ['an action there is not', ['export', 'net'], /prune or ops, got "export"/],
  ['no directory', ['import'], /model import: which directory\?/],
  ['two directories', ['import', 'net', 'net2'], /unexpected "net2"/],
  [
    'an input that is none',
    ['import', 'net', '--input', 'data:1,x y'],
    /--input: expected name or name:shape/,
  ],
  ['an input twice', ['import', 'net', '--input', 'a:1,2', '--input', 'a'], /--input: "a" is given twice/],
  [
    'a constant that is none',
    ['import', 'net', '--constant', 'keep_prob'],
    /--constant: expected name=number/,
  ],
  [
    'an input with an empty shape',
    ['import', 'net', '--input', 'data:'],
    /--input: expected name or name:shape/,
  ],
  [
    'an output twice',
    ['import', 'net', '--output', 'prob', '--output', 'prob'],
    /--output: "prob" is given twice/,
  ],
  ['a tolerance of nothing', ['check', 'net', '--tolerance', '1'], /--tolerance goes with --reference/],
  [
    'a signature of a Caffe model',
    ['check', 'net', '--signature', 'foo'],
    /signature: no effect; only a SavedModel of TensorFlow has it/,
  ],
  [
    'a tolerance that is none',
    ['import', 'net', '--tolerance=-1', '--reference', 'net'],
    /--tolerance: expected a number >= 0/,
  ],
  [
    'an address that is not a bucket',
    ['import', 'net', '--to', '/tmp/x'],
    /--to: expected s3:\/\/bucket\/prefix/,
  ],
  ['two places', ['import', 'net', '--to', 's3://abc', '--job', 'a'], /use it without --job/],
  ['a job without a service', ['import', 'net', '--job', 'a'], /no local service runs here; --bucket/],
  ['a place for a check', ['check', 'net', '--out', 'x'], /model check writes nothing; --out/],
  [
    'the source as output',
    ['import', 'net', '--out', 'net'],
    /expected a directory apart from the model's own/,
  ],
];
for (const [what, args, message] of WRONG) {
  test(`${what} is exit code 2 and says what to do`, async (t) => {
    const cwd = await caffeFolder(t);
    const { code, stderr } = await warmCli(['model', ...args], { cwd });
    assert.equal(code, 2, stderr);
    assert.match(stderr, message);
    assert.deepEqual(await readdir(cwd), ['net']);
  });
}

test('names that hold a colon stay whole, and shapes may be written in several ways', () => {
  const input = (...texts: string[]) => convertOptionsOf({ input: texts });
  assert.deepEqual(input('x:0'), { inputNames: ['x:0'] });
  assert.deepEqual(input('x:0:1,224,224,3'), { inputShapes: { 'x:0': [1, 224, 224, 3] } });
  assert.deepEqual(input('x:[?, -1, 3]'), { inputShapes: { x: ['N', 'size1', 3] } });
  assert.deepEqual(input('x:N,T'), { inputShapes: { x: ['N', 'T'] } });
  assert.deepEqual(input('x:[]'), { inputShapes: { x: [] } });
  assert.deepEqual(input('a:1,2', 'b'), { inputShapes: { a: [1, 2] }, inputNames: ['a', 'b'] });
  assert.deepEqual(convertOptionsOf({}), {});
  assert.deepEqual(convertOptionsOf({ constant: ['a/keep_prob:0=1', 'b=-2.5e1'] }), {
    constants: { 'a/keep_prob:0': 1, b: -25 },
  });
});
