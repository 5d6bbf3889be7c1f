/** Of which models a comparison of rewrites holds on other processors. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { isSameOnEveryProcessor } from '../../../onnx-import/verify/kernels.ts';
import { type NodeSpec, onnxModel, type WeightSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const node = (op: string, inputs: string, output: string): NodeSpec => ({
  op,
  inputs: inputs.split(' '),
  outputs: [output],
});
const scalar = (name: string): WeightSpec => ({ name, dtype: 'int8', shape: [], data: new Int8Array(1) });
const WEIGHTS: readonly WeightSpec[] = [
  { name: 'w', dtype: 'int8', shape: [4, 4], data: new Int8Array(16) },
  { name: 'v', dtype: 'int8', shape: [4, 4], data: new Int8Array(16) },
  { name: 'one', dtype: 'float32', shape: [], data: Float32Array.of(1) },
  { name: 'zero', dtype: 'uint8', shape: [], data: new Uint8Array(1) },
  scalar('zw'),
  scalar('zv'),
];
/** x between QuantizeLinear and DequantizeLinear. */
const ENTRY = [node('QuantizeLinear', 'x one zero', 'q'), node('DequantizeLinear', 'q one zero', 'd')];
const dense = (input: string, weight: string, zero: string, output: string) => [
  node('DequantizeLinear', `${weight} one ${zero}`, `${output}w`),
  node('MatMul', `${input} ${output}w`, output),
];

const SAME: Readonly<Record<string, readonly NodeSpec[]>> = {
  'constant weights': [...ENTRY, ...dense('d', 'w', 'zw', 'm'), ...dense('m', 'v', 'zv', 'y')],
  'integers and a constant': [node('MatMulInteger', 'q w', 'm'), node('Cast', 'm', 'y')],
};
const OTHER: Readonly<Record<string, readonly NodeSpec[]>> = {
  'two nodes that share a zero point': [
    ...ENTRY,
    ...dense('d', 'w', 'zw', 'm'),
    ...dense('m', 'v', 'zw', 'y'),
  ],
  'a product of two quantized inputs': [
    ...ENTRY,
    node('Transpose', 'd', 't'),
    node('QuantizeLinear', 't one zw', 'tq'),
    node('DequantizeLinear', 'tq one zv', 'td'),
    node('MatMul', 'd td', 'y'),
  ],
  'integers that are no constant': [node('Transpose', 'x', 't'), node('MatMulInteger', 'x t', 'y')],
  'an operator that nobody has looked at': [node('MatMulNBits', 'x w one', 'y')],
};

async function answer(t: TestContext, nodes: readonly NodeSpec[], architecture: string) {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const inputs = [{ name: 'x', dtype: 'float32', shape: ['N', 4] }] as const;
  const outputs = [{ name: 'y', dtype: 'float32', shape: ['N', 4] }] as const;
  await writeFile(file, onnxModel({ inputs, outputs, nodes, weights: WEIGHTS }));
  return isSameOnEveryProcessor(readModel(file), architecture);
}

test('a float32 model is the same on every processor', async (t) => {
  for (const architecture of ['x64', 'arm64']) {
    assert.equal(await answer(t, [node('MatMul', 'x f', 'y')], architecture), true);
  }
});

test('of quantized nodes those with constant weights are, on x64', async (t) => {
  for (const [what, nodes] of Object.entries(SAME)) {
    assert.equal(await answer(t, nodes, 'x64'), true, what);
    assert.equal(await answer(t, nodes, 'arm64'), false, what);
  }
  for (const [what, nodes] of Object.entries(OTHER)) assert.equal(await answer(t, nodes, 'x64'), false, what);
});
