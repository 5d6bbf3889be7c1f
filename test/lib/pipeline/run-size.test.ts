import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { runBatch } from '../../../lib/pipeline/batch/batch.ts';
import { RunSize } from '../../../lib/pipeline/batch/run-size.ts';

/** Runs batches with that many rows, which cost that many ms a row; returns how many rows were run at each size. */
function work(size: RunSize, rows: number, batches: number, costOf: (rows: number) => number) {
  const ran = new Map<number, number>();
  for (let batch = 0; batch < batches; batch++) {
    for (let left = rows; left > 0; ) {
      const taken = Math.min(left, size.rows);
      size.ran(taken, taken * costOf(taken));
      ran.set(taken, (ran.get(taken) ?? 0) + taken);
      left -= taken;
    }
  }
  return ran;
}

/** The share of the rows that ran in runs of this size. */
function shareOf(ran: ReadonlyMap<number, number>, size: number): number {
  const all = [...ran.values()].reduce((sum, rows) => sum + rows, 0);
  return (ran.get(size) ?? 0) / all;
}

const fresh = (most = 32) => new RunSize(most, () => 0);

describe('the size of a run', () => {
  test('is that of the batch where more rows are cheaper, except for rare trials', () => {
    const ran = work(fresh(), 32, 2_000, (rows) => 1 + 1 / rows);
    assert.ok(shareOf(ran, 32) > 0.98, JSON.stringify([...ran]));
    assert.ok((ran.get(8) ?? 0) > 0);
  });

  test('is the smaller one that is clearly faster, and found within some batches', () => {
    const costs = new Map([
      [32, 1.36],
      [8, 1.18],
      [2, 1.1],
      [1, 1.13],
    ]);
    const size = fresh();
    const ran = work(size, 32, 40, (rows) => costs.get(rows) ?? 9);
    assert.ok(shareOf(ran, 2) > 0.7, JSON.stringify([...ran]));
    assert.ok(
      shareOf(
        work(size, 32, 2_000, (rows) => costs.get(rows) ?? 9),
        2,
      ) > 0.98,
    );
  });

  test('stays where another one is not clearly faster', () => {
    assert.ok(
      shareOf(
        work(fresh(), 32, 500, (rows) => (rows === 8 ? 0.97 : 1)),
        32,
      ) > 0.95,
    );
  });

  test('grows again when larger runs become faster', () => {
    const size = fresh();
    work(size, 32, 200, (rows) => rows);
    assert.equal(size.rows, 1);
    const ran = work(size, 32, 2_000, (rows) => 1 / rows);
    assert.ok(shareOf(ran, 32) > 0.9, JSON.stringify([...ran]));
    // Also after a long time.
    work(size, 32, 3_000, (rows) => rows);
    work(size, 32, 500, (rows) => 1 / rows);
    const later = work(size, 32, 100, (rows) => 1 / rows);
    assert.ok(shareOf(later, 32) > 0.9, JSON.stringify([...later]));
  });

  test('is judged by the fastest of several runs, so that one that was disturbed counts nothing', () => {
    let runs = 0;
    const ran = work(fresh(), 32, 500, (rows) => (++runs % 3 === 0 ? 50 : 1 + 1 / rows));
    assert.ok(shareOf(ran, 32) > 0.95, JSON.stringify([...ran]));
  });

  test('is found for batches that are smaller than a run could be, also when they differ', () => {
    const costOf = (rows: number) => (rows <= 3 ? 1 : 1.2);
    const ran = work(fresh(), 10, 300, costOf);
    assert.ok(shareOf(ran, 10) < 0.2, JSON.stringify([...ran]));
    const same = work(fresh(), 10, 2_000, (rows) => 1 + 1 / rows);
    assert.ok(shareOf(same, 10) > 0.98, JSON.stringify([...same]));

    const size = fresh();
    let rows = 0;
    const mixed = new Map<number, number>();
    for (let batch = 0; batch < 600; batch++) {
      rows = (rows % 10) + 1;
      for (const [taken, many] of work(size, rows, 1, costOf)) {
        mixed.set(taken, (mixed.get(taken) ?? 0) + many);
      }
    }
    assert.ok(shareOf(mixed, 10) < 0.1, JSON.stringify([...mixed]));
    // Batches become smaller for good: a run of theirs is a full one now.
    const later = fresh();
    work(later, 32, 100, (all) => 1 + 1 / all);
    const small = work(later, 8, 3_000, (all) => (all <= 2 ? 1 : 1.2));
    assert.ok(shareOf(small, 8) < 0.5, JSON.stringify([...small]));
  });

  test('is never above the batch or below a row, at any cost of runs', () => {
    for (const most of [1, 2, 3, 5, 32, 256]) {
      const size = fresh(most);
      let seed = most;
      const noise = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
      for (let run = 0; run < 5_000; run++) {
        assert.ok(Number.isInteger(size.rows) && size.rows >= 1 && size.rows <= most, `${size.rows}`);
        size.ran(Math.ceil(noise() * size.rows), noise());
      }
    }
  });

  test('grows for batches that do not fill it, too, and a trial that they do not fill ends', () => {
    const size = fresh();
    work(size, 32, 200, (rows) => rows);
    // Only two rows come from now on, and larger runs would be faster.
    work(size, 2, 5_000, (rows) => 1 / rows);
    const ran = work(size, 2, 1_000, (rows) => 1 / rows);
    assert.ok(shareOf(ran, 2) > 0.98, JSON.stringify([...ran]));
    const back = fresh();
    work(back, 32, 200, (rows) => rows);
    let trials = 0;
    for (let run = 0; run < 2_000; run++) {
      if (back.rows > 1) trials++;
      back.ran(1, 1);
    }
    assert.ok(trials > 0 && trials < 200, `${trials} of 2,000`);
  });

  test('cuts a batch, whose records have their outcomes in order', async () => {
    let nowMs = 0;
    const runSize = new RunSize(4, () => nowMs);
    const runs: number[] = [];
    const run = async ([x]: readonly Tensor[]) => {
      const { shape, data } = x as Tensor;
      const [rows = 0] = shape;
      runs.push(rows);
      nowMs += rows ** 2;
      return [
        { name: 'y', dtype: 'float32' as const, shape, data: (data as Float32Array).map((value) => -value) },
      ];
    };
    for (let batch = 0; batch < 20; batch++) {
      const slots = [1, 2, 3, 4].map((value) => {
        const tensor: Tensor = { dtype: 'float32', shape: [1, 1], data: Float32Array.of(value) };
        return { tensors: [tensor], rows: 1, keepsBatchDim: false };
      });
      const outcomes = await runBatch(slots, { maxRows: 4, maxBytes: 100, separable: true, runSize }, run);
      assert.deepEqual(
        outcomes.map((outcome) => outcome.ok && [...(outcome.outputs[0]?.data as Float32Array)]),
        [[-1], [-2], [-3], [-4]],
      );
    }
    assert.deepEqual(runs.slice(0, 3), [4, 4, 4]);
    assert.deepEqual(runs.slice(-4), [1, 1, 1, 1]);
  });

  test('a full run that is rare is still what a run can have', () => {
    const size = new RunSize(16, () => 0);
    const tried = new Set<number>();
    for (let run = 0; run < 200; run++) {
      tried.add(size.rows);
      const rows = Math.min(run % 32 === 0 ? 16 : 4, size.rows);
      size.ran(rows, rows);
    }
    assert.deepEqual([...tried], [16, 4]);
  });

  test('costs of smaller runs are forgotten once larger ones come', () => {
    const size = new RunSize(16, () => 0);
    for (const rows of [4, 4, 16]) size.ran(rows, rows);
    assert.equal(size.rows, 16);
    for (let i = 0; i < 2; i++) size.ran(16, 16);
    assert.equal(size.rows, 4);
  });
});
