/** Every request/response case of the original: it passes here, or the migration guide names it. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import type { Stack } from '../../local/service/stack.ts';
import { fixture } from '../support/fixtures.ts';
import { identityModel, onnxModel, type ValueSpec } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';
import { ROOT } from '../support/start.ts';

interface Case {
  readonly name: string;
  readonly body?: string;
  readonly body_json?: { readonly instances: readonly Readonly<Record<string, unknown>>[] };
  readonly entry_keys?: readonly string[];
  readonly names_0_9?: readonly string[];
}

/** For the cases that need no model of their own. */
let plain: Stack;
const cleanups: (() => unknown)[] = [];
before(async () => {
  plain = await testStack({ after: (cleanup) => cleanups.unshift(cleanup) });
});
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

async function serve(t: TestContext, model: Uint8Array, config = '') {
  const modelDirectory = await temporaryFolder(t);
  await writeFile(join(modelDirectory, 'model.onnx'), model);
  const { url } = await testStack(t, { modelDirectory, config });
  return async (body: unknown) => {
    const response = await fetch(`${url}/predict`, { method: 'POST', body: JSON.stringify(body) });
    const answer = (await response.json()) as { predictions: string[]; error?: string };
    assert.equal(response.status, 200, answer.error);
    return answer.predictions;
  };
}

type Outputs = { data: unknown[]; shape: number[] }[];
const outputsOf = (prediction: string) =>
  [JSON.parse(prediction.slice('{value='.length, -1)) as Outputs].flat();

const input = (name: string, dtype: ValueSpec['dtype'], rank: number): ValueSpec => ({
  name,
  dtype,
  shape: ['N', ...Array.from({ length: rank }, (_, axis) => `${name}${axis}`)],
});

/** The expected answer of an identity model for one value: its elements and its shape. */
function expectedOf(value: unknown): { data: unknown[]; shape: number[] } {
  const shape: number[] = [];
  for (let level = value; Array.isArray(level); level = level[0] as unknown) shape.push(level.length);
  return { data: [value].flat(Number.POSITIVE_INFINITY), shape };
}

const rounded = (data: readonly unknown[]) =>
  data.map((item) => (typeof item === 'number' ? Math.fround(item) : item));

/** The body's instances come back from a model that gives back its inputs, to the last element. */
async function comesBack(t: TestContext, { body_json: body }: Case, specs: readonly ValueSpec[]) {
  assert.ok(body);
  const [first] = body.instances;
  // The check at the start gives free sizes of many axes those of images, and so hundreds of thousands of numbers.
  const sized = specs.map(({ shape = [], ...spec }) => ({
    ...spec,
    shape: shape.length <= 3 ? shape : ['N', ...expectedOf(first?.[spec.name]).shape],
  }));
  const predictions = await (await serve(t, identityModel(sized)))(body);
  assert.equal(predictions.length, body.instances.length);
  for (const [i, instance] of body.instances.entries()) {
    const outputs = outputsOf(predictions[i] as string);
    for (const [j, { name }] of specs.entries()) {
      const expected = expectedOf(instance[name]);
      assert.deepEqual(rounded(outputs[j]?.data as unknown[]), rounded(expected.data), name);
      assert.deepEqual(outputs[j]?.shape, expected.shape, name);
    }
  }
}

/** y = x, two classes, so that topN(1) has something to choose from. */
const pair = (name: string) => identityModel([{ name, dtype: 'float32', shape: ['N', 2] }]);

const PASS: Readonly<Record<string, (t: TestContext, given: Case) => Promise<void>>> = {
  async root_zoo(_, { body }) {
    const response = await fetch(plain.url);
    assert.equal(await response.text(), body);
    assert.match(response.headers.get('content-type') ?? '', /^text\/plain; charset=utf-8$/i);
  },
  async predict_topN_0_9(t, { body_json: body }) {
    const predictions = await (await serve(t, pair('ids'), 'postProcessing: topN(1)'))(body);
    assert.deepEqual(
      predictions,
      Array.from({ length: 5 }, () => '{value=[[0,100.0]]}'),
    );
  },
  async predict_image_topN_0_9(t) {
    const model = onnxModel({
      inputs: [{ name: 'image', dtype: 'float32', shape: ['N', 3, 'H', 'W'] }],
      outputs: [{ name: 'mean', dtype: 'float32', shape: ['N', 3] }],
      nodes: [
        { op: 'ReduceMean', inputs: ['image'], outputs: ['mean'], attributes: { axes: [2, 3], keepdims: 0 } },
      ],
    });
    const image = await fixture(t, 'fixtures/zoo/images/fish1.jpeg');
    assert.ok(image);
    const instances = Array.from({ length: 5 }, () => ({ image: image.toString('base64') }));
    const predictions = await (await serve(t, model, 'postProcessing: topN(1)'))({ instances });
    // The green mean of fish1.jpeg is its largest (OpenCV's own mean: 234.475).
    assert.equal(predictions.length, 5);
    for (const prediction of predictions) assert.match(prediction, /^\{value=\[\[1,234\.\d+\]\]\}$/);
  },
  request_composition: (t, given) =>
    comesBack(t, given, [
      input('intScalar', 'int32', 0),
      input('floatScalar', 'float32', 0),
      input('stringScalar', 'string', 0),
      input('intTensor', 'int64', 1),
      input('floatTensor', 'float32', 1),
      input('stringTensor', 'string', 1),
      input('intTensor2', 'int32', 2),
      input('floatTensor2', 'float64', 3),
      input('stringTensor2', 'string', 4),
    ]),
  async request_sparse(t, { body_json: body }) {
    // The sum and a corner of the dense tensor say that every value is where the indices put it. One size is free, so
    // that the check at the start does not run on ten million numbers.
    const model = onnxModel({
      inputs: [
        { name: 'sparseTensor', dtype: 'float32', shape: ['N', 100, 'width', 10] },
        { name: 'intTensor2', dtype: 'int32', shape: ['N', 3, 2] },
      ],
      outputs: [
        { name: 'corner', dtype: 'float32', shape: ['N', 4, 'depth', 4] },
        { name: 'sum', dtype: 'float32', shape: ['N'] },
        { name: 'ints', dtype: 'int32', shape: ['N', 3, 2] },
      ],
      nodes: [
        { op: 'Slice', inputs: ['sparseTensor', 'starts', 'ends', 'axes'], outputs: ['corner'] },
        { op: 'ReduceSum', inputs: ['sparseTensor', 'axes'], outputs: ['sum'], attributes: { keepdims: 0 } },
        { op: 'Identity', inputs: ['intTensor2'], outputs: ['ints'] },
      ],
      weights: [
        { name: 'starts', dtype: 'int64', shape: [3], data: BigInt64Array.of(1n, 1n, 1n) },
        { name: 'ends', dtype: 'int64', shape: [3], data: BigInt64Array.of(5n, 5n, 5n) },
        { name: 'axes', dtype: 'int64', shape: [3], data: BigInt64Array.of(1n, 2n, 3n) },
      ],
    });
    const predictions = await (await serve(t, model))(body);
    assert.equal(predictions.length, 2);
    for (const prediction of predictions) {
      const [corner, sum, ints] = outputsOf(prediction);
      const expected = Array<number>(64).fill(0);
      for (const [i, value] of [0.2, 0.5, 3.45, 6.78].entries()) expected[i * (16 + 4 + 1)] = value;
      assert.deepEqual([corner?.shape, corner?.data], [[4, 4, 4], expected]);
      assert.ok(Math.abs((sum?.data[0] as number) - 10.93) < 1e-4);
      assert.deepEqual(ints?.data, [1, 2, 3, 4, 5, 6]);
    }
  },
  request_spec_instances: (t, given) =>
    comesBack(t, given, [
      input('tag', 'string', 0),
      input('signal', 'float32', 1),
      input('sensor', 'float32', 2),
    ]),
  request_mock_client: (t, given) =>
    comesBack(t, given, [input('image', 'string', 0), input('caption', 'string', 0)]),
  async metrics_entry_keys(_, { entry_keys: keys, names_0_9: names }) {
    const metrics = (await (await fetch(`${plain.url}/metrics`)).json()) as object[];
    assert.deepEqual(
      metrics.map((entry) => (entry as { name: string }).name),
      names,
    );
    for (const entry of metrics) assert.deepEqual(Object.keys(entry), keys);
  },
};

test('every case of the original passes, or the migration guide says what differs', async (t) => {
  const file = await fixture(t, 'fixtures/zoo/http/http_cases.json');
  if (!file) return;
  const guide = await readFile(join(ROOT, 'docs/how-to/migrate.md'), 'utf8');
  const cases = JSON.parse(file.toString()) as Case[];
  assert.ok(cases.length >= 20);
  for (const given of cases) {
    const passes = PASS[given.name];
    if (passes) await t.test(given.name, (inner) => passes(inner, given));
    else
      assert.ok(
        guide.includes(`\`${given.name}\``),
        `${given.name} neither passes nor is in docs/how-to/migrate.md`,
      );
  }
});
