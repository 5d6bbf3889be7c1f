/** Models that are named by their address in S3, in the commands that take a model directory. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { readPointer } from '../../lib/registry/download.ts';
import { startAws } from '../../local/aws/aws.ts';
import type { ImportReport } from '../../onnx-import/report/import-report.ts';
import { startHub } from '../support/hub.ts';
import { temporaryFolder } from '../support/runner.ts';
import { type CliAnswer, MODEL } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

const NET = `
name: "tiny"
input: "data"
input_shape { dim: 1 dim: 3 dim: 4 dim: 6 }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE global_pooling: true } }
`;

/** A bucket with a Caffe net below caffe/, and the digits below onnx/; TMPDIR shows what a command leaves behind. */
async function prepared(t: TestContext) {
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log });
  t.after(() => aws.close());
  const cwd = await temporaryFolder(t);
  const TMPDIR = join(cwd, 'tmp');
  await mkdir(TMPDIR);
  await aws.createBucket('their-models');
  const put = (Key: string, Body: Buffer) =>
    aws.s3.send(new PutObjectCommand({ Bucket: 'their-models', Key, Body }));
  await put('caffe/net/deploy.prototxt', Buffer.from(NET));
  const [onnx] = (await readdir(MODEL)).filter((name) => name.endsWith('.onnx'));
  await put('onnx/digits.onnx', await readFile(join(MODEL, onnx as string)));
  return { aws, cwd, TMPDIR, env: { ...aws.environment, TMPDIR } };
}

test('model import and check take a prefix, and write and leave nothing elsewhere', async (t) => {
  const { cwd, TMPDIR, env } = await prepared(t);
  const call = async (...args: string[]) =>
    (await warmCliJson(['model', ...args], { cwd, env })) as CliAnswer<{
      readonly importReport: ImportReport;
    }>;
  const imported = await call('import', 's3://their-models/caffe/net');
  assert.equal(imported.code, 0, imported.stderr);
  assert.equal(imported.json.importReport.source.format, 'caffe');
  assert.ok((await readdir(join(cwd, 'net-onnx'))).includes('model.onnx'));
  const checked = await call('check', 's3://their-models/onnx/digits.onnx');
  assert.equal(checked.code, 0, checked.stderr);
  assert.deepEqual((await readdir(cwd)).sort(), ['net-onnx', 'tmp']);
  assert.deepEqual(await readdir(TMPDIR), []);
});

test('model push takes a prefix, and a single object', async (t) => {
  const { aws, cwd, TMPDIR, env } = await prepared(t);
  for (const [source, format] of [
    ['s3://their-models/caffe/net/', 'caffe'],
    ['s3://their-models/onnx/digits.onnx', 'onnx'],
  ] as const) {
    const args = ['model', 'push', source, '--to', `s3://their-models/served/${format}`];
    const pushed = (await warmCliJson(args, { cwd, env })) as CliAnswer<{ version: string; format: string }>;
    assert.equal(pushed.code, 0, pushed.stderr);
    assert.equal(pushed.json.format, format);
    const location = { bucket: 'their-models', prefix: `served/${format}/` };
    assert.equal((await readPointer(aws.s3, location)).version, pushed.json.version);
  }
  assert.deepEqual(await readdir(TMPDIR), []);
});

test('model import, check and push take a model of the hub, print its commit and download it once', async (t) => {
  const { aws, cwd, TMPDIR, env } = await prepared(t);
  const [onnx] = (await readdir(MODEL)).filter((name) => name.endsWith('.onnx'));
  const hub = await startHub(t, {
    files: { 'onnx/model.onnx': await readFile(join(MODEL, onnx as string)) },
  });
  const call = async (...args: string[]) =>
    (await warmCliJson(['model', ...args], {
      cwd,
      env: { ...env, HF_ENDPOINT: hub.endpoint, HF_TOKEN: 'hf_secret' },
    })) as CliAnswer<{ readonly importReport: ImportReport; readonly version: string }>;
  const imported = await call('import', 'hf://org/name@main');
  assert.equal(imported.code, 0, imported.stderr);
  assert.deepEqual(imported.json.importReport.source.hub, { repo: 'org/name', commit: hub.commit });
  assert.match(imported.stderr, new RegExp(`^note: hf://org/name@main is commit ${hub.commit}$`, 'm'));
  assert.ok((await readdir(join(cwd, 'name-onnx'))).includes('model.onnx'));
  assert.deepEqual(await readdir(join(cwd, '.cluster-serving', 'hub', 'org--name')), [hub.commit]);
  assert.ok((await readdir(join(cwd, '.cluster-serving'))).includes('cluster-serving.txt'));
  const downloads = () => hub.requests.filter(({ path }) => path.includes('/resolve/')).length;
  assert.equal(downloads(), 1);
  const checked = await call('check', `hf://org/name@${hub.commit}`);
  assert.equal(checked.code, 0, checked.stderr);
  const pushed = await call('push', 'hf://org/name', '--to', 's3://their-models/served/h');
  assert.equal(pushed.code, 0, pushed.stderr);
  const location = { bucket: 'their-models', prefix: 'served/h/' };
  assert.equal((await readPointer(aws.s3, location)).version, pushed.json.version);
  assert.equal(downloads(), 1);
  const wrong = await call('import', 'hf://org/nobody');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /hf:\/\/org\/nobody: .*status 404/);
  for (const { stderr } of [imported, checked, pushed, wrong]) assert.ok(!stderr.includes('hf_secret'));
  assert.deepEqual(await readdir(TMPDIR), []);
});

test('errors name the address, never the copy, and golden requests need a directory', async (t) => {
  const { cwd, TMPDIR, env } = await prepared(t);
  const failure = async (...args: string[]) => {
    const { code, stderr } = await warmCli(args, { cwd, env });
    assert.notEqual(code, 0);
    assert.ok(!stderr.includes(TMPDIR), stderr);
    return stderr;
  };
  assert.match(
    await failure('model', 'import', 's3://their-models/caffe', '--file', 'other.onnx'),
    /^error: --file other\.onnx: there is no such model; found /m,
  );
  assert.match(await failure('model', 'check', 's3://nobody-has-it/a'), /there is no bucket nobody-has-it/);
  assert.match(
    await failure('model', 'check', 's3://Wrong/a'),
    /expected s3:\/\/bucket\/prefix, got "s3:\/\/Wrong\/a"/,
  );
  assert.match(await failure('tune', '--model', 's3://nobody-has-it/a'), /there is no bucket nobody-has-it/);
  assert.match(
    await failure('model', 'golden', 'list', 's3://their-models/caffe/net'),
    /model golden list: expected a directory on this machine, got s3:/,
  );
  assert.deepEqual(await readdir(TMPDIR), []);
});

test('without an endpoint that answers, the error names the variable that says where it is', async (t) => {
  const { cwd, env } = await prepared(t);
  // Nobody listens on a port of the system's own.
  const away = { cwd, env: { ...env, AWS_ENDPOINT_URL: 'http://127.0.0.1:1' } };
  const { code, stderr } = await warmCli(['model', 'check', 's3://their-models/onnx'], away);
  assert.equal(code, 1);
  assert.match(
    stderr,
    /s3:\/\/their-models\/onnx: nothing answers at AWS_ENDPOINT_URL, http.*; unset it for Amazon's S3/,
  );
});

test('doctor tells of a model in S3 that it does not look at', async (t) => {
  const { cwd, env } = await prepared(t);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: s3://their-models/onnx\n');
  const { json } = (await warmCliJson(['doctor'], { cwd, env })) as CliAnswer<{
    readonly findings: readonly {
      readonly rule: string;
      readonly found: string;
      readonly severity: string;
    }[];
  }>;
  const [remote] = json.findings.filter(({ rule }) => rule.startsWith('model-'));
  assert.deepEqual(
    [remote?.rule, remote?.found, remote?.severity],
    ['model-remote', 's3://their-models/onnx', 'info'],
  );
});
