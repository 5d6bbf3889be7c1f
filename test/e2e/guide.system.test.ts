/** The Python samples of the Cluster Serving guide, line by line in TypeScript, against the running service. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { InputQueue, OutputQueue, type RecordInputs, type Result, ServingError } from '../../sdk/index.ts';
import { useAws } from '../support/environment.ts';
import { identityModel, type ValueSpec } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, SAMPLE, testStack } from '../support/stack.ts';

async function served(t: TestContext, specs: readonly ValueSpec[], config = '') {
  const modelDirectory = await temporaryFolder(t);
  await writeFile(join(modelDirectory, 'model.onnx'), identityModel(specs));
  const stack = await testStack(t, { modelDirectory, config });
  const options = clientOptions(stack);
  // input_queue = InputQueue()
  const input_queue = new InputQueue(options.input);
  // output_queue = OutputQueue()
  const output_queue = new OutputQueue(options.output);
  t.after(() => Promise.all([input_queue.close(), output_queue.close()]));
  return { stack, input_queue, output_queue };
}

const elements = (result: Result, output = 0) => [...(result.outputs[output]?.data as Iterable<unknown>)];
const floats = (name: string, rank: number): ValueSpec => ({
  name,
  dtype: 'float32',
  shape: ['N', ...Array.from({ length: rank }, (_, axis) => `${name}${axis}`)],
});
const image = join(SAMPLE, 'images/digit-5.png');

test("enqueue('my-image1', user_define_key={'path': ...}) and ={'b64': ...}", async (t) => {
  const { input_queue, output_queue } = await served(t, [floats('image', 3)]);
  // input_queue.enqueue("my-image1", user_define_key={"path": 'path/to/image1'})
  await input_queue.enqueue('my-image1', { user_define_key: { path: image } });
  // image_encoded = base64.b64encode(open("path", "rb").read()); enqueue("my-image1", user_define_key={"b64": image_encoded})
  const image_encoded = (await readFile(image)).toString('base64');
  await input_queue.enqueue('my-image2', { user_define_key: { b64: image_encoded } });
  const first = await output_queue.wait('my-image1');
  assert.deepEqual(first.outputs[0]?.shape, [3, 8, 8]);
  assert.deepEqual(elements(first), elements(await output_queue.wait('my-image2')));
});

const SAMPLES: [string, ValueSpec[], RecordInputs, unknown[][]][] = [
  // input_queue.enqueue("my-tensor1", a=np.array([1,2]))
  ['my-tensor1', [floats('a', 1)], { a: [1, 2] }, [[1, 2]]],
  // input_queue.enqueue("my-tensor2", tensor1=np.array([1,2]), tensor2=np.array([[1,3],[2,3]]))
  [
    'my-tensor2',
    [floats('tensor1', 1), floats('tensor2', 2)],
    {
      tensor1: [1, 2],
      tensor2: [
        [1, 3],
        [2, 3],
      ],
    },
    [
      [1, 2],
      [1, 3, 2, 3],
    ],
  ],
  // input_queue.enqueue("my-string-input", user_define_key=["hello", "world"])
  [
    'my-string-input',
    [{ name: 's', dtype: 'string', shape: ['N', 'n'] }],
    { user_define_key: ['hello', 'world'] },
    [['hello', 'world']],
  ],
  // input_queue.enqueue("my-sparse-tensor", input=[np.array([[0,1,4],[0,2,5]]), np.array([101,102,103]), np.array([5,10])])
  [
    'my-sparse-tensor',
    [{ name: 'input', dtype: 'float32', shape: ['N', 5, 10] }],
    {
      input: {
        indices: [
          [0, 1, 4],
          [0, 2, 5],
        ],
        values: [101, 102, 103],
        shape: [5, 10],
      },
    },
    [Array.from({ length: 50 }, (_, i) => ({ 0: 101, 12: 102, 45: 103 })[i] ?? 0)],
  ],
];

for (const [uri, specs, inputs, expected] of SAMPLES) {
  test(`enqueue('${uri}', ...)`, async (t) => {
    const { input_queue, output_queue } = await served(t, specs);
    await input_queue.enqueue(uri, inputs);
    const result = await output_queue.wait(uri);
    for (const [i, output] of expected.entries()) assert.deepEqual(elements(result, i), output);
  });
}

test('1 image and 2 ndarray in one call, which the old client could not', async (t) => {
  const { input_queue, output_queue } = await served(t, [
    floats('img', 3),
    floats('tensor1', 1),
    floats('tensor2', 2),
  ]);
  // input_queue.enqueue("my-instance", img={"path": 'path/to/image'}, tensor1=np.array([1,2]), tensor2=np.array([[1,3],[2,3]]))
  await input_queue.enqueue('my-instance', {
    img: { path: image },
    tensor1: [1, 2],
    tensor2: [
      [1, 3],
      [2, 3],
    ],
  });
  // result = output_queue.query("my-instance")
  const result = await output_queue.wait('my-instance');
  assert.deepEqual(
    result.outputs.map(({ shape }) => shape),
    [[3, 8, 8], [2], [2, 2]],
  );
});

test('query, query_and_delete and dequeue, with a failed record among the results', async (t) => {
  const { input_queue, output_queue } = await served(t, [floats('a', 1)], 'postProcessing: topN(1)');
  await input_queue.enqueueMany([
    { uri: 'one', inputs: { a: [0.25, 0.5] } },
    { uri: 'two', inputs: { a: [4, 3] } },
    { uri: 'bad', inputs: { a: ['text'] } },
  ]);
  for (const uri of ['one', 'two']) await output_queue.wait(uri);
  await assert.rejects(output_queue.wait('bad'), { code: 'bad_input' });
  // output_queue.query("one")
  assert.deepEqual((await output_queue.query('one'))?.filtered, [[1, 0.5]]);
  // output_queue.query_and_delete("one")
  assert.ok(await output_queue.queryAndDelete('one'));
  // for k in output_queue.dequeue().keys(): output = k + "," + ...
  const all = await output_queue.dequeue();
  assert.deepEqual([...all.keys()].sort(), ['bad', 'two']);
  assert.ok(all.get('bad') instanceof ServingError);
});

test('two jobs side by side do not see each other, and a client finds its job by name', async (t) => {
  const one = await served(t, [floats('a', 1)], 'jobName: serving_one');
  const two = await served(t, [floats('a', 1)], 'jobName: serving2');
  // input_queue = InputQueue(name="serving2"); output_queue = OutputQueue(name="serving2")
  const { aws, redisUrl } = two.stack;
  const input = new InputQueue({ name: 'serving2', endpoint: aws.url, region: aws.region });
  const output = new OutputQueue({ name: 'serving2', url: redisUrl });
  t.after(() => Promise.all([input.close(), output.close()]));
  await input.enqueue('same uri', { a: [2] });
  // Each service has its own credentials, and a client reads them from the environment when it first sends.
  useAws(one.stack.aws.environment);
  await one.input_queue.enqueue('same uri', { a: [1] });
  assert.deepEqual(elements(await output.wait('same uri')), [2]);
  const ofOne = new OutputQueue({ name: 'serving_one', url: one.stack.redisUrl });
  t.after(() => ofOne.close());
  assert.deepEqual(elements(await ofOne.wait('same uri')), [1]);
  useAws(aws.environment);
  const wrongName = new InputQueue({ name: 'serving3', endpoint: aws.url, region: aws.region });
  t.after(() => wrongName.close());
  await assert.rejects(wrongName.enqueue('u', { a: [1] }), {
    code: 'queue_unavailable',
    message: /no queue cluster-serving-serving3/,
  });
});
