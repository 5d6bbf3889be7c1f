/** Versions whose inputs have no shape in the file are compared by rows of the number of axes that the model takes. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { runDiff } from '../../../release/diff/run.ts';
import { parseConfig } from '../../support/config.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

/** Gemm takes two axes and no other number of them. */
const scaled = (factor: number) =>
  onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: undefined }],
    outputs: [{ name: 'y', dtype: 'float32', shape: undefined }],
    weights: [{ name: 'w', dtype: 'float32', shape: [1, 2], data: Float32Array.of(factor, -factor) }],
    nodes: [{ op: 'Gemm', inputs: ['x', 'w'], outputs: ['y'] }],
  });

test('made-up rows have as many axes as the model takes', async (t) => {
  const folder = await temporaryFolder(t);
  const sideOf = async (name: string, factor: number) => {
    const file = join(folder, name);
    await writeFile(file, scaled(factor));
    return { file, verification: undefined };
  };
  const [before, after] = [await sideOf('a.onnx', 2), await sideOf('b.onnx', 3)];
  const job = parseConfig('', 'config.yaml');
  const { answers } = await runDiff({ before, after, job, requests: [] });
  assert.ok(typeof answers !== 'string', JSON.stringify(answers));
  assert.deepEqual(
    answers.map(({ output, rows }) => [output, rows]),
    [['y', 32]],
  );
  // A difference of x is a quarter of the row from -2 x to 2 x.
  assert.ok(Math.abs((answers[0]?.median ?? 0) - 0.25) < 1e-6);
});
