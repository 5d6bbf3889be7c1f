/** What is tried before it is uploaded: a model that never gets ready must not reach anybody who serves. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parseConfig } from '../../lib/config/file.ts';
import { publishModel } from '../../lib/model/publish.ts';
import { tryModel } from '../../lib/model/trial.ts';
import { startStack } from '../../local/stack.ts';
import { endlessModel, loopModel } from '../support/endless.ts';
import { identityModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { strictStore } from './publish-store.ts';

const SETTINGS = { threads: 1, batchSize: 32, inputAlreadyBatched: false, image: {} };
const plainModel = () => identityModel([{ name: 'x', dtype: 'float32', shape: ['N'] }]);
/** What ends takes longer than this now and then; only what does not end is given so little. */
const SHORT_MS = 2_000;
const NEVER = {
  code: 'bad_model',
  message: /model\.onnx: the model was not ready after 2 s; .* may never end$/,
};

async function folderOf(t: TestContext, bytes: Uint8Array): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), bytes);
  return folder;
}

test('a model that never ends on the zeros of its warm-up is refused', async (t) => {
  const folder = await folderOf(t, endlessModel());
  await assert.rejects(
    tryModel(join(folder, 'model.onnx'), { settings: SETTINGS, limitMs: SHORT_MS }),
    NEVER,
  );
});

test('a model that gets ready is not refused, nor is one that does not open: who opens it next says why', async (t) => {
  for (const bytes of [loopModel(), Buffer.from('no model')]) {
    await tryModel(join(await folderOf(t, bytes), 'model.onnx'), { settings: SETTINGS });
  }
});

test('a version that fails its trial is not uploaded, and what served before serves on', async (t) => {
  const { s3, objects } = await strictStore(t);
  const location = { bucket: 'bucket', prefix: 'models/job/' };
  const good = await publishModel(s3, location, await folderOf(t, plainModel()));
  const before = new Map(objects);
  const trial = (file: string) => tryModel(file, { settings: SETTINGS, limitMs: SHORT_MS });
  await assert.rejects(publishModel(s3, location, await folderOf(t, endlessModel()), { trial }), NEVER);
  assert.deepEqual(objects, before);
  assert.match(String(objects.get('models/job/current.json')), new RegExp(good.version));
});

test('only a version that is new to the store is tried', async (t) => {
  const { s3 } = await strictStore(t);
  const location = { bucket: 'bucket', prefix: 'models/job/' };
  const [one, two] = [await folderOf(t, plainModel()), await folderOf(t, loopModel())];
  const tried: string[] = [];
  const trial = async (file: string) => void tried.push(file);
  for (const folder of [one, one, two, one]) await publishModel(s3, location, folder, { trial });
  assert.deepEqual(tried, [join(one, 'model.onnx'), join(two, 'model.onnx')]);
});

test('the local stack refuses to start with a model that never gets ready', async (t) => {
  const dataDir = await temporaryFolder(t);
  const starting = startStack({
    jobs: [{ job: parseConfig('', 'test config'), modelDirectory: await folderOf(t, endlessModel()) }],
    dataDir,
    ports: { http: 0, aws: 0, redis: 0 },
    modelTrialMs: SHORT_MS,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  });
  t.after(async () => (await starting.catch(() => undefined))?.close());
  await assert.rejects(starting, NEVER);
});
