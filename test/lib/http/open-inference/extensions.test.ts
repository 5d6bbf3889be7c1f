/** Triton's extensions about a model: index, configuration and statistics, without HTTP. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modelUnavailable } from '../../../../lib/contract/errors.ts';
import type { Model, Runner, TensorSpec } from '../../../../lib/contract/values.ts';
import { modelConfig, repositoryIndex } from '../../../../lib/http/open-inference/repository.ts';
import { Inferences } from '../../../../lib/observe/inferences.ts';
import { MODEL } from '../../../../lib/openapi/model-schemas.ts';
import { schemaChecks } from '../../../support/json-schema.ts';
import { quietObservers } from '../../../support/observers.ts';

const x: TensorSpec = { name: 'x', dtype: 'float32', shape: ['N', 3, 'w'] };
const y: TensorSpec = { name: 'y', dtype: 'string', shape: ['N', 2] };
const runner = (rest: Partial<Runner>): Runner => ({
  version: 'v7',
  inputs: [x],
  outputs: [y],
  run: async () => [],
  close: async () => undefined,
  ...rest,
});

const modelOf = (open: Runner): Model => ({ use: (work) => work(open) });

const depsOf = (model: Model) => ({ model, jobName: 'job', observers: quietObservers() });

test('the index has the model that serves, or the reason why none does', async () => {
  const open = modelOf(runner({}));
  const entry = { name: 'job', version: 'v7', state: 'READY', reason: '' };
  for (const readyOnly of [true, false])
    assert.deepEqual(await repositoryIndex(depsOf(open), readyOnly), [entry]);
  const closed = { use: () => Promise.reject(modelUnavailable('no model yet')) };
  assert.deepEqual(await repositoryIndex(depsOf(closed), true), []);
  assert.deepEqual(await repositoryIndex(depsOf(closed), false), [
    { name: 'job', state: 'UNAVAILABLE', reason: 'no model is loaded (yet); the log says why' },
  ]);
});

test('dimensions of a configuration are without the batch only where all tensors have a free one in front', () => {
  const names = { columns: {}, labels: { y: ['cat', 'dog'] } };
  assert.deepEqual(modelConfig(runner({ names }), 'job', 32), {
    name: 'job',
    platform: 'onnxruntime_onnx',
    backend: 'onnxruntime',
    max_batch_size: 32,
    input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [3, -1] }],
    output: [{ name: 'y', data_type: 'TYPE_STRING', dims: [2] }],
    parameters: { 'labels:y': { string_value: '["cat","dog"]' } },
  });
  const unbatched: readonly Partial<Runner>[] = [
    { inputs: [{ ...x, shape: [1, 3, 'w'] }] },
    { inputs: [{ ...x, batchAxis: 2 }] },
    { outputs: [{ ...y, batchAxis: 'none' }] },
    { outputs: [{ ...y, shape: [] }] },
  ];
  for (const rest of unbatched) {
    const config = modelConfig(runner(rest), 'job', 32);
    assert.equal(config.max_batch_size, 0);
    assert.equal(config.input[0]?.dims.length, 3);
  }
  const { inputs: _, outputs: __, ...working } = runner({});
  const worker = modelConfig(working, 'job', 32);
  assert.deepEqual([worker.backend, worker.max_batch_size, worker.input], ['worker', 0, []]);
});

test('each field of what they say is declared in the description, and none besides', async () => {
  // A schema of fields has all that are required; closed, it has no others.
  const schemas = JSON.parse(JSON.stringify(MODEL), (_, value: Record<string, unknown>) =>
    value?.['required'] === undefined ? value : { ...value, additionalProperties: false },
  ) as Record<string, object>;
  const check = schemaChecks({ components: { schemas } });
  const model = modelOf(runner({}));
  const inferences = new Inferences(() => 3);
  const ns = { queue: 1, compute_input: 1, compute_infer: 1, compute_output: 1 };
  for (const hasFailed of [false, true]) inferences.inferenceEnded({ version: 'v7', rows: 2, ns, hasFailed });
  const closed = { use: () => Promise.reject(modelUnavailable('no model yet')) };
  const names = { columns: {}, labels: { y: ['cat', 'dog'] } };
  for (const [name, said] of [
    ['ModelStatistics', { model_stats: [inferences.of('v7', 'job')] }],
    ['ModelConfig', modelConfig(runner({ names, inputs: [{ ...x, optional: true }] }), 'job')],
    ['RepositoryIndex', await repositoryIndex(depsOf(model), false)],
    ['RepositoryIndex', await repositoryIndex(depsOf(closed), false)],
  ] as const) {
    check(schemas[name] ?? assert.fail(name), said, name);
  }
});
