/** A TorchScript archive through the whole import: detected, converted, checked by running it, verified. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { importModel } from '../../../release/import.ts';
import { models } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { scriptEntries, zip } from '../support/pytorch/archive.ts';

test('a TorchScript archive is imported with a free batch, and its rows share runs', async (t) => {
  const folder = await temporaryFolder(t);
  const model = join(folder, 'model');
  await mkdir(model);
  const weights = { w: { shape: [2, 3], data: [1, 2, 3, 4, 5, 6] } };
  const forward = 'w = self.w\nreturn torch.relu(torch.linear(x, w))';
  await writeFile(join(model, 'net.jit'), zip(scriptEntries({ forward, weights })));
  const { importReport } = await importModel(model, {
    out: join(folder, 'out'),
    version: '1',
    measure: false,
    process: models,
    convert: { inputShapes: { x: [1, 3] } },
  });
  assert.equal(importReport.source.format, 'pytorch');
  assert.deepEqual(importReport.inputs[0]?.shape, ['N', 3]);
  assert.ok(importReport.check.runs);
  assert.equal(importReport.verification?.batching.verdict, 'proven');
});
