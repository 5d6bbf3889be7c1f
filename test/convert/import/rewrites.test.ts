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

const int64 = (name: string, value: bigint) =>
  ({ name, dtype: 'int64', shape: [1], data: BigInt64Array.of(value) }) as const;

/**
 * Every column of x, picked by Range. Its inputs have the rank 1, which onnxruntime takes until GatherToSliceFusion hands
 * them to Slice with another one: the model opens, and no row runs.
 */
const picking = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 'columns'] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 'columns'] }],
  nodes: [
    { op: 'Shape', inputs: ['x'], outputs: ['columns'], attributes: { start: 1, end: 2 } },
    { op: 'Range', inputs: ['zero', 'columns', 'one'], outputs: ['places'] },
    { op: 'Gather', inputs: ['x', 'places'], outputs: ['y'], attributes: { axis: 1 } },
  ],
  weights: [int64('zero', 0n), int64('one', 1n)],
});

async function imported(t: TestContext, more: { readonly reference?: string } = {}) {
  const folder = await temporaryFolder(t);
  const directory = join(folder, 'model');
  await mkdir(directory);
  await writeFile(join(directory, 'picking.onnx'), picking);
  const options = { version: '1', measure: false, process: models, out: join(folder, 'out') };
  return (await importModel(directory, { ...options, ...more })).importReport;
}

test('a model whose rows run only without a rewrite is checked and probed without it', async (t) => {
  const { check, verification, notes, measured } = await imported(t);
  assert.deepEqual(verification?.runtime.disabledOptimizers, ['GatherToSliceFusion']);
  assert.equal(verification.comparison, 'agrees');
  assert.deepEqual([check.runs, notes], [true, []]);
  assert.ok(measured.latencyP50Ms !== undefined);
});

test('its reference is compared without the rewrite', async (t) => {
  const reference = await temporaryFolder(t);
  for (const name of ['in_x.npy', 'out_y.npy']) {
    await writeFile(join(reference, name), npyBytes([1, 3], Float32Array.of(1, -2, 3)));
  }
  assert.equal((await imported(t, { reference })).check.reference, 'agrees');
});
