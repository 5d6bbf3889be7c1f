/** A folder with pictures is served as its files say, under the settings of config.yaml, or refused by the name of a field. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { decodeImage, imageTensor } from '../../lib/codecs/image/image.ts';
import { modelSettings } from '../../lib/compose/model.ts';
import { openOnnx } from '../../lib/compose/onnx.ts';
import type { TensorSpec, Value } from '../../lib/contract/values.ts';
import { type ImageChoice, imageSettings } from '../../lib/pipeline/bind/image-choice.ts';
import { fitImage } from '../../onnx-import/import/fit-image.ts';
import { needsImport } from '../../onnx-import/source/detect.ts';
import { besideReader, folderImage } from '../../onnx-import/vision/folder.ts';
import { modelOnTheWay } from '../../release/cache.ts';
import { parseConfig } from '../support/config.ts';
import { models } from '../support/models.ts';
import { identityModel } from '../support/onnx.ts';
import { writePng } from '../support/png.ts';
import { temporaryFolder } from '../support/runner.ts';
import { folderOf } from './support/folder.ts';

const job = (config = '') => parseConfig(config === '' ? 'jobName: a' : config, 'test');
const spec = (...shape: (number | string)[]): TensorSpec => ({ name: 'x', dtype: 'float32', shape });
const FREE = spec('N', 'c', 'h', 'w');
const VIT = {
  image_processor_type: 'ViTImageProcessor',
  image_mean: [0.5, 0.4, 0.3],
  image_std: [0.5, 0.6, 0.7],
  size: { height: 8, width: 6 },
  resample: 3,
};

/** What is stored, or why not. */
async function stored(
  t: TestContext,
  config: object,
  input = FREE,
  settings = '',
  file = 'preprocessor_config.json',
) {
  const folder = await folderOf(t, { [file]: JSON.stringify(config) });
  const said =
    (await folderImage(besideReader(folder), job(settings).import)) ?? assert.fail('it says nothing');
  try {
    return fitImage(folder, said, [input], job(settings));
  } catch (error) {
    return (error as Error).message;
  }
}

async function refusal(...asked: Parameters<typeof stored>): Promise<string> {
  const found = await stored(...asked);
  return typeof found === 'string' ? found : 'not refused';
}

/** A picture of noise, as PNG. */
function picture(width: number, height: number): Uint8Array {
  const sample = (x: number, y: number) => [0, 1, 2].map((c) => (x * 7919 + y * 104_729 + c * 31 * x) % 256);
  return writePng({ width, height, depth: 8, colourType: 2, sample });
}

async function answer(directory: string, settings: string, asked: Uint8Array | Value, input: string) {
  const value: Value = asked instanceof Uint8Array ? { kind: 'image', bytes: asked } : asked;
  const runner = await openOnnx(join(directory, 'model.onnx'), '1', modelSettings(job(settings), 1));
  try {
    const [outcome] = await runner.run([new Map([[input, value]])]);
    assert.ok(outcome?.ok, outcome?.ok === false ? outcome.error.message : '');
    return Array.from(outcome.outputs[0]?.data as Float32Array);
  } finally {
    await runner.close();
  }
}

test('start and import store what the folder says, and config.yaml wins over it', async (t) => {
  const model = identityModel([spec('batch', 'num_channels', 'height', 'width')]);
  const files = { 'model.onnx': model, 'preprocessor_config.json': JSON.stringify(VIT) };
  const directory = await folderOf(t, files);
  assert.equal(await needsImport(directory), true);
  const start = async (config: string) =>
    modelOnTheWay(directory, {
      job: job(config),
      cacheDir: await temporaryFolder(t),
      version: '1',
      process: models,
    });
  const png = picture(19, 14);
  const pixels = await decodeImage(png);
  const prepared = async (settings: object) => {
    const whole = imageSettings(FREE, {
      channels: 'rgb',
      scale: 1 / 255,
      height: 8,
      width: 6,
      resample: 'bicubic',
      ...settings,
    });
    return Array.from((await imageTensor(pixels, whole, 'float32')).data as Float32Array);
  };
  const plain = await start('');
  assert.match(
    plain.notes.join('\n'),
    /pictures are prepared as preprocessor_config\.json says: scaled to 8 x 6 \(Pillow's bicubic\), RGB, value = \(pixel × 0\.00392157 − \[0\.5, 0\.4, 0\.3\]\) \/ \[0\.5, 0\.6, 0\.7\]/,
  );
  assert.equal(await needsImport(plain.directory), false);
  const [mean, std] = [VIT.image_mean, VIT.image_std];
  assert.deepEqual(await answer(plain.directory, '', png, 'x'), await prepared({ mean, std }));
  const own = await start('image: {channels: bgr, height: 5, width: 4}');
  assert.match(own.notes.join('\n'), /; image: of config\.yaml wins over it in width, height, channels/);
  // Mean and std belong to a colour, whose place the config changed.
  const swapped = { channels: 'bgr', height: 5, width: 4, mean: mean.toReversed(), std: std.toReversed() };
  assert.deepEqual(
    await answer(own.directory, 'image: {channels: bgr, height: 5, width: 4}', png, 'x'),
    await prepared(swapped),
  );
});

test('a shorter side, a crop, an order and a layout become settings', async (t) => {
  const clip = { image_processor_type: 'CLIPImageProcessorFast', crop_size: 5, size: 7, do_normalize: false };
  const numbers = { channels: 'rgb', scale: 1 / 255, mean: [0], std: [1], layout: 'chw' };
  const cut = { resize: 7, resample: 'bicubic', height: 5, width: 5 };
  assert.deepEqual(await stored(t, clip), { ...numbers, ...cut });
  const more = { do_normalize: true, image_mean: [1, 2, 3], do_flip_channel_order: true };
  const last = await stored(t, { ...clip, ...more, data_format: 'channels_last' });
  const { channels, layout, mean } = last as ImageChoice;
  assert.deepEqual([channels, layout, mean], ['bgr', 'hwc', [3, 2, 1]]);
});

test('what cannot be applied is refused by its name, unless config.yaml stands in for it', async (t) => {
  for (const [more, expected, settings] of [
    [{ do_pad: true }, /do_pad true/],
    [{ do_thumbnail: true }, /do_thumbnail/],
    [{ size_divisor: 32 }, /size_divisor 32/],
    [{ crop_pct: 0.9 }, /crop_pct 0\.9/],
    [{ resample: 9 }, /resample 9/],
    [{ image_mean: [0.5, 0.5] }, /image_mean \[0\.5,0\.5\]/],
    [{ image_std: [0, 1, 1] }, /image_std \[0,1,1\]/],
    [{ do_center_crop: true, crop_size: 'x' }, /crop_size "x"/],
    [{ size: { longest_edge: 9 } }, /size\.longest_edge .*image: \{resize: 256/, 'image: {resize: 9}'],
    [{ data_format: 'other' }, /data_format "other"/, 'image: {layout: chw}'],
  ] as const) {
    const found = await refusal(t, { ...VIT, ...more });
    assert.match(
      found,
      /preprocessor_config\.json says how pictures are prepared, and this is not applied: /,
    );
    assert.match(found, expected);
    assert.match(found, /import: \{ignore: \[preprocessor_config\.json\]\}/);
    if (settings !== undefined)
      assert.equal(typeof (await stored(t, { ...VIT, ...more }, FREE, settings)), 'object');
  }
});

test('a model that takes other pictures than the file says is refused', async (t) => {
  const other = await refusal(t, VIT, spec('N', 3, 8, 8));
  assert.match(other, /size 8 x 6 \(the model takes 8 x 8: put image: \{resize: 8, height: 8, width: 8\}/);
  const shorter = { ...VIT, size: { shortest_edge: 8 } };
  assert.match(
    await refusal(t, shorter, spec('N', 3, 8, 8)),
    /size\.shortest_edge 8 \(pictures come in other sizes/,
  );
  assert.equal(
    typeof (await stored(t, shorter, spec('N', 3, 8, 8), 'image: {height: 8, width: 8}')),
    'object',
  );
  assert.equal(typeof (await stored(t, shorter)), 'object');
  const last = { ...VIT, data_format: 'channels_last' };
  assert.match(await refusal(t, last, spec('N', 3, 8, 6)), /data_format .*image: \{layout: chw\}/);
  assert.match(await refusal(t, VIT, spec('N', 10)), /no input of the model takes pictures/);
  assert.match(
    await refusal(t, VIT, spec('N', 1, 8, 6)),
    /image_mean \(3 numbers, and pictures have one channel/,
  );
  const grey = { ...VIT, image_mean: [0.5], image_std: [0.5] };
  assert.equal(((await stored(t, grey, spec('N', 1, 8, 6))) as { channels: string }).channels, 'grey');
});

test('the processor may lie in another file, and files of other things say nothing', async (t) => {
  const nested = await stored(t, { image_processor: VIT }, FREE, '', 'processor_config.json');
  assert.equal((nested as { height: number }).height, 8);
  for (const config of [
    {},
    { model_type: 'bert' },
    { feature_extractor_type: 'Wav2Vec2FeatureExtractor', sampling_rate: 16_000, do_normalize: true },
  ]) {
    const folder = await folderOf(t, { 'preprocessor_config.json': JSON.stringify(config) });
    assert.equal(await folderImage(besideReader(folder)), undefined);
  }
});

const REPORTED = fileURLToPath(
  new URL('../../../shared/corpus/reported/folders/vision_optimum', import.meta.url),
);
const skip = existsSync(REPORTED) ? false : 'needs ../shared/corpus/reported';
test('the reported folder answers pictures as its processor makes them', { skip }, async (t) => {
  const made = await modelOnTheWay(REPORTED, {
    job: job(),
    cacheDir: await temporaryFolder(t),
    version: '1',
    process: models,
  });
  const { importReport } = made;
  assert.deepEqual(
    importReport?.images.map(({ height, width, channels }) => [height, width, channels]),
    [[64, 64, 'rgb']],
  );
  assert.deepEqual(JSON.parse(await readFile(join(made.directory, 'image.json'), 'utf8')), {
    channels: 'rgb',
    scale: 0.00392156862745098,
    mean: [0.5, 0.5, 0.5],
    std: [0.5, 0.5, 0.5],
    resample: 'bilinear',
    height: 64,
    width: 64,
    layout: 'chw',
  });
  assert.deepEqual(JSON.parse(await readFile(join(made.directory, 'names.json'), 'utf8')), {
    columns: {},
    labels: { logits: ['cat', 'dog', 'fox'] },
  });
  const png = picture(90, 70);
  const choice = JSON.parse(await readFile(join(made.directory, 'image.json'), 'utf8')) as ImageChoice;
  const tensor = await imageTensor(await decodeImage(png), imageSettings(FREE, choice), 'float32');
  const asNumbers = await answer(made.directory, '', { kind: 'tensor', tensor }, 'pixel_values');
  assert.deepEqual(await answer(made.directory, '', png, 'pixel_values'), asNumbers);
});
