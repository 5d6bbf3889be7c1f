/** A preset of config.yaml on its whole way: a PNG goes in, and a model that returns its input shows the numbers. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { identityModel } from '../support/onnx.ts';
import { writePng } from '../support/png.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';

type Colour = readonly [red: number, green: number, blue: number];

const PIXELS: readonly Colour[] = [
  [0, 128, 255],
  [255, 0, 128],
];
const PNG = writePng({ width: 2, height: 1, depth: 8, colourType: 2, sample: (x) => PIXELS[x] as Colour });

/** By pixel and channel. */
const TORCH = PIXELS.map(([r, g, b]) => [
  (r / 255 - 0.485) / 0.229,
  (g / 255 - 0.456) / 0.224,
  (b / 255 - 0.406) / 0.225,
]);
const CAFFE = PIXELS.map(([r, g, b]) => [b - 103.939, g - 116.779, r - 123.68]);

const planes = (values: readonly (readonly number[])[]) =>
  [0, 1, 2].flatMap((channel) => values.map((pixel) => Math.fround(pixel[channel] as number)));

async function served(t: TestContext, config: string, shape: readonly (number | string)[]) {
  const modelDirectory = await temporaryFolder(t);
  await writeFile(
    join(modelDirectory, 'model.onnx'),
    identityModel([{ name: 'x', dtype: 'float32', shape }]),
  );
  const stack = await testStack(t, { modelDirectory, config });
  const options = clientOptions(stack);
  const input = new InputQueue(options.input);
  const output = new OutputQueue(options.output);
  t.after(() => Promise.all([input.close(), output.close()]));
  return { url: stack.url, input, output };
}

const predict = (url: string) =>
  fetch(`${url}/predict`, {
    method: 'POST',
    body: JSON.stringify({ instances: [{ x: PNG.toString('base64') }] }),
  });

for (const [config, shape, expected] of [
  ['image: torch', ['N', 3, 'H', 'W'], planes(TORCH)],
  ['image: {preset: caffe, layout: hwc}', ['N', 'H', 'W', 3], CAFFE.flat().map(Math.fround)],
] as const) {
  test(`${config} gives a model exactly its numbers, through POST /predict and through the queue`, async (t) => {
    const { url, input, output } = await served(t, config, shape);
    const response = await predict(url);
    assert.equal(response.status, 200);
    const { predictions } = (await response.json()) as { predictions: [string] };
    const { data } = JSON.parse(predictions[0].slice('{value='.length, -1)) as { data: number[] };
    assert.deepEqual(data.map(Math.fround), expected);
    await input.enqueue('picture', { x: { b64: PNG.toString('base64') } });
    const result = await output.wait('picture');
    assert.deepEqual([...(result.outputs[0]?.data as Float32Array)], expected);
  });
}

test('a preset of RGB on a model with one channel is refused before anything is served', async (t) => {
  await assert.rejects(served(t, 'image: torch', ['N', 1, 1, 2]), {
    code: 'bad_model',
    message: /a picture, under the settings of image: .*the input takes grey images/,
  });
});
