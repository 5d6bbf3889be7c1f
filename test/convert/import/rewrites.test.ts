/** A model that onnxruntime breaks when it optimizes it: the import finds the rewrite first, and does all else without it. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { importModel } from '../../../convert/import.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { models } from '../support/models.ts';
import { npyBytes } from '../support/npy-bytes.ts';

/** y = x * (1 / x). DivMulFusion leaves the name of a Cast that another rewrite removes, so it does not open with both. */
const fused = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 'columns'] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 'columns'] }],
  nodes: [
    { op: 'Cast', inputs: ['x'], outputs: ['mid'], attributes: { to: 1 } },
    { op: 'Constant', inputs: [], outputs: ['one'], attributes: { value_float: { float: 1 } } },
    { op: 'Div', inputs: ['one', 'x'], outputs: ['inverse'] },
    { op: 'Mul', inputs: ['inverse', 'mid'], outputs: ['y'] },
  ],
});

async function imported(t: TestContext, more: { readonly reference?: string } = {}) {
  const folder = await temporaryFolder(t);
  const directory = join(folder, 'model');
  await mkdir(directory);
  await writeFile(join(directory, 'fused.onnx'), fused);
  const options = { version: '1', measure: false, process: models, out: join(folder, 'out') };
  return (await importModel(directory, { ...options, ...more })).importReport;
}

test('a model whose rows run only without a rewrite is checked and probed without it', async (t) => {
  const { check, verification, notes, measured } = await imported(t);
  assert.equal(verification?.runtime.level, 'all');
  assert.equal(verification.runtime.disabledOptimizers.length, 1);
  assert.equal(verification.comparison, 'agrees');
  assert.deepEqual([check.runs, notes], [true, []]);
  assert.ok(measured.latencyP50Ms !== undefined);
});

test('its reference is compared without the rewrite', async (t) => {
  const reference = await temporaryFolder(t);
  await writeFile(join(reference, 'in_x.npy'), npyBytes([1, 3], Float32Array.of(1, -2, 4)));
  await writeFile(join(reference, 'out_y.npy'), npyBytes([1, 3], Float32Array.of(1, 1, 1)));
  assert.equal((await imported(t, { reference })).check.reference, 'agrees');
});
