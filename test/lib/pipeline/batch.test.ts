import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Inputs, Value } from '../../../lib/contract/values.ts';
import { type BatchSettings, runBatch } from '../../../lib/pipeline/batch.ts';
import type { Feeds } from '../../../lib/pipeline/bind.ts';
import { infer } from '../../../lib/pipeline/infer.ts';

const SETTINGS: BatchSettings = { maxRows: 8, maxBytes: 1_000, separable: true };

function feeds(rows: number, ...values: number[]): Feeds {
  const shape = [rows, values.length / rows];
  const tensors: Tensor[] = [{ dtype: 'float32', shape, data: Float32Array.from(values) }];
  return { tensors, rows, keepsBatchDim: false };
}

/** Gives back what it gets, and remembers the rows of each run. The memory of the inputs is used again. */
function identity() {
  const rows: number[] = [];
  const run = async (given: readonly Tensor[]) => {
    const [{ dtype, shape, data }] = given as [Tensor];
    rows.push(shape[0] as number);
    return [{ name: 'y', dtype, shape, data: data.slice() }];
  };
  return { rows, run };
}

test('a run takes records up to its byte limit, and exactly that many', async () => {
  const { rows, run } = identity();
  const records = Array.from({ length: 7 }, (_, i) => feeds(1, i, i));
  const outcomes = await runBatch(records, { ...SETTINGS, maxBytes: 24 }, run);
  assert.deepEqual(rows, [3, 3, 1]);
  assert.ok(outcomes.every((outcome, i) => outcome.ok && outcome.outputs[0]?.data[0] === i));
});

test('texts count as bytes of a run, and a record over the limit runs alone', async () => {
  const { rows, run } = identity();
  const text = (...data: string[]): Feeds => ({
    tensors: [{ dtype: 'string', shape: [1, data.length], data }],
    rows: 1,
    keepsBatchDim: false,
  });
  await runBatch([text('a'), text('b'), text('c')], { ...SETTINGS, maxBytes: 32 }, run);
  await runBatch([feeds(1, 1, 2), feeds(1, 3, 4)], { ...SETTINGS, maxBytes: 1 }, run);
  assert.deepEqual(rows, [2, 1, 1, 1]);
});

test('a run takes at most maxRows rows, of records with several rows too', async () => {
  const { rows, run } = identity();
  const records = [feeds(3, 1, 2, 3), feeds(3, 4, 5, 6), feeds(2, 7, 8), feeds(1, 9)];
  await runBatch(records, SETTINGS, run);
  assert.deepEqual(rows, [8, 1]);
});

test('a run that fails for a passing reason is not halved, and all its records have that reason', async () => {
  let runs = 0;
  const away = new ServingError('model_unavailable', 'away');
  const run = () => {
    runs++;
    return Promise.reject(away);
  };
  const outcomes = await runBatch([feeds(1, 1), feeds(1, 2), feeds(1, 3)], SETTINGS, run);
  assert.equal(runs, 1);
  assert.ok(outcomes.every((outcome) => !outcome.ok && outcome.error === away));
});

test('a fixed batch is filled up with zeros, whatever the memory held before', async () => {
  const runs: number[][] = [];
  const run = async ([tensor]: readonly Tensor[]) => {
    runs.push([...(tensor?.data as Float32Array)]);
    return [{ name: 'y', ...(tensor as Tensor) }];
  };
  const settings = { ...SETTINGS, fixedRows: 4 };
  for (let round = 0; round < 2; round++) {
    await runBatch(
      [1, 2, 3, 4, 5].map((value) => feeds(1, value)),
      settings,
      run,
    );
  }
  assert.deepEqual(runs.slice(2), [
    [1, 2, 3, 4],
    [5, 0, 0, 0],
  ]);
});

test('outputs that do not count the rows are never split among records', async () => {
  const sums = async ([tensor]: readonly Tensor[]) => {
    const sum = (tensor?.data as Float32Array).reduce((a, b) => a + b, 0);
    return [{ name: 'y', dtype: 'float32' as const, shape: [1], data: Float32Array.of(sum) }];
  };
  const outcomes = await runBatch([feeds(1, 1), feeds(1, 2)], SETTINGS, sums);
  assert.deepEqual(
    outcomes.map((outcome) => outcome.ok && outcome.outputs[0]?.data[0]),
    [1, 2],
  );
});

test('no more input bytes are bound at once than one run takes', async () => {
  let bound = 0;
  class Counted extends Map<string, Value> {
    override get(name: string): Value | undefined {
      bound++;
      return super.get(name);
    }
  }
  const records = [0, 1, 2, 3, 4].map((value): Inputs => {
    const tensor: Tensor = { dtype: 'float32', shape: [2], data: Float32Array.of(value, value) };
    return new Counted([['x', { kind: 'tensor', tensor }]]);
  });
  const specs = [{ name: 'x', dtype: 'float32' as const, shape: ['N', 2] }];
  const settings = { ...SETTINGS, maxBytes: 16, inputAlreadyBatched: false, image: {} };
  const { rows, run } = identity();
  const boundAtRun: number[] = [];
  const outcomes = await infer(records, specs, settings, (given) => {
    boundAtRun.push(bound);
    return run(given);
  });
  assert.deepEqual(
    [rows, boundAtRun],
    [
      [2, 2, 1],
      [2, 4, 5],
    ],
  );
  assert.ok(outcomes.every((outcome, i) => outcome.ok && outcome.outputs[0]?.data[0] === i));
});
