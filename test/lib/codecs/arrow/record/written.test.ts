import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import { decodeArrowRecord } from '../../../../../lib/codecs/arrow/record.ts';
import { decodeBase64 } from '../../../../../lib/codecs/base64.ts';
import { ServingError } from '../../../../../lib/contract/errors.ts';
import type { NumericDType, Tensor, TypedArray } from '../../../../../lib/contract/tensor.ts';
import type { Inputs, Value } from '../../../../../lib/contract/values.ts';
import { encodeArrowRecord } from '../../../../support/arrow-record.ts';
import fc from '../../../../support/fast-check.ts';
import { dense, tensorOf } from '../records.ts';

const ZOO = new URL('../../../../../../shared/fixtures/zoo/', import.meta.url);
const skip = existsSync(ZOO) ? false : 'the shared fixtures are not beside the repository';

const one = (value: Value): Inputs => new Map([['x', value]]);
const ofTensor = (tensor: Tensor): Inputs => one({ kind: 'tensor', tensor });
/** Reads a record with apache-arrow: rows as plain objects. */
const rowsOf = (bytes: Uint8Array): unknown => JSON.parse(tableFromIPC(bytes).toString());

function refused(inputs: Inputs): ServingError {
  let thrown: unknown;
  try {
    encodeArrowRecord(inputs);
  } catch (error) {
    thrown = error;
  }
  assert.ok(thrown instanceof ServingError, `expected a ServingError, got ${String(thrown)}`);
  return thrown;
}

describe('encodeArrowRecord', () => {
  it('writes the rows and the schema that the old Python client wrote', { skip }, () => {
    const { ok } = JSON.parse(readFileSync(new URL('derived/enqueue_wire_golden.json', ZOO), 'utf8')) as {
      ok: { name: string; arrow_rows: unknown; fields: { data: string } }[];
    };
    assert.ok(ok.length > 0);
    for (const { name, arrow_rows: rows, fields } of ok) {
      const theirs = decodeBase64(fields.data);
      const ours = encodeArrowRecord(decodeArrowRecord(theirs));
      assert.deepEqual(rowsOf(ours), rowsOf(theirs), name);
      assert.equal(String(tableFromIPC(ours).schema), String(tableFromIPC(theirs).schema), name);
      if (Array.isArray(rows)) assert.deepEqual(rowsOf(ours), rows, name);
    }
  });

  it('mixes text and tensors in one record, text in the first of the four rows', () => {
    const none = { indiceData: null, indiceShape: null, data: null, shape: null };
    const inputs: Inputs = new Map([
      ['img', { kind: 'image', bytes: Uint8Array.of(1, 2, 3) }],
      ['t', dense([2], [1, 2])],
    ]);
    const bytes = encodeArrowRecord(inputs);
    assert.deepEqual(rowsOf(bytes), [
      { img: 'AQID', t: { ...none, indiceData: [] } },
      { img: null, t: { ...none, indiceShape: [] } },
      { img: null, t: { ...none, data: [1, 2] } },
      { img: null, t: { ...none, shape: [2] } },
    ]);
    assert.deepEqual(
      decodeArrowRecord(bytes),
      new Map([
        ['img', { kind: 'text', text: 'AQID' }],
        ['t', dense([2], [1, 2])],
      ]),
    );
  });

  it('writes one row when there is only text', () => {
    assert.deepEqual(rowsOf(encodeArrowRecord(one({ kind: 'text', text: 'grüß' }))), [{ x: 'grüß' }]);
  });

  it('joins strings with a vertical bar', () => {
    const list = ofTensor({ dtype: 'string', shape: [2], data: ['a', 'b'] });
    assert.deepEqual(rowsOf(encodeArrowRecord(list)), [{ x: 'a|b' }]);
    const scalar = ofTensor({ dtype: 'string', shape: [], data: ['a|b'] });
    assert.deepEqual(rowsOf(encodeArrowRecord(scalar)), [{ x: 'a|b' }]);
  });

  it('casts every numeric dtype to float32', () => {
    const cases: [NumericDType, TypedArray, number[]][] = [
      ['float32', Float32Array.of(0.5, -1), [0.5, -1]],
      ['float64', Float64Array.of(0.1, 16_777_217), [Math.fround(0.1), 16_777_216]],
      [
        'float16',
        Uint16Array.of(0x3c00, 0xc000, 0x0001, 0x7c00, 0xfc00),
        [1, -2, 2 ** -24, Infinity, -Infinity],
      ],
      ['int8', Int8Array.of(-128, 127), [-128, 127]],
      ['uint16', Uint16Array.of(65_535), [65_535]],
      ['int32', Int32Array.of(-5), [-5]],
      ['int64', BigInt64Array.of(-(2n ** 40n)), [-(2 ** 40)]],
      ['uint64', BigUint64Array.of(2n ** 63n), [2 ** 63]],
      ['bool', Uint8Array.of(0, 1), [0, 1]],
    ];
    for (const [dtype, data, expected] of cases) {
      const inputs = decodeArrowRecord(encodeArrowRecord(ofTensor({ dtype, shape: [data.length], data })));
      assert.deepEqual(tensorOf(inputs, 'x').data, Float32Array.from(expected), dtype);
    }
    const nan = decodeArrowRecord(
      encodeArrowRecord(ofTensor({ dtype: 'float16', shape: [1], data: Uint16Array.of(0x7e00) })),
    );
    assert.ok(Number.isNaN(tensorOf(nan, 'x').data[0]));
  });

  it('gives back the dense tensors, sparse tensors and texts that it got', () => {
    const tensors = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 }).chain((shape) => {
      const length = shape.reduce((product, dim) => product * dim, 1);
      const data = fc.array(fc.float({ noNaN: true }), { minLength: length, maxLength: length });
      return data.map((values) => dense(shape, values));
    });
    const sparse = fc.array(fc.tuple(fc.nat(9), fc.nat(9), fc.float({ noNaN: true })), { maxLength: 5 }).map(
      (points): Value => ({
        kind: 'sparse',
        shape: [10, 10],
        indices: Int32Array.from(points.flatMap(([row, column]) => [row, column])),
        indicesShape: [points.length, 2],
        values: {
          dtype: 'float32',
          shape: [points.length],
          data: Float32Array.from(points, ([, , value]) => value),
        },
      }),
    );
    const texts = fc.string({ unit: 'grapheme' }).map((text): Value => ({ kind: 'text', text }));
    const names = fc.string({ unit: 'grapheme', maxLength: 40 });
    const records = fc.uniqueArray(fc.tuple(names, fc.oneof(tensors, sparse, texts)), {
      minLength: 1,
      maxLength: 8,
      selector: ([name]) => name,
    });
    fc.assert(
      fc.property(records, (entries) => {
        assert.deepEqual([...decodeArrowRecord(encodeArrowRecord(new Map(entries)))], entries);
      }),
      { numRuns: 300 },
    );
  });

  it('writes a schema that is longer than the first room it takes', () => {
    const entries = Array.from(
      { length: 256 },
      (_, i) => [`${i}-${'n'.repeat(200)}`, dense([1], [i])] as const,
    );
    const bytes = encodeArrowRecord(new Map(entries));
    assert.deepEqual([...decodeArrowRecord(bytes)], entries);
    assert.equal(tableFromIPC(bytes).numCols, 256);
  });

  it('refuses what the format cannot say, naming the input', () => {
    const bar = refused(ofTensor({ dtype: 'string', shape: [2], data: ['a|b', 'c'] }));
    assert.match(bar.message, /input "x": "a\|b" has a vertical bar/);
    const matrix = refused(ofTensor({ dtype: 'string', shape: [1, 1], data: ['a'] }));
    assert.match(matrix.message, /input "x": expected one string or a list of them, got shape \[1,1\]/);
    assert.match(refused(ofTensor({ dtype: 'string', shape: [0], data: [] })).message, /got shape \[0\]/);
    assert.match(
      refused(one({ kind: 'json', value: [1] })).message,
      /input "x": a JSON value cannot be written/,
    );
    assert.match(
      refused(ofTensor({ dtype: 'float32', shape: [3], data: Float32Array.of(1) })).message,
      /means 3 values/,
    );
    const huge: Value = {
      kind: 'sparse',
      shape: [2 ** 31],
      indices: Int32Array.of(1),
      indicesShape: [1, 1],
      values: { dtype: 'float32', shape: [1], data: Float32Array.of(1) },
    };
    assert.match(refused(one(huge)).message, /dimensions from 0 to 2147483647, got 2147483648/);
    const words: Value = { ...huge, shape: [5], values: { dtype: 'string', shape: [1], data: ['a'] } };
    assert.match(refused(one(words)).message, /expected numbers in a sparse tensor/);
    for (const error of [bar, matrix]) assert.equal(error.code, 'bad_input');
  });

  it('refuses no inputs, too many, too long a name and too many dimensions', () => {
    assert.equal(refused(new Map()).code, 'bad_input');
    const many = new Map(Array.from({ length: 257 }, (_, i) => [`${i}`, dense([1], [1])]));
    assert.equal(refused(many).code, 'too_large');
    assert.equal(refused(new Map([['n'.repeat(257), dense([1], [1])]])).code, 'too_large');
    assert.equal(
      refused(
        one(
          dense(
            Array.from({ length: 17 }, () => 1),
            [1],
          ),
        ),
      ).code,
      'too_large',
    );
  });
});
