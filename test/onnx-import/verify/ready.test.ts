/** What is tried before it is uploaded: a model that never gets ready must not reach anybody who serves. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import type { ServingError } from '../../../lib/contract/errors.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { startStack } from '../../../local/service/stack.ts';
import { verifyVersion } from '../../../release/version.ts';
import { strictStore } from '../../lib/registry/publish-store.ts';
import { parseConfig } from '../../support/config.ts';
import { endlessModel } from '../../support/endless.ts';
import { models } from '../../support/models.ts';
import { identityModel, onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const plainModel = () => identityModel([{ name: 'x', dtype: 'float32', shape: ['N'] }]);
/** Of a model that ends. */
const OPTIONS = { job: DEFAULT_JOB, process: models };
/** What ends takes longer than this now and then; only what does not end is given so little. */
const SHORT_MS = 300;
/** Long enough for the process to load and to run the model, which only one test needs. */
const RUNNING_MS = 2_000;
const never = (ms: number) => ({
  code: 'bad_model',
  message: new RegExp(`model\\.onnx: the model was not ready after ${ms / 1000} s; .* may never end$`),
});

async function folderOf(t: TestContext, bytes: Uint8Array): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), bytes);
  return folder;
}

test('a model that never ends on the zeros of its warm-up is refused', async (t) => {
  const folder = await folderOf(t, endlessModel());
  await assert.rejects(
    verifyVersion(join(folder, 'model.onnx'), { job: DEFAULT_JOB, readyMs: RUNNING_MS }),
    never(RUNNING_MS),
  );
});

test('a model that gets ready is not refused, and one that does not open is, by its own name and with advice', async (t) => {
  await verifyVersion(join(await folderOf(t, plainModel()), 'model.onnx'), OPTIONS);
  for (const bytes of [Buffer.from('no model'), Buffer.from(plainModel()).subarray(0, -9)]) {
    const file = join(await folderOf(t, bytes), 'model.onnx');
    await assert.rejects(verifyVersion(file, OPTIONS), {
      code: 'bad_model',
      message: `onnxruntime cannot load the model: Load model from ${file} failed:Protobuf parsing failed. (the file is damaged or cut off, or no ONNX model: fetch it again, or export it again)`,
    });
  }
});

test('a model that opens for more than half of the time of a function is refused for a deployment, and served here', async (t) => {
  const file = join(await folderOf(t, plainModel()), 'model.onnx');
  const job = { ...DEFAULT_JOB, function: { ...DEFAULT_JOB.function, timeoutSeconds: 0.0001 } };
  await assert.rejects(verifyVersion(file, { ...OPTIONS, job, isDeployed: true }), {
    code: 'bad_model',
    message:
      /model\.onnx: opening the model took [\d.]+ s here; expected at most 0\.0000500 s, half of function\.timeoutSeconds, .* set function\.timeoutSeconds to \d+ or more/,
  });
  await verifyVersion(file, { ...OPTIONS, job });
  await verifyVersion(file, { ...OPTIONS, isDeployed: true });
});

test('a model that onnxruntime takes and we do not serve is refused by the name of its file', async (t) => {
  const constant = onnxModel({
    inputs: [],
    outputs: [{ name: 'y', dtype: 'float32', shape: [1] }],
    nodes: [{ op: 'Identity', inputs: ['w'], outputs: ['y'] }],
    weights: [{ name: 'w', dtype: 'float32', shape: [1], data: Float32Array.of(1) }],
  });
  const file = join(await folderOf(t, constant), 'model.onnx');
  const message = `${file}: the model has no inputs`;
  await assert.rejects(verifyVersion(file, OPTIONS), { code: 'bad_model', message });
});

test('a version that never gets ready is not uploaded, and what served before serves on', async (t) => {
  const { s3, objects } = await strictStore(t);
  const location = { bucket: 'bucket', prefix: 'models/job/' };
  const good = await publishModel(s3, location, await folderOf(t, plainModel()));
  const before = new Map(objects);
  const verify = (file: string) => verifyVersion(file, { job: DEFAULT_JOB, readyMs: SHORT_MS });
  await assert.rejects(
    publishModel(s3, location, await folderOf(t, endlessModel()), { verify }),
    never(SHORT_MS),
  );
  assert.deepEqual(objects, before);
  assert.match(String(objects.get('models/job/current.json')), new RegExp(good.version));
});

async function starting(t: TestContext, modelDirectory: string, readyMs?: number): Promise<void> {
  const stack = await startStack({
    jobs: [{ job: parseConfig('', 'test config'), modelDirectory }],
    dataDir: await temporaryFolder(t),
    ports: { http: 0, aws: 0, redis: 0 },
    ...(readyMs === undefined ? { modelProcess: models } : { readyMs }),
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  });
  t.after(() => stack.close());
}

test('the local stack refuses to start with a model that never gets ready', async (t) => {
  await assert.rejects(starting(t, await folderOf(t, endlessModel()), SHORT_MS), never(SHORT_MS));
});

test('the local stack that refuses a damaged model names the file of the person, not its own copy', async (t) => {
  const folder = await folderOf(t, Buffer.from(plainModel()).subarray(0, -9));
  await assert.rejects(starting(t, folder), (error: ServingError) => {
    assert.ok(error.message.includes(`from ${join(folder, 'model.onnx')} failed`), error.message);
    assert.match(error.message, /damaged or cut off, or no ONNX model/);
    return true;
  });
});

test('a start with settings that no request fits is refused, for a version that served before too', async (t) => {
  const port = (name: string) => ({ name, dtype: 'string' as const, shape: ['N', 2] });
  const folder = await folderOf(t, identityModel([port('x')]));
  const dataDir = await temporaryFolder(t);
  const start = async (config: string) => {
    const stack = await startStack({
      jobs: [{ job: parseConfig(config, 'test config'), modelDirectory: folder }],
      dataDir,
      ports: { http: 0, aws: 0, redis: 0 },
      modelProcess: models,
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    });
    await stack.close();
  };
  await start('');
  await assert.rejects(start('postProcessing: topN(1)'), /no request reaches the model: .*topN cannot order/);
  await start('');
});
