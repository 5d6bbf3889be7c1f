import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { sliceTensor, type Tensor } from '../../../lib/contract/tensor.ts';
import type { Inputs, Outcome, Value } from '../../../lib/contract/values.ts';
import { type BatchSettings, runBatch } from '../../../lib/pipeline/batch/batch.ts';
import { type Feeds, imageBytes } from '../../../lib/pipeline/bind/bind.ts';
import { densify } from '../../../lib/pipeline/bind/sparse.ts';
import { infer } from '../../../lib/pipeline/infer.ts';
import fc from '../../support/fast-check.ts';

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
    const [tensor] = given as [Tensor];
    rows.push(tensor.shape[0] as number);
    return [{ name: 'y', ...sliceTensor(tensor) }];
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

test('a fixed batch is filled up with zeros, also in used memory', async () => {
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

test('records of different shapes do not share a run, and each gets its own rows', async () => {
  const { rows, run } = identity();
  const records = [feeds(1, 1, 2), feeds(1, 3, 4, 5), feeds(1, 6, 7)];
  const outcomes = await runBatch(records, SETTINGS, run);
  assert.deepEqual(rows, [2, 1]);
  assert.deepEqual(
    outcomes.map((outcome) => outcome.ok && [...(outcome.outputs[0]?.data as Float32Array)]),
    [
      [1, 2],
      [3, 4, 5],
      [6, 7],
    ],
  );
});

test('a model whose outputs do not follow its rows runs one record at a time', async () => {
  const { rows, run } = identity();
  await runBatch([feeds(1, 1), feeds(1, 2)], { ...SETTINGS, separable: false }, run);
  assert.deepEqual(rows, [1, 1]);
});

/** Feeds of a row, and of an input that the records of a run share. */
function sharing(row: number, shared: Float32Array | readonly string[]): Feeds {
  const table: Tensor =
    shared instanceof Float32Array
      ? { dtype: 'float32', shape: [shared.length], data: shared }
      : { dtype: 'string', shape: [shared.length], data: shared };
  return { ...feeds(1, row), tensors: [...feeds(1, row).tensors, table] };
}

test('records share a run only when their shared inputs are equal, bit for bit', async () => {
  const { rows, run } = identity();
  const settings: BatchSettings = { ...SETTINGS, inputAxes: [0, 'none'] };
  const nan = new Float32Array(Uint32Array.of(0x7fc00001).buffer);
  const shared = [[1], [1], [0], [-0], [1], [1, 1], [NaN]].map((values) => Float32Array.from(values));
  const records = [...shared, nan].map((values, i) => sharing(i, values));
  const outcomes = await runBatch(records, settings, (given) => run(given.slice(0, 1)));
  assert.deepEqual(rows, [3, 1, 1, 1, 1, 1]);
  assert.deepEqual(
    outcomes.map((outcome) => outcome.ok && outcome.outputs[0]?.data[0]),
    [0, 1, 2, 3, 4, 5, 6, 7],
  );
  await runBatch(
    [['a'], ['b'], ['a']].map((texts, i) => sharing(i, texts)),
    settings,
    (given) => run(given.slice(0, 1)),
  );
  assert.deepEqual(rows.slice(6), [2, 1]);
});

test('shared inputs of equal bytes and another shape do not share a run', async () => {
  const { rows, run } = identity();
  const data = Float32Array.of(1, 2, 3, 4, 5, 6);
  const records = [[2, 3], [3, 2], [2, 3], [6]].map((shape, i): Feeds => {
    const table = { dtype: 'float32' as const, shape, data };
    return { ...feeds(1, i), tensors: [...feeds(1, i).tensors, table] };
  });
  const settings: BatchSettings = { ...SETTINGS, inputAxes: [0, 'none'] };
  await runBatch(records, settings, (given) => run(given.slice(0, 1)));
  assert.deepEqual(rows, [2, 1, 1]);
});

test('a full run of equal shared inputs is followed by another one', async () => {
  const { rows, run } = identity();
  const settings: BatchSettings = { ...SETTINGS, maxRows: 2, inputAxes: [0, 'none'] };
  const records = [1, 2, 1, 1, 2, 1].map((value, i) => sharing(i, Float32Array.of(value)));
  await runBatch(records, settings, (given) => run(given.slice(0, 1)));
  assert.deepEqual(rows, [2, 2, 2]);
});

test('records that are stacked along any axis are taken apart again, for any rows, padding and dtype', async () => {
  const dims = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 4 });
  const property = fc.asyncProperty(
    dims,
    fc.nat(),
    fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 4 }),
    fc.nat({ max: 2 }),
    fc.constantFrom('float32', 'int64', 'string'),
    async (shape, place, counts, padding, dtype) => {
      const axis = place % shape.length;
      let next = 0;
      const records = counts.map((rows): Feeds => {
        const own = shape.with(axis, rows);
        const length = own.reduce((a, b) => a * b, 1);
        const numbers = Array.from({ length }, () => ++next);
        const tensor: Tensor =
          dtype === 'float32'
            ? { dtype, shape: own, data: Float32Array.from(numbers) }
            : dtype === 'int64'
              ? { dtype, shape: own, data: BigInt64Array.from(numbers, BigInt) }
              : { dtype: 'string', shape: own, data: numbers.map(String) };
        return { tensors: [tensor], rows, keepsBatchDim: true };
      });
      const total = counts.reduce((a, b) => a + b, padding);
      let stacked: Tensor | undefined;
      const settings: BatchSettings = {
        ...SETTINGS,
        maxRows: 100,
        maxBytes: 1e6,
        inputAxes: [axis],
        outputAxes: [axis],
        fixedRows: total,
      };
      const outcomes = await runBatch(records, settings, async ([tensor]) => {
        stacked = { ...tensor, data: tensor?.data.slice() } as Tensor;
        return [{ name: 'y', ...stacked }];
      });
      assert.deepEqual(stacked?.shape, shape.with(axis, total));
      assert.deepEqual(
        outcomes.map((outcome) => outcome.ok && outcome.outputs),
        records.map(({ tensors }) => [{ name: 'y', ...tensors[0] }]),
      );
      const filled = [...stacked.data].filter((value) => value !== '' && Number(value) !== 0);
      assert.equal(filled.length, next);
    },
  );
  await fc.assert(property, { numRuns: 300 });
});

const SPECS = [{ name: 'x', dtype: 'float32' as const, shape: ['N', 1] }];
const BINDING = { ...SETTINGS, inputAlreadyBatched: false, image: {} };
const json = (value: unknown): Inputs => new Map([['x', { kind: 'json', value }]]);
const codesOf = (outcomes: readonly Outcome[]) =>
  outcomes.map((outcome) => (outcome.ok ? 'ok' : outcome.error.code));

test('without time no record is decoded, and no run begins', async () => {
  const { rows, run } = identity();
  const wrong = json('no number');
  const late = await infer([wrong, json([1])], SPECS, BINDING, run, { isOver: () => true });
  assert.deepEqual(codesOf(late), ['timeout', 'timeout']);
  let asked = 0;
  // There is time to decode both, and none to run them.
  const isOver = () => ++asked > 2;
  assert.deepEqual(codesOf(await infer([json([1]), json([2])], SPECS, BINDING, run, { isOver })), [
    'timeout',
    'timeout',
  ]);
  assert.deepEqual(rows, []);
});

test('a request that fails at once neither decodes nor runs what comes behind its first failure', async () => {
  const { rows, run } = identity();
  let isDecoded = false;
  const behind: Inputs = Object.assign(new Map([['x', { kind: 'json', value: [1] }]]) as Inputs, {
    get: () => {
      isDecoded = true;
      return undefined;
    },
  });
  const failing = infer([json([1]), json('no number'), behind], SPECS, BINDING, run, { failFast: true });
  await assert.rejects(failing, { code: 'bad_input', message: /^instances\[1\]: / });
  assert.deepEqual([isDecoded, rows], [false, []]);
});

test('an encoded image over its limit is refused by its characters, before it is decoded', () => {
  assert.throws(() => imageBytes('A'.repeat(45_000_000)), {
    code: 'too_large',
    message: /^an image of 45000000 characters is over the limit/,
  });
});

test('a square sparse tensor of the SDK has one row of indices per dimension', async () => {
  const { run } = identity();
  const sparse: Value = {
    kind: 'sparse',
    shape: [2, 3],
    indices: Int32Array.of(0, 1, 2, 0),
    indicesShape: [2, 2],
    values: { dtype: 'float32', shape: [2], data: Float32Array.of(5, 6) },
  };
  const specs = [{ name: 'x', dtype: 'float32' as const, shape: ['N', 2, 3] }];
  const [outcome] = await infer([new Map([['x', sparse]])], specs, BINDING, run);
  assert.ok(outcome?.ok);
  // The first row has the indices of dimension 0: the points are (0,2) and (1,0).
  assert.deepEqual([...(outcome.outputs[0]?.data as Float32Array)], [0, 0, 5, 6, 0, 0]);
});

test('more sparse values than the limit are refused before their indices are looked at', () => {
  const values = { dtype: 'float32', shape: [LIMITS.sparseValues + 1] } as const;
  const data = new Float32Array(LIMITS.sparseValues + 1);
  const indices = new Int32Array(0);
  const sparse = { shape: [8], indices, indicesShape: [0, 0], values: { ...values, data } };
  assert.throws(() => densify(sparse, 'float32', false), { code: 'too_large', message: /sparse values/ });
});
