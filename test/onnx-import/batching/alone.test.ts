/** What a probe takes for the same answer: rounding of floats, and of whole numbers only what the model itself moves by. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { Alone } from '../../../onnx-import/batching/alone.ts';

const longs = (...values: number[]): Tensor => {
  return { dtype: 'int64', shape: [values.length], data: BigInt64Array.from(values, BigInt) };
};
const floats = (...values: number[]): Tensor => {
  return { dtype: 'float32', shape: [values.length], data: Float32Array.from(values) };
};

/** Two rows of one answer each, which rounding of the inputs moves to `rounded`. */
const alone = (answer: Tensor, rounded = answer) => new Alone([[answer], [answer]], async () => [rounded]);

test('another class is another answer, however large its number is', async () => {
  assert.equal(await alone(longs(10_000)).difference(longs(10_001), 0, 0), '10001, alone 10000');
  assert.equal(await alone(longs(10_000, 1)).difference(longs(10_000, 1), 0, 0), undefined);
});

test('whole numbers may move as far as rounding of the inputs moves them', async () => {
  const quantized = alone(longs(200), longs(201));
  assert.equal(await quantized.difference(longs(203), 0, 0), undefined);
  assert.equal(await quantized.difference(longs(230), 0, 0), '230, alone 200');
});

test('floats differ by rounding, and by no more', async () => {
  assert.equal(await alone(floats(1000)).difference(floats(1000.5), 0, 0), undefined);
  assert.equal(await alone(floats(1000)).difference(floats(1002), 0, 0), '1002, alone 1000');
});
