/** How much more memory a version takes than the one before. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { diffVersions } from '../../../release/diff/diff.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('the memory of a model with four times the weights is a ratio in the report, and that of small ones is not', async (t) => {
  const folder = await temporaryFolder(t);
  const side = async (size: number) => {
    const data = Float32Array.from({ length: size * size }, (_, i) => Math.sin(i));
    const bytes = onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: ['N', size] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: ['N', size] }],
      weights: [{ name: 'w', dtype: 'float32', shape: [size, size], data }],
      nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
    });
    await mkdir(join(folder, `${size}`));
    const file = join(folder, `${size}`, 'model.onnx');
    await writeFile(file, bytes);
    return { file, verification: undefined };
  };
  const [small, one, four] = [await side(8), await side(2_000), await side(4_000)];
  const memory = async (...[before, after]: [typeof small, typeof small]) =>
    (await diffVersions(before, after, { job: DEFAULT_JOB })).memory;
  assert.equal(await memory(small, small), undefined);
  const more = (await memory(one, four)) ?? 0;
  // 16 MB of weights against 64 MB, each beside what onnxruntime takes.
  assert.ok(more > 1.8 && more < 4.2, `${more}`);
});
