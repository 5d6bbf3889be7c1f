/** Who has the last word on which axis of an output counts the rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BatchAxis } from '../../../lib/contract/values.ts';
import {
  ANALYSER_VERSION,
  type BatchAxes,
  type BatchingVerdict,
  type Verification,
} from '../../../lib/contract/verification.ts';
import { batchAxisOf, withInputAxes, withOutputAxes } from '../../../lib/pipeline/batch/batch-axes.ts';

type Shape = readonly (number | string)[];

interface Case {
  readonly input?: Shape;
  readonly output: Shape;
  readonly verdict?: Partial<BatchingVerdict>;
  /** The batch axes of the input x and the output y, as the job sets them. */
  readonly batchAxes?: BatchAxes;
  readonly outputAxes?: BatchAxes;
}

function axisOfOutput({ input = ['N', 3], output, verdict, batchAxes, outputAxes }: Case): BatchAxis {
  const verification: Verification | undefined = verdict && {
    batching: { verdict: 'proven', analyser: ANALYSER_VERSION, ...verdict },
    runtime: { onnxruntime: '1.30.0', architecture: 'x64', level: 'all', disabledOptimizers: [] },
    comparison: 'agrees',
  };
  const inputs = withInputAxes([{ name: 'x', dtype: 'float32', shape: input }], batchAxes);
  const outputs = [{ name: 'y', dtype: 'float32' as const, shape: output }];
  const [spec] = withOutputAxes(outputs, inputs, { verification, batchAxes, outputAxes });
  assert.ok(spec);
  return batchAxisOf(spec);
}

test('the axis of an output is what the job says, else what was verified, else what its shape says', () => {
  const output = ['N', 4, 2];
  const verdict = { outputAxes: { y: 1 } };
  assert.equal(axisOfOutput({ output }), 0);
  assert.equal(axisOfOutput({ output, verdict }), 1);
  assert.equal(axisOfOutput({ output, verdict, outputAxes: { y: 2 } }), 2);
  assert.equal(axisOfOutput({ output, verdict, outputAxes: { y: 'none' } }), 'none');
});

test('what was verified about outputs is not used when the job has other axes for the inputs', () => {
  const output = ['N', 4];
  const verdict = { inputAxes: { x: 1 }, outputAxes: { y: 1 } };
  assert.equal(axisOfOutput({ output, input: [3, 'N'], verdict, batchAxes: { x: 1 } }), 1);
  assert.equal(axisOfOutput({ output, verdict }), 0);
});

test('a proof of a model that takes one row does not cover an output that declares another size', () => {
  const verdict = {};
  assert.equal(axisOfOutput({ input: [1, 3], output: [5, 2], verdict }), 'none');
  assert.equal(axisOfOutput({ input: [4, 3], output: [5, 2], verdict }), 0);
});

test('an output with the name of the batch on one later axis has its rows there, and on two axes nowhere', () => {
  assert.equal(axisOfOutput({ output: ['M', 'N', 2] }), 1);
  assert.equal(axisOfOutput({ output: ['M', 'N', 'N'] }), 'none');
});

test('the outputs of a model whose inputs are all shared follow no rows, with any shapes', () => {
  const batchAxes = { x: 'none' } as const;
  for (const output of [
    [1, 4],
    ['N', 4],
  ])
    assert.equal(axisOfOutput({ output, batchAxes }), 'none');
});
