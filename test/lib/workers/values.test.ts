/** How records become items and batches of a worker, and its results the answers of items, without a process. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Value } from '../../../lib/contract/values.ts';
import { EncodedImage } from '../../../lib/contract/worker-values.ts';
import { stack } from '../../../lib/workers/hard-worker.ts';
import { itemOf, stackKey } from '../../../lib/workers/items.ts';
import { type OnnxModel, WKROnnxWorker } from '../../../lib/workers/onnx-worker.ts';
import { rowsOf } from '../../../lib/workers/rows.ts';

const floats = (shape: readonly number[], ...values: number[]) =>
  ({ dtype: 'float32', shape, data: Float32Array.from(values) }) satisfies Tensor;
const texts = (shape: readonly number[], ...data: string[]) => ({ dtype: 'string', shape, data }) as const;

test('a result is cut along its first axis, and an element of a list of numbers is one', () => {
  const half: Tensor = { dtype: 'float16', shape: [2], data: Uint16Array.of(0x3e00, 0xc000) };
  const flags: Tensor = { dtype: 'bool', shape: [2], data: Uint8Array.of(1, 0) };
  const wide: Tensor = { dtype: 'int64', shape: [1], data: BigInt64Array.of(2n ** 53n + 1n) };
  for (const [result, rows] of [
    [
      [1, 'a', null],
      [1, 'a', null],
    ],
    [floats([2, 2], 1, 2, 3, 4), [floats([2], 1, 2), floats([2], 3, 4)]],
    [floats([2, 0]), [floats([0]), floats([0])]],
    [floats([2], 1, 2), [1, 2]],
    [texts([2, 1], 'a', 'b'), [texts([1], 'a'), texts([1], 'b')]],
    [texts([2], 'a', 'b'), ['a', 'b']],
    [half, [1.5, -2]],
    [flags, [true, false]],
    [wide, [2n ** 53n + 1n]],
    [floats([], 1), undefined],
    ['text', undefined],
    [{ a: 1 }, undefined],
  ] as const) {
    assert.deepEqual(rowsOf(result), rows);
  }
});

test('items of one dtype and shape are stacked along a new axis, and others are an error', () => {
  assert.deepEqual(stack([floats([2], 1, 2), floats([2], 3, 4)]), floats([2, 2], 1, 2, 3, 4));
  assert.deepEqual(stack([texts([1], 'a'), texts([1], 'b')]), texts([2, 1], 'a', 'b'));
  const wide = (value: bigint): Tensor => ({ dtype: 'int64', shape: [], data: BigInt64Array.of(value) });
  assert.deepEqual(stack([wide(1n), wide(-2n)]), {
    dtype: 'int64',
    shape: [2],
    data: BigInt64Array.of(1n, -2n),
  });
  const double: Tensor = { dtype: 'float64', shape: [2], data: Float64Array.of(1, 2) };
  for (const [items, message] of [
    [[floats([2], 1, 2), floats([1], 3)], /differ in dtype or shape/],
    [[floats([2], 1, 2), double], /differ in dtype or shape/],
    [[floats([2], 1, 2), 'text'], /not a tensor/],
    [[], /needs an item/],
  ] as const) {
    assert.throws(() => stack(items), message);
  }
});

const record = (...values: Value[]) => new Map(values.map((value, i) => [`x${i}`, value]));
const tensor = (value: Tensor): Value => ({ kind: 'tensor', tensor: value });
const json = (value: unknown): Value => ({ kind: 'json', value });

test('an item is the only input, or a dict of them, and a worker of arrays takes arrays only', async () => {
  const sparse: Value = {
    kind: 'sparse',
    shape: [3],
    indices: Int32Array.of(2),
    indicesShape: [1, 1],
    values: floats([1], 7),
  };
  const image = Buffer.from('no image');
  const settings = { imageAs: 'bytes', transferProto: 'obj' } as const;
  for (const [given, item] of [
    [record(tensor(floats([1], 5))), floats([1], 5)],
    [record(sparse), floats([3], 0, 0, 7)],
    [record({ kind: 'text', text: 'a' }), 'a'],
    [record(json({ a: [1, 'b'] })), { a: [1, 'b'] }],
    [record({ kind: 'value', value: true }), true],
    [record({ kind: 'image', bytes: image }), new EncodedImage(image)],
    [record({ kind: 'value', value: new EncodedImage(image) }), new EncodedImage(image)],
    [record(json(1), { kind: 'text', text: 'a' }), { x0: 1, x1: 'a' }],
  ] as const) {
    assert.deepEqual(await itemOf(given, settings), item);
  }
  const arrays = { imageAs: 'bytes', transferProto: 'npy' } as const;
  assert.deepEqual(await itemOf(record(json([[1, 2]])), arrays), floats([1, 2], 1, 2));
  await assert.rejects(itemOf(record(json(1), { kind: 'text', text: 'a' }), arrays), {
    code: 'bad_input',
    message: 'input "x1": this worker takes arrays',
  });
  // A form that needs its pixels needs a picture.
  await assert.rejects(itemOf(record({ kind: 'image', bytes: image }), { ...settings, imageAs: 'rgb' }), {
    code: 'bad_input',
    message: /^expected a JPEG/,
  });
});

test('records share a batch of arrays where all of their inputs have one dtype and shape', () => {
  for (const [given, key] of [
    [record(tensor(floats([2, 3], 1, 2, 3, 4, 5, 6))), 'float32 2,3'],
    [record(tensor(texts([1], 'a')), json([[1], [2]])), 'string 1;float32 2,1'],
    [record(json(1)), 'float32 '],
    [record({ kind: 'value', value: floats([2], 1, 2) }), 'float32 2'],
    [record({ kind: 'value', value: 'a' }), 'string'],
    [record({ kind: 'text', text: 'a' }), 'text'],
  ] as const) {
    assert.equal(stackKey(given), key);
  }
});

test('a model of several outputs answers each row by name, and takes tensors by the names of its inputs', async () => {
  const worker = new WKROnnxWorker();
  const given: unknown[] = [];
  const model = (names: readonly string[], ...outputs: (Tensor & { readonly name: string })[]) => {
    const run = async (feeds: unknown) => {
      given.push(feeds);
      return outputs;
    };
    return { inputs: names.map((name) => ({ name })), run } as unknown as OnnxModel;
  };
  const [a, b] = [floats([2], 1, 2), floats([2], 3, 4)];
  const two = model(
    ['a', 'b'],
    { name: 'sum', ...floats([2, 1], 5, 6) },
    { name: 'label', ...texts([2], 'x', 'y') },
  );
  assert.deepEqual(await worker.predict(two, { b, a }), [
    { sum: floats([1], 5), label: 'x' },
    { sum: floats([1], 6), label: 'y' },
  ]);
  const one = model(['a'], { name: 'y', ...a });
  assert.deepEqual(await worker.predict(one, [a, b]), { name: 'y', ...a });
  assert.deepEqual(await worker.predict(one, { a: b }), { name: 'y', ...a });
  assert.deepEqual(given, [[a, b], [floats([2, 2], 1, 2, 3, 4)], [b]]);
  const uneven = model(['a'], { name: 'y', ...a }, { name: 'z', ...floats([3], 1, 2, 3) });
  await assert.rejects(worker.predict(uneven, a), /the outputs have 2, 3 rows/);
  for (const [input, found] of [
    [a, 'one tensor'],
    [{ a }, '[a]'],
    [{ a, c: b }, '[a, c]'],
    [{ a, b, c: b }, '[a, b, c]'],
    [{ a, b: 1 }, '[a, b]'],
    [undefined, '[]'],
  ] as const) {
    const message = `predict takes a tensor for each input [a, b], not ${found}`;
    await assert.rejects(worker.predict(two, input), { message });
  }
});

test('a model without a name, or for a GPU, is not opened', async () => {
  const worker = new WKROnnxWorker();
  await assert.rejects(worker.getModel(undefined, '/models', ''), /the name of the ONNX file is missing/);
  Object.assign(worker, { deviceId: 0 });
  await assert.rejects(worker.getModel(undefined, '/models', 'a.onnx'), /runs on the CPU, device -1/);
});
