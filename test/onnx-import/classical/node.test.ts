/** Attributes of nodes of ai.onnx.ml in all the forms in which files have them: lists, tensors of values and of raw bytes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { labelEncoder } from '../../../onnx-import/classical/encoders.ts';
import { nodeOf } from '../../../onnx-import/onnx/rewrite/graph.ts';
import { floatAt, intAt, labelsAt, numbersAt, typeAt } from '../../../onnx-import/onnx/rewrite/ml-node.ts';
import {
  bytes,
  type Chunk,
  float,
  integer,
  message,
  packedFloats,
  text,
} from '../../../onnx-import/wire/chunk.ts';

const [FLOAT, INT64, STRING] = [1, 7, 8];
const raw = (values: Uint8Array): Chunk => ({ parts: [values], length: values.length });
const tensor = (type: number, count: number, fields: readonly Chunk[]) =>
  bytes(5, message([integer(1, count), integer(2, type), ...fields]));

/** What an attribute holds, by its name. */
const node = (attributes: Readonly<Record<string, readonly Chunk[]>>) =>
  nodeOf(
    Buffer.concat(
      message([
        text(4, 'LabelEncoder'),
        ...Object.entries(attributes).map(([name, fields]) => bytes(5, message([text(1, name), ...fields]))),
      ]).parts,
    ),
  );

const NODE = node({
  strings: [text(9, 'a'), text(9, 'b')],
  int64s: [integer(8, 3), integer(8, 5)],
  floats: [packedFloats(7, [0.5, 2])],
  texts: [tensor(STRING, 2, [text(6, 'c'), text(6, 'd')])],
  longs: [tensor(INT64, 2, [integer(7, 7), integer(7, 9)])],
  rawLongs: [tensor(INT64, 2, [bytes(9, raw(new Uint8Array(new BigInt64Array([11n, -1n]).buffer)))])],
  rawFloats: [tensor(FLOAT, 2, [bytes(9, raw(new Uint8Array(new Float32Array([1.5, -2]).buffer)))])],
  thresholds_as_tensor: [tensor(FLOAT, 1, [bytes(9, raw(new Uint8Array(new Float32Array([0.25]).buffer)))])],
  empty: [],
  ratio: [float(2, 0.75)],
  count: [integer(3, 4)],
});

test('labels are read from lists and from tensors, of the first name that has any', () => {
  for (const [names, expected] of [
    [['strings'], ['a', 'b']],
    [['int64s'], [3n, 5n]],
    [['texts'], ['c', 'd']],
    [['longs'], [7n, 9n]],
    [['rawLongs'], [11n, -1n]],
    [
      ['absent', 'empty', 'longs'],
      [7n, 9n],
    ],
    [
      ['int64s', 'strings'],
      [3n, 5n],
    ],
    // Numbers that are no labels.
    [['floats'], []],
    [['rawFloats'], []],
    [['absent'], []],
  ] as const)
    assert.deepEqual(labelsAt(NODE, names), expected, names.join());
});

test('numbers are read from lists and from tensors, also under the name of the tensor', () => {
  for (const [name, expected] of [
    ['floats', [0.5, 2]],
    ['int64s', [3, 5]],
    ['longs', [7, 9]],
    ['rawFloats', [1.5, -2]],
    ['thresholds', [0.25]],
    ['strings', []],
    ['empty', []],
    ['absent', []],
  ] as const)
    assert.deepEqual(Array.from(numbersAt(NODE, name)), expected, name);
  assert.deepEqual(
    [typeAt(NODE, 'longs'), typeAt(NODE, 'texts'), typeAt(NODE, 'floats')],
    [INT64, STRING, 0],
  );
  assert.deepEqual([floatAt(NODE, 'ratio', 2), floatAt(NODE, 'absent', 2)], [0.75, 2]);
  assert.deepEqual([intAt(NODE, 'count', 2), intAt(NODE, 'absent', 2)], [4, 2]);
});

test('a LabelEncoder has its pairs in tensors from version 4 of its operators on', () => {
  const encoder = node({
    keys_tensor: [tensor(INT64, 2, [integer(7, 7), integer(7, 9)])],
    values_tensor: [tensor(STRING, 2, [text(6, 'seven'), text(6, 'nine')])],
    default_tensor: [tensor(STRING, 1, [text(6, 'other')])],
  });
  const x = { dtype: 'int64', shape: [3], data: BigInt64Array.of(9n, 1n, 7n) } as const;
  const [answer] = labelEncoder(encoder, [x]);
  assert.deepEqual(typeof answer === 'object' && answer.values, ['nine', 'other', 'seven']);
});
