import assert from 'node:assert/strict';
import { appendFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { ANALYSER_VERSION, type Optimization } from '../../../lib/contract/verification.ts';
import { OPTIMIZERS, WRONG_OPTIMIZERS } from '../../../lib/inference/optimizers.ts';
import { openSession, RUNTIME } from '../../../lib/inference/session.ts';
import { agree, isSameBytes, NO_NOISE, noiseOf } from '../../../onnx-import/samples/difference.ts';
import { rightOptimization } from '../../../onnx-import/verify/rewrites.ts';
import { findRewrites, verifyModel } from '../../../onnx-import/verify/verify.ts';
import { models } from '../../support/models.ts';
import { type ModelSpec, onnxModel } from '../../support/onnx.ts';
import { rewrittenModel } from '../../support/rewritten-model.ts';
import { temporaryFolder } from '../../support/runner.ts';

const ON = { process: models };

async function modelFile(
  t: TestContext,
  nodes: ModelSpec['nodes'],
  weights: NonNullable<ModelSpec['weights']> = [],
): Promise<string> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const shape = ['N', 4];
  await writeFile(
    file,
    onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape }],
      outputs: [{ name: 'y', dtype: 'float32', shape }],
      nodes,
      weights,
    }),
  );
  return file;
}

const doubled: ModelSpec['nodes'] = [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }];
const noisy: ModelSpec['nodes'] = [
  { op: 'RandomNormalLike', inputs: ['x'], outputs: ['noise'] },
  { op: 'Add', inputs: ['x', 'noise'], outputs: ['y'] },
];
const centred: ModelSpec['nodes'] = [
  {
    op: 'ReduceMean',
    name: 'mean of rows',
    inputs: ['x'],
    outputs: ['mean'],
    attributes: { axes: [0], keepdims: 1 },
  },
  { op: 'Sub', inputs: ['x', 'mean'], outputs: ['y'] },
];

test('a model of independent rows is proven, and its rewrites agree', async (t) => {
  assert.deepEqual(await verifyModel(await modelFile(t, doubled), ON), {
    batching: { verdict: 'proven', analyser: ANALYSER_VERSION },
    runtime: { ...RUNTIME, level: 'all', disabledOptimizers: [], anyFeatures: true },
    comparison: 'agrees',
    scalars: [],
  });
});

test('where the proof ends, the verification names operator and node', async (t) => {
  const { batching } = await verifyModel(await modelFile(t, centred), ON);
  assert.equal(batching.verdict, 'not proven');
  assert.equal(batching.operator, 'ReduceMean');
  assert.equal(batching.node, 'mean of rows');
});

test('random numbers are no fault of a rewrite', async (t) => {
  const { runtime, comparison } = await verifyModel(await modelFile(t, noisy), ON);
  assert.deepEqual([runtime.level, runtime.disabledOptimizers, comparison], ['all', [], 'agrees']);
});

test('a rewrite that changes the answers of a model is found by its name, and no other is switched off', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, rewrittenModel);
  const { runtime, comparison } = await verifyModel(file, ON);
  assert.deepEqual(
    [runtime.level, runtime.disabledOptimizers, comparison],
    ['all', ['ConvMulFusion'], 'agrees'],
  );
});

test('what is known and still holds is not found out again', async (t) => {
  const known = await verifyModel(await modelFile(t, doubled), ON);
  assert.equal(await verifyModel('/no/such/model.onnx', { known }), known);
  const old = { ...known, runtime: { ...known.runtime, onnxruntime: '1.0.0' } };
  await assert.rejects(verifyModel('/no/such/model.onnx', { known: old }));
});

/** A model that is right when these are off, and counts how often it was opened. */
function wrongWith(...harmful: readonly string[]) {
  const asked: Optimization[] = [];
  const agrees = async (optimization: Optimization) => {
    asked.push(optimization);
    const { level, disabledOptimizers } = optimization;
    return level === 'disabled' || harmful.every((name) => disabledOptimizers.includes(name));
  };
  return { asked, agrees };
}

for (const harmful of [
  [OPTIMIZERS[0] as string],
  ['GeluFusionL2'],
  [OPTIMIZERS.at(-1) as string],
  ['QDQSelectorActionTransformer', 'ConvBNFusion'],
]) {
  test(`of all rewrites ${harmful.join(' and ')} are found harmful, and nothing else`, async () => {
    const { asked, agrees } = wrongWith(...harmful);
    const found = await rightOptimization(agrees, Infinity);
    assert.equal(found.level, 'all');
    assert.deepEqual([...found.disabledOptimizers].sort(), [...harmful].sort());
    assert.ok(asked.length < 20);
  });
}

test('where no rewrite is found that mends the answers, or the search takes too long, none is used', async () => {
  const nameless = wrongWith('a rewrite of another release');
  assert.deepEqual(await rightOptimization(nameless.agrees, Infinity), {
    level: 'disabled',
    disabledOptimizers: [],
  });
  const late = wrongWith('GeluFusionL2');
  assert.equal((await rightOptimization(late.agrees, 0)).level, 'disabled');
});

const tensor = (...values: number[]): Tensor => ({
  dtype: 'float32',
  shape: [values.length],
  data: Float32Array.from(values),
});

test('the tolerance is of the spread of the output, not of a large value beside it', () => {
  const probabilities = Array.from({ length: 1_000 }, (_, i) => 1e-3 + 1e-5 * Math.sin(i));
  const off = probabilities.map((value, i) => (i === 7 ? value + 1e-7 : value));
  assert.equal(agree([tensor(...probabilities)], [tensor(...off)], NO_NOISE), false);
  assert.equal(agree([tensor(...probabilities)], [tensor(...probabilities)], NO_NOISE), true);
});

test('NaN and infinity agree with themselves only', () => {
  assert.equal(agree([tensor(Number.NaN, 1)], [tensor(Number.NaN, 1)], NO_NOISE), true);
  assert.equal(agree([tensor(Number.NaN, 1)], [tensor(0, 1)], NO_NOISE), false);
  assert.equal(agree([tensor(1, Infinity)], [tensor(1, 5)], NO_NOISE), false);
});

test('what the model itself moves by is allowed', () => {
  const noise = noiseOf(NO_NOISE, [tensor(1, 2)], [tensor(1.5, 2)]);
  assert.deepEqual(noise, [0.5]);
  assert.equal(agree([tensor(1, 2)], [tensor(2, 2)], noise), true);
  assert.equal(agree([tensor(1, 2)], [tensor(4, 2)], noise), false);
});

/** DivMulFusion leaves the name of a Cast that another rewrite removes (onnxruntime 1.30). */
const broken: ModelSpec['nodes'] = [
  { op: 'Cast', inputs: ['x'], outputs: ['mid'], attributes: { to: 1 } },
  { op: 'Constant', inputs: [], outputs: ['one'], attributes: { value_float: { float: 1 } } },
  { op: 'Div', inputs: ['one', 'x'], outputs: ['inverse'] },
  { op: 'Mul', inputs: ['inverse', 'mid'], outputs: ['y'] },
];

test('a valid model that a rewrite breaks opens without rewrites before it is verified', async (t) => {
  const file = await modelFile(t, broken);
  // It is always off, because it is known to be wrong. Here it stands for one that is not known.
  const known = WRONG_OPTIMIZERS as string[];
  const at = known.indexOf('DivMulFusion');
  known.splice(at, 1);
  t.after(() => known.splice(at, 0, 'DivMulFusion'));
  await (await openSession(file, { threads: 1 })).close();
  const all = { level: 'all', disabledOptimizers: [] } as const;
  await assert.rejects(openSession(file, { threads: 1, optimization: all }), {
    code: 'model_unavailable',
    message: /Invalid model\. .* \(a rewrite of onnxruntime broke the model, which need not be invalid/,
  });
});

/** No row of N numbers has 7 times 1,000,003 of them. */
const reshaped: ModelSpec['nodes'] = [
  { op: 'Reshape', inputs: ['x', 'sizes'], outputs: ['large'] },
  { op: 'ReduceSum', inputs: ['large'], outputs: ['y'] },
];

test('a model that takes nothing made up runs without rewrites', async (t) => {
  const sizes = {
    name: 'sizes',
    dtype: 'int64',
    shape: [2],
    data: BigInt64Array.of(7n, 1_000_003n),
  } as const;
  const { runtime, comparison, reason } = await verifyModel(await modelFile(t, reshaped, [sizes]), ON);
  assert.equal(comparison, 'skipped');
  assert.match(reason ?? '', /^no made-up input was accepted/);
  assert.deepEqual([runtime.level, runtime.disabledOptimizers], ['disabled', []]);
});

test('a model above 1 GB runs without rewrites', async (t) => {
  const file = await modelFile(t, doubled);
  // A field that nobody knows, of a billion bytes, which take no place on the disk.
  await appendFile(file, Uint8Array.of(0xa2, 0x06, 0x80, 0x94, 0xeb, 0xdc, 0x03));
  await truncate(file, (await stat(file)).size + 1_000_000_000);
  const { runtime, comparison, reason } = await findRewrites(file, ON);
  assert.deepEqual([runtime.level, comparison], ['disabled', 'skipped']);
  assert.match(reason ?? '', /larger than 1 GB/);
});

test('tensors have the same bytes only if both are numbers', () => {
  const numbers: Tensor = { dtype: 'float32', shape: [2], data: Float32Array.of(1, 2) };
  const texts: Tensor = { dtype: 'string', shape: [2], data: ['1', '2'] };
  assert.equal(isSameBytes(numbers, { ...numbers, data: Float32Array.of(1, 2) }), true);
  assert.equal(isSameBytes(numbers, { ...numbers, data: Float32Array.of(0, 1, 2).subarray(1) }), true);
  for (const data of [Float32Array.of(1, 3), Float32Array.of(1), Float32Array.of(1, 2, 3)])
    assert.equal(isSameBytes(numbers, { ...numbers, data }), false);
  for (const [a, b] of [
    [numbers, texts],
    [texts, numbers],
    [texts, texts],
  ] as const)
    assert.equal(isSameBytes(a, b), false);
});
