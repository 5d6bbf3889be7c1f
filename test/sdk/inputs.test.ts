import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { readImageFile } from '../../sdk/image-file.ts';
import { type InputValue, ofInput, toInputs } from '../../sdk/inputs.ts';

async function tensorOf(value: InputValue): Promise<Tensor> {
  const input = (await toInputs({ x: value })).get('x');
  assert.ok(input?.kind === 'tensor');
  return input.tensor;
}

const refused = (value: unknown, message: RegExp) =>
  assert.rejects(toInputs({ x: value as InputValue }), { code: 'bad_request', message });

test('plain numbers travel as float32 when that is exact, else as float64', async () => {
  assert.equal((await tensorOf([1, 0.5])).dtype, 'float32');
  const tenth = await tensorOf([0.1]);
  assert.deepEqual([tenth.dtype, tenth.data[0]], ['float64', 0.1]);
  const large = await tensorOf([2 ** 24 + 1]);
  assert.deepEqual([large.dtype, large.data[0]], ['float64', 2 ** 24 + 1]);
});

test('null and NaN are the missing value of a column, and null stands in no array', async () => {
  for (const missing of [null, Number.NaN]) {
    assert.deepEqual(await tensorOf(missing), { dtype: 'float32', shape: [], data: Float32Array.of(NaN) });
  }
  assert.deepEqual((await tensorOf([1, Number.NaN])).data, Float32Array.of(1, NaN));
  await assert.rejects(toInputs({ x: [1, null] as number[] }), /input "x": expected a number, got null/);
});

test('a Buffer is refused, because it may be meant as an image or as numbers', async () => {
  await refused(Buffer.from([1]), /got a Buffer; write \{ bytes \} for an image/);
});

test('elements that do not make the shape are refused', async () => {
  await refused({ data: new Float32Array(3), shape: [2, 2] }, /3 elements are not of shape \[2,2\]/);
  await refused({ data: [1, 2, 3], shape: [2] }, /3 elements/);
});

test('a record without inputs is refused, and an image file that cannot be read says which', async () => {
  await assert.rejects(toInputs({}), { code: 'bad_request', message: /at least one input/ });
  const message = /^input "x": cannot read the image file.*nowhere\.jpg/;
  await assert.rejects(toInputs({ x: '/nowhere.jpg' }, readImageFile), { code: 'bad_request', message });
  await refused({ path: '/nowhere.jpg' }, /^input "x": a text is the path of an image; here, give/);
});

test('an image is bytes, an ArrayBuffer, a Blob or a File, and base64 of any kind', async () => {
  const bytes = Uint8Array.of(0xfb, 0xef, 0xff);
  const images = [
    { bytes },
    { bytes: bytes.buffer },
    { bytes: new Blob([bytes]) },
    new File([bytes], 'a.png'),
  ];
  for (const image of [...images, { b64: '++//' }, { b64: '-_ \n_/' }]) {
    const got = (await toInputs({ x: image })).get('x');
    assert.deepEqual(got, {
      kind: 'image',
      bytes: got?.kind === 'image' && 'b64' in image ? got.bytes : bytes,
    });
  }
  assert.deepEqual(await toInputs({ x: { b64: '++__' } }), await toInputs({ x: { b64: ' -- // ' } }));
  for (const [wrong, kind] of [
    [7, 'a number'],
    [null, 'null'],
    [['++//'], 'an array'],
  ] as const)
    await refused({ b64: wrong }, new RegExp(`^input "x": b64: expected a text, got ${kind}`));
  await refused({ b64: 'Ł' }, /^input "x": b64: the text is not base64/);
  await refused(
    { bytes: 'text' },
    /^input "x": bytes: expected a Uint8Array, ArrayBuffer or Blob, got a string/,
  );
});

test('an error of an input keeps its code, and one of no code is of the caller', () => {
  for (const [error, code] of [
    [new ServingError('too_large', 'm'), 'too_large'],
    [new Error('m'), 'bad_request'],
  ] as const) {
    const found = ofInput('a"b', error);
    assert.deepEqual([found.code, found.message, found.cause], [code, 'input "a\\"b": m', error]);
  }
});
