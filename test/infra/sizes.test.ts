/** The table of sizes that `serverless package` shows. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { sizeTable } from '../../infra/build/sizes.ts';
import { temporaryFolder } from '../support/runner.ts';

test('sizes are those of the zipped functions that we bundled, not of one with an image or of the user', async (t) => {
  const service = await temporaryFolder(t);
  const folder = join(service, 'predictions');
  await mkdir(folder);
  await writeFile(join(folder, 'index.mjs'), 'x'.repeat(3_000));
  const functions = {
    own: { handler: 'own.handler' },
    inFolder: { handler: 'own/predictions/index.handler' },
    predictions: { handler: 'predictions.handler' },
    predict: { handler: null },
    submit: { handler: 'dist/predictions/index.handler' },
  };
  for (const name of Object.keys(functions)) await writeFile(join(service, `${name}.zip`), 'x'.repeat(1_000));
  const parts = { 'index.mjs': { ioredis: 2_000, 'our own': 1_000 } };
  const bundles = [{ name: 'predictions' as const, folder, contents: { parts, usesRuntime: false } }];
  const [, ...rows] = await sizeTable(functions, bundles, service);
  assert.deepEqual(rows, ['submit      1 kB      3 kB  ioredis 2 kB, our own 1 kB']);
});
