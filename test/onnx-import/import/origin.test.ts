/** Where a report says that the numbers of an input are from. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TensorSpec } from '../../../lib/contract/values.ts';
import { originOf, originText } from '../../../onnx-import/report/origin.ts';
import type { ConvertOptions } from '../../../onnx-import/source/convert-options.ts';
import type { ModelKind } from '../../../onnx-import/source/kinds.ts';

const free: TensorSpec = { name: 'x', dtype: 'float32', shape: ['N', 3] };
const fixed: TensorSpec = { ...free, shape: [1, 3] };
type Given = NonNullable<ConvertOptions['inputShapes']>[string];

function said(kind: ModelKind, spec: TensorSpec, given?: Given, isFreed = false): string {
  const options = given ? { inputShapes: { x: given } } : {};
  return originText(originOf(spec, false, { kind, options, isFreed }));
}

test('what is from the file is not said again', () => {
  for (const kind of ['onnx', 'tf_saved_model', 'tf_frozen', 'openvino'] as const) {
    assert.equal(said(kind, free), '');
    assert.equal(said(kind, fixed), '');
  }
  // Sizes of an ONNX model are for its check.
  assert.equal(said('onnx', free, [1, 3]), '');
  assert.equal(originText(undefined), '');
});

test('a report says what was given, what the import freed and which dtype is of the format or assumed', () => {
  assert.equal(said('tf_frozen', free, ['N', 3]), ' (shape as given)');
  assert.equal(said('tf_frozen', free, [1, 3]), ' (shape as given, rows freed by the import)');
  assert.equal(said('openvino', free, undefined, true), ' (rows freed by the import)');
  assert.equal(said('caffe', free), ' (rows freed by the import, dtype of the format)');
  assert.equal(said('caffe', fixed), ' (dtype of the format)');
  assert.equal(said('pytorch', free, [1, 3]), ' (shape as given, rows freed by the import, dtype assumed)');
  assert.equal(said('pytorch', fixed, ['int64', 1, 3]), ' (shape as given, dtype as given)');
  assert.equal(
    said('pytorch', free, ['int64', 1, 3]),
    ' (shape as given, rows freed by the import, dtype as given)',
  );
});

test('of an input without a shape only the dtype has an origin', () => {
  const origins = { kind: 'tf_frozen', options: {}, isFreed: false } as const;
  assert.deepEqual(originOf(free, true, origins), { dtype: 'file' });
});
