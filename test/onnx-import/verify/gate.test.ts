/** One request through each endpoint before a version may serve: what is refused, and what is not known. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { OnnxRunner } from '../../../lib/compose/onnx.ts';
import { DEFAULT_JOB, type JobConfig } from '../../../lib/config/job.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { assertReachable } from '../../../release/gate/gate.ts';
import { verifyVersion } from '../../../release/version.ts';
import { models } from '../../support/models.ts';
import { type ModelSpec, onnxModel, type ValueSpec } from '../../support/onnx.ts';
import { openModelBytes, temporaryFolder } from '../../support/runner.ts';

async function saved(t: TestContext, spec: ModelSpec): Promise<string> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, onnxModel(spec));
  return file;
}

const float = (name: string, ...shape: (number | string)[]): ValueSpec => ({ name, dtype: 'float32', shape });

/** Adds the sum of a state, whose second axis is the batch, to x. */
const STATEFUL: ModelSpec = {
  inputs: [float('x', 'N', 3), float('state', 2, 'N', 3)],
  outputs: [float('y', 'N', 3)],
  weights: [{ name: 'axes', dtype: 'int64', shape: [1], data: BigInt64Array.of(0n) }],
  nodes: [
    { op: 'ReduceSum', inputs: ['state', 'axes'], outputs: ['sum'], attributes: { keepdims: 0 } },
    { op: 'Add', inputs: ['x', 'sum'], outputs: ['y'] },
  ],
};

test('a model whose state no record can give is refused with the endpoint and its answer', async (t) => {
  const file = await saved(t, STATEFUL);
  await assert.rejects(
    verifyVersion(file, { job: DEFAULT_JOB, process: models }),
    (error: Error & { code: string }) => {
      assert.equal(error.code, 'bad_model');
      assert.match(error.message, /^no request reaches the model: POST \/predict answers 4\d\d: .*state/);
      return true;
    },
  );
});

test('a model that answers two of the endpoints, and refuses the third, is refused with its name', async (t) => {
  const file = await saved(t, {
    inputs: [float('x', 'N', 3)],
    outputs: [float('y', 'N', 3)],
    nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
  });
  const runner = await openModelBytes(t, await readFile(file));
  const options = { shapeless: [], inputAlreadyBatched: false, filter: undefined, image: {} };
  const endpoints = [
    /POST \/predict answers 4\d\d: no/,
    /POST \/v2.*answers 4\d\d: no/,
    /record of the queue fails: no/,
  ];
  for (const [refused, message] of endpoints.entries()) {
    let runs = 0;
    const refusing: OnnxRunner = {
      ...runner,
      run: async (...call) => {
        // Another made-up record starts again at the first endpoint.
        const isRefused = runs++ % (refused + 1) === refused;
        return isRefused ? [{ ok: false, error: new ServingError('bad_input', 'no') }] : runner.run(...call);
      },
    };
    await assert.rejects(assertReachable(file, refusing, options), { code: 'bad_model', message });
  }
  await assertReachable(file, runner, options);
});

test('a model that records reach passes, with numbers of every type, texts, and a fixed batch', async (t) => {
  const dtypes = ['float32', 'float64', 'float16', 'int64', 'int32', 'uint8', 'bool', 'string'] as const;
  for (const dtype of dtypes) {
    const port = (name: string) => ({ name, dtype, shape: ['N', 2] });
    const file = await saved(t, {
      inputs: [port('x')],
      outputs: [port('y')],
      nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
    });
    await verifyVersion(file, { job: DEFAULT_JOB, process: models });
  }
  const fixed = await saved(t, {
    inputs: [float('x', 4, 2)],
    outputs: [float('y', 4, 2)],
    nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
  });
  await verifyVersion(fixed, { job: DEFAULT_JOB, process: models });
});

test('the settings of the job count: a filter that the output cannot have is refused', async (t) => {
  const port = (name: string) => ({ name, dtype: 'string' as const, shape: ['N', 2] });
  const file = await saved(t, {
    inputs: [port('x')],
    outputs: [port('y')],
    nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
  });
  const job = { ...DEFAULT_JOB, postProcessing: 'topN(1)' };
  await assert.rejects(
    verifyVersion(file, { job, process: models }),
    /POST \/predict answers \d+: .*topN cannot order text/,
  );
});

test('a model that takes no made-up values says nothing about its endpoints, and is not refused', async (t) => {
  // An index into a table of one row: every made-up one but 0 is out of range, and 0 does not occur.
  const file = await saved(t, {
    inputs: [{ name: 'x', dtype: 'int64', shape: ['N', 2] }],
    outputs: [float('y', 'N', 2)],
    weights: [
      { name: 'table', dtype: 'float32', shape: [1], data: Float32Array.of(5) },
      { name: 'far', dtype: 'int64', shape: [1], data: BigInt64Array.of(1_000n) },
    ],
    nodes: [
      { op: 'Add', inputs: ['x', 'far'], outputs: ['index'] },
      { op: 'Gather', inputs: ['table', 'index'], outputs: ['y'] },
    ],
  });
  await verifyVersion(file, { job: DEFAULT_JOB, process: models });
});

test('settings of images that the model cannot have are refused, and no picture is sent without any', async (t) => {
  const file = await saved(t, {
    inputs: [float('x', 'N', 1, 4, 4)],
    outputs: [float('y', 'N', 1, 4, 4)],
    nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
  });
  const under = (image: JobConfig['image']) =>
    verifyVersion(file, { job: { ...DEFAULT_JOB, image }, process: models });
  await assert.rejects(under({ channels: 'rgb' }), {
    code: 'bad_model',
    message: /^no request reaches the model: a picture, under the settings of image: .*takes grey images/,
  });
  await under({ channels: 'grey' });
  await under({});
  const whole = await saved(t, {
    inputs: [{ name: 'x', dtype: 'uint8', shape: ['N', 3, 4, 4] }],
    outputs: [{ name: 'y', dtype: 'uint8', shape: ['N', 3, 4, 4] }],
    nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
  });
  const job = { ...DEFAULT_JOB, image: { scale: 1 / 255 } };
  await assert.rejects(
    verifyVersion(whole, { job, process: models }),
    /the input is uint8, which cannot hold/,
  );
});
