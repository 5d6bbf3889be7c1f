/** Two imports of a model give one report, and a busy machine changes none; `test/onnx-import/import/same-reports.long.test.ts` does more. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { importModel } from '../../../release/import.ts';
import { models } from '../../support/models.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const SIDE = 24;
const weight = (name: string, count: number) => ({
  name,
  dtype: 'float32' as const,
  shape: count === SIDE ? [SIDE] : [SIDE, SIDE],
  data: Float32Array.from({ length: count }, (_, i) => Math.sin(i + name.length) / 3),
});
/** The rest of a sum that cancels: of x and of what rounding leaves, at any length. */
const cancelling = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 'T', SIDE] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 'T', SIDE] }],
  nodes: [
    { op: 'MatMul', inputs: ['x', 'w'], outputs: ['a'] },
    { op: 'Add', inputs: ['a', 'bias'], outputs: ['b'] },
    { op: 'Sub', inputs: ['b', 'bias'], outputs: ['c'] },
    { op: 'Sub', inputs: ['c', 'a'], outputs: ['y'] },
  ],
  weights: [weight('w', SIDE * SIDE), weight('bias', SIDE)],
});

async function report(t: TestContext): Promise<string> {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'model'));
  await writeFile(join(folder, 'model', 'model.onnx'), cancelling);
  const out = join(folder, 'out');
  await importModel(join(folder, 'model'), { version: '1', measure: false, process: models, out });
  const { measured: _, ...rest } = JSON.parse(await readFile(join(out, 'import-report.json'), 'utf8')) as {
    measured: object;
  };
  return JSON.stringify(rest);
}

test('a busy machine changes no report, and rounding is no difference', async (t) => {
  const idle = await report(t);
  const { verification } = JSON.parse(idle) as {
    verification: { batching: object; comparison: string; runtime: object };
  };
  assert.equal(verification.comparison, 'agrees');
  assert.match(JSON.stringify(verification.batching), /"verdict":"proven"/);
  assert.match(JSON.stringify(verification.runtime), /"level":"all","disabledOptimizers":\[\]/);
  for (let i = 0; i < 4; i++) {
    const busy = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
    t.after(() => busy.kill('SIGKILL'));
  }
  for (let i = 0; i < 2; i++) assert.equal(await report(t), idle);
});
