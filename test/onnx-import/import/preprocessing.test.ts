/** What files and graphs say of pixels: the line in front of the guesses, with its source, and what is never guessed. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { IGNORABLE } from '../../../lib/config/import-values.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { bytes, message, text as textField } from '../../../onnx-import/wire/chunk.ts';
import { choiceLines, imageAdvice } from '../../../release/image-advice.ts';
import { importModel } from '../../../release/import.ts';
import { parseConfig } from '../../support/config.ts';
import { models } from '../../support/models.ts';
import { identityModel, type ModelSpec, onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { folderOf } from '../support/folder.ts';

const image = (...shape: (number | string)[]) => ({ name: 'x', dtype: 'float32', shape }) as const;
const PLAIN = identityModel([image('N', 3, 8, 8)]);

/** The advice of an import of these files, and the image settings of its first line. */
async function advised(t: TestContext, files: Readonly<Record<string, string | Uint8Array>>) {
  const directory = await folderOf(t, files);
  const out = join(await temporaryFolder(t), 'out');
  const { importReport } = await importModel(directory, {
    out,
    version: '1',
    measure: false,
    process: models,
    // The advice is asked for here, so the refusal of what is not applied is answered.
    job: { ...DEFAULT_JOB, import: { ignore: IGNORABLE } },
  });
  const advice = imageAdvice(importReport, DEFAULT_JOB.image) ?? assert.fail();
  const lines = choiceLines(advice);
  return { text: advice.text, line: lines[0], settings: parseConfig(lines[0] as string, 'test').image };
}

const json = (value: object) => JSON.stringify(value);
const IMAGENET = { image_mean: [0.485, 0.456, 0.406], image_std: [0.229, 0.224, 0.225] };
const ON = { do_rescale: true, rescale_factor: 1 / 255, do_normalize: true };

test('preprocessor_config.json becomes the first line, as a preset where its numbers are those of one', async (t) => {
  const resized = { do_resize: true, size: { shortest_edge: 256 }, resample: 3 };
  const cropped = { do_center_crop: true, crop_size: { height: 224, width: 224 } };
  const config = json({ ...ON, ...IMAGENET, ...resized, ...cropped });
  const { line, text } = await advised(t, { 'm.onnx': PLAIN, 'preprocessor_config.json': config });
  assert.match(line ?? '', /^image: torch +# from preprocessor_config\.json$/);
  assert.match(
    text,
    /The first line is from preprocessor_config\.json; the file says 224 x 224, the model takes 8 x 8; /,
  );
  assert.match(
    text,
    /scales the shorter side to 256 and cuts 224 x 224 .*\(bicubic\).*The others are guesses:$/,
  );
  const halves = json({
    ...ON,
    image_mean: [0.5, 0.5, 0.5],
    image_std: [0.5, 0.5, 0.5],
    do_flip_channel_order: true,
  });
  assert.deepEqual((await advised(t, { 'm.onnx': PLAIN, 'preprocessor_config.json': halves })).settings, {
    channels: 'bgr',
    scale: 1 / 255,
    mean: [0.5, 0.5, 0.5],
    std: [0.5, 0.5, 0.5],
  });
});

test('a size is taken where the model leaves it open', async (t) => {
  const config = json({ ...ON, ...IMAGENET, size: { height: 32, width: 48 } });
  const open = identityModel([image('N', 3, 'h', 'w')]);
  const { settings } = await advised(t, { 'm.onnx': open, 'preprocessor_config.json': config });
  assert.deepEqual([settings.height, settings.width, settings.channels], [32, 48, 'rgb']);
});

test('what is no configuration of pictures says nothing', async (t) => {
  for (const config of [
    '[]',
    json({ do_normalize: true }),
    json({ ...ON, image_mean: [0.5, 0.5], image_std: [1, 1] }),
    json({ ...ON, image_mean: [0.5], image_std: [0] }),
    json({ feature_extractor_type: 'Wav2Vec2FeatureExtractor', do_normalize: true }),
  ]) {
    const { text, line } = await advised(t, { 'm.onnx': PLAIN, 'preprocessor_config.json': config });
    assert.doesNotMatch(text, /The first line is from/, config);
    assert.match(line ?? '', /^image: torch +# RGB with/);
  }
});

test('timm says its numbers in config.json, and the metadata of ONNX theirs', async (t) => {
  const cfg = { mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25], crop_pct: 0.9, interpolation: 'bicubic' };
  const timm = await advised(t, { 'm.onnx': PLAIN, 'config.json': json({ pretrained_cfg: cfg }) });
  assert.deepEqual(timm.settings.std, [0.25, 0.25, 0.25]);
  assert.match(timm.text, /from config\.json; the file scales to 1\/0\.9 of the size/);
  const entry = (key: string, value: string) =>
    bytes(14, message([textField(1, key), textField(2, value)])).parts;
  const standard = Buffer.concat([
    PLAIN,
    ...entry('Image.BitmapPixelFormat', 'Bgr8'),
    ...entry('Image.NominalPixelRange', 'Normalized_1_1'),
  ]);
  const said = await advised(t, { 'm.onnx': standard });
  assert.deepEqual(said.settings, { channels: 'bgr', scale: 1 / 127.5, mean: [1] });
  const yolo = await advised(t, { 'm.onnx': Buffer.concat([PLAIN, ...entry('author', 'Ultralytics')]) });
  assert.match(
    yolo.line ?? '',
    /^image: zero-to-one +# from the metadata of the model file, which name Ultralytics$/,
  );
});

/** A net whose graph computes something with its pixels first. */
function graph(nodes: ModelSpec['nodes'], layout: 'chw' | 'hwc' = 'hwc') {
  const shape = layout === 'hwc' ? ['N', 8, 8, 3] : ['N', 3, 8, 8];
  const scalar = (name: string, value: number) =>
    ({ name, dtype: 'float32', shape: [], data: Float32Array.of(value) }) as const;
  return onnxModel({
    inputs: [image(...shape)],
    outputs: [{ ...image(...shape), name: 'y' }],
    nodes,
    weights: [
      scalar('s', 1 / 127.5),
      scalar('one', 1),
      scalar('d', 255),
      scalar('two', 2),
      { name: 'mean', dtype: 'float32', shape: [3], data: Float32Array.of(0.485, 0.456, 0.406) },
      { name: 'std', dtype: 'float32', shape: [3], data: Float32Array.of(0.229, 0.224, 0.225) },
      { name: 'caffe', dtype: 'float32', shape: [3], data: Float32Array.of(103.939, 116.779, 123.68) },
    ],
  });
}
const node = (op: string, inputs: readonly string[], output: string) => ({ op, inputs, outputs: [output] });

test('a graph that rescales pixels itself says what goes in, and that the order is a guess', async (t) => {
  const first = async (...nodes: ModelSpec['nodes']) => advised(t, { 'm.onnx': graph(nodes) });
  const scaled = await first(node('Mul', ['x', 's'], 'a'), node('Sub', ['a', 'one'], 'y'));
  assert.match(
    scaled.line ?? '',
    /^image: keras +# from the graph, which itself computes x × 0\.007843 − 1$/,
  );
  assert.match(scaled.text, /; the order RGB is a guess\. The others are guesses:$/);
  const divided = await first(node('Identity', ['x'], 'i'), node('Div', ['i', 'd'], 'y'));
  assert.match(divided.line ?? '', /^image: keras +# .* x × 0\.003922$/);
  const lessMean = await first(node('Sub', ['x', 'caffe'], 'a'), node('Relu', ['a'], 'y'));
  assert.match(lessMean.line ?? '', /^image: keras +# .* x × 1 − 103\.9$/);
  const ofOne = await first(node('Sub', ['x', 'mean'], 'a'), node('Div', ['a', 'std'], 'y'));
  assert.match(ofOne.line ?? '', /^image: zero-to-one +# .* x × 4\.367 − 2\.118$/);
});

test('a graph that does something else with its pixels says nothing', async (t) => {
  for (const nodes of [
    [node('Relu', ['x'], 'y')],
    [node('Mul', ['x', 'two'], 'y')],
    [node('Add', ['x', 'one'], 'y')],
    [node('Div', ['d', 'x'], 'y')],
    // Both users of the input see it before it is rescaled.
    [node('Mul', ['x', 's'], 'a'), node('Add', ['a', 'x'], 'y')],
  ])
    assert.doesNotMatch((await advised(t, { 'm.onnx': graph(nodes) })).text, /The first line is from/);
});
