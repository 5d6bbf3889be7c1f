/** Options whose meaning depends on the kind of the model. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { importModel } from '../../../onnx-import/import/import.ts';
import { withShapes } from '../../../onnx-import/import/options.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('x:4 is a shape of one size, but for TensorFlow, where it names a tensor', () => {
  const given = { inputNames: ['x:4', 'y:0', 'z'], inputShapes: { z: [1, 2] } };
  assert.deepEqual(withShapes('tf_frozen', given), given);
  assert.deepEqual(withShapes('pytorch', given), {
    inputShapes: { x: [4], z: [1, 2] },
    inputNames: ['x', 'y:0', 'z'],
  });
  assert.deepEqual(withShapes('onnx', { inputNames: ['x:4'], signature: 's' }), {
    inputShapes: { x: [4] },
    signature: 's',
  });
  assert.deepEqual(withShapes('caffe', { inputNames: ['a', 'b:0'] }), { inputNames: ['a', 'b:0'] });
  assert.deepEqual(withShapes('bigdl', { outputNames: ['y'] }), { outputNames: ['y'] });
});

test('a model with an input of rank 1 is imported with its size', async (t) => {
  const directory = join(await temporaryFolder(t), 'model');
  await mkdir(directory);
  await writeFile(join(directory, 'm.onnx'), identityModel([{ name: 'x', dtype: 'float32', shape: ['N'] }]));
  const options = { out: join(directory, '..', 'out'), version: '1', measure: false };
  const { importReport } = await importModel(directory, { ...options, convert: { inputNames: ['x:4'] } });
  assert.equal(importReport.check.runs, true);
  assert.deepEqual(importReport.options, { inputShapes: { x: [4] } });
  await assert.rejects(importModel(directory, { ...options, convert: { inputNames: ['x:0'] } }), {
    code: 'bad_config',
    message: 'an ONNX model is used unchanged; inputNames cannot be changed here',
  });
});
