import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  Binary,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  LargeBinary,
  LargeUtf8,
  Uint8,
  Uint16,
  Uint32,
  Uint64,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { decodeArrowRecord } from '../../../../../lib/codecs/arrow/record.ts';
import { dense, fourRows, listOf, record, structOf, tensorOf, tensorType } from '../records.ts';

describe('decodeArrowRecord on other types', () => {
  const ints = listOf(new Int64());

  it('keeps float64 data and reads int64 shapes', () => {
    const x = fourRows(tensorType(listOf(new Float64()), ints), [], [], [0.1, 0.2], [2n]);
    const tensor = tensorOf(decodeArrowRecord(record({ x })), 'x');
    assert.deepEqual(tensor, { dtype: 'float64', shape: [2], data: Float64Array.of(0.1, 0.2) });
  });

  it('keeps int32 and int64 data as integers', () => {
    const x = fourRows(tensorType(listOf(new Int32())), [], [], [1, -2], [2]);
    const y = fourRows(tensorType(ints), [], [], [2n ** 60n, -1n], [2]);
    const inputs = decodeArrowRecord(record({ x, y }));
    assert.deepEqual(tensorOf(inputs, 'x'), { dtype: 'int32', shape: [2], data: Int32Array.of(1, -2) });
    assert.deepEqual(tensorOf(inputs, 'y'), {
      dtype: 'int64',
      shape: [2],
      data: BigInt64Array.of(2n ** 60n, -1n),
    });
  });

  it('keeps every width of integer, signed and unsigned', () => {
    const columns = {
      int8: vectorFromArray([-1], new Int8()),
      int16: vectorFromArray([-2], new Int16()),
      uint8: vectorFromArray([255], new Uint8()),
      uint16: vectorFromArray([65_535], new Uint16()),
      uint32: vectorFromArray([2 ** 32 - 1], new Uint32()),
      uint64: vectorFromArray([2n ** 64n - 1n], new Uint64()),
    };
    const inputs = decodeArrowRecord(record(columns));
    for (const dtype of inputs.keys()) assert.equal(tensorOf(inputs, dtype).dtype, dtype);
    assert.deepEqual(
      [...inputs.keys()].map((dtype) => tensorOf(inputs, dtype).data[0]),
      [-1, -2, 255, 65_535, 2 ** 32 - 1, 2n ** 64n - 1n],
    );
  });

  it('reads binary as text, as the old server did', () => {
    const columns = {
      b: vectorFromArray([Buffer.from('AQID')], new Binary()),
      l: vectorFromArray([Buffer.from('BBBB')], new LargeBinary()),
    };
    assert.deepEqual(
      [...decodeArrowRecord(record(columns)).values()],
      [
        { kind: 'text', text: 'AQID' },
        { kind: 'text', text: 'BBBB' },
      ],
    );
  });

  it('turns int64 indices of a sparse tensor into int32', () => {
    const x = fourRows(tensorType(undefined, ints), [0n, 1n], [2n, 1n], [5], [3n, 3n]);
    const value = decodeArrowRecord(record({ x })).get('x');
    assert.deepEqual(value, {
      kind: 'sparse',
      shape: [3, 3],
      indices: Int32Array.of(0, 1),
      indicesShape: [2, 1],
      values: { dtype: 'float32', shape: [1], data: Float32Array.of(5) },
    });
  });

  it('reads a struct of strings as a string tensor', () => {
    const x = fourRows(tensorType(listOf(new Utf8())), [], [], ['a', '', 'ü'], [3, 1]);
    const tensor = tensorOf(decodeArrowRecord(record({ x })), 'x');
    assert.deepEqual(tensor, { dtype: 'string', shape: [3, 1], data: ['a', '', 'ü'] });
  });

  it('reads a list column as a vector', () => {
    const columns = {
      s: vectorFromArray([['a', 'b|c']], listOf(new Utf8())),
      f: vectorFromArray([[1, 2, 3]], listOf(new Float32())),
    };
    const inputs = decodeArrowRecord(record(columns));
    assert.deepEqual(tensorOf(inputs, 's'), { dtype: 'string', shape: [2], data: ['a', 'b|c'] });
    assert.deepEqual(tensorOf(inputs, 'f'), { dtype: 'float32', shape: [3], data: Float32Array.of(1, 2, 3) });
  });

  it('reads a bare number as a scalar, as the Scala front end sends one', () => {
    const columns = { i: vectorFromArray([7], new Int32()), f: vectorFromArray([2.5], new Float32()) };
    const inputs = decodeArrowRecord(record(columns));
    assert.deepEqual(tensorOf(inputs, 'i'), { dtype: 'int32', shape: [], data: Int32Array.of(7) });
    assert.deepEqual(tensorOf(inputs, 'f'), { dtype: 'float32', shape: [], data: Float32Array.of(2.5) });
  });

  it('reads large_utf8 and keeps a byte order mark', () => {
    const x = vectorFromArray(['\uFEFFgrüß'], new LargeUtf8());
    assert.deepEqual(decodeArrowRecord(record({ x })).get('x'), { kind: 'text', text: '\uFEFFgrüß' });
  });

  it('reads a text cell that the writer padded with null rows', () => {
    const x = vectorFromArray(['only', null, null, null], new Utf8());
    assert.deepEqual(decodeArrowRecord(record({ x })).get('x'), { kind: 'text', text: 'only' });
  });

  it('reads a struct of data and shape alone as dense', () => {
    const type = structOf({ data: listOf(new Float32()), shape: listOf(new Int32()) });
    const x = vectorFromArray([{ data: [1, 2], shape: [1, 2] }], type);
    assert.deepEqual(decodeArrowRecord(record({ x })), new Map([['x', dense([1, 2], [1, 2])]]));
  });
});
