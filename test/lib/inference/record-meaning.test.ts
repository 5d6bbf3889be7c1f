/** A record means the same to the model on every path, and the shape of its answer does not depend on the data. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { toNested } from '../../support/npy.ts';
import { onnxModel } from '../../support/onnx.ts';
import { openModelBytes } from '../../support/runner.ts';
import { throughPredict, throughQueue, throughV2 } from '../../support/three-paths.ts';

const floats = (shape: readonly number[], ...values: number[]): Tensor => ({
  dtype: 'float32',
  shape,
  data: Float32Array.from(values),
});

/** The sum over the first axis of an input whose rank is not declared, as frozen graphs have it. */
const summing = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: undefined }],
  outputs: [{ name: 'y', dtype: 'float32', shape: undefined }],
  nodes: [{ op: 'CumSum', inputs: ['x', 'axis'], outputs: ['y'] }],
  weights: [{ name: 'axis', dtype: 'int32', shape: [], data: Int32Array.of(0) }],
});

test('a record for an input of unknown rank means the same on every path', async (t) => {
  const runner = await openModelBytes(t, summing, { batching: 'proven' });
  const record = floats([2, 3], 1, 2, 3, 4, 5, 6);
  const [inferred] = await throughV2(runner, { x: { ...record, shape: [1, 2, 3] } });
  const [predicted] = await throughPredict(runner, [{ x: toNested(record) }]);
  const [queued] = await throughQueue(runner, [{ x: record }]);
  assert.deepEqual(inferred, { shape: [1, 2, 3], data: [1, 2, 3, 4, 5, 6] });
  assert.deepEqual(predicted?.[0]?.data, inferred.data);
  assert.deepEqual(queued, predicted);
});

test('a number for an input of unknown rank is a scalar, and a list of one number is a row', async (t) => {
  const shapeOf = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: undefined }],
    outputs: [{ name: 'y', dtype: 'int64', shape: undefined }],
    nodes: [{ op: 'Shape', inputs: ['x'], outputs: ['y'] }],
  });
  const runner = await openModelBytes(t, shapeOf, { inputAlreadyBatched: false, batching: 'never' });
  const shapes = await throughPredict(runner, [{ x: 5 }, { x: [5] }, { x: [5, 6] }]);
  assert.deepEqual(
    shapes.map(([y]) => y?.data),
    [[], [1, 1], [1, 2]],
  );
});
