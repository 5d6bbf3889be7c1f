import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { openModel, readyModel } from '../../../lib/compose/model.ts';
import { Scope } from '../../../lib/compose/scope.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';
import {
  ANALYSER_VERSION,
  type BatchingChoice,
  type Verification,
} from '../../../lib/contract/verification.ts';
import { RUNTIME } from '../../../lib/inference/session.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { useAws } from '../../support/environment.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('a model that cannot be loaded does not keep a function from starting: its requests get the error', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  useAws({ AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x', AWS_REGION: 'local' });
  // Nothing listens there.
  const variables = { AWS_ENDPOINT_URL: 'http://127.0.0.1:9', CLUSTER_SERVING_BUCKET: 'models' };
  const model = await new Scope(readEnvironment(variables)).get(readyModel);
  await assert.rejects(
    model.use(async () => undefined),
    { code: 'model_unavailable' },
  );
});

test('records of the queue that bind by position are one line of the log for each version of a model', async (t) => {
  const lines: string[] = [];
  t.mock.method(process.stdout, 'write', (line: string) => lines.push(line) > 0);
  const aws = await startAws({ port: 0, log: { info() {}, warn() {}, error() {} } });
  t.after(() => aws.close());
  await aws.createBucket('models');
  useAws(aws.environment);
  const s3 = openS3({ endpoint: aws.url, region: aws.region });
  t.after(() => s3.destroy());
  const folder = await temporaryFolder(t);
  const columns = ['age', 'fare'].map((name) => ({ name, dtype: 'float32' as const, shape: ['N', 1] }));
  await writeFile(join(folder, 'model.onnx'), identityModel(columns));
  const location = { bucket: 'models', prefix: 'models/job/' };
  await publishModel(s3, location, folder, {});
  const model = openModel({
    s3,
    location,
    directory: await temporaryFolder(t),
    settings: { threads: 1, batchSize: 1, inputAlreadyBatched: false, image: {} },
    refreshMs: 60_000,
    now: Date.now,
    onError: (error) => assert.fail(error),
  });
  t.after(() => model.close());
  const asked = (text: string) => decodeInstances(text, undefined, 'position');
  const run = (text: string, failFast = false) =>
    model.use((runner) => runner.run(asked(text), { failFast }));
  await run('{"instances":[{"fare":[1],"age":[2]}]}');
  // A request says itself that it binds so.
  await run('{"instances":[{"p":[1],"q":[2]}]}', true);
  const warnings = () => lines.filter((line) => line.includes('bind in their order'));
  assert.deepEqual(warnings(), []);
  for (let i = 0; i < 3; i++) await run('{"instances":[{"p":[1],"q":[2]}]}');
  assert.equal(warnings().length, 1);
  assert.match(warnings()[0] ?? '', /"warn".*bind in their order.*send them as \\"age\\", \\"fare\\"/);
});

test('a version that was not verified for this job, or on another processor, is one line of the log', async (t) => {
  const lines: string[] = [];
  t.mock.method(process.stdout, 'write', (line: string) => lines.push(line) > 0);
  const aws = await startAws({ port: 0, log: { info() {}, warn() {}, error() {} } });
  t.after(() => aws.close());
  await aws.createBucket('models');
  useAws(aws.environment);
  const s3 = openS3({ endpoint: aws.url, region: aws.region });
  t.after(() => s3.destroy());
  const folder = await temporaryFolder(t);
  await writeFile(
    join(folder, 'model.onnx'),
    identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]),
  );
  const location = { bucket: 'models', prefix: 'models/job/' };
  const proven: Verification = {
    batching: { verdict: 'proven', analyser: ANALYSER_VERSION },
    runtime: { ...RUNTIME, level: 'all', disabledOptimizers: [] },
    comparison: 'agrees',
  };
  const linesOf = async (stored: Verification | undefined, choice: BatchingChoice, batchSize = 32) => {
    lines.length = 0;
    await publishModel(s3, location, folder, stored ? { verify: async () => stored } : {});
    const model = openModel({
      s3,
      location,
      directory: await temporaryFolder(t),
      settings: { threads: 1, batchSize, inputAlreadyBatched: false, image: {}, ...choice },
      refreshMs: 60_000,
      now: Date.now,
      onError: (error) => assert.fail(error),
    });
    await model.ready();
    await model.close();
    return [...lines];
  };
  const warningsOf = async (...choice: Parameters<typeof linesOf>) =>
    (await linesOf(...choice)).filter((line) => line.includes('records run one by one'));
  const [line, ...others] = await warningsOf(undefined, {});
  assert.match(line ?? '', /"warn".*model push/i);
  assert.deepEqual(others, []);
  assert.deepEqual(await warningsOf(undefined, { batching: 'never' }), []);
  assert.deepEqual(await warningsOf(undefined, {}, 1), []);
  assert.deepEqual(await warningsOf(proven, {}), []);
  assert.equal((await warningsOf(proven, { batchAxes: { x: 1 } })).length, 1);
  // The proof holds on every processor; what onnxruntime makes of quantized nodes does not.
  const elsewhere = { ...proven, runtime: { ...proven.runtime, features: ['other'] } };
  assert.deepEqual(await linesOf(proven, {}), []);
  const [elsewhereLine, ...more] = await linesOf(elsewhere, {});
  assert.match(
    elsewhereLine ?? '',
    /"warn".*quantized nodes run without.*verified with .* with other, and this is/,
  );
  assert.deepEqual(more, []);
});
