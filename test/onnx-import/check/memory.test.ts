/** An import measures a model's memory in a child process, which begins as a copy of its parent. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { importModel } from '../../../onnx-import/import/import.ts';
import { lineModel } from '../../support/faults/model.ts';
import { temporaryFolder } from '../../support/runner.ts';

const MB = 1024 * 1024;

test('the memory of a small model is small, however large the process is that imports it', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), lineModel());
  const held = Array.from({ length: 500 }, () => Buffer.alloc(MB, 1));
  const out = join(await temporaryFolder(t), 'out');
  const { importReport } = await importModel(folder, { out, version: '1' });
  const { memoryPeakBytes, memoryByRows = [] } = importReport.measured;
  assert.equal(held.length, 500);
  for (const bytes of [memoryPeakBytes, ...memoryByRows.map(({ peakBytes }) => peakBytes)])
    assert.ok(bytes < 100 * MB, `${Math.round(bytes / MB)} MB`);
});
