/** What made-up rows take from the graph, and whether they reach it. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../../lib/contract/values.ts';
import { hintsOf } from '../../../onnx-import/samples/hints.ts';
import {
  madeUpRow,
  ofOtherLengths,
  rowsOfAllKinds,
  type Way,
} from '../../../onnx-import/samples/probe-values.ts';
import { type ModelSpec, onnxModel, type WeightSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const WAY: Way = { integers: 100, isCareful: false, sizes: { spatial: 8, other: 4 } };

async function hints(
  t: TestContext,
  nodes: ModelSpec['nodes'],
  weights: readonly WeightSpec[] = [],
  dtype: TensorSpec['dtype'] = 'float32',
) {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const inputs = [{ name: 'x', dtype, shape: ['N', 2] }];
  const outputs = [{ name: 'y', dtype: 'float32' as const, shape: ['N', 2] }];
  await writeFile(file, onnxModel({ inputs, outputs, nodes, weights }));
  return hintsOf(file);
}

/** All rows that are made up for x. */
function rows(found: Awaited<ReturnType<typeof hints>>, dtype: TensorSpec['dtype'], way = WAY): Tensor[] {
  const spec = { name: 'x', dtype, shape: ['N', 2] };
  return Array.from({ length: rowsOfAllKinds(found) }, (_, row) =>
    madeUpRow(spec, { ...way, hints: found, axis: 0, row, input: 0 }),
  );
}

const numbers = (name: string, ...values: number[]): WeightSpec => ({
  name,
  dtype: 'float32',
  shape: values.length === 1 ? [] : [values.length],
  data: Float32Array.from(values),
});
const largest = (made: readonly Tensor[], column: number) =>
  Math.max(...made.map(({ data }) => Number(data[column])));

test('rows reach the end of the scale on which the graph quantizes them, however it is shifted and scaled', async (t) => {
  const quantized = (input: string) => [
    { op: 'QuantizeLinear', inputs: [input, 'scale', 'zero'], outputs: ['q'] },
    { op: 'DequantizeLinear', inputs: ['q', 'scale', 'zero'], outputs: ['y'] },
  ];
  const zero: WeightSpec = { name: 'zero', dtype: 'uint8', shape: [], data: Uint8Array.of(55) };
  const scale = numbers('scale', 6e5);
  const plain = await hints(t, quantized('x'), [scale, zero]);
  // From (0 - 55) to (255 - 55) quanta.
  assert.deepEqual(plain['x']?.ranges, [{ low: [-55 * 6e5], high: [200 * 6e5] }]);
  assert.ok(rows(plain, 'float32').some(({ data }) => data.every((value) => value === 1.2e8)));
  const affine = [
    { op: 'Sub', inputs: ['x', 'mean'], outputs: ['centred'] },
    { op: 'Div', inputs: ['centred', 'deviation'], outputs: ['scaled'] },
    { op: 'Reshape', inputs: ['scaled', 'shape'], outputs: ['shaped'] },
  ];
  const shifted = await hints(
    t,
    [...affine, ...quantized('shaped')],
    [scale, zero, numbers('mean', 1_000), numbers('deviation', 0.5)],
  );
  assert.deepEqual(shifted['x']?.ranges, [{ low: [-55 * 3e5 + 1_000], high: [200 * 3e5 + 1_000] }]);
});

test('rows reach both sides of the thresholds of trees, column by column', async (t) => {
  const tree = {
    op: 'TreeEnsembleRegressor',
    domain: 'ai.onnx.ml',
    inputs: ['x'],
    outputs: ['y'],
    attributes: {
      nodes_featureids: [0, 1, 0],
      nodes_values: { floats: [100_000, 2_000, 104_000] },
    },
  };
  const found = await hints(t, [tree]);
  assert.deepEqual(found['x']?.ranges, [{ low: [99_500, 2_000], high: [104_500, 2_000] }]);
  const made = rows(found, 'float32');
  for (const isBetween of [(p: number) => p > 104_000, (p: number) => p > 100_000 && p < 104_000]) {
    assert.ok(made.some(({ data }) => isBetween(Number(data[0])) && Math.abs(Number(data[1]) - 2_000) < 1));
  }
});

test('rows reach the offsets of a Scaler, the bounds of a Clip and what is compared', async (t) => {
  const scaler = {
    op: 'Scaler',
    domain: 'ai.onnx.ml',
    inputs: ['x'],
    outputs: ['y'],
    attributes: { offset: { floats: [101_325, 15] }, scale: { floats: [0.001, 0.1] } },
  };
  const scaled = rows(await hints(t, [scaler]), 'float32');
  assert.ok(scaled.some(({ data }) => Number(data[0]) > 103_000 && Number(data[1]) < 100));
  const clip = { op: 'Clip', inputs: ['x', 'low', 'high'], outputs: ['y'] };
  const clipped = rows(await hints(t, [clip], [numbers('low', 0), numbers('high', 3e8)]), 'float32');
  assert.ok(largest(clipped, 0) > 3e8);
  const less = { op: 'Less', inputs: ['x', 'limit'], outputs: ['y'] };
  assert.ok(largest(rows(await hints(t, [less], [numbers('limit', 5e7)]), 'float32'), 1) > 5e7);
});

test('whole numbers reach the end of the table that they are places in, and never beyond it', async (t) => {
  const table: WeightSpec = { name: 'w', dtype: 'float32', shape: [3_000, 2], data: new Float32Array(6_000) };
  const found = await hints(t, [{ op: 'Gather', inputs: ['w', 'x'], outputs: ['y'] }], [table], 'int64');
  const made = rows(found, 'int64');
  assert.deepEqual([largest(made, 0), largest(made, 1)], [2_999, 2_999]);
  assert.ok(made.every(({ data }) => Number(data[0]) >= 0));
});

test('texts are numbers where the graph reads them so, and its own categories where it has some', async (t) => {
  const cast = { op: 'Cast', inputs: ['x'], outputs: ['y'], attributes: { to: 1 } };
  const asNumbers = await hints(t, [cast], [], 'string');
  const made = rows(asNumbers, 'string').flatMap(({ data }) => [...data]);
  assert.ok(made.includes('1.0') && made.includes('2024'));
  assert.ok(made.every((text) => Number.isFinite(Number(text)) && text !== ''));
  const careful = rows(asNumbers, 'string', { ...WAY, isCareful: true }).flatMap(({ data }) => [...data]);
  assert.ok(careful.every((text) => /^-?\d+$/.test(`${text}`)));
  const encoder = {
    op: 'LabelEncoder',
    domain: 'ai.onnx.ml',
    inputs: ['x'],
    outputs: ['y'],
    attributes: { keys_strings: { strings: ['rot', 'grün'] }, values_floats: { floats: [1, 2] } },
  };
  const encoded = await hints(t, [encoder], [], 'string');
  assert.deepEqual(encoded['x']?.texts, ['rot', 'grün']);
  const known = rows(encoded, 'string', { ...WAY, isCareful: true }).flatMap(({ data }) => [...data]);
  assert.deepEqual(new Set(known), new Set(['rot', 'grün']));
});

test('free sizes have three lengths, of which one is odd, and differ from each other once', async () => {
  const seen: string[] = [];
  const shapes = await ofOtherLengths(WAY, true, async (way) => {
    const { shape } = madeUpRow(
      { name: 'x', dtype: 'float32', shape: ['N', 'T', 'S'] },
      { ...way, hints: {}, axis: 0, row: 0, input: 0 },
    );
    seen.push(shape.join());
    return shape;
  });
  assert.equal(shapes.length, 2);
  assert.ok(shapes.some(([, t, s]) => t !== s));
  assert.ok(shapes.some(([, t, s]) => t === 5 && s === 5));
  // What the model does not take is passed over.
  const fifth = await ofOtherLengths(WAY, true, async ({ sizes: { other } }) => {
    if (other === 5) throw new Error('Got invalid dimensions');
    return other;
  });
  assert.deepEqual(fifth, [3, 16]);
});
