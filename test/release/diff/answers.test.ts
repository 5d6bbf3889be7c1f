/** How far the answers of two versions are apart, by rows that were made for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NamedTensor } from '../../../lib/contract/values.ts';
import { differencesOf } from '../../../release/diff/answers.ts';

const output = (values: readonly number[], name = 'scores'): NamedTensor => ({
  name,
  dtype: 'float32',
  shape: [1, values.length],
  data: Float32Array.from(values),
});
const rows = (...values: readonly (readonly number[])[]) => values.map((row) => [output(row)]);

const BEFORE = rows([0, 1, 2], [3, 1, 0], [0, 100, 50], [5, 6, 9]);

test('equal answers have no difference and no flip', () => {
  assert.deepEqual(differencesOf(BEFORE, BEFORE), [
    { output: 'scores', rows: 4, otherForm: 0, median: 0, largest: 0, worstRow: 0, flips: 0 },
  ]);
});

test('a difference is a share of the spread of its own row', () => {
  // By 0.2 of 2, by 0.3 of 3, by 50 of 100 and by nothing.
  const after = rows([0, 1, 2.2], [3, 1.3, 0], [0, 100, 100], [5, 6, 9]);
  const [found] = differencesOf(BEFORE, after);
  assert.ok(found);
  assert.deepEqual([found.largest, found.worstRow, found.flips], [0.5, 2, 0]);
  assert.ok(Math.abs(found.median - 0.1) < 1e-6, `${found.median}`);
});

test('a row whose largest value is at another place is a flip', () => {
  assert.equal(differencesOf(BEFORE, rows([0, 3, 2], [3, 1, 0], [0, 100, 50], [9, 6, 5]))[0]?.flips, 2);
});

test('the same values in another order are reported by their places', () => {
  const after = rows([2, 0, 1], [0, 3, 1], [50, 0, 100], [9, 5, 6]);
  assert.deepEqual(differencesOf(BEFORE, after)[0]?.order, [1, 2, 0]);
});

test('an order is not told where one row has other values, values are alike, or rows are few', () => {
  const order = (before: NamedTensor[][], after: NamedTensor[][]) => differencesOf(before, after)[0]?.order;
  assert.equal(order(BEFORE, rows([2, 0, 1], [0, 3, 1], [50, 0, 100], [9, 5, 7])), undefined);
  assert.equal(order(rows([1, 1], [2, 2], [3, 3]), rows([1, 1], [2, 2], [3, 3])), undefined);
  assert.equal(order(rows([1, 2], [2, 3]), rows([2, 1], [3, 2])), undefined);
});

test('another shape, dtype or text, and a number instead of none, is another form', () => {
  const text = (value: string): NamedTensor[] => [
    { name: 'word', dtype: 'string', shape: [1], data: [value] },
  ];
  assert.equal(differencesOf([text('a'), text('b')], [text('a'), text('c')])[0]?.otherForm, 1);
  assert.equal(differencesOf(rows([0, 1]), rows([0, 1, 2]))[0]?.otherForm, 1);
  assert.equal(differencesOf(rows([0, Number.NaN]), rows([0, 1]))[0]?.otherForm, 1);
  assert.equal(differencesOf(rows([0, Number.NaN]), rows([0, Number.NaN]))[0]?.otherForm, 0);
});

test('values of one number a row are compared by the spread of all rows', () => {
  const [found] = differencesOf(rows([0], [10]), rows([0], [11]));
  assert.deepEqual([found?.largest, found?.flips], [0.1, undefined]);
});

test('outputs that the second version does not have are left out', () => {
  const before = [[output([1, 2]), output([3, 4], 'box')]];
  assert.deepEqual(
    differencesOf(before, [[output([1, 2])]]).map((one) => one.output),
    ['scores'],
  );
});
