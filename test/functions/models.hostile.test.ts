/** A directory that holds no model that can serve is refused when it is opened, and the process lives on. */
import assert from 'node:assert/strict';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openOnnx } from '../../lib/compose/onnx.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { temporaryFolder } from '../support/runner.ts';
import { modelBytes } from './hostile/models.ts';
import { externalModel, MODELS } from './hostile/tables/models.ts';

const SETTINGS = { threads: 1, batchSize: 32, inputAlreadyBatched: false, image: {} };

async function open(directory: string) {
  return openOnnx(await findModelFile(directory), 'test', SETTINGS);
}

/** A folder with 8 bytes beside it that would do as weights. */
async function folderIn(t: TestContext): Promise<string> {
  const parent = await temporaryFolder(t);
  await writeFile(join(parent, 'w.bin'), Buffer.alloc(8));
  const folder = join(parent, 'model');
  await mkdir(folder);
  return folder;
}

for (const [name, files, message] of MODELS) {
  test(`a model directory with ${name} is refused`, async (t) => {
    const folder = await folderIn(t);
    for (const [file, make] of Object.entries(files)) await writeFile(join(folder, file), make());
    await assert.rejects(open(folder), { code: 'model_unavailable', message });
  });
}

test('weights that are a link to a file elsewhere are refused', async (t) => {
  const folder = await folderIn(t);
  await writeFile(join(folder, 'model.onnx'), externalModel('linked.bin'));
  await symlink(join(folder, '..', 'w.bin'), join(folder, 'linked.bin'));
  await assert.rejects(open(folder), { code: 'model_unavailable' });
});

test('a model that is a folder is refused, and a missing directory', async (t) => {
  const folder = await folderIn(t);
  await mkdir(join(folder, 'model.onnx'));
  await assert.rejects(open(folder), { code: 'model_unavailable', message: /cannot be read: it is no file/ });
  await assert.rejects(open(join(folder, 'gone')), {
    code: 'model_unavailable',
    message: /there is no such directory/,
  });
});

test('a good model still opens, with weights in its own folder too', async (t) => {
  const [folder, other] = [await folderIn(t), await folderIn(t)];
  await writeFile(join(folder, 'model.onnx'), modelBytes('pair'));
  await (await open(folder)).close();
  await writeFile(join(other, 'model.onnx'), externalModel('w.bin'));
  await writeFile(join(other, 'w.bin'), Buffer.alloc(8));
  await (await open(other)).close();
});
