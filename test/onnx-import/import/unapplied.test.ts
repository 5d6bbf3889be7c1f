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
const FREE = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 3, 'h', 'w'] }]);
const job = (config = '') => parseConfig(config === '' ? 'jobName: a' : config, 'test');
const HALF = { image_mean: [0.5, 0.5, 0.5], image_std: [0.5, 0.5, 0.5] };
const VIT = { do_rescale: true, rescale_factor: 1 / 255, do_normalize: true, ...HALF };

async function refusal(t: TestContext, files: Readonly<Record<string, object>>, config?: string) {
  const texts = Object.entries(files).map(([name, value]) => [name, JSON.stringify(value)]);
  const directory = await folderOf(t, Object.fromEntries(texts));
  return assertApplied(directory, job(config)).then(
    (notes) => notes,
    (error: Error) => error.message,
  );
}

test('numbers and the order of colours are refused until config.yaml applies them', async (t) => {
  const files = { 'preprocessor_config.json': VIT };
  assert.match(
    String(await refusal(t, files)),
    /preprocessor_config\.json says .* does not apply rescale_factor, image_mean, image_std, the order RGB \(put image: \{channels: rgb, scale: 0\.00392.*, mean: \[0\.5,0\.5,0\.5\].*\} into config\.yaml\)\. If .* import: \{ignore: \[preprocessor_config\.json\]\}/,
  );
  const applied =
    'image: {channels: rgb, scale: 0.00392156862745098, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}';
  assert.deepEqual(await refusal(t, files, applied), []);
  // The same map of pixels, said in another way: (pixel / 127.5 - 1) / 1.
  assert.deepEqual(await refusal(t, files, 'image: tf'), []);
  assert.match(String(await refusal(t, files, 'image: torch')), /image_mean/);
  const bgr = { ...VIT, do_flip_channel_order: true };
  assert.match(String(await refusal(t, { 'preprocessor_config.json': bgr }, 'image: tf')), /the order BGR/);
});

test('each step that the service does not take is refused by its name', async (t) => {
  for (const [more, expected] of [
    [{ do_center_crop: true, crop_size: 8 }, /do_center_crop/],
    [{ size: { shortest_edge: 256 } }, /size\.shortest_edge/],
    [{ size: { height: 8, width: 8 }, resample: 3 }, /resample 3/],
    [{ size: 8, crop_pct: 0.9 }, /crop_pct/],
    [{ do_pad: true }, /do_pad/],
    [{ apply_ocr: true }, /apply_ocr/],
  ] as const) {
    const found = await refusal(t, { 'preprocessor_config.json': { ...VIT, ...more } }, 'image: tf');
    assert.match(String(found), expected);
    assert.doesNotMatch(String(found), /image_mean/);
  }
  const harmless = {
    ...VIT,
    do_convert_rgb: true,
    do_resize: true,
    size: { height: 8, width: 8 },
    resample: 2,
  };
  assert.deepEqual(await refusal(t, { 'preprocessor_config.json': harmless }, 'image: tf'), []);
});

test('a size counts where the model leaves it open', async (t) => {
  const files = { 'preprocessor_config.json': JSON.stringify({ ...VIT, size: { height: 8, width: 6 } }) };
  const fixed = await folderOf(t, { ...files, 'm.onnx': PICTURES });
  const free = await folderOf(t, { ...files, 'm.onnx': FREE });
  assert.deepEqual(await assertApplied(fixed, job('image: tf'), join(fixed, 'm.onnx')), []);
  await assert.rejects(assertApplied(free, job('image: tf'), join(free, 'm.onnx')), /size 8 x 6/);
  const sized = job('image: {preset: tf, height: 8, width: 6}');
  assert.deepEqual(await assertApplied(free, sized, join(free, 'm.onnx')), []);
  const other = job('image: {preset: tf, height: 6, width: 8}');
  await assert.rejects(assertApplied(free, other, join(free, 'm.onnx')), /size 8 x 6 .* 6 x 8 now/);
});

test('timm, newer folders, audio and sentence vectors are read too', async (t) => {
  const timm = { pretrained_cfg: { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5], crop_pct: 0.9 } };
  assert.match(
    String(await refusal(t, { 'config.json': timm })),
    /^.*config\.json says .*image_mean.*crop_pct 0\.9/,
  );
  assert.deepEqual(await refusal(t, { 'config.json': { model_type: 'bert' } }), []);
  assert.match(
    String(await refusal(t, { 'processor_config.json': { image_processor: VIT } })),
    /processor_config.*image_mean/,
  );
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

test('import and start refuse; import.ignore answers, stands in the report, and takes known files alone', async (t) => {
  const directory = await folderOf(t, {
    'm.onnx': PICTURES,
    'preprocessor_config.json': JSON.stringify(VIT),
  });
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
  await assert.rejects(run(''), { code: 'bad_model', message: /image_mean/ });
  const ignored = 'import: {ignore: [preprocessor_config.json]}';
  const { importReport } = await run(ignored);
  assert.match(importReport.notes.join(), /preprocessor_config\.json is ignored, as import\.ignore says/);
  const start = (config: string) =>
    modelOnTheWay(directory, { job: job(config), cacheDir: folder, version: '1' });
  await assert.rejects(start(''), /image_mean/);
  assert.match((await start(ignored)).notes.join(), /is ignored/);
  assert.deepEqual((await start('image: tf')).notes, []);
  assert.throws(() => job('import: {ignore: [model.onnx]}'), /files among preprocessor_config\.json/);
  const broken = await folderOf(t, { 'm.onnx': PICTURES, 'preprocessor_config.json': '{' });
  await assert.rejects(assertApplied(broken, job()), /preprocessor_config\.json: expected JSON/);
});

const REPORTED = fileURLToPath(new URL('../../../../shared/corpus/reported/folders', import.meta.url));
const skip = existsSync(REPORTED) ? false : 'needs ../shared/corpus/reported';
test('the reported folders are refused by the field that has an effect', { skip }, async () => {
  const refused = (name: string) => assertApplied(join(REPORTED, name), job());
  await assert.rejects(refused('vision_optimum'), /image_mean, image_std, the order RGB/);
  await assert.rejects(refused('st_default_prompt'), /default_prompt_name "query"/);
});
