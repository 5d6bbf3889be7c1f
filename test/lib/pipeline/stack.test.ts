/** Records become one tensor along an axis, and each gets its rows back, for any type. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { Scratch } from '../../../lib/pipeline/batch/buffer-pool.ts';
import { rowsOf, stackTensors } from '../../../lib/pipeline/batch/stack.ts';

/** Three records of 1, 2 and 1 rows, filled up to five: the rows, and their tensors with rows in front and behind. */
const ROWS = [
  [1, 2, 3],
  [4, 5, 6],
  [7, 8, 9],
  [10, 11, 12],
  [0, 0, 0],
];
const PARTS = [
  [0, 1],
  [1, 3],
  [3, 4],
] as const;

type Kind = 'float32' | 'int64' | 'string';
const made = (dtype: Kind, shape: readonly number[], values: readonly number[]): Tensor => {
  if (dtype === 'string') return { dtype, shape, data: values.map((value) => (value ? `${value}` : '')) };
  if (dtype === 'int64') return { dtype, shape, data: BigInt64Array.from(values, BigInt) };
  return { dtype, shape, data: Float32Array.from(values) };
};

/** Rows from `start` to `end` on the axis. */
function tensorOf(dtype: Kind, axis: 0 | 1, start: number, end: number): Tensor {
  const rows = ROWS.slice(start, end);
  if (axis === 0) return made(dtype, [rows.length, 3], rows.flat());
  const columns = [0, 1, 2].map((column) => rows.map((row) => row[column] as number));
  return made(dtype, [3, rows.length], columns.flat());
}

const KINDS = ['float32', 'int64', 'string'] as const;

test('records are stacked along an axis, and their padding is zero, also in used memory', () => {
  for (const dtype of KINDS) {
    for (const axis of [0, 1] as const) {
      const scratch = new Scratch();
      for (let use = 0; use < 2; use++) {
        const parts = PARTS.map(([start, end]) => tensorOf(dtype, axis, start, end));
        const stacked = stackTensors(parts, axis, ROWS.length, scratch);
        assert.deepEqual(stacked, tensorOf(dtype, axis, 0, ROWS.length), `${dtype} ${axis}`);
        scratch.clear();
        scratch.take(1_024).fill(0xff);
        scratch.clear();
      }
    }
  }
});

test('each record gets its own rows, with the counts of its tokens', () => {
  const tokens = [11, 12, 13, 14, 15];
  for (const dtype of KINDS) {
    for (const axis of [0, 1] as const) {
      const output = { name: 'y', ...tensorOf(dtype, axis, 0, ROWS.length) };
      for (const [start, end] of [...PARTS, [0, ROWS.length]] as const) {
        const rows = end - start;
        const expected = { name: 'y', ...tensorOf(dtype, axis, start, end) };
        const what = `${dtype} ${axis} ${start}`;
        assert.deepEqual(rowsOf(output, axis, start, { rows, keepsBatchDim: true }), expected, what);
        const counted = rowsOf({ ...output, tokens }, axis, start, { rows, keepsBatchDim: true });
        assert.deepEqual(counted, { ...expected, tokens: tokens.slice(start, end) }, what);
        if (rows > 1) continue;
        const single = rowsOf(output, axis, start, { rows, keepsBatchDim: false });
        assert.deepEqual(single, { ...expected, shape: [3] }, what);
      }
    }
  }
});
