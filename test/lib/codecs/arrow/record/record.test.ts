import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it, test } from 'node:test';
import { Float64, vectorFromArray } from 'apache-arrow';
import { decodeArrowRecord } from '../../../../../lib/codecs/arrow/record.ts';
import { decodeBase64 } from '../../../../../lib/codecs/base64.ts';
import type { Value } from '../../../../../lib/contract/values.ts';
import { dense, fourRows, listOf, record, scalaRecord, tensorOf, tensorType } from '../records.ts';

const ZOO = new URL('../../../../../../shared/fixtures/zoo/', import.meta.url);
const skip = existsSync(ZOO) ? false : 'the shared fixtures are not beside the repository';
const fixture = (path: string) => readFileSync(new URL(path, ZOO), 'utf8');

describe('decodeArrowRecord on real records', { skip }, () => {
  it('reads the sparse record in legacy framing', () => {
    const value: Value = {
      kind: 'sparse',
      shape: [100, 10000],
      indices: Int32Array.of(1, 1, 2, 2, 2, 3),
      indicesShape: [3, 2],
      values: { dtype: 'float32', shape: [3], data: Float32Array.of(3, 4, 5) },
    };
    assert.deepEqual(
      decodeArrowRecord(decodeBase64(fixture('arrow/arrowBytes'))),
      new Map([['my-img', value]]),
    );
  });

  it('reads the dense record in modern framing', () => {
    const inputs = decodeArrowRecord(decodeBase64(fixture('arrow/ndarray-2-base64')));
    assert.deepEqual(inputs, new Map([['t', dense([2, 1], [1, 2])]]));
  });

  it('reads the image record as the very text of the JPEG', () => {
    const inputs = decodeArrowRecord(decodeBase64(fixture('arrow/image-3_224_224-arrow-base64')));
    const text = fixture('arrow/image-3_224_224-jpg-base64').trimEnd();
    assert.deepEqual(inputs, new Map([['t', { kind: 'text', text }]]));
  });

  it('reads every record of the old Python client as what was enqueued', () => {
    const golden = JSON.parse(fixture('derived/enqueue_wire_golden.json')) as {
      ok: { name: string; fields: { data: string } }[];
    };
    const text = (value: string): Value => ({ kind: 'text', text: value });
    const expected: Record<string, [string, Value][]> = {
      dense_1d: [['a', dense([2], [1, 2])]],
      dense_2d: [['tensor2', dense([2, 2], [1, 3, 2, 3])]],
      dense_two_inputs: [
        ['t1', dense([2], [1, 2])],
        ['t2', dense([2], [3, 4])],
      ],
      dense_scalar_0d: [['x', dense([], [3])]],
      dense_float64_cast: [['x', dense([3], [0.1, 1e-8, 16_777_216])]],
      dense_4d_batch: [['t', dense([1, 2, 2, 2], [0, 1, 2, 3, 4, 5, 6, 7])]],
      sparse_2d: [
        [
          'input',
          {
            kind: 'sparse',
            shape: [5, 10],
            indices: Int32Array.of(0, 1, 4, 0, 2, 5),
            indicesShape: [2, 3],
            values: { dtype: 'float32', shape: [3], data: Float32Array.of(101, 102, 103) },
          },
        ],
      ],
      string_list: [['user_define_key', text('hello|world')]],
      string_list_single: [['k', text('hello')]],
      image_b64_bytes: [
        ['user_define_key', text(readFileSync(new URL('images/cat1.jpeg', ZOO)).toString('base64'))],
      ],
      image_two: [
        ['img1', text('AAAA')],
        ['img2', text('BBBB')],
      ],
    };
    assert.deepEqual(golden.ok.map(({ name }) => name).sort(), Object.keys(expected).sort());
    for (const { name, fields } of golden.ok) {
      const inputs = [...decodeArrowRecord(decodeBase64(fields.data))];
      assert.deepEqual(inputs, expected[name], name);
    }
  });
});

describe('decodeArrowRecord on the three tensor layouts', () => {
  const expected = new Map([['x', dense([2, 3], [1, 2, 3, 4, 5, 6])]]);
  const [shape, data] = [
    [2, 3],
    [1, 2, 3, 4, 5, 6],
  ];

  it('reads one row', () => {
    const row = { indiceData: [], indiceShape: [], data, shape };
    assert.deepEqual(decodeArrowRecord(record({ x: vectorFromArray([row], tensorType()) })), expected);
  });

  it('reads four rows of one child each', () => {
    assert.deepEqual(decodeArrowRecord(record({ x: fourRows(tensorType(), [], [], data, shape) })), expected);
  });

  it('reads lists of one item in a null row, as the Scala front end writes them', () => {
    assert.deepEqual(decodeArrowRecord(scalaRecord('x', shape, data, [], [])), expected);
    const sparse = decodeArrowRecord(scalaRecord('s', [5, 10], [7, 8, 9], [3, 2], [0, 0, 1, 2, 4, 5]));
    assert.deepEqual(sparse.get('s'), {
      kind: 'sparse',
      shape: [5, 10],
      indices: Int32Array.of(0, 0, 1, 2, 4, 5),
      indicesShape: [3, 2],
      values: { dtype: 'float32', shape: [3], data: Float32Array.of(7, 8, 9) },
    });
  });
});

describe('decodeArrowRecord and memory', () => {
  const x = fourRows(tensorType(), [], [], [1, 2, 3], [3]);
  const y = fourRows(tensorType(listOf(new Float64())), [], [], [4, 5], [2]);
  const bytes = record({ x, y });

  it('gives a view of the record when it is aligned', () => {
    const { data } = tensorOf(decodeArrowRecord(bytes), 'x');
    assert.equal((data as Float32Array).buffer, bytes.buffer);
  });

  it('reads a record at any offset, in a Uint8Array and in a Buffer', () => {
    const expected = decodeArrowRecord(bytes);
    for (let shift = 0; shift < 8; shift++) {
      const room = new ArrayBuffer(bytes.length + 8);
      const moved = new Uint8Array(room, shift, bytes.length);
      moved.set(bytes);
      assert.deepEqual(decodeArrowRecord(moved), expected, `Uint8Array at ${shift}`);
      assert.deepEqual(
        decodeArrowRecord(Buffer.from(room, shift, bytes.length)),
        expected,
        `Buffer at ${shift}`,
      );
    }
  });
});

test('a sparse tensor without values stays sparse', () => {
  const bytes = record({ x: fourRows(tensorType(), [], [0, 2], [], [2, 3]) });
  const value = decodeArrowRecord(bytes).get('x');
  assert.ok(value?.kind === 'sparse');
  assert.deepEqual([value.shape, value.indicesShape, value.values.data.length], [[2, 3], [0, 2], 0]);
});
