/** Which rows parts have together, also where two deliveries of a message have left parts that overlap. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  covered,
  type Part,
  partName,
  path,
  reached,
  readPart,
  type StoredPart,
} from '../../../lib/jobs/cover.ts';

const part = (row: number, rows: number, errors = 0, unit = 0): Part => ({ unit, row, rows, errors, ms: 5 });

/** As a listing gives them. */
function listed(...parts: readonly Part[]): StoredPart[] {
  return parts
    .map(partName)
    .toSorted()
    .map((name) => readPart(name, 10) ?? assert.fail(name));
}

const rowsOf = (parts: readonly Part[] | undefined) => parts?.map(({ row, rows }) => [row, rows]);

describe('parts', () => {
  test('say in their names which rows they have, and other names are of no part', () => {
    const name = partName({ unit: 3, row: 70_000, rows: 12, errors: 1, ms: 8.6 });
    assert.equal(name, '000003/000000070000-12-1-9');
    const facts = { unit: 3, row: 70_000, rows: 12, errors: 1, ms: 9 };
    assert.deepEqual(readPart(name, 5), { ...facts, apart: 0, name, bytes: 5 });
    const batch = partName({ ...facts, apart: 40 });
    assert.equal(batch, '000003/000000070000-12-1-9-40');
    assert.deepEqual(readPart(batch, 50), { ...facts, apart: 40, name: batch, bytes: 50 });
    for (const other of ['', '000003/x', '000003/000000070000-0-0-9', '3/7-1-0-0', `${name}.tmp`])
      assert.equal(readPart(other, 5), undefined, other);
  });

  test('lead to each row once, whichever of two chains is complete', () => {
    assert.deepEqual(rowsOf(path(listed(part(0, 5), part(5, 5)), 10)), [
      [0, 5],
      [5, 5],
    ]);
    // The longer first part leads nowhere.
    const torn = listed(part(0, 3), part(0, 5), part(3, 7));
    assert.deepEqual(rowsOf(path(torn, 10)), [
      [0, 3],
      [3, 7],
    ]);
    assert.deepEqual(rowsOf(path(listed(part(0, 4), part(0, 6), part(6, 4)), 10)), [
      [0, 6],
      [6, 4],
    ]);
    assert.equal(path(listed(part(0, 5), part(3, 7)), 10), undefined);
    assert.equal(path(listed(part(0, 5), part(6, 4)), 10), undefined);
    assert.equal(path(listed(part(0, 5)), 10), undefined);
    assert.deepEqual(path([], 0), []);
  });

  test('are counted once where they overlap, and by file', () => {
    const parts = listed(part(0, 5, 2), part(0, 3, 1), part(3, 7, 4), part(20, 5, 1), part(0, 2, 1, 1));
    const { rows, errors, ms } = covered(parts);
    assert.deepEqual({ rows, ms }, { rows: 17, ms: 25 });
    assert.ok(errors < 2 + 1 + 4 + 1 + 1, `${errors}`);
  });

  test('reach the first row that none of them has', () => {
    const parts = listed(part(10, 5), part(10, 2), part(15, 1), part(17, 3));
    assert.deepEqual([reached(parts, 10), reached(parts, 12), reached(parts, 17)], [16, 12, 20]);
  });
});
