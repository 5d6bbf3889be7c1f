/** Real models answer the same with their weights in a second file. */
import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { splitWeights } from '../../../lib/registry/weights.ts';
import { firstAnswers } from '../../support/first-answers.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('each ONNX model of the corpus that opens answers bit for bit as before', async (t) => {
  const corpus = sharedPath('corpus');
  if (!existsSync(corpus)) return t.skip('needs ../shared/corpus, which is not on this machine');
  const folder = await temporaryFolder(t);
  const seen = { split: 0, compared: 0 };
  for (const [i, path] of globSync('**/*.onnx', { cwd: corpus }).sort().entries()) {
    const model = join(corpus, path);
    const place = join(folder, `${i}`);
    await mkdir(place);
    const copy = join(place, basename(model));
    if (!splitWeights(model, copy, { leastModel: 0, leastWeight: 64 })) continue;
    seen.split++;
    const answers = await firstAnswers(model).catch(() => undefined);
    if (!answers) continue;
    assert.deepEqual(await firstAnswers(copy), answers, path);
    seen.compared++;
  }
  assert.ok(seen.compared >= 30, JSON.stringify(seen));
});
