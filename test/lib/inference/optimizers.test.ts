/** Changes that onnxruntime's rewrites would make to an answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { ANALYSER_VERSION, type Optimization } from '../../../lib/contract/verification.ts';
import { RUNTIME } from '../../../lib/inference/session.ts';
import { onnxModel } from '../../support/onnx.ts';
import { rewrittenModel } from '../../support/rewritten-model.ts';
import { openModelBytes } from '../../support/runner.ts';

/** A zero padding of one, in front of a MaxPool of 3x3 with stride 2. */
const padded = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1, 4, 4] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1, 2, 2] }],
  nodes: [
    { op: 'Pad', inputs: ['x', 'pads'], outputs: ['padded'] },
    {
      op: 'MaxPool',
      inputs: ['padded'],
      outputs: ['y'],
      attributes: { kernel_shape: [3, 3], strides: [2, 2] },
    },
  ],
  weights: [
    { name: 'pads', dtype: 'int64', shape: [8], data: BigInt64Array.of(0n, 0n, 1n, 1n, 0n, 0n, 1n, 1n) },
  ],
});

test('the zeros of a Pad count in the MaxPool behind it', async (t) => {
  const runner = await openModelBytes(t, padded);
  const row = JSON.stringify([Array.from({ length: 4 }, () => Array.from({ length: 4 }, () => -1))]);
  const [outcome] = await runner.run(decodeInstances(`{"instances":[{"x":${row}}]}`));
  assert.deepEqual(outcome?.ok && [...(outcome.outputs[0]?.data as Float32Array)], [0, 0, 0, -1]);
});

test('a Range that begins below 0 is gathered from the end', async (t) => {
  const scalar = (name: string, value: bigint) =>
    ({ name, dtype: 'int64', shape: [], data: BigInt64Array.of(value) }) as const;
  const runner = await openModelBytes(
    t,
    onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 'T'] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 3] }],
      nodes: [
        { op: 'Range', inputs: ['from', 'to', 'step'], outputs: ['places'] },
        { op: 'Gather', inputs: ['x', 'places'], outputs: ['y'], attributes: { axis: 1 } },
      ],
      weights: [scalar('from', -2n), scalar('to', 1n), scalar('step', 1n)],
    }),
  );
  const [outcome] = await runner.run(decodeInstances('{"instances":[{"x":[1,2,3,4,5]}]}'));
  assert.deepEqual(outcome?.ok && [...(outcome.outputs[0]?.data as Float32Array)], [4, 5, 1]);
});

test('a rewrite that the verification switches off, by its name or by a lower level, changes no answer', async (t) => {
  const answerWith = async (optimization?: Optimization) => {
    const verification = optimization && {
      batching: { verdict: 'proven', analyser: ANALYSER_VERSION } as const,
      runtime: { ...RUNTIME, ...optimization },
      comparison: 'agrees' as const,
    };
    const runner = await openModelBytes(t, rewrittenModel, { verification });
    const [outcome] = await runner.run(decodeInstances('{"instances":[{"x":[[[3]]]}]}'));
    return outcome?.ok && Math.round(Number(outcome.outputs[0]?.data[0]));
  };
  assert.equal(await answerWith(), 0, 'without a verification the rewrite changes the answer');
  assert.equal(await answerWith({ level: 'all', disabledOptimizers: [] }), 0);
  assert.equal(await answerWith({ level: 'all', disabledOptimizers: ['GeluFusionL2', 'ConvMulFusion'] }), 3);
  assert.equal(await answerWith({ level: 'disabled', disabledOptimizers: [] }), 3);
});
