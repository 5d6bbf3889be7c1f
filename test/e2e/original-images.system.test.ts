/** The original system's test images through the whole service: what reaches the model are the pixels it had. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { fixture } from '../support/fixtures.ts';
import { identityModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';

interface Golden {
  readonly name: string;
  readonly shape_hwc: readonly [number, number, number];
  readonly first5_chw_flat: readonly number[];
  readonly mean_bgr: readonly number[];
  readonly sum: number;
}

test('the pixels of cat, dog and fish reach a model as BGR, CHW, 0 to 255, on both ways', async (t) => {
  const golden = await fixture(t, 'fixtures/zoo/derived/image_decode_golden.json');
  if (!golden) return;
  const modelDirectory = await temporaryFolder(t);
  const model = identityModel([{ name: 'image', dtype: 'float32', shape: ['N', 3, 'H', 'W'] }]);
  await writeFile(join(modelDirectory, 'identity.onnx'), model);
  const stack = await testStack(t, { config: '', modelDirectory });
  const options = clientOptions(stack);
  const input = new InputQueue(options.input);
  const output = new OutputQueue(options.output);
  t.after(() => Promise.all([input.close(), output.close()]));
  const { images } = JSON.parse(golden.toString()) as { images: readonly Golden[] };
  const files = images.filter(({ name }) => /^(cat|dog|fish)1\.jpeg$/.test(name));
  assert.equal(files.length, 3);
  for (const {
    name,
    shape_hwc: [height, width, channels],
    first5_chw_flat: first5,
    mean_bgr: means,
    sum,
  } of files) {
    const bytes = await fixture(t, `fixtures/zoo/images/${name}`);
    assert.ok(bytes);
    await input.enqueue(name, { image: { bytes } });
    const queued = (await output.wait(name)).outputs[0];
    assert.deepEqual(queued?.shape, [channels, height, width]);
    const data = queued.data as Float32Array;
    for (const [i, pixel] of first5.entries())
      assert.ok(Math.abs((data[i] as number) - pixel) <= 2, `${name} pixel ${i}`);
    const size = height * width;
    for (const [channel, mean] of means.entries()) {
      const plane = data.subarray(channel * size, (channel + 1) * size);
      assert.ok(
        Math.abs(plane.reduce((total, value) => total + value, 0) / size - mean) < 0.5,
        `${name} channel ${channel}`,
      );
    }
    assert.ok(Math.abs(data.reduce((total, value) => total + value, 0) / sum - 1) < 0.002, `${name} sum`);
    const [prediction] = await input.predict({ instances: [{ image: bytes.toString('base64') }] });
    const direct = JSON.parse((prediction as string).slice('{value='.length, -1)) as { data: number[] };
    assert.deepEqual(direct.data, [...data]);
  }
});
