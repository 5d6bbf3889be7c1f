/** A service started on a directory that is not ONNX: it imports on the way, and answers on both paths. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Stack } from '../../local/service/stack.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { bytesOf, netText } from '../onnx-import/support/openvino.ts';
import { fixture, sharedPath } from '../support/fixtures.ts';
import { readNpy, toNested } from '../support/npy.ts';
import { writePng } from '../support/png.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';

/** The mean of each channel: an image's answer is known without any other implementation. */
const MEANS = `
name: "means"
input: "data"
input_shape { dim: 10 dim: 3 dim: 4 dim: 6 }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "flat" type: "Flatten" bottom: "pool" top: "means" }
`;

/** The same as a SavedModel of TensorFlow: channels last. */
const SAVED_MEANS = `
saved_model_schema_version: 1
meta_graphs {
  meta_info_def { tags: "serve" }
  graph_def {
    node {
      name: "x" op: "Placeholder"
      attr { key: "dtype" value { type: DT_FLOAT } }
      attr { key: "shape" value { shape { dim { size: -1 } dim { size: 4 } dim { size: 6 } dim { size: 3 } } } }
    }
    node {
      name: "axes" op: "Const"
      attr { key: "dtype" value { type: DT_INT32 } }
      attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 } } int_val: 1 int_val: 2 } } }
    }
    node {
      name: "mean" op: "Mean" input: "x" input: "axes"
      attr { key: "T" value { type: DT_FLOAT } }
      attr { key: "Tidx" value { type: DT_INT32 } }
      attr { key: "keep_dims" value { b: false } }
    }
  }
  signature_def {
    key: "serving_default"
    value {
      inputs { key: "image" value { name: "x:0" dtype: DT_FLOAT } }
      outputs { key: "means" value { name: "mean:0" dtype: DT_FLOAT } }
    }
  }
}
`;

/** Red, green and blue of every pixel. */
const COLOUR = [250, 120, 10] as const;
const image = writePng({ width: 6, height: 4, depth: 8, colourType: 2, sample: () => COLOUR });

async function meansFolder(t: TestContext): Promise<string> {
  const folder = join(await temporaryFolder(t), 'net');
  await mkdir(folder);
  await writeFile(join(folder, 'deploy.prototxt'), MEANS);
  return folder;
}

function clientsOf(t: TestContext, stack: Stack) {
  const options = clientOptions(stack);
  const input = new InputQueue(options.input);
  const output = new OutputQueue(options.output);
  t.after(() => Promise.all([input.close(), output.close()]));
  return { input, output };
}

function dataOf(prediction: string | undefined): number[] {
  return (JSON.parse((prediction as string).slice('{value='.length, -1)) as { data: number[] }).data;
}

test('a Caffe directory answers pictures and tensors through predict and through the queue', async (t) => {
  const modelDirectory = await meansFolder(t);
  const stack = await testStack(t, { modelDirectory, config: '' });
  assert.match(stack.modelNotes?.[0] ?? '', /^Caffe model .*net: imported in /);
  assert.deepEqual(await readdir(modelDirectory), ['deploy.prototxt']);
  const { input, output } = clientsOf(t, stack);
  const bgr = [...COLOUR].reverse();
  const [picture] = await input.predict({ instances: [{ data: image.toString('base64') }] });
  assert.deepEqual(dataOf(picture), bgr);
  const row = (value: number) =>
    toNested({ dtype: 'float32', shape: [3, 4, 6], data: new Float32Array(72).fill(value) });
  const numbers = await input.predict({ instances: [{ data: row(1) }, { data: row(2) }] });
  assert.deepEqual(
    numbers.map((each) => dataOf(each)),
    [
      [1, 1, 1],
      [2, 2, 2],
    ],
  );
  await input.enqueue('picture', { data: { b64: image.toString('base64') } });
  const tensor = { data: new Float32Array(72).fill(3), shape: [3, 4, 6] };
  await input.enqueue('numbers', { data: tensor });
  const wait = async (uri: string) => [...((await output.wait(uri)).outputs[0]?.data as Float32Array)];
  assert.deepEqual(await wait('picture'), bgr);
  assert.deepEqual(await wait('numbers'), [3, 3, 3]);
});

test('a SavedModel directory answers pictures, channels last, without a line in config.yaml', async (t) => {
  const modelDirectory = await temporaryFolder(t);
  await writeFile(join(modelDirectory, 'saved_model.pbtxt'), SAVED_MEANS);
  const stack = await testStack(t, { modelDirectory, config: '' });
  const [imported, advice, verified, ...others] = stack.modelNotes;
  assert.match(imported ?? '', /^TensorFlow SavedModel model .*: imported in /);
  assert.match(advice ?? '', /^Images go in as BGR 0\.\.255, .*\nimage: torch /);
  assert.equal(verified, 'records share runs: the graph shows that none changes the answer of another');
  assert.deepEqual(others, []);
  assert.equal(stack.verification?.batching.verdict, 'proven');
  const { input, output } = clientsOf(t, stack);
  const b64 = image.toString('base64');
  const [picture] = await input.predict({ instances: [{ image: b64 }] });
  const bgr = [...COLOUR].reverse();
  assert.deepEqual(dataOf(picture), bgr);
  await input.enqueue('picture', { image: { b64 } });
  assert.deepEqual([...((await output.wait('picture')).outputs[0]?.data as Float32Array)], bgr);
});

/** The means again, of OpenVINO, with a batch of 1 in the file. */
const IR_MEANS = netText(11, [
  {
    id: 0,
    name: 'data',
    type: 'Parameter',
    data: { element_type: 'f32', shape: '1,3,4,6' },
    shapes: [[1, 3, 4, 6]],
  },
  {
    id: 1,
    type: 'Const',
    precision: 'I64',
    data: { element_type: 'i64', shape: '2', offset: 0, size: 16 },
    shapes: [[2]],
  },
  { id: 2, name: 'means', type: 'ReduceMean', data: { keep_dims: 'false' }, from: [0, 1], shapes: [[1, 3]] },
  { id: 3, type: 'Result', from: [2] },
]);

test('an OpenVINO directory answers several records at once, though its file has a batch of 1', async (t) => {
  const modelDirectory = await temporaryFolder(t);
  await writeFile(join(modelDirectory, 'net.xml'), IR_MEANS);
  await writeFile(join(modelDirectory, 'net.bin'), bytesOf(BigInt64Array.of(2n, 3n)));
  const stack = await testStack(t, { modelDirectory, config: '' });
  assert.equal(stack.verification?.batching.verdict, 'proven');
  const { input, output } = clientsOf(t, stack);
  const b64 = image.toString('base64');
  const bgr = [...COLOUR].reverse();
  const answers = await input.predict({ instances: [{ data: b64 }, { data: b64 }] });
  assert.deepEqual(answers.map(dataOf), [bgr, bgr]);
  await input.enqueue('picture', { data: { b64 } });
  assert.deepEqual([...((await output.wait('picture')).outputs[0]?.data as Float32Array)], bgr);
});

for (const name of ['mlnet_cifar_saved_model', 'keras_lstm_from_sequential', 'vespa_dropout']) {
  test(`the SavedModel ${name} gives its reference through predict and through the queue`, async (t) => {
    const folder = `corpus/tf_saved_model/${name}`;
    const names = existsSync(sharedPath(folder))
      ? await readdir(sharedPath(folder))
      : ['in_.npy', 'out_.npy'];
    const find = (prefix: string) => names.find((file) => file.startsWith(prefix)) as string;
    const given = await fixture(t, `${folder}/${find('in_')}`);
    const wanted = given && (await fixture(t, `${folder}/${find('out_')}`));
    if (!given || !wanted) return;
    const stack = await testStack(t, { modelDirectory: sharedPath(folder), config: '' });
    const { input, output } = clientsOf(t, stack);
    const { shape, data } = readNpy(given);
    const expected = readNpy(wanted);
    const row = {
      shape: shape.slice(1),
      data: (data as Float32Array).slice(0, data.length / (shape[0] as number)),
    };
    const [answer] = await input.predict({ instances: [{ x: toNested({ dtype: 'float32', ...row }) }] });
    await input.enqueue(name, { x: row });
    const queued = [...((await output.wait(name)).outputs[0]?.data as Float32Array)];
    assert.deepEqual(dataOf(answer).map(Math.fround), queued);
    assert.equal(queued.length, expected.data.length / (expected.shape[0] as number));
    for (const [i, value] of queued.entries()) {
      const want = expected.data[i] as number;
      assert.ok(Math.abs(value - want) < 1e-4 + 1e-3 * Math.abs(want), `${i}: ${value}, expected ${want}`);
    }
  });
}

test('the second start on the same data folder takes the import that is kept, and serves the same version', async (t) => {
  const modelDirectory = await meansFolder(t);
  const dataDir = await temporaryFolder(t);
  const first = await testStack(t, { modelDirectory, dataDir, config: '' });
  await first.close();
  const second = await testStack(t, { modelDirectory, dataDir, config: '' });
  assert.match(second.modelNotes?.[0] ?? '', /taken from an earlier import/);
  assert.equal(second.model, first.model);
  assert.equal((await readdir(join(dataDir, 'imported', 'serving_stream'))).length, 1);
});

test('what config.yaml says under import reaches the conversion', async (t) => {
  const stack = await testStack(t, {
    modelDirectory: await meansFolder(t),
    config: 'import:\n  inputs: {data: [N, 3, 2, 2]}\n  outputs: pool\n',
  });
  const { input } = clientsOf(t, stack);
  const [answer] = await input.predict({
    instances: [
      {
        data: new Array<number>(3).fill(0).map(() => [
          [1, 3],
          [1, 3],
        ]),
      },
    ],
  });
  const { data, shape } = JSON.parse((answer as string).slice('{value='.length, -1)) as Record<
    string,
    number[]
  >;
  assert.deepEqual(
    [data, shape],
    [
      [2, 2, 2],
      [3, 1, 1],
    ],
  );
});

test('a directory that cannot be imported ends the start with the reason, and nothing runs on', async (t) => {
  const modelDirectory = await meansFolder(t);
  await writeFile(join(modelDirectory, 'model.pt'), 'PK');
  const dataDir = await temporaryFolder(t);
  await assert.rejects(testStack(t, { modelDirectory, dataDir, config: '' }), {
    code: 'bad_model',
    message: /expected one model, found 2: deploy\.prototxt \(Caffe\), model\.pt \(PyTorch\)/,
  });
  assert.ok(!existsSync(join(dataDir, 'lock.json')));
});
