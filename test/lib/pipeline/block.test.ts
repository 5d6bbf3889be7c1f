/** A block of records that runs at once has the outcomes that its records have one by one; what is not that simple does not run. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Inputs, NamedTensor, TensorSpec } from '../../../lib/contract/values.ts';
import { unpack } from '../../../lib/inference/packed.ts';
import { type Block, inferBlock } from '../../../lib/pipeline/bind/block.ts';
import { infer } from '../../../lib/pipeline/infer.ts';

const X: TensorSpec = { name: 'x', dtype: 'float32', shape: ['n', 2] };
const SECOND: TensorSpec = { name: '__proto__', dtype: 'int64', shape: ['n'] };
const Y: TensorSpec = { name: 'y', dtype: 'float32', shape: ['n', 2] };
const SETTINGS = { maxRows: 4, maxBytes: 1024, separable: true, inputAlreadyBatched: false, image: {} };

const block = (
  count: number,
  shape: readonly number[] = [2],
  dtype: 'float32' | 'float64' = 'float32',
): Block => {
  const numbers = Array.from({ length: 2 * count }, (_, i) => i + 0.5);
  const data = dtype === 'float32' ? Float32Array.from(numbers) : Float64Array.from(numbers);
  return { count, columns: [{ name: 'x', dtype, shape, data }] };
};

const recordsOf = (sent: Block): Inputs[] =>
  unpack(sent).map(
    (tensors) => new Map(tensors.map(({ name, ...tensor }) => [name, { kind: 'tensor', tensor }])),
  );

/** Doubles each number, and notes the shapes of its runs. */
class Model {
  readonly runs: (readonly number[])[] = [];
  run = async ([x]: readonly Tensor[]): Promise<NamedTensor[]> => {
    const { shape, data } = x as Tensor;
    this.runs.push(shape);
    return [{ name: 'y', dtype: 'float32', shape, data: (data as Float32Array).map((value) => 2 * value) }];
  };
}

interface Case {
  readonly sent: Block;
  readonly inputs?: TensorSpec[];
  readonly outputs?: TensorSpec[];
  readonly settings?: Partial<Parameters<typeof infer>[2]>;
}

const ask = async ({ sent, inputs = [X], outputs = [Y], settings }: Case) => {
  const model = new Model();
  const made = await inferBlock(sent, { inputs, outputs }, { ...SETTINGS, ...settings }, model.run);
  return { made, runs: model.runs };
};

describe('a block', () => {
  const cases: Record<string, Case> = {
    'of several records': { sent: block(3) },
    'of one record': { sent: block(1) },
    'of one record, of a model whose rows are not independent': {
      sent: block(1),
      settings: { separable: false },
    },
    'of records with the batch dimension': {
      sent: block(3, [1, 2]),
      settings: { inputAlreadyBatched: true },
    },
    'of as many rows as the model is fixed to': { sent: block(3), settings: { fixedRows: 3 } },
    'of a model that takes any shape': { sent: block(2), inputs: [{ ...X, shape: ['n', 'm'] }] },
  };
  for (const [name, each] of Object.entries(cases)) {
    test(`${name} runs once, with the outcomes of its records`, async () => {
      const { sent, inputs = [X], settings } = each;
      const { made, runs } = await ask(each);
      assert.ok(made);
      assert.deepEqual(runs, [[sent.count, 2]]);
      const alone = await infer(recordsOf(sent), inputs, { ...SETTINGS, ...settings }, new Model().run);
      const rows = settings?.fixedRows ?? sent.count;
      const outcomes = unpack(made).map((outputs, row) => ({ ok: true, outputs, place: { row, rows } }));
      assert.deepEqual(outcomes, alone);
    });
  }

  const two: Block = {
    count: 2,
    columns: [
      { name: '__proto__', dtype: 'int64', shape: [], data: BigInt64Array.of(7n, 8n) },
      { name: 'x', dtype: 'float32', shape: [2], data: Float32Array.of(1, 2, 3, 4) },
    ],
  };

  test('of several inputs feeds them in the order of the model', async () => {
    const feeds: (readonly Tensor[])[] = [];
    const run = async (given: readonly Tensor[]) => {
      feeds.push(given);
      return new Model().run(given);
    };
    const made = await inferBlock(two, { inputs: [X, SECOND], outputs: [Y] }, SETTINGS, run);
    assert.deepEqual(made?.columns[0]?.data, Float32Array.of(2, 4, 6, 8));
    assert.deepEqual(
      feeds[0]?.map(({ dtype, shape, data }) => [dtype, shape, [...data]]),
      [
        ['float32', [2, 2], [1, 2, 3, 4]],
        ['int64', [2], [7n, 8n]],
      ],
    );
  });

  const left: Record<string, Case> = {
    'whose records may not share a run': { sent: block(2), settings: { separable: false } },
    'of more rows than a run has': { sent: block(5) },
    'of more bytes than a run has': { sent: block(2), settings: { maxBytes: 8 } },
    'for a model of fixed rows that it does not fill': { sent: block(2), settings: { fixedRows: 4 } },
    'of records with several rows': {
      sent: block(2, [2, 1]),
      inputs: [{ ...X, shape: ['n', 1] }],
      settings: { inputAlreadyBatched: true },
    },
    'of another dtype, which is converted': { sent: block(2, [2], 'float64') },
    'of records with the batch dimension where they should have none': { sent: block(2, [1, 2]) },
    'of another shape': { sent: block(2, [1, 1, 2]) },
    'under another name, which binds by position': { sent: block(2), inputs: [{ ...X, name: 'other' }] },
    'with an input too many': { sent: two },
    'for an input with its batch axis elsewhere': {
      sent: block(2),
      inputs: [{ ...X, shape: [2, 'n'], batchAxis: 1 }],
      settings: { inputAxes: [1] },
    },
    'for an output that does not follow the rows': { sent: block(1), settings: { outputAxes: ['none'] } },
    'for an output of texts': { sent: block(2), outputs: [{ ...Y, dtype: 'string' }] },
  };
  for (const [name, each] of Object.entries(left)) {
    test(`${name} does not run`, async () => {
      assert.deepEqual(await ask(each), { made: undefined, runs: [] });
    });
  }

  test('whose run fails, or gives another number of rows, is left to its records', async () => {
    const signature = { inputs: [X], outputs: [Y] };
    const fail = () => Promise.reject(new Error('no'));
    assert.equal(await inferBlock(block(2), signature, SETTINGS, fail), undefined);
    const short = async () => [
      { name: 'y', dtype: 'float32' as const, shape: [1, 2], data: new Float32Array(2) },
    ];
    assert.equal(await inferBlock(block(2), signature, SETTINGS, short), undefined);
  });
});
