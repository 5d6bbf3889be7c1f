/** A model that onnxruntime breaks when it optimizes it: the import finds the rewrite first, and does all else without it. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { importModel } from '../../../release/import.ts';
import { models } from '../../support/models.ts';
import { rewrittenModel } from '../../support/rewritten-model.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { npyBytes } from '../support/npy-bytes.ts';

async function imported(t: TestContext, more: { readonly reference?: string } = {}) {
  const folder = await temporaryFolder(t);
  const directory = join(folder, 'model');
  await mkdir(directory);
  await writeFile(join(directory, 'rewritten.onnx'), rewrittenModel);
  const options = { version: '1', measure: false, process: models, out: join(folder, 'out') };
  return (await importModel(directory, { ...options, ...more })).importReport;
}

test('a model that a rewrite changes is checked and probed without it', async (t) => {
  const { check, verification, notes, measured } = await imported(t);
  assert.equal(verification?.runtime.level, 'all');
  assert.equal(verification.runtime.disabledOptimizers.length, 1);
  assert.equal(verification.comparison, 'agrees');
  assert.deepEqual([check.runs, notes], [true, []]);
  assert.ok(measured.latencyP50Ms !== undefined);
});

test('its reference is compared without the rewrite', async (t) => {
  const reference = await temporaryFolder(t);
  await writeFile(join(reference, 'in_x.npy'), npyBytes([1, 1, 1, 1], Float32Array.of(4)));
  await writeFile(join(reference, 'out_y.npy'), npyBytes([1, 1, 1, 1], Float32Array.of(4)));
  assert.equal((await imported(t, { reference })).check.reference, 'agrees');
});
