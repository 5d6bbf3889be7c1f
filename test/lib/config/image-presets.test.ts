/** Image presets of config.yaml: their numbers, computed anew here, what overrides them, and what is refused. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decodeImage, imageTensor } from '../../../lib/codecs/image/image.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';
import { IMAGE_PRESETS, PRESET_NAMES } from '../../../lib/config/image-presets.ts';
import type { NumericDType } from '../../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../../lib/contract/values.ts';
import { bindRecord } from '../../../lib/pipeline/bind/bind.ts';
import { imageSettings } from '../../../lib/pipeline/bind/image-choice.ts';
import { parseConfig } from '../../support/config.ts';
import { writePng } from '../../support/png.ts';

const image = (text: string) => parseConfig(text, 'test').image;

function refusal(text: string): string {
  try {
    image(text);
  } catch (error) {
    return (error as Error).message;
  }
  assert.fail(`was accepted: ${text}`);
}

type Colour = readonly [red: number, green: number, blue: number];

/** Each level in each colour, and no two colours of a pixel alike, so that no swap goes unseen. */
const PIXELS: readonly Colour[] = [
  [0, 128, 255],
  [255, 0, 128],
  [128, 255, 0],
];
const PNG = writePng({
  width: 3,
  height: 1,
  depth: 8,
  colourType: 2,
  sample: (x) => PIXELS[x] as Colour,
});

/** What each library does, written down from its documentation and not from our table: one value for each channel. */
const EXPECTED: Readonly<Record<string, (pixel: Colour) => readonly number[]>> = {
  torch: ([r, g, b]) => [(r / 255 - 0.485) / 0.229, (g / 255 - 0.456) / 0.224, (b / 255 - 0.406) / 0.225],
  keras: (rgb) => rgb,
  tf: (rgb) => rgb.map((value) => value / 127.5 - 1),
  caffe: ([r, g, b]) => [b - 103.939, g - 116.779, r - 123.68],
  'zero-to-one': (rgb) => rgb.map((value) => value / 255),
};

async function valuesOf(config: string, shape: readonly number[], dtype: NumericDType = 'float32') {
  const spec: TensorSpec = { name: 'x', dtype, shape: ['N', ...shape] };
  return imageTensor(await decodeImage(PNG), imageSettings(spec, image(config)), dtype);
}

describe('the numbers of a preset', () => {
  for (const name of PRESET_NAMES) {
    const expected = PIXELS.map(EXPECTED[name] ?? (() => assert.fail(`no numbers for ${name}`)));

    test(`${name} gives the numbers of its library in float32, channels first and last`, async () => {
      const chw = await valuesOf(`image: ${name}`, [3, 1, 3]);
      assert.deepEqual(chw.shape, [3, 1, 3]);
      const planes = [0, 1, 2].flatMap((channel) => expected.map((values) => values[channel] as number));
      assert.deepEqual([...(chw.data as Float32Array)], planes.map(Math.fround));
      const hwc = await valuesOf(`image: {preset: ${name}, layout: hwc}`, [1, 3, 3]);
      assert.deepEqual(hwc.shape, [1, 3, 3]);
      assert.deepEqual([...(hwc.data as Float32Array)], expected.flat().map(Math.fround));
    });

    test(`${name} gives for each level what its library gives`, () => {
      const { channels, scale, mean, std } = IMAGE_PRESETS[name];
      const at = (values: readonly number[], c: number) => values[values.length === 1 ? 0 : c] as number;
      for (let level = 0; level < 256; level++) {
        const own = [0, 1, 2].map((c) => {
          return Math.fround((level * scale - at(mean, c)) / at(std, c));
        });
        const theirs = (EXPECTED[name] as (pixel: Colour) => readonly number[])([level, level, level]);
        assert.deepEqual(own, theirs.map(Math.fround), `${name} ${channels} ${level}`);
      }
    });
  }

  test('each preset of the table has numbers here', () => {
    assert.deepEqual(Object.keys(EXPECTED), PRESET_NAMES);
  });
});

describe('a preset in config.yaml', () => {
  test('is one word, or a key with others beside it, and the job has its numbers alone', () => {
    const torch = {
      channels: 'rgb',
      scale: 1 / 255,
      mean: [0.485, 0.456, 0.406],
      std: [0.229, 0.224, 0.225],
    };
    for (const text of ['image: torch', 'image: "Torch"', 'Image: torch', 'image: {preset: torch}'])
      assert.deepEqual(image(text), torch, text);
    assert.deepEqual(image('image: {height: 224, preset: torch, width: 192}'), {
      ...torch,
      height: 224,
      width: 192,
    });
    assert.deepEqual(image('imageResize: 8,9\nimage: torch'), { ...torch, height: 8, width: 9 });
  });

  test('is overridden by each key beside it, in any order', () => {
    assert.deepEqual(image('image: {mean: 0.5, preset: torch, std: [1, 2, 4], scale: 2, layout: hwc}'), {
      channels: 'rgb',
      layout: 'hwc',
      scale: 2,
      mean: [0.5],
      std: [1, 2, 4],
    });
    assert.deepEqual(image('image: {preset: zero-to-one, channels: grey}'), {
      channels: 'grey',
      scale: 1 / 255,
      mean: [0],
      std: [1],
    });
  });

  test('keeps the mean and std of each colour when channels swap RGB and BGR, and leaves those of the file', () => {
    const { mean, std } = image('image: {preset: torch, channels: bgr}');
    assert.deepEqual(
      [mean, std],
      [
        [0.406, 0.456, 0.485],
        [0.225, 0.224, 0.229],
      ],
    );
    assert.deepEqual(image('image: {preset: caffe, channels: rgb}').mean, [123.68, 116.779, 103.939]);
    const own = image('image: {preset: torch, channels: bgr, mean: [1, 2, 3]}');
    assert.deepEqual(
      [own.mean, own.std],
      [
        [1, 2, 3],
        [0.225, 0.224, 0.229],
      ],
    );
    assert.deepEqual(image('image: {preset: caffe, channels: bgr}'), image('image: caffe'));
  });

  test('survives the JSON of a function: the same numbers, bit by bit', () => {
    for (const name of PRESET_NAMES) {
      const job = parseConfig(`image: {preset: ${name}, height: 4, width: 4}`, 'test');
      const text = JSON.stringify(job);
      assert.deepEqual(readEnvironment({ CLUSTER_SERVING_CONFIG: text }).job, job);
      assert.deepEqual(parseConfig(text, 'test'), job);
      assert.ok(!text.includes('preset'));
    }
  });

  test('of an unknown word is refused with the list, and with the word that was probably meant', () => {
    const list = 'Presets are torch, keras, tf, caffe, zero-to-one; other settings are keys under image';
    const problem = (key: string, text: string) => `test:\n  line 1: ${key}: ${text}`;
    for (const text of ['image: trch', 'image: {preset: trch}'])
      assert.equal(
        refusal(text),
        problem('image.preset', `unknown preset "trch"; did you mean torch? ${list}`),
      );
    assert.match(refusal('image: zero_to_one'), /did you mean zero-to-one\?/);
    for (const word of ['true', '3', ''])
      assert.equal(refusal(`image: "${word}"`), problem('image.preset', `unknown preset "${word}". ${list}`));
    assert.equal(
      refusal('image: []'),
      problem(
        'image',
        'expected a preset or keys under it (preset, width, height, resize, resample, middle, fill, channels, layout, scale, mean, std), got a list',
      ),
    );
    assert.match(
      refusal('image: {preset: [torch]}'),
      /image\.preset: expected one of torch, .*, got \["torch"\]/,
    );
    assert.ok(refusal(`image: ${'x'.repeat(5_000)}`).length < 400);
    assert.match(refusal('image: constructor'), /unknown preset/);
  });

  test('is refused beside the same key again, as one word and as keys', () => {
    assert.match(
      refusal('image: torch\nImage: {scale: 1}'),
      /line 2: Image: the same key as image on line 1/,
    );
    assert.match(refusal('queue: torch'), /queue: expected keys under it \(/);
  });

  test('with three numbers is refused for grey images, unless one number replaces them', () => {
    assert.equal(
      refusal('jobName: a\nimage:\n  preset: torch\n  channels: grey\n'),
      [
        'test:',
        '  line 3: image.preset: its mean: 3 numbers do not fit image.channels: grey; expected one',
        '  line 3: image.preset: its std: 3 numbers do not fit image.channels: grey; expected one',
      ].join('\n'),
    );
    assert.match(refusal('image: {preset: torch, channels: grey, mean: 0.5}'), /image\.preset: its std/);
    const own = image('image: {preset: torch, channels: grey, mean: 0.5, std: 0.25}');
    assert.deepEqual([own.mean, own.std], [[0.5], [0.25]]);
  });
});

test('a model with one channel refuses a preset of RGB or BGR by name, and takes one that is set to grey', async () => {
  const spec: TensorSpec = { name: 'x', dtype: 'float32', shape: ['N', 1, 1, 3] };
  const record = new Map([['x', { kind: 'image', bytes: PNG } as const]]);
  const boundUnder = async (text: string, to = spec) =>
    bindRecord(record, [to], { image: image(text), inputAlreadyBatched: false });
  for (const name of PRESET_NAMES) {
    await assert.rejects(boundUnder(`image: ${name}`), {
      code: 'bad_config',
      message: `input "x": the input takes grey images, and image.channels is ${IMAGE_PRESETS[name].channels}: set image.channels: grey, with one mean and one std`,
    });
  }
  const last: TensorSpec = { ...spec, shape: ['N', 1, 3, 1] };
  await assert.rejects(boundUnder('image: tf', last), { code: 'bad_config' });
  await assert.rejects(boundUnder('image: {mean: [1, 2, 3]}'), { code: 'bad_config' });
  const { tensors } = await boundUnder('image: {preset: tf, channels: grey}');
  const greys = PIXELS.map(([r, g, b]) => Math.round(0.299 * r + 0.587 * g + 0.114 * b));
  assert.deepEqual(
    [...(tensors[0]?.data as Float32Array)],
    greys.map((grey) => Math.fround(grey / 127.5 - 1)),
  );
});

test('an input of whole numbers takes pixels that its dtype holds, and refuses what it would round or cut off', async () => {
  const bound = async (dtype: NumericDType, text: string) => {
    const spec: TensorSpec = { name: 'x', dtype, shape: ['N', 3, 1, 3] };
    const record = new Map([['x', { kind: 'image', bytes: PNG } as const]]);
    return bindRecord(record, [spec], { image: image(text), inputAlreadyBatched: false });
  };
  const blue = PIXELS.map((pixel) => pixel[2]);
  for (const [dtype, text, shift] of [
    ['uint8', '', 0],
    ['uint8', 'image: {channels: bgr, mean: -0.0}', 0],
    ['int32', 'image: {scale: 2, mean: [100, 5, 7], std: 1}', undefined],
    ['int8', 'image: {channels: bgr, mean: 128}', -128],
    ['float16', 'image: zero-to-one', undefined],
  ] as const) {
    const { tensors } = await bound(dtype, text);
    if (shift === undefined) continue;
    assert.deepEqual(
      Array.from(tensors[0]?.data.slice(0, 3) as Int8Array),
      blue.map((level) => level + shift),
    );
  }
  const refused: [NumericDType, string][] = [
    ['uint8', 'image: zero-to-one'],
    ['uint8', 'image: caffe'],
    ['uint8', 'image: {mean: 1}'],
    ['uint8', 'image: {std: [1, 1, 2]}'],
    ['uint8', 'image: {mean: [0, 0, 0.5]}'],
    ['int8', ''],
    ['int8', 'image: {mean: 127}'],
    ['int16', 'image: {scale: 0.5}'],
  ];
  for (const [dtype, text] of refused) {
    await assert.rejects(bound(dtype, text), {
      code: 'bad_config',
      message: new RegExp(`^input "x": the input is ${dtype}, which cannot hold all that image\\.scale`),
    });
  }
});
