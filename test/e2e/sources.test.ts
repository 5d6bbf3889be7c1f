/** A job whose modelPath is an address in S3, where MLflow keeps a model: records give its columns by name. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { startAws } from '../../local/aws/aws.ts';
import { modelHere } from '../../local/service/model.ts';
import { parseConfig } from '../support/config.ts';
import { useAws } from '../support/environment.ts';
import { startHub } from '../support/hub.ts';
import { identityModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';

const ADDRESS = 's3://mlflow/1/run/artifacts/model';
const MLMODEL = `
flavors:
  onnx: {code: null, data: model.onnx, onnx_version: 1.15.0}
  python_function: {data: model.onnx, loader_module: mlflow.onnx}
signature:
  inputs: '[{"type": "double", "name": "age"}, {"type": "double", "name": "fare"}]'
`;

test('a job serves a directory of MLflow from S3, and the next start what is there then', async (t) => {
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const theirs = await startAws({ port: 0, log });
  t.after(() => theirs.close());
  useAws(theirs.environment);
  await theirs.createBucket('mlflow');
  const put = (name: string, Body: Uint8Array) =>
    theirs.s3.send(new PutObjectCommand({ Bucket: 'mlflow', Key: `1/run/artifacts/model/${name}`, Body }));
  await put('MLmodel', Buffer.from(MLMODEL));
  await put('conda.yaml', Buffer.from('name: x'));
  await put('model.onnx', identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]));
  const dataDir = await temporaryFolder(t);
  const config = `modelPath: ${ADDRESS}`;
  const { url } = await testStack(t, { config, modelDirectory: ADDRESS, dataDir });
  const answer = await fetch(`${url}/predict`, {
    method: 'POST',
    body: '{"instances": [{"fare": 7.5, "age": 3}]}',
  });
  assert.equal(answer.status, 200);
  assert.match(await answer.text(), /3\.0,7\.5/);

  const job = parseConfig(config, 'test config');
  const copied = join(dataDir, 'copied', job.jobName);
  const [first] = await readdir(copied);
  const told: string[] = [];
  const tell = (line: string) => told.push(line);
  assert.equal(await modelHere(job, ADDRESS, dataDir, { tell }), join(copied, first as string));
  assert.deepEqual(told, []);
  await put('readme.txt', Buffer.from('new'));
  // A service that still runs keeps its copy until the next one has its own.
  await modelHere(job, ADDRESS, dataDir, { tell });
  assert.equal((await readdir(copied)).length, 2);
  assert.match(told.at(-1) ?? '', /^job serving_stream: copying s3:\/\/mlflow\/.*: 0\.0 of 0\.0 MB$/);
  await modelHere(job, ADDRESS, dataDir, { tell, prunes: true });
  assert.deepEqual((await readdir(copied)).length, 1);
  await assert.rejects(modelHere(job, 's3://nobody-has-it/x', dataDir), {
    code: 'bad_config',
    message: /^job serving_stream: s3:\/\/nobody-has-it\/x: there is no bucket nobody-has-it/,
  });
});

test('a job serves a model of the hub, whose commit the log has', async (t) => {
  const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
  const hub = await startHub(t, { files: { 'model.onnx': model } });
  const before = process.env['HF_ENDPOINT'];
  process.env['HF_ENDPOINT'] = hub.endpoint;
  t.after(() => {
    if (before === undefined) delete process.env['HF_ENDPOINT'];
    else process.env['HF_ENDPOINT'] = before;
  });
  const dataDir = await temporaryFolder(t);
  const config = 'modelPath: hf://org/name';
  const { url } = await testStack(t, { config, modelDirectory: 'hf://org/name', dataDir });
  const answer = await fetch(`${url}/predict`, { method: 'POST', body: '{"instances": [{"x": [1, 2]}]}' });
  assert.equal(answer.status, 200);
  const told: string[] = [];
  const tell = (line: string) => told.push(line);
  const job = parseConfig(config, 'test config');
  const folder = await modelHere(job, 'hf://org/name', dataDir, { tell, prunes: true });
  assert.equal(folder, join(dataDir, 'hub', 'org--name', hub.commit));
  assert.deepEqual(told, [`job serving_stream: hf://org/name is commit ${hub.commit}`]);
});
