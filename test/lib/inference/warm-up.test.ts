/** A model's rows, a verification and the job's word decide together whether records share a run. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../../lib/contract/values.ts';
import {
  ANALYSER_VERSION,
  type BatchingSetting,
  type Verification,
} from '../../../lib/contract/verification.ts';
import { type OnnxSettings, openTensorRunner } from '../../../lib/inference/runner.ts';
import { RUNTIME, type Session } from '../../../lib/inference/session.ts';
import { threadsForMemory } from '../../../lib/inference/threads.ts';
import { RUN_BYTES, warmUp } from '../../../lib/inference/warm-up.ts';
import type { ImageChoice } from '../../../lib/pipeline/bind/image-choice.ts';
import { onnxModel } from '../../support/onnx.ts';
import { openModelBytes, temporaryFolder } from '../../support/runner.ts';

/** y = x - the mean of all rows of the run: 0 for a record that runs alone. */
const centred = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1] }],
  nodes: [
    { op: 'ReduceMean', inputs: ['x'], outputs: ['mean'], attributes: { axes: [0], keepdims: 1 } },
    { op: 'Sub', inputs: ['x', 'mean'], outputs: ['y'] },
  ],
});

/** Its rows must have 77 numbers, which the shape does not say. */
const picky = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 'T'] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 7, 11] }],
  nodes: [{ op: 'Reshape', inputs: ['x', 's'], outputs: ['y'] }],
  weights: [{ name: 's', dtype: 'int64', shape: [3], data: BigInt64Array.of(0n, 7n, 11n) }],
});

const verification = (
  verdict: Verification['batching']['verdict'],
  onnxruntime = RUNTIME.onnxruntime,
): Verification => ({
  batching: { verdict, analyser: ANALYSER_VERSION },
  runtime: { ...RUNTIME, onnxruntime, level: 'all', disabledOptimizers: [] },
  comparison: 'agrees',
});

const CASES: readonly (readonly [string, BatchingSetting, Verification | undefined, boolean])[] = [
  ['nothing is known', 'proven', undefined, false],
  ['it is proven', 'proven', verification('proven'), true],
  ['the proof ended', 'proven', verification('not proven'), false],
  ['it was proven beside another onnxruntime', 'proven', verification('proven', '1.29.0'), false],
  ['the owner says never', 'never', verification('proven'), false],
  ['the owner says always', 'always', verification('not proven'), true],
];

for (const [what, batching, stored, shares] of CASES) {
  test(`where ${what}, records ${shares ? 'share a run' : 'run one by one'}`, async (t) => {
    const settings: Partial<OnnxSettings> = { batching, verification: stored };
    const runner = await openModelBytes(t, centred, settings);
    const outcomes = await runner.run(decodeInstances('{"instances":[{"x":[1]},{"x":[3]}]}'));
    const values = outcomes.map((outcome) => outcome.ok && outcome.outputs[0]?.data[0]);
    assert.deepEqual(values, shares ? [-1, 1] : [0, 0]);
  });
}

test('records share no run of a model with an output that follows no rows, even if the owner sets otherwise', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, centred);
  const shares = async (outputAxes: OnnxSettings['outputAxes']) => {
    const runner = await openTensorRunner(file, { threads: 1, image: {}, batching: 'always', outputAxes });
    await runner.close();
    return runner.separable;
  };
  assert.deepEqual([await shares({}), await shares({ y: 'none' })], [true, false]);
});

test('a model that rejects the zeros of the warm-up is opened and serves', async (t) => {
  const runner = await openModelBytes(t, picky);
  const x = JSON.stringify(new Array<number>(77).fill(7));
  const [outcome] = await runner.run(decodeInstances(`{"instances":[{"x":${x}}]}`));
  assert.equal(outcome?.ok && outcome.outputs[0]?.data[76], 7);
});

test('it is warmed up by zeros of its types and of the sizes that its records have', async () => {
  const inputs: TensorSpec[] = [
    { name: 'text', dtype: 'string', shape: ['N', 2] },
    { name: 'number', dtype: 'float32', shape: ['N', 'T', 3] },
    { name: 'token', dtype: 'int64', shape: [] },
    { name: 'chw', dtype: 'uint8', shape: ['N', 3, 'H', 'W'] },
    { name: 'hwc', dtype: 'float32', shape: ['N', 'H', 'W', 3] },
  ];
  const shapesOf = async (rows: number | undefined, image: ImageChoice) => {
    let given: readonly Tensor[] = [];
    const run = async (tensors: readonly Tensor[]) => {
      given = tensors;
      throw new Error('not on zeros');
    };
    await warmUp({ inputs, run } as unknown as Session, rows, image);
    for (const [i, { dtype, shape, data }] of given.entries()) {
      assert.equal(dtype, inputs[i]?.dtype);
      const length = shape.reduce((product, dim) => product * dim, 1);
      const zero = { string: '', int64: 0n }[dtype as string] ?? 0;
      assert.deepEqual([...data], Array(length).fill(zero), dtype);
    }
    return given.map(({ shape }) => shape.join());
  };
  const size = { height: 5, width: 7 };
  for (const [rows, image, expected] of [
    [undefined, {}, ['1,2', '1,1,3', '', '1,3,1,1', '1,1,1,3']],
    [4, { ...size, layout: 'chw' }, ['4,2', '4,1,3', '', '4,3,5,7', '4,1,5,3']],
    [2, { ...size, layout: 'hwc' }, ['2,2', '2,1,3', '', '2,3,7,1', '2,5,7,3']],
  ] as const) {
    assert.deepEqual(await shapesOf(rows, image), expected, JSON.stringify(image));
  }
});

const WIDTH = 4;

/** A layer with onnxruntime's dynamic quantization: one scale for all rows of a run. */
const quantized = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', WIDTH] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', WIDTH] }],
  nodes: [
    { op: 'DynamicQuantizeLinear', inputs: ['x'], outputs: ['q', 'scale', 'zero'] },
    { op: 'MatMulInteger', inputs: ['q', 'w', 'zero'], outputs: ['sum'] },
    { op: 'Cast', inputs: ['sum'], outputs: ['float'], attributes: { to: 1 } },
    { op: 'Mul', inputs: ['float', 'scale'], outputs: ['y'] },
  ],
  weights: [
    {
      name: 'w',
      dtype: 'int8',
      shape: [WIDTH, WIDTH],
      data: Int8Array.from({ length: WIDTH * WIDTH }, (_, i) => ((i * 37) % 101) - 50),
    },
  ],
});

test('the answer of a record is the same beside any neighbour, also where the model has one scale for all rows', async (t) => {
  const runner = await openModelBytes(t, quantized, { batchSize: 8, batching: 'proven' });
  const small = { x: [0.1, -0.2, 0.3, 0.4] };
  const large = { x: [1000, -500, 200, 300] };
  const run = async (instances: readonly unknown[]) => {
    const outcomes = await runner.run(decodeInstances(JSON.stringify({ instances })));
    return outcomes.map((outcome) => {
      if (!outcome.ok) throw outcome.error;
      return [...(outcome.outputs[0]?.data as Float32Array)];
    });
  };
  const [alone] = await run([small]);
  assert.ok(alone?.every((value) => value !== 0));
  const together = await run([small, large, small]);
  assert.deepEqual([together[0], together[2]], [alone, alone]);
});

test('a run has at most 128 MiB of inputs, and one thread for each whole vCPU, but one at least', () => {
  assert.equal(RUN_BYTES, 134_217_728);
  assert.deepEqual([128, 1_769, 3_537, 3_538, 10_240].map(threadsForMemory), [1, 1, 1, 2, 5]);
});
