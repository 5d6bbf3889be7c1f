/** A deployment of a job whose model directory is not ONNX: the import is what is published. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { publishJob } from '../../../infra/publish.ts';
import { readPointer } from '../../../lib/registry/download.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { temporaryFolder } from '../../support/runner.ts';

const NET = `
input: "data"
input_shape { dim: 1 dim: 3 dim: 4 dim: 6 }
layer { name: "prob" type: "Softmax" bottom: "data" top: "prob" }
`;

test('a Caffe directory is imported once and its ONNX model serves, without the import report', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'model'));
  await writeFile(join(root, 'model', 'deploy.prototxt'), NET);
  await writeFile(join(root, 'config.yaml'), 'jobName: foreign\n');
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket('bucket');
  const { url: endpoint, region, credentials } = aws;
  const client = { endpoint, region, credentials, forcePathStyle: true };
  const publish = () => publishJob({ root, config: undefined, bucket: 'bucket', client });
  const first = await publish();
  assert.equal(first.directory, join(root, 'model'));
  assert.match(first.notes[0] as string, /^Caffe model .*model: imported in /);
  const second = await publish();
  assert.match(second.notes[0] as string, /taken from an earlier import/);
  assert.equal(second.version, first.version);
  const pointer = await readPointer(aws.s3, { bucket: 'bucket', prefix: 'models/foreign/' });
  assert.deepEqual([pointer.version, pointer.files.map(({ path }) => path)], [first.version, ['model.onnx']]);
  assert.deepEqual(await readdir(join(root, 'model')), ['deploy.prototxt']);
  assert.ok(existsSync(join(root, 'node_modules', '.cache', 'cluster-serving', 'imported')));
});
