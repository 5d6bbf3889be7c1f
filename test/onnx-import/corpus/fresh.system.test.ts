/** SavedModels as frameworks write them today: every one that imports answers as its framework does. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Optimization } from '../../../lib/contract/verification.ts';
import { openSession } from '../../../lib/inference/session.ts';
import { readNpz } from '../../../onnx-import/files/npy.ts';
import { importModel } from '../../../release/import.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { models } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';

const FOLDER = sharedPath('corpus/fresh/tf');
/** Of the standard deviation of an output. */
const TOLERANCE = 1e-4;
/**
 * Exports in which an augmentation is on: TensorFlow itself answers another thing each time, and the references are what
 * it once answered. Each with the tensor that the refusal names.
 */
const RANDOM: Readonly<Record<string, string>> = {
  preproc_img: 'random_rotation_1/ImageProjectiveTransformV3:0',
  x_randomflip: 'random_flip_1/SelectV2_1:0',
};
/** The verdict of every other model. */
const NOT_PROVEN = new Set(['textvec']);

const names = existsSync(FOLDER) ? readdirSync(FOLDER) : [];

test('the fresh SavedModels are here', (t) => {
  if (names.length === 0) t.skip('needs ../shared/corpus/fresh, which is not on this machine');
});

for (const name of names) {
  const random = RANDOM[name];
  if (random !== undefined) {
    test(`fresh/tf/${name} is refused for its random numbers, and converts from the tensor that is named`, async (t) => {
      const folder = await temporaryFolder(t);
      const options = { out: join(folder, 'model'), version: 'test', measure: false, process: models };
      let tensor = '';
      await assert.rejects(importModel(join(FOLDER, name, 'm'), options), (error: unknown) => {
        assert.ok(error instanceof ServingError && error.code === 'bad_model');
        tensor = /training=False.*right behind it is (\S+)/.exec(error.message)?.[1] ?? '';
        return tensor.endsWith(random);
      });
      const inputs = await importModel(join(FOLDER, name, 'm'), {
        ...options,
        convert: { inputNames: [tensor] },
      });
      assert.equal(inputs.importReport.inputs.length, 1);
    });
    continue;
  }
  test(`fresh/tf/${name} answers as its framework does`, async (t) => {
    const out = join(await temporaryFolder(t), 'model');
    const options = { out, version: 'test', measure: false, process: models };
    const imported = await importModel(join(FOLDER, name, 'm'), options);
    const { verification } = imported.importReport;
    assert.equal(verification?.batching.verdict === 'proven', !NOT_PROVEN.has(name));
    for (const rows of [1, 3]) {
      const reference = join(FOLDER, name, `ref${rows}.npz`);
      await compareWith(reference, join(out, 'model.onnx'), verification?.runtime);
    }
  });
}

/** Opens the model as a function does, and compares every output of the framework. */
async function compareWith(reference: string, file: string, optimization: Optimization | undefined) {
  const tensors = readNpz(readFileSync(reference), reference);
  const session = await openSession(file, { threads: 1, optimization });
  try {
    const feeds = session.inputs.map(({ name }) => {
      const given = tensors.get(`in_${name}`) ?? [...tensors].find(([key]) => key.startsWith('in_'))?.[1];
      assert.ok(given, `${reference}: no input ${name}`);
      return given;
    });
    const outputs = await session.run(feeds);
    let compared = 0;
    for (const [key, expected] of tensors) {
      if (!key.startsWith('out_')) continue;
      const name = key.slice('out_'.length);
      const found = outputs.length === 1 ? outputs[0] : outputs.find((output) => output.name === name);
      assert.ok(found, `${reference}: no output ${name}`);
      assertClose(found, expected, `${reference} ${name}`);
      compared++;
    }
    assert.ok(compared > 0);
  } finally {
    await session.close();
  }
}

function assertClose(found: Tensor, expected: Tensor, what: string): void {
  assert.deepEqual(found.shape, expected.shape, what);
  if (found.dtype === 'string' || !found.dtype.startsWith('float')) {
    assert.deepEqual([...found.data].map(String), [...expected.data].map(String), what);
    return;
  }
  const [a, b] = [Array.from(found.data, Number), Array.from(expected.data, Number)];
  const mean = b.reduce((sum, value) => sum + value, 0) / b.length;
  const spread = Math.sqrt(b.reduce((sum, value) => sum + (value - mean) ** 2, 0) / b.length);
  // One number has no spread; its rounding is relative to itself.
  const allowed = b.length === 1 ? TOLERANCE * Math.abs(mean) : TOLERANCE * spread;
  const worst = Math.max(...a.map((value, i) => Math.abs(value - (b[i] as number))));
  assert.ok(worst <= allowed, `${what}: off by ${worst}, allowed ${allowed}`);
}
