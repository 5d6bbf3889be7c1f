/** A folder that says how its inputs are made is served as it says, or refused by the name of the field. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { modelOnTheWay } from '../../../release/cache.ts';
import { importModel } from '../../../release/import.ts';
import { assertApplied } from '../../../release/unapplied.ts';
import { parseConfig } from '../../support/config.ts';
import { models } from '../../support/models.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { folderOf } from '../support/folder.ts';

const PICTURES = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 3, 8, 8] }]);
const job = (config = '') => parseConfig(config === '' ? 'jobName: a' : config, 'test');

async function refusal(t: TestContext, files: Readonly<Record<string, object>>, config?: string) {
  const texts = Object.entries(files).map(([name, value]) => [name, JSON.stringify(value)]);
  const directory = await folderOf(t, Object.fromEntries(texts));
  return assertApplied(directory, job(config)).then(
    (notes) => notes,
    (error: Error) => error.message,
  );
}

test('audio and sentence vectors are refused by the field that has an effect', async (t) => {
  assert.deepEqual(await refusal(t, { 'config.json': { model_type: 'bert' } }), []);
  const audio = {
    feature_extractor_type: 'Wav2Vec2FeatureExtractor',
    sampling_rate: 16_000,
    do_normalize: true,
  };
  assert.match(String(await refusal(t, { 'preprocessor_config.json': audio })), /do_normalize/);
  const name = 'config_sentence_transformers.json';
  const prompts = { query: 'query: ', none: '' };
  assert.match(
    String(await refusal(t, { [name]: { prompts, default_prompt_name: 'query' } })),
    /"query: " in front of each text/,
  );
  assert.deepEqual(await refusal(t, { [name]: { prompts, default_prompt_name: 'none' } }), []);
  assert.deepEqual(
    await refusal(t, { [name]: { prompts, default_prompt_name: null, truncate_dim: null } }),
    [],
  );
  assert.match(String(await refusal(t, { [name]: { truncate_dim: 64 } })), /truncate_dim 64/);
});

test('import.ignore answers, stands in the report, and takes known files alone', async (t) => {
  const audio = { sampling_rate: 16_000, do_normalize: true };
  const files = { 'm.onnx': PICTURES, 'preprocessor_config.json': JSON.stringify(audio) };
  const directory = await folderOf(t, files);
  const folder = await temporaryFolder(t);
  const run = (config: string) =>
    importModel(directory, {
      out: join(folder, 'out'),
      version: '1',
      measure: false,
      process: models,
      job: job(config),
      force: true,
    });
  await assert.rejects(run(''), { code: 'bad_model', message: /do_normalize/ });
  const ignored = 'import: {ignore: [preprocessor_config.json]}';
  const { importReport } = await run(ignored);
  assert.match(importReport.notes.join(), /preprocessor_config\.json is ignored, as import\.ignore says/);
  const start = (config: string) =>
    modelOnTheWay(directory, { job: job(config), cacheDir: folder, version: '1' });
  await assert.rejects(start(''), /do_normalize/);
  assert.match((await start(ignored)).notes.join(), /is ignored/);
  assert.throws(() => job('import: {ignore: [model.onnx]}'), /files among preprocessor_config\.json/);
  const broken = await folderOf(t, { 'm.onnx': PICTURES, 'preprocessor_config.json': '{' });
  await assert.rejects(assertApplied(broken, job()), /preprocessor_config\.json: expected JSON/);
});

const REPORTED = fileURLToPath(new URL('../../../../shared/corpus/reported/folders', import.meta.url));
const skip = existsSync(REPORTED) ? false : 'needs ../shared/corpus/reported';
test('a folder of sentences without a tokenizer is refused by the field that has an effect', {
  skip,
}, async () => {
  const directory = join(REPORTED, 'st_default_prompt');
  await assert.rejects(assertApplied(directory, job()), /default_prompt_name "query"/);
  assert.deepEqual(await assertApplied(directory, job(), { isText: true }), []);
});
