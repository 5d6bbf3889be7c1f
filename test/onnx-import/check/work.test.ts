/** Limits count operations, and time ends nothing silently. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { ANALYSER_VERSION } from '../../../lib/contract/verification.ts';
import { verificationNotes } from '../../../lib/contract/verification-text.ts';
import { afterProbe } from '../../../onnx-import/batching/verdict.ts';
import { operationsOf } from '../../../onnx-import/samples/operations.ts';
import { modelBytes, NotFinished, Work } from '../../../onnx-import/samples/work.ts';
import { bytes, integer, message, text } from '../../../onnx-import/wire/chunk.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const feeds = (rows: number): Tensor[] => [
  { dtype: 'float32', shape: [rows, 300], data: new Float32Array(300 * rows) },
];
const dense = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 300] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 500] }],
  nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
  weights: [{ name: 'w', dtype: 'float32', shape: [300, 500], data: new Float32Array(150_000) }],
});

test('the operations of a run are those of its shapes, the same each time', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, dense);
  const counts = [await operationsOf(file, feeds(1)), await operationsOf(file, feeds(1))];
  // Each product once, and each element of the output eight times.
  assert.deepEqual(counts, [300 * 500 + 8 * 500, 300 * 500 + 8 * 500]);
  assert.equal(await operationsOf(file, feeds(4)), 4 * (300 * 500 + 8 * 500));
  const work = new Work(file);
  await work.learn(feeds(1));
  assert.equal(work.run(feeds(3)), 3 * (counts[0] as number));
});

test('to open a model costs by its bytes, with those of the files that hold its weights', async (t) => {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'model.onnx');
  await writeFile(file, dense);
  const own = await new Work(file).opening();
  assert.equal(own % dense.length, 0);
  const perByte = own / dense.length;
  await writeFile(join(folder, 'weights.bin'), new Uint8Array(1000));
  // A file that is not there counts nothing; onnxruntime will name it.
  assert.equal(await modelBytes(file, ['weights.bin', 'absent.bin']), dense.length + 1000);
  const tensor = message([
    integer(1, 4),
    integer(2, 1),
    text(8, 'w'),
    bytes(13, message([text(1, 'location'), text(2, 'weights.bin')])),
    integer(14, 1),
  ]);
  const graph = message([bytes(5, tensor), text(2, 'graph')]);
  const opset = message([text(1, ''), integer(2, 17)]);
  const outside = Buffer.concat(message([integer(1, 8), bytes(7, graph), bytes(8, opset)]).parts);
  await writeFile(file, outside);
  assert.equal(await new Work(file).opening(), perByte * (outside.length + 1000));
});

test('a machine that is too slow is an error, and the verdict says so', () => {
  assert.throws(() => new Work('model.onnx', -1).assertInTime(), NotFinished);
  new Work('model.onnx', 60_000).assertInTime();
  const verdict = { verdict: 'proven', analyser: ANALYSER_VERSION } as const;
  const batching = afterProbe(verdict, { kind: 'not finished', reason: 'it did not finish within 240 s' });
  assert.equal(batching.verdict, 'not proven');
  const runtime = { onnxruntime: '1', architecture: 'x64', level: 'all', disabledOptimizers: [] } as const;
  assert.match(
    verificationNotes({ batching, runtime, comparison: 'agrees' })[0] ?? '',
    /one by one: the proof was not tried by runs: it did not finish within 240 s/,
  );
});
