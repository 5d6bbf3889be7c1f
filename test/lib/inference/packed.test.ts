/** Records on their way to the process of a model: what travels as a block is read as it was, bit for bit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deserialize, serialize } from 'node:v8';
import { allocate, type NumericDType, numericDTypes, type TypedArray } from '../../../lib/contract/tensor.ts';
import type { Inputs, NamedTensor, TensorSpec } from '../../../lib/contract/values.ts';
import { pack, packFor, packRecords, unpack, unpackRecords } from '../../../lib/inference/packed.ts';
import { flattened } from '../../../lib/pipeline/bind/flatten.ts';

/** Bits of all kinds, NaNs and zeros with a sign among them. */
function tensor(name: string, dtype: NumericDType, shape: number[], seed: number): NamedTensor {
  const data = allocate(
    dtype,
    shape.reduce((product, dim) => product * dim, 1),
  );
  const bytes = new Uint8Array(data.buffer);
  let state = seed;
  for (let i = 0; i < bytes.length; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[i] = state >>> 24;
  }
  return { name, dtype, shape, data };
}

const bitsOf = (records: readonly (readonly NamedTensor[])[]) =>
  records.map((record) =>
    record.map(({ data, ...rest }) => {
      const { buffer, byteOffset, byteLength } = data as TypedArray;
      return { ...rest, bits: Buffer.from(buffer, byteOffset, byteLength).toString('hex') };
    }),
  );

test('tensors of every dtype come as they went, each to its record', () => {
  for (const [d, dtype] of numericDTypes().entries()) {
    for (const shape of [[], [3], [2, 0], [1, 2, 3]]) {
      const records = Array.from({ length: 5 }, (_, i) => [
        tensor('x', dtype, shape, 100 * d + i),
        tensor('__proto__', 'float32', [2], i),
      ]);
      const packed = pack(records);
      assert.ok(packed);
      assert.deepEqual(bitsOf(unpack(deserialize(serialize(packed)))), bitsOf(records));
    }
  }
});

test('what is not alike, texts and large tensors travel as they are', () => {
  const x = tensor('x', 'float32', [2], 1);
  const others: NamedTensor[][] = [
    [],
    [x, x],
    [{ ...x, name: 'y' }],
    [{ ...x, shape: [1, 2] }],
    [{ ...x, shape: [2, 1] }],
    [tensor('x', 'int32', [2], 1)],
    [tensor('x', 'float32', [3], 1)],
    [{ ...x, tokens: [1] }],
    [{ ...x, dtype: 'string', data: ['a', 'b'] }],
  ];
  for (const other of others) {
    assert.equal(pack([[x], other]), undefined);
    assert.equal(pack([other, [x]]), undefined);
  }
  assert.ok(pack([[x], [x]]));
  const bytes = (length: number) => [tensor('x', 'uint8', [length], 1)];
  assert.ok(pack([bytes(16_384), bytes(16_384)]));
  assert.equal(pack([bytes(16_385), bytes(16_385)]), undefined);
  assert.equal(pack([[x]]), undefined);
  assert.equal(pack([]), undefined);
});

test('records keep the order of their names, and those with other values stay the same', () => {
  const { name: _, ...value } = tensor('x', 'int64', [2], 7);
  const record: Inputs = new Map([
    ['b', { kind: 'tensor', tensor: value }],
    ['0', { kind: 'tensor', tensor: value }],
  ]);
  const sent = packRecords([record, record]);
  assert.ok('columns' in sent);
  assert.deepEqual(unpackRecords(sent), [record, record]);
  assert.deepEqual(
    unpackRecords(sent).map((read) => [...read.keys()]),
    [
      ['b', '0'],
      ['b', '0'],
    ],
  );
  const json: Inputs = new Map([['x', { kind: 'json', value: [1] }]]);
  const mixed = [record, json];
  assert.equal(packRecords(mixed), mixed);
  assert.equal(unpackRecords(mixed), mixed);
});

test('nested numbers of JSON become the block that their tensors would be, of a single record too', () => {
  const specs: TensorSpec[] = [
    { name: 'x', dtype: 'float32', shape: ['n', 2, 2] },
    { name: '__proto__', dtype: 'int64', shape: ['n', 3] },
  ];
  const record = (first: number): Inputs =>
    new Map([
      ['__proto__', { kind: 'json', value: [first, -1, 2 ** 53 - 1] }],
      [
        'x',
        {
          kind: 'json',
          value: [
            [first, 0.1],
            [-0, 3.5e38 / 2],
          ],
        },
      ],
    ]);
  for (const records of [[record(1)], [record(1), record(2), record(3)]]) {
    const sent = packFor(records, specs);
    assert.ok('columns' in sent);
    const flat = flattened(records, specs);
    for (const [i, read] of unpackRecords(sent).entries()) {
      for (const { name } of specs) assert.deepEqual(read.get(name), flat[i]?.get(name), name);
    }
  }
});

test('nested numbers that are ragged, of other shapes, out of range, or under other names travel as records', () => {
  const specs: TensorSpec[] = [{ name: 'x', dtype: 'uint8', shape: ['n', 2] }];
  const good: Inputs = new Map([['x', { kind: 'json', value: [1, 2] }]]);
  const others: unknown[] = [
    [1],
    [1, 2, 3],
    [[1, 2]],
    [1, 256],
    [1, 1.5],
    [1, null],
    [1, '2'],
    [],
    1,
    'text',
    null,
  ];
  const records: Inputs[] = others.map((value) => new Map([['x', { kind: 'json', value }]]));
  records.push(new Map([['y', { kind: 'json', value: [1, 2] }]]));
  records.push(new Map([...good, ['y', { kind: 'json', value: [1, 2] }]]));
  for (const record of records) {
    for (const both of [
      [good, record],
      [record, good],
    ]) {
      const sent = packFor(both, specs);
      assert.ok(!('columns' in sent), JSON.stringify([...record]));
      assert.deepEqual(sent, flattened(both, specs));
    }
  }
  const empty: Inputs = new Map([['x', { kind: 'json', value: [] }]]);
  assert.deepEqual(packFor([empty, empty], specs), [empty, empty]);
  const texts: TensorSpec[] = [{ name: 'x', dtype: 'string', shape: ['n', 2] }];
  const text: Inputs = new Map([['x', { kind: 'json', value: ['a', 'b'] }]]);
  assert.deepEqual(packFor([text, text], texts), [text, text]);
});
