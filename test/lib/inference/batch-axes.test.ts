/** Inputs and outputs whose batch axis is elsewhere, and inputs that the records of a run share. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Runner } from '../../../lib/contract/values.ts';
import type { OnnxSettings } from '../../../lib/inference/runner.ts';
import { onnxModel } from '../../support/onnx.ts';
import { openModelBytes } from '../../support/runner.ts';
import { throughPredict, throughQueue, throughV2 } from '../../support/three-paths.ts';

const floats = (shape: readonly number[], ...values: number[]): Tensor => ({
  dtype: 'float32',
  shape,
  data: Float32Array.from(values),
});

/** y = x * rate, next = state + rate: the form of a recurrent model with a state [2,batch,3] and a scalar. */
const recurrent = onnxModel({
  inputs: [
    { name: 'x', dtype: 'float32', shape: ['batch', 2] },
    { name: 'state', dtype: 'float32', shape: [2, 'batch', 3] },
    { name: 'rate', dtype: 'float32', shape: [] },
  ],
  outputs: [
    { name: 'y', dtype: 'float32', shape: ['batch', 2] },
    { name: 'next', dtype: 'float32', shape: ['', '', 3] },
  ],
  nodes: [
    { op: 'Mul', inputs: ['x', 'rate'], outputs: ['y'] },
    { op: 'Add', inputs: ['state', 'rate'], outputs: ['next'] },
  ],
});
const AXES = {
  batchAxes: { state: 1, rate: 'none' },
  outputAxes: { next: 1 },
} satisfies Partial<OnnxSettings>;

/** Counts the rows of each run by the size of the first output's batch axis. */
async function open(t: TestContext, settings: Partial<OnnxSettings> = {}): Promise<Runner> {
  return openModelBytes(t, recurrent, { ...AXES, ...settings });
}

const record = (start: number, rate: number) => ({
  x: [start, start + 1],
  state: [
    [start, 0, 0],
    [0, start, 1],
  ],
  rate,
});
const answerTo = (start: number, rate: number) => [
  { shape: [2], data: [start * rate, (start + 1) * rate] },
  { shape: [2, 3], data: [start, 0, 0, 0, start, 1].map((value) => value + rate) },
];
const CALLS = [
  [1, 10],
  [2, 10],
  [3, 20],
  [4, 10],
  [5, 20],
] as const;

test('records are stacked along the axis of each input, and a shared input is given once', async (t) => {
  const runner = await open(t);
  const answers = await throughPredict(
    runner,
    CALLS.map(([start, rate]) => record(start, rate)),
  );
  assert.deepEqual(
    answers,
    CALLS.map(([start, rate]) => answerTo(start, rate)),
  );
});

test('a record means the same through the queue and, with its batch dimension, through /v2', async (t) => {
  const runner = await open(t);
  const tensors = CALLS.map(([start, rate]) => ({
    x: floats([2], start, start + 1),
    state: floats([2, 3], start, 0, 0, 0, start, 1),
    rate: floats([], rate),
  }));
  assert.deepEqual(
    await throughQueue(runner, tensors),
    CALLS.map(([start, rate]) => answerTo(start, rate)),
  );
  const two = {
    x: floats([2, 2], 1, 2, 3, 4),
    state: floats([2, 2, 3], 1, 0, 0, 3, 0, 0, 0, 1, 1, 0, 3, 1),
    rate: floats([], 10),
  };
  assert.deepEqual(await throughV2(runner, two), [
    { shape: [2, 2], data: [10, 20, 30, 40] },
    { shape: [2, 2, 3], data: [11, 10, 10, 13, 10, 10, 10, 11, 11, 10, 13, 11] },
  ]);
});

test('axes that do not fit the model are refused with its names or its shape', async (t) => {
  await assert.rejects(open(t, { batchAxes: { stat: 1 } }), {
    code: 'model_unavailable',
    message: 'config.yaml: inputs: "stat": the model has "x", "state", "rate"',
  });
  await assert.rejects(open(t, { outputAxes: { next: 3 } }), {
    code: 'model_unavailable',
    message: 'config.yaml: outputs: "next": batchAxis 3 is beyond its shape [2,batch,3]; axes count from 0',
  });
});

test('a shared input of a declared shape comes whole on every path', async (t) => {
  const adding = onnxModel({
    inputs: [
      { name: 'x', dtype: 'float32', shape: ['N', 2] },
      { name: 'table', dtype: 'float32', shape: [3, 2] },
    ],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2] }],
    nodes: [
      { op: 'ReduceSum', inputs: ['table', 'axes'], outputs: ['sums'], attributes: { keepdims: 0 } },
      { op: 'Add', inputs: ['x', 'sums'], outputs: ['y'] },
    ],
    weights: [{ name: 'axes', dtype: 'int64', shape: [1], data: BigInt64Array.of(0n) }],
  });
  const runner = await openModelBytes(t, adding, { batchAxes: { table: 'none' } });
  const table = floats([3, 2], 1, 2, 3, 4, 5, 6);
  const expected = [{ shape: [2], data: [19, 32] }];
  const instance = { x: [10, 20], table: [[1, 2], [3, 4], [5, 6]] }; // biome-ignore format: one line
  assert.deepEqual(await throughPredict(runner, [instance, instance]), [expected, expected]);
  assert.deepEqual(await throughQueue(runner, [{ x: floats([2], 10, 20), table }]), [expected]);
  assert.deepEqual(await throughV2(runner, { x: floats([1, 2], 10, 20), table }), [
    { shape: [1, 2], data: [19, 32] },
  ]);
  await assert.rejects(
    throughPredict(runner, [{ ...instance, table: [1, 2] }]),
    /expected float32 \[3,2\], got shape \[2\]/,
  );
});

test('an array for a shared scalar is never broadcast against the rows of others', async (t) => {
  const runner = await open(t);
  // Together, 10 would be added to one record and 20 to the other.
  const given = [1, 2].map((start) => ({ ...record(start, 0), rate: [[10], [20]] }));
  const [[alone]] = (await throughPredict(runner, [{ ...record(1, 0), rate: [10] }])) as [[unknown]];
  assert.deepEqual(alone, { shape: [2], data: [10, 20] });
  await assert.rejects(throughPredict(runner, given), /output \\"y\\" \[2,2\]: expected 1 on axis 0/);
});
