/** The probe behind the proof: what it must see by itself, without the proof in front of it. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { ANALYSER_VERSION } from '../../../lib/contract/verification.ts';
import { probeModel } from '../../../onnx-import/batching/probe.ts';
import { prove } from '../../../onnx-import/batching/verdict.ts';
import { rowAt, stackRows } from '../../../onnx-import/samples/rows.ts';
import { verifyModel } from '../../../onnx-import/verify/verify.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { models } from '../../support/models.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const REQUEST = { inputAxes: [], outputAxes: [], fixedRows: undefined, maxRows: 12 };
const CORPUS = sharedPath('corpus/batching');
const AGREE = 'ctl_mlp ctl_layernorm mlp mlp_ln mlp_l2 mlp_label tokens0 tokens1 tokens3 fixed4_plain'.split(
  ' ',
);

test('the probe sees every model of the shared corpus that mixes rows, and none that does not', async (t) => {
  if (!existsSync(CORPUS)) return t.skip('needs ../shared/corpus/batching, which is not on this machine');
  const index = JSON.parse(readFileSync(join(CORPUS, 'index.json'), 'utf8')) as { name: string }[];
  for (const { name } of index) {
    const fixedRows = name.startsWith('fixed4') ? 4 : undefined;
    const report = await probeModel({ ...REQUEST, file: join(CORPUS, `${name}.onnx`), fixedRows });
    assert.equal(
      report.kind,
      AGREE.includes(name) ? 'agrees' : 'differs',
      `${name}: ${JSON.stringify(report)}`,
    );
  }
});

const x = (shape: readonly (number | string)[]) => [{ name: 'x', dtype: 'float32' as const, shape }];
const y = (shape: readonly (number | string)[]) => [{ name: 'y', dtype: 'float32' as const, shape }];

test('rows on another axis are put together and taken apart along it', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const model = (axis: number) =>
    onnxModel({
      inputs: x([2, 'N', 3]),
      outputs: y([2, 'N', 3]),
      nodes: [{ op: 'Softmax', inputs: ['x'], outputs: ['y'], attributes: { axis } }],
    });
  const request = { ...REQUEST, file, inputAxes: [['x', 1]] as const, outputAxes: [['y', 1]] as const };
  writeFileSync(file, model(2));
  assert.deepEqual(await probeModel(request), { kind: 'agrees' });
  writeFileSync(file, model(1));
  assert.equal((await probeModel(request)).kind, 'differs');
});

test('a model that takes no made-up row says why, and keeps its proof', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  // No row of N numbers has 7 times 11 of them.
  const model = onnxModel({
    inputs: x(['N', 'T']),
    outputs: y(['N', 7, 11]),
    nodes: [{ op: 'Reshape', inputs: ['x', 's'], outputs: ['y'] }],
    weights: [{ name: 's', dtype: 'int64', shape: [3], data: BigInt64Array.from([0n, 7n, 11n]) }],
  });
  writeFileSync(file, model);
  const report = await probeModel({ ...REQUEST, file });
  assert.equal(report.kind, 'not run');
  assert.match('reason' in report ? report.reason : '', /Reshape/);
  const { batching, comparison } = await verifyModel(file, { process: models });
  const { unconfirmed, ...proof } = batching;
  assert.deepEqual([proof, comparison], [{ verdict: 'proven', analyser: ANALYSER_VERSION }, 'skipped']);
  assert.match(unconfirmed ?? '', /Reshape/);
});

test('a verdict names the operator and the node that ended the proof', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const model = onnxModel({
    inputs: x(['N', 4]),
    outputs: y(['N', 4]),
    nodes: [{ op: 'Softmax', inputs: ['x'], outputs: ['y'], attributes: { axis: 0 } }],
  });
  writeFileSync(file, model);
  assert.deepEqual(prove(file), {
    verdict: {
      verdict: 'not proven',
      reason: 'it normalizes along the batch axis',
      operator: 'Softmax',
      node: '',
      analyser: ANALYSER_VERSION,
    },
  });
});

test('a verdict names the axes that it holds for, and those of outputs elsewhere', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const model = onnxModel({
    inputs: [...x([2, 'N', 3]), { name: 'scale', dtype: 'float32', shape: [] }],
    outputs: y([2, 'N', 3]),
    nodes: [{ op: 'Mul', inputs: ['x', 'scale'], outputs: ['y'] }],
  });
  writeFileSync(file, model);
  const batchAxes = { x: 1, scale: 'none' } as const;
  const { batching } = await verifyModel(file, { batchAxes, process: models });
  assert.deepEqual(batching, {
    verdict: 'proven',
    inputAxes: batchAxes,
    outputAxes: { y: 1 },
    analyser: ANALYSER_VERSION,
  });
  // Of the first axis it is another verdict, about runs of two rows. A scalar is shared by all rows in any case.
  assert.deepEqual(prove(file).verdict, { verdict: 'proven', analyser: ANALYSER_VERSION });
});

test('a damaged file is refused with its path', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  writeFileSync(file, Buffer.from([0x3a, 0xff, 0xff, 0x03, 1, 2, 3]));
  await assert.rejects(verifyModel(file, { process: models }), { code: 'bad_model', message: /model\.onnx/ });
});

test('a row survives being put together and taken apart on any axis', () => {
  const row = (start: number): Tensor => ({
    dtype: 'float32',
    shape: [2, 1, 3],
    data: Float32Array.from({ length: 6 }, (_, i) => start + i),
  });
  const texts = (start: number): Tensor => ({
    dtype: 'string',
    shape: [2, 1],
    data: [`${start}`, `${start + 1}`],
  });
  for (const make of [row, texts]) {
    const whole = stackRows([make(0), make(10), make(20)], 1, 4);
    assert.equal(whole.shape[1], 4);
    assert.deepEqual(
      [0, 1, 2].map((at) => rowAt(whole, 1, at)),
      [make(0), make(10), make(20)],
    );
  }
});
