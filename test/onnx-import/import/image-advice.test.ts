/** What an import says of the pixels that a model was trained on: a guess that is named, and lines that can be pasted. */
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { IMAGE_PRESETS, PRESET_NAMES } from '../../../lib/config/image-presets.ts';
import { type ImportReport, importReportText } from '../../../onnx-import/report/import-report.ts';
import { modelOnTheWay } from '../../../release/cache.ts';
import { adviceText, choiceLines, imageAdvice } from '../../../release/image-advice.ts';
import { importModel } from '../../../release/import.ts';
import { SERVICE } from '../../../release/service-words.ts';
import { parseConfig } from '../../support/config.ts';
import { models, UNMEASURED } from '../../support/models.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const job = (text = '') => parseConfig(text, 'test');

interface Made {
  readonly dtype?: string;
  readonly channels?: 'bgr' | 'grey';
  readonly format?: string;
  readonly config?: readonly string[];
  readonly numbers?: object;
}

/** An import report as far as the advice reads it. */
function reportOf({ dtype = 'float32', channels = 'bgr', format = 'onnx', config = [], numbers }: Made) {
  const image = { input: 'x', layout: 'chw', channels, height: 8, width: 8, ...(numbers && { numbers }) };
  const shape = ['N', channels === 'grey' ? 1 : 3, 8, 8];
  const report = { inputs: [{ name: 'x', dtype, shape }], images: [image], source: { format }, config };
  return report as unknown as ImportReport;
}

const linesFor = (made: Made) => imageAdvice(reportOf(made), {})?.choices.map(({ config }) => config);

test('each line can be pasted, and gives the settings of its preset, or what is served without it', () => {
  for (const made of [{}, { config: ['image:', '  layout: hwc'] }]) {
    const advice = imageAdvice(reportOf(made), {});
    assert.match(advice?.text ?? '', /^Images go in as BGR 0\.\.255, as Cluster Serving does; /);
    const layout = 'config' in made ? { layout: 'hwc' } : {};
    assert.deepEqual(
      advice?.choices.map(({ config }) => job(config).image),
      [
        ...PRESET_NAMES.map((name) => ({ ...job(`image: ${name}`).image, ...layout })),
        { channels: 'bgr', ...layout },
      ],
    );
    for (const [i, line] of choiceLines(advice ?? assert.fail()).entries())
      assert.deepEqual(job(line).image, job(advice?.choices[i]?.config).image);
  }
  assert.deepEqual(linesFor({}), [
    'image: torch',
    'image: keras',
    'image: tf',
    'image: caffe',
    'image: zero-to-one',
    'image: {channels: bgr}',
  ]);
});

test('a model of grey images is offered what fits one channel, and one of whole numbers no fractions', () => {
  const grey = linesFor({ channels: 'grey' }) ?? [];
  assert.deepEqual(grey, [
    'image: {preset: tf, channels: grey}',
    'image: {preset: zero-to-one, channels: grey}',
    'image: {channels: grey}',
  ]);
  for (const line of grey) assert.equal(job(line).image.channels, 'grey');
  assert.match(imageAdvice(reportOf({ channels: 'grey' }), {})?.text ?? '', /^Images go in as grey 0\.\.255/);
  assert.deepEqual(linesFor({ dtype: 'uint8' }), ['image: keras', 'image: {channels: bgr}']);
  assert.deepEqual(linesFor({ dtype: 'uint8', channels: 'grey' }), ['image: {channels: grey}']);
});

test('of Caffe, the preset caffe is first, after what the net itself says; of TensorFlow nothing is guessed', () => {
  assert.equal(linesFor({ format: 'caffe' })?.[0], 'image: caffe');
  assert.equal(linesFor({ format: 'caffe' })?.length, PRESET_NAMES.length + 1);
  const numbers = { scale: 0.017, mean: [1.76698, 1.98526, 2.10256] };
  const [own, second] = linesFor({ format: 'caffe', numbers }) ?? [];
  assert.deepEqual(job(own).image, { channels: 'bgr', ...numbers });
  assert.equal(second, 'image: caffe');
  assert.deepEqual(linesFor({ format: 'tf_saved_model' }), linesFor({}));
});

test('nothing is said of a model without images, or under a job that has any image setting', () => {
  assert.equal(imageAdvice({ ...reportOf({}), images: [] }, {}), undefined);
  for (const text of ['image: torch', 'image: {channels: bgr}', 'imageResize: 8,8', 'image: {scale: 1}'])
    assert.equal(imageAdvice(reportOf({}), job(text).image), undefined, text);
});

/** A net whose data layer subtracts and multiplies. */
const NET = `
layer { name: "d" type: "Data" top: "data" top: "label"
  transform_param { crop_size: 4 mean_value: 103.94 mean_value: 116.78 mean_value: 123.68 scale: 0.017 }
  data_param { batch_size: 8 } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE global_pooling: true } }
`;

async function netFolder(t: TestContext): Promise<string> {
  const folder = join(await temporaryFolder(t), 'net');
  await mkdir(folder);
  await writeFile(join(folder, 'deploy.prototxt'), NET);
  return folder;
}

test('the line for a Caffe net does what its data layer does: less the mean, then times the scale', async (t) => {
  const folder = await netFolder(t);
  const { importReport, directory } = await importModel(folder, {
    out: `${folder}-onnx`,
    version: '1',
    measure: false,
    process: models,
  });
  const [own] = imageAdvice(importReport, {})?.choices ?? [];
  const { channels, scale = 1, mean = [], std } = job(own?.config).image;
  assert.deepEqual([channels, std], ['bgr', undefined]);
  const means = [103.94, 116.78, 123.68];
  for (let level = 0; level < 256; level++) {
    const [ours, caffes] = [
      mean.map((one) => Math.fround(level * scale - one)),
      means.map((one) => Math.fround((level - one) * 0.017)),
    ];
    assert.deepEqual(ours, caffes, String(level));
  }
  const text = await readFile(join(directory, 'import-report.md'), 'utf8');
  assert.ok(text.startsWith(`${importReportText(importReport, SERVICE)}\n\nImages go in as BGR`));
  assert.match(
    text,
    /```yaml\nimage: \{channels: bgr, scale: 0\.017, mean: \[1\.76698,1\.98526,2\.10256\]\} +# /,
  );
});

test('a start says it until config.yaml has an image setting, from a kept import, too', async (t) => {
  const folder = await netFolder(t);
  const cacheDir = join(folder, '..', 'imported');
  const notesFor = async (text: string) => {
    const { notes, fromCache } = await modelOnTheWay(folder, {
      job: job(text),
      cacheDir,
      version: '1',
      process: models,
      ...UNMEASURED,
    });
    return { fromCache, said: notes.filter((note) => note.startsWith('Images go in as ')) };
  };
  assert.deepEqual(await notesFor('image: torch'), { fromCache: false, said: [] });
  const { fromCache, said } = await notesFor('');
  assert.equal(fromCache, true);
  const [, ...lines] = (said[0] ?? '').split('\n');
  assert.deepEqual([said.length, lines.length], [1, PRESET_NAMES.length + 2]);
  for (const name of PRESET_NAMES) {
    const line = lines.find((candidate) => candidate.startsWith(`image: ${name} `));
    assert.ok(line?.endsWith(`# ${IMAGE_PRESETS[name].about}`), name);
  }
  assert.deepEqual(await notesFor('image: {channels: bgr}'), { fromCache: true, said: [] });
});

test('an ONNX model of images is asked about, too, and its report keeps quiet under a job with settings', async (t) => {
  const folder = await temporaryFolder(t);
  const values = [{ name: 'x', dtype: 'float32', shape: ['N', 3, 4, 4] }] as const;
  await writeFile(join(folder, 'model.onnx'), identityModel(values));
  const out = join(await temporaryFolder(t), 'out');
  const { importReport } = await importModel(folder, {
    out,
    version: '1',
    measure: false,
    process: models,
    job: job('image: tf'),
  });
  assert.doesNotMatch(await readFile(join(out, 'import-report.md'), 'utf8'), /Images go in/);
  const text = adviceText(imageAdvice(importReport, {})).join('\n');
  assert.match(text, /\nImages go in as BGR 0\.\.255.*\n\n```yaml\nimage: torch /);
});
