/** Inputs as JSON of POST /predict, and outputs as the service writes them, element by element. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { Value } from '../../lib/contract/values.ts';
import { instanceJson, tensorOf } from '../../sdk/http/tensors.ts';

const jsonOf = (value: Value) => instanceJson(new Map([['x', value]])).slice('{"x":'.length, -1);
const json = (dtype: Tensor['dtype'], shape: readonly number[], data: unknown) =>
  jsonOf({ kind: 'tensor', tensor: { dtype, shape, data } as Tensor });

test('an input is written in its shape, each element as JSON has it', () => {
  for (const [dtype, shape, data, text] of [
    ['float32', [2, 2], Float32Array.of(1, -0, 0.5, NaN), '[[1,-0],[0.5,null]]'],
    ['float64', [], Float64Array.of(0.1), '0.1'],
    ['float64', [3], Float64Array.of(1e21, -1e-7, NaN), '[1e+21,-1e-7,null]'],
    ['float16', [2], Uint16Array.of(0x3c00, 0x7e00), '[1,null]'],
    ['int64', [2], BigInt64Array.of(2n ** 53n - 1n, 1n - 2n ** 53n), '[9007199254740991,-9007199254740991]'],
    ['uint64', [1], BigUint64Array.of(0n), '[0]'],
    ['int8', [2, 1], Int8Array.of(-128, 127), '[[-128],[127]]'],
    ['bool', [2], Uint8Array.of(1, 0), '[true,false]'],
    ['string', [1, 2], ['a"', '\n'], '[["a\\"","\\n"]]'],
    ['float32', [0], new Float32Array(0), '[]'],
    ['float32', [2, 0], new Float32Array(0), '[[],[]]'],
  ] as const)
    assert.equal(json(dtype, shape, data), text);
});

test('what JSON would change is refused by the name of its input', () => {
  for (const [dtype, data, says] of [
    ['int64', BigInt64Array.of(2n ** 53n), 'JSON has no whole numbers beyond 2^53; use enqueue'],
    ['int64', BigInt64Array.of(-(2n ** 53n)), 'JSON has no whole numbers beyond 2^53; use enqueue'],
    ['uint64', BigUint64Array.of(2n ** 64n - 1n), 'JSON has no whole numbers beyond 2^53; use enqueue'],
    ['float32', Float32Array.of(Infinity), 'JSON has no infinity; use enqueue'],
    ['float64', Float64Array.of(-Infinity), 'JSON has no infinity; use enqueue'],
    ['float16', Uint16Array.of(0x7c00), 'JSON has no infinity; use enqueue'],
  ] as const)
    assert.throws(() => json(dtype, [1], data), { code: 'bad_request', message: `input "x": ${says}` });
});

test('an image is base64, and names are escaped', () => {
  const image: Value = { kind: 'image', bytes: Uint8Array.of(0xfb, 0xef, 0xff) };
  assert.equal(
    instanceJson(
      new Map([
        ['a"', image],
        ['b', image],
      ]),
    ),
    '{"a\\"":{"b64":"++//"},"b":{"b64":"++//"}}',
  );
});

test('a sparse tensor has one row of indices for each point, however they were given', () => {
  const values = { dtype: 'float32', shape: [3], data: Float32Array.of(5, 6, 7) } as const;
  const sparse = (indicesShape: readonly number[], indices: readonly number[], shape = [4, 9]) => {
    const given = {
      kind: 'sparse',
      shape,
      indices: BigInt64Array.from(indices, BigInt),
      indicesShape,
      values,
    };
    return jsonOf(given as unknown as Value);
  };
  const expected = '{"shape":[4,9],"data":[5,6,7],"indices":[[0,1],[2,3],[3,8]]}';
  assert.equal(sparse([3, 2], [0, 1, 2, 3, 3, 8]), expected);
  assert.equal(sparse([2, 3], [0, 2, 3, 1, 3, 8]), expected);
});

test('an output is read as its dtype says', () => {
  const read = (dtype: string, data: readonly unknown[], shape: readonly number[] = [data.length]) =>
    tensorOf('y', { dtype, shape, data });
  assert.deepEqual(read('float32', [1, null, 0.5], [3, 1]), {
    name: 'y',
    dtype: 'float32',
    shape: [3, 1],
    data: Float32Array.of(1, NaN, 0.5),
  });
  for (const [dtype, data, expected] of [
    [
      'int64',
      [1, '-9223372036854775808', '9223372036854775807'],
      BigInt64Array.of(1n, -(2n ** 63n), 2n ** 63n - 1n),
    ],
    ['uint64', ['18446744073709551615'], BigUint64Array.of(2n ** 64n - 1n)],
    ['bool', [true, false, 1, 0], Uint8Array.of(1, 0, 1, 0)],
    ['string', ['a', 1, null], ['a', '1', 'null']],
  ] as const)
    assert.deepEqual(read(dtype, data).data, expected);
  for (const [dtype, data] of [
    ['int64', ['9223372036854775808']],
    ['int64', ['1e3']],
    ['int64', ['1'.repeat(21)]],
    ['int32', ['1']],
    ['float32', [[1]]],
    ['uint8', [256]],
    ['other', [1]],
  ] as const)
    assert.throws(
      () => read(dtype, data),
      { code: 'internal', message: /output "y": / },
      `${dtype} ${JSON.stringify(data)}`,
    );
  assert.throws(() => read('int8', [1, 2], [3]), { code: 'internal' });
});
