/** Sizes that a user gives for the check of an ONNX model, which itself stays as it is. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { TensorSpec } from '../../../lib/contract/values.ts';
import { withGivenSizes } from '../../../onnx-import/samples/given-sizes.ts';
import type { ConvertOptions } from '../../../onnx-import/source/convert-options.ts';
import { importModel } from '../../../release/import.ts';
import { models } from '../../support/models.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { folderOf } from '../support/folder.ts';

/** Takes ten columns, which the file does not say and no made-up size is. */
const TEN = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 'L'] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2] }],
  nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
  weights: [{ name: 'w', dtype: 'float32', shape: [10, 2], data: new Float32Array(20) }],
});

async function imported(t: TestContext, convert: ConvertOptions) {
  const directory = await folderOf(t, { 'any.onnx': TEN });
  const out = join(await temporaryFolder(t), 'out');
  return importModel(directory, { out, version: '1', measure: false, process: models, convert });
}

test('an ONNX model whose free size cannot be guessed is checked with the size that is given', async (t) => {
  const without = await imported(t, {});
  assert.equal(without.importReport.check.runs, false);
  assert.match(
    without.importReport.notes.join(),
    /give the free sizes with --input name:shape, or give --reference/,
  );
  const { importReport, directory } = await imported(t, { inputShapes: { x: [1, 10] } });
  assert.equal(importReport.check.runs, true);
  assert.equal(importReport.verification?.comparison, 'agrees');
  assert.deepEqual(importReport.inputs[0]?.shape, ['N', 'L']);
  assert.deepEqual(await readFile(join(directory, 'model.onnx')), Buffer.from(TEN));
});

test("a shape that is not the model's, and anything that would change the model, are refused", async (t) => {
  const refused = (convert: ConvertOptions, message: RegExp) =>
    assert.rejects(imported(t, convert), { message });
  await refused({ inputShapes: { z: [1, 10] } }, /--input z: the model has no such input; its inputs: x$/);
  await refused(
    { inputShapes: { x: [10] } },
    /--input x: the model has the shape \[N,L\], which \[10\] is not/,
  );
  await refused({ outputNames: ['y'] }, /outputNames cannot be changed here/);
  await refused({ inputNames: ['x'] }, /inputNames cannot be changed here/);
});

const spec = (name: string, shape: TensorSpec['shape']): TensorSpec => ({ name, dtype: 'float32', shape });

test('a named size is the same everywhere; a first size of 1 is one row, another one is fixed', () => {
  const inputs = [
    spec('ids', ['N', 'seq']),
    spec('mask', ['N', 'seq']),
    spec('any', []),
    spec('free', ['', '']),
  ];
  const sized = (given: ConvertOptions['inputShapes']) => {
    const made = withGivenSizes(inputs, ['any'], given);
    return { shapes: made.inputs.map(({ shape }) => shape), shapeless: made.shapeless };
  };
  assert.deepEqual(sized(undefined), { shapes: inputs.map(({ shape }) => shape), shapeless: ['any'] });
  assert.deepEqual(sized({ ids: [1, 16] }).shapes.slice(0, 2), [
    ['N', 16],
    ['N', 16],
  ]);
  assert.deepEqual(sized({ ids: [4, 'L'] }).shapes.slice(0, 2), [
    [4, 'seq'],
    [4, 'seq'],
  ]);
  assert.deepEqual(sized({ any: ['N', 3], free: [1, 5] }), {
    shapes: [
      ['N', 'seq'],
      ['N', 'seq'],
      ['N', 3],
      ['', 5],
    ],
    shapeless: [],
  });
  assert.deepEqual(sized({ free: [2, 5] }).shapes[3], [2, 5]);
  const two = { ids: [1, 16], mask: [1, 8] };
  assert.throws(() => sized(two), { code: 'bad_config', message: /--input mask: the size seq is 16 and 8/ });
  assert.throws(() => withGivenSizes([spec('x', ['N', 3])], [], { x: [1, 4] }), {
    message: /--input x: the model has the shape \[N,3\], which \[1,4\] is not/,
  });
});
