/** What Triton's extensions say of a model: index, configuration and statistics, without the way over HTTP. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modelUnavailable } from '../../../../lib/contract/errors.ts';
import type { Model, Runner, TensorSpec } from '../../../../lib/contract/values.ts';
import { modelConfig, repositoryIndex } from '../../../../lib/http/open-inference/repository.ts';
import { modelStatistics, Watch } from '../../../../lib/http/open-inference/statistics.ts';
import { MODEL } from '../../../../lib/openapi/model-schemas.ts';
import { schemaChecks } from '../../../support/json-schema.ts';

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

test('the index has the model that serves, or the reason why none does', async () => {
  const open = modelOf(runner({}));
  const entry = { name: 'job', version: 'v7', state: 'READY', reason: '' };
  for (const readyOnly of [true, false])
    assert.deepEqual(await repositoryIndex(open, 'job', readyOnly), [entry]);
  const closed = { use: () => Promise.reject(modelUnavailable('no model yet')) };
  assert.deepEqual(await repositoryIndex(closed, 'job', true), []);
  assert.deepEqual(await repositoryIndex(closed, 'job', false), [
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

test('statistics are sums of what was timed, by size of batch, of the open model only', () => {
  const open = modelOf(runner({}));
  let ms = 1_000;
  const spend = (rows: number, ...took: readonly [number, number, number, number]) => {
    const watch = new Watch(() => ms);
    watch.reaches(open, 'v7', rows);
    for (const [i, phase] of (
      ['queue', 'compute_input', 'compute_infer', 'compute_output'] as const
    ).entries()) {
      ms += took[i] as number;
      watch.end(phase);
    }
    return watch;
  };
  spend(5, 1, 2, 3, 4).succeeded(111);
  spend(5, 0, 1, 1, 1).succeeded(222);
  spend(1, 0, 0, 0.5, 0).succeeded(333);
  spend(1, 0, 7, 0, 0).failed();
  // What reaches no model is not counted.
  new Watch(() => ms).failed();
  const stats = modelStatistics(open, 'v7', 'job');
  const none = { count: 0, ns: 0 };
  assert.deepEqual(JSON.parse(JSON.stringify(stats)), {
    name: 'job',
    version: 'v7',
    last_inference: 333,
    inference_count: 11,
    execution_count: 3,
    inference_stats: {
      success: { count: 3, ns: 13_500_000 },
      fail: { count: 1, ns: 7_000_000 },
      queue: { count: 3, ns: 1_000_000 },
      compute_input: { count: 3, ns: 3_000_000 },
      compute_infer: { count: 3, ns: 4_500_000 },
      compute_output: { count: 3, ns: 5_000_000 },
      cache_hit: none,
      cache_miss: none,
    },
    batch_stats: [
      {
        batch_size: 5,
        compute_input: { count: 2, ns: 3_000_000 },
        compute_infer: { count: 2, ns: 4_000_000 },
        compute_output: { count: 2, ns: 5_000_000 },
      },
      {
        batch_size: 1,
        compute_input: { count: 1, ns: 0 },
        compute_infer: { count: 1, ns: 500_000 },
        compute_output: { count: 1, ns: 0 },
      },
    ],
  });
  const countOf = (version: string) => modelStatistics(open, version, 'job').inference_count;
  // Two versions are kept, the one that serves and the one before.
  assert.deepEqual(['v8', 'v7', 'v9', 'v7'].map(countOf), [0, 11, 0, 0]);
});

test('sizes of batches are listed up to 128, whatever sizes come', () => {
  const open = modelOf(runner({}));
  for (let rows = 1; rows <= 130; rows++) {
    const watch = new Watch(() => 0);
    watch.reaches(open, 'v7', rows);
    watch.succeeded(1);
  }
  const { batch_stats, execution_count } = modelStatistics(open, 'v7', 'job');
  assert.deepEqual([batch_stats.length, execution_count], [128, 130]);
});

test('each field of what they say is declared in the description, and none besides', async () => {
  // A schema of fields has all that are required; closed, it has no others.
  const schemas = JSON.parse(JSON.stringify(MODEL), (_, value: Record<string, unknown>) =>
    value?.['required'] === undefined ? value : { ...value, additionalProperties: false },
  ) as Record<string, object>;
  const check = schemaChecks({ components: { schemas } });
  const model = modelOf(runner({}));
  const watch = new Watch(() => 1);
  watch.reaches(model, 'v7', 2);
  watch.succeeded(3);
  watch.failed();
  const closed = { use: () => Promise.reject(modelUnavailable('no model yet')) };
  const names = { columns: {}, labels: { y: ['cat', 'dog'] } };
  for (const [name, said] of [
    ['ModelStatistics', { model_stats: [modelStatistics(model, 'v7', 'job')] }],
    ['ModelConfig', modelConfig(runner({ names, inputs: [{ ...x, optional: true }] }), 'job')],
    ['RepositoryIndex', await repositoryIndex(model, 'job', false)],
    ['RepositoryIndex', await repositoryIndex(closed, 'job', false)],
  ] as const) {
    check(schemas[name] ?? assert.fail(name), said, name);
  }
});
