/** Nested numbers become tensors before they go to another process, and bind as they did. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DType } from '../../../lib/contract/tensor.ts';
import type { Inputs, TensorSpec, Value } from '../../../lib/contract/values.ts';
import { bindRecord } from '../../../lib/pipeline/bind/bind.ts';
import { flattened } from '../../../lib/pipeline/bind/flatten.ts';

const json = (value: unknown): Value => ({ kind: 'json', value });

const specOf = (dtype: DType, name = 'x'): TensorSpec => ({ name, dtype, shape: ['n', 2, 2] });

const bound = async (record: Inputs, specs: readonly TensorSpec[]) => {
  try {
    return await bindRecord(record, specs, { inputAlreadyBatched: false, image: {} });
  } catch (error) {
    const { code, message } = error as Error & { code: string };
    return { code, message };
  }
};

test('arrays of numbers are tensors of the dtype of their input', () => {
  const record = new Map([
    ['y', json([1, 2])],
    [
      'x',
      json([
        [1.5, 2],
        [3, 4],
      ]),
    ],
  ]);
  const [flat] = flattened([record], [specOf('float32'), { name: 'y', dtype: 'int64', shape: ['n', 2] }]);
  assert.deepEqual(
    [...(flat as Inputs)],
    [
      ['y', { kind: 'tensor', tensor: { dtype: 'int64', shape: [2], data: BigInt64Array.of(1n, 2n) } }],
      [
        'x',
        { kind: 'tensor', tensor: { dtype: 'float32', shape: [2, 2], data: Float32Array.of(1.5, 2, 3, 4) } },
      ],
    ],
  );
});

test('what binds, and how what does not is refused, is the same', async () => {
  const values: readonly unknown[] = [
    [
      [1, 2],
      [3, 4],
    ],
    [
      [true, false],
      [0, 1],
    ],
    [[1, 2], [3]],
    [
      [1, 2],
      [3, 'a'],
    ],
    [
      [1, 2],
      [3, 1e39],
    ],
    [
      [1, 2],
      [3, 300],
    ],
    [
      [1, 2],
      [3, 1.5],
    ],
    [
      [1, 2],
      [3, 2 ** 53 + 2],
    ],
    [1, 2],
    [],
    [[], []],
    7,
    'text',
    null,
    { shape: [2, 2], data: [1], indices: [[0, 1]] },
    [
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
  ];
  let bad = 0;
  for (const dtype of ['float32', 'float64', 'float16', 'int64', 'uint8', 'bool', 'string'] as const) {
    for (const value of values) {
      const specs = [specOf(dtype)];
      for (const name of ['x', 'other']) {
        const record: Inputs = new Map([[name, json(value)]]);
        const expected = await bound(record, specs);
        const [flat] = flattened([record], specs);
        assert.deepEqual(await bound(flat as Inputs, specs), expected, `${dtype} ${JSON.stringify(value)}`);
        if ('code' in expected) bad++;
      }
    }
  }
  assert.ok(bad > 50);
});

test('other values, and records with other names, stay what they are', () => {
  const specs = [specOf('float32')];
  const records: readonly Inputs[] = [
    new Map([
      [
        'other',
        json([
          [1, 2],
          [3, 4],
        ]),
      ],
    ]),
    new Map([['x', { kind: 'text', text: '[1]' }]]),
    new Map([
      ['x', json([1])],
      ['y', json([1])],
    ]),
  ];
  assert.deepEqual(flattened(records, specs), records);
});
