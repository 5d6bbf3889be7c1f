/** What files and graphs say of pixels: the line in front of the guesses, with its source, and what is never guessed. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
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
  });
  const advice = imageAdvice(importReport, DEFAULT_JOB.image) ?? assert.fail();
  const lines = choiceLines(advice);
  return { text: advice.text, line: lines[0], settings: parseConfig(lines[0] as string, 'test').image };
}

/** An entry of a model's metadata. */
const entry = (key: string, value: string) =>
  bytes(14, message([textField(1, key), textField(2, value)])).parts;

test('the metadata of ONNX say their numbers', async (t) => {
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

test("Ultralytics' imgsz, stride and task say the size that the model leaves free, and how pictures fit it", async (t) => {
  const open = identityModel([image('N', 3, 'height', 'width')]);
  const exported = (model: Uint8Array, more: Readonly<Record<string, string>>) => {
    const all = Object.entries({ author: 'Ultralytics', imgsz: '[640, 320]', stride: '32', ...more });
    return Buffer.concat([model, ...all.flatMap(([key, value]) => entry(key, value))]);
  };
  const detector = await advised(t, { 'm.onnx': exported(open, { task: 'detect' }) });
  assert.match(
    detector.line ?? '',
    /^image: \{preset: zero-to-one, height: 640, width: 320\} +# from the metadata/,
  );
  assert.match(detector.text, /pads pictures to the size of the model, whose sides are multiples of 32/);
  const classifier = await advised(t, { 'm.onnx': exported(open, { task: 'classify', imgsz: '[224]' }) });
  assert.match(classifier.line ?? '', /height: 224, width: 224\}/);
  assert.match(classifier.text, /cuts the middle out: image\.resize does it/);
  // A size that the model fixes counts, and one that is none is left out.
  for (const [model, imgsz] of [
    [PLAIN, '[640, 640]'],
    [open, 'wide'],
  ] as const)
    assert.match(
      (await advised(t, { 'm.onnx': exported(model, { imgsz }) })).line ?? '',
      /^image: zero-to-one /,
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
