/** The net around its layers: which run, how they are connected, where weights come from, what goes in and out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { convertCaffe } from '../../../onnx-import/formats/caffe/convert.ts';
import {
  assertClose,
  caffemodel,
  convertNet,
  inFolder,
  inputText,
  noiseTensor,
  runNet,
  tensor,
} from '../support/caffe/net.ts';

const IP = (name: string, bottom: string, top: string, extra = '') =>
  `layer { name: "${name}" type: "InnerProduct" bottom: "${bottom}" top: "${top}" ${extra} inner_product_param { num_output: 2 bias_term: false } }\n`;
const DATA = inputText('data', [1, 2]);
const ONE_TWO = tensor([1, 2], [1, 2]);
const MATRIX = { shape: [2, 2], data: [1, 2, 3, 4] };

const outputsOf = async (net: string, weights = {}, options = {}) =>
  (await convertNet(net, weights, options)).graph.outputs.map(({ name }) => name);

test('only layers of the TEST phase run', async () => {
  const net = `${DATA}
    layer { name: "train" type: "ReLU" bottom: "data" top: "a" include { phase: TRAIN } }
    layer { name: "test" type: "Power" bottom: "data" top: "a" power_param { scale: 2 } include { phase: TEST } }
    layer { name: "not" type: "ReLU" bottom: "data" top: "b" exclude { phase: TEST } }
    layer { name: "both" type: "Power" bottom: "a" top: "out" power_param { shift: 1 } exclude { phase: TRAIN } }`;
  assert.deepEqual(await outputsOf(net), ['out']);
  assertClose((await runNet(net, {}, { data: ONE_TWO })).out, tensor([1, 2], [3, 5]));
});

test('levels and stages of the net decide which layers run', async () => {
  const net = `${DATA} state { level: 2 stage: "deploy" stage: "fast" }
    layer { name: "a" type: "ReLU" bottom: "data" top: "a" include { stage: "deploy" stage: "fast" } }
    layer { name: "b" type: "ReLU" bottom: "data" top: "b" include { stage: "deploy" stage: "slow" } }
    layer { name: "c" type: "ReLU" bottom: "data" top: "c" include { not_stage: "fast" } }
    layer { name: "d" type: "ReLU" bottom: "data" top: "d" include { min_level: 2 max_level: 3 } }
    layer { name: "e" type: "ReLU" bottom: "data" top: "e" include { min_level: 3 } }
    layer { name: "f" type: "ReLU" bottom: "data" top: "f" include { phase: TRAIN } include { max_level: 2 } }`;
  assert.deepEqual(await outputsOf(net), ['a', 'd', 'f']);
});

test('a layer in place changes its blob for those after it, not for those before', async () => {
  const net = `${DATA}
    layer { name: "before" type: "Power" bottom: "data" top: "first" power_param { shift: 10 } }
    layer { name: "in" type: "Power" bottom: "data" top: "data" power_param { scale: 3 } }
    layer { name: "after" type: "Power" bottom: "data" top: "second" power_param { shift: 10 } }`;
  const results = await runNet(net, {}, { data: ONE_TWO });
  assertClose(results.first, tensor([1, 2], [11, 12]));
  assertClose(results.second, tensor([1, 2], [13, 16]));
});

test('losses and measures are left out, and a softmax loss becomes its softmax', async () => {
  const net = `layer { name: "d" type: "Data" top: "data" top: "label" transform_param { crop_size: 2 mean_value: 1 mean_value: 2 mean_value: 3 scale: 0.5 } data_param { batch_size: 8 } }
    layer { name: "flat" type: "Reduction" bottom: "data" top: "flat" reduction_param { axis: 2 } }
    layer { name: "accuracy" type: "Accuracy" bottom: "flat" bottom: "label" top: "accuracy" }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "flat" bottom: "label" top: "loss" }`;
  const { graph, notes } = await convertNet(net);
  assert.deepEqual(
    graph.inputs.map(({ name, shape }) => [name, shape]),
    [['data', ['N', 3, 2, 2]]],
  );
  assert.deepEqual(
    graph.outputs.map(({ name }) => name),
    ['loss'],
  );
  assert.ok(graph.nodes.some(({ op }) => op === 'Softmax'));
  const told = notes.join('\n');
  assert.match(told, /"accuracy" \(Accuracy\) is for training and was left out/);
  assert.match(told, /"loss" \(SoftmaxWithLoss\) is for training; it became a Softmax/);
  assert.match(told, /subtracts 1, 2, 3, then multiplies by 0.5/);
});

test('a softmax loss beside the net own softmax is left out', async () => {
  const net = `${DATA} ${inputText('label', [1])}
    layer { name: "prob" type: "Softmax" bottom: "data" top: "prob" }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "data" bottom: "label" top: "loss" }`;
  const { graph } = await convertNet(
    net
      .replace(/input_shape[^}]*}/g, '')
      .replace('input: "label"', 'input: "label" input_shape { dim: 1 dim: 2 } input_shape { dim: 1 }'),
  );
  assert.deepEqual(
    graph.outputs.map(({ name }) => name),
    ['prob'],
  );
  assert.deepEqual(
    graph.inputs.map(({ name }) => name),
    ['data'],
  );
});

test('what is made of labels for a loss is no output', async () => {
  const net = `layer { name: "d" type: "MemoryData" top: "data" top: "label" memory_data_param { batch_size: 4 channels: 1 height: 2 width: 2 } }
    layer { name: "shift" type: "Power" bottom: "label" top: "shifted" power_param { shift: 1 } }
    layer { name: "out" type: "ReLU" bottom: "data" top: "out" }
    layer { name: "loss" type: "EuclideanLoss" bottom: "out" bottom: "shifted" top: "loss" }`;
  const { graph } = await convertNet(net);
  assert.deepEqual(
    graph.outputs.map(({ name }) => name),
    ['out'],
  );
  assert.deepEqual(
    graph.inputs.map(({ name }) => name),
    ['data'],
  );
});

test('Silence keeps a blob from being an output, unless nothing else is left', async () => {
  const two = `${DATA} layer { name: "a" type: "ReLU" bottom: "data" top: "a" } layer { name: "b" type: "ReLU" bottom: "data" top: "b" }`;
  assert.deepEqual(await outputsOf(`${two} layer { name: "s" type: "Silence" bottom: "a" }`), ['b']);
  assert.deepEqual(await outputsOf(`${two} layer { name: "s" type: "Silence" bottom: "a" bottom: "b" }`), [
    'a',
    'b',
  ]);
});

test('outputs can be chosen by blob, and only what they need is converted', async () => {
  const net = `${DATA} layer { name: "a" type: "ReLU" bottom: "data" top: "a" } layer { name: "b" type: "Unheard" bottom: "a" top: "b" }`;
  assert.deepEqual(await outputsOf(net, {}, { outputNames: ['a'] }), ['a']);
  await assert.rejects(convertNet(net, {}, { outputNames: ['c'] }), {
    code: 'bad_model',
    message: /has no blob "c" to put out; its outputs are b/,
  });
});

test('a blob inside the net can be made an input', async () => {
  const net = DATA + IP('a', 'data', 'x') + IP('b', 'x', 'out');
  const { graph } = await convertNet(net, { b: [MATRIX] }, { inputShapes: { x: ['N', 2] } });
  assert.deepEqual(
    graph.inputs.map(({ name }) => name),
    ['x'],
  );
  assert.deepEqual(
    graph.outputs.map(({ name }) => name),
    ['out'],
  );
});

test('an input can be replaced by a number', async () => {
  const net = `${DATA} layer { name: "i" type: "Input" top: "factor" input_param { shape { dim: 1 dim: 2 } } }
    layer { name: "e" type: "Eltwise" bottom: "data" bottom: "factor" top: "out" eltwise_param { operation: PROD } }`;
  assertClose(
    (await runNet(net, {}, { data: ONE_TWO }, { constants: { factor: 5 } })).out,
    tensor([1, 2], [5, 10]),
  );
  await assert.rejects(convertNet(net, {}, { constants: { other: 5 } }), {
    code: 'bad_model',
    message: /has no input "other" to make constant/,
  });
});

test('all layers that cannot be converted are named in one error', async () => {
  const net = `${DATA}
    layer { name: "first" type: "Dummy" bottom: "data" top: "a" }
    layer { name: "second" type: "Python" bottom: "a" top: "b" python_param { module: "m" layer: "L" } }
    layer { name: "third" type: "Softmax" bottom: "b" top: "c" }
    layer { name: "fourth" type: "Concat" bottom: "data" bottom: "data" top: "d" concat_param { axis: 7 } }`;
  await assert.rejects(convertNet(net), (error: Error) => {
    assert.match(error.message, /^net\.prototxt: 3 nodes cannot be converted:/);
    assert.match(error.message, /Dummy \(node "first"\): is not supported/);
    assert.match(error.message, /Python \(node "second"\): is not supported: its code is not in the file/);
    assert.match(error.message, /Concat \(node "fourth"\): axis 7 is outside of 2 dimensions/);
    return true;
  });
});

test('an input without a shape is refused with the option that gives it', async () => {
  const net = `layer { name: "d" type: "HDF5Data" top: "data" } layer { name: "r" type: "ReLU" bottom: "data" top: "out" }`;
  await assert.rejects(convertNet(net), {
    code: 'bad_model',
    message: /input "data" has no full shape; give it with --input data:<shape>/,
  });
  assert.deepEqual(await outputsOf(net, {}, { inputShapes: { data: [1, 3] } }), ['out']);
});

test('a bottom without a producer becomes an input when the user gives it a shape', async () => {
  const net = `layer { name: "r" type: "ReLU" bottom: "picture" top: "out" }`;
  await assert.rejects(convertNet(net), {
    code: 'bad_model',
    message: /"picture", which nothing before it makes.*--input picture:<shape>/,
  });
  const { graph } = await convertNet(net, {}, { inputShapes: { picture: [1, 3, 2, 2] } });
  assert.deepEqual(
    graph.inputs.map(({ name }) => name),
    ['picture'],
  );
});

test('a name in the options that the net does not have is refused', async () => {
  const net = `${DATA} layer { name: "r" type: "ReLU" bottom: "data" top: "out" }`;
  await assert.rejects(convertNet(net, {}, { inputShapes: { dta: [1, 3] } }), {
    code: 'bad_model',
    message: /has no input or blob "dta"; its inputs are data/,
  });
});

test('pictures are proposed as blue, green, red or grey planes', async () => {
  for (const [shape, image] of [
    [[1, 3, 4, 4], { layout: 'chw', channels: 'bgr' }],
    [[1, 1, 4, 4], { layout: 'chw', channels: 'grey' }],
    [[1, 8, 4, 4], undefined],
    [[1, 3], undefined],
  ] as const) {
    const net = `${inputText('data', shape)} layer { name: "r" type: "ReLU" bottom: "data" top: "out" }`;
    assert.deepEqual((await convertNet(net)).image, image);
  }
});

test('the numbers of a data layer are proposed as config.yaml has them, and not where a file has the mean', async () => {
  for (const [transform, numbers] of [
    ['scale: 0.00390625 force_gray: true', { scale: 1 / 256, mean: [0] }],
    ['mean_value: 127.5 scale: 0.0078125 force_color: true', { scale: 1 / 128, mean: [127.5 / 128] }],
    ['mean_value: 104 mean_value: 117 mean_value: 123', { scale: 1, mean: [104, 117, 123] }],
    // A float32 in the file, and not its nearest double.
    ['scale: 0.017 force_color: true', { scale: 0.017, mean: [0] }],
    ['mean_file: "mean.binaryproto" scale: 0.5 force_color: true', undefined],
    ['mirror: true force_color: true', undefined],
  ] as const) {
    const net = `layer { name: "d" type: "Data" top: "data" transform_param { crop_size: 4 ${transform} } data_param { batch_size: 2 } }
      layer { name: "r" type: "ReLU" bottom: "data" top: "out" }`;
    const { image } = await convertNet(net);
    assert.deepEqual(image?.numbers?.['data'], numbers, transform);
  }
});

test('a folder has one net and at most one file of weights', async () => {
  const net = `${DATA} layer { name: "r" type: "ReLU" bottom: "data" top: "out" }`;
  const model = caffemodel({});
  for (const [files, message] of [
    [{}, /expected one \.prototxt file, found none/],
    [{ 'a.caffemodel': model }, /expected one \.prototxt file, found none/],
    [{ 'a.prototxt': net, 'b.prototxt': net }, /found 2 \(a\.prototxt, b\.prototxt\)/],
    [
      { 'a.prototxt': net, 'a.caffemodel': model, 'b.caffemodel': model },
      /found 2 \(a\.caffemodel, b\.caffemodel\)/,
    ],
  ] as const)
    await inFolder(files, (folder) =>
      assert.rejects(convertCaffe(folder, {}), { code: 'bad_model', message }),
    );
  await inFolder({ 'a.prototxt': net, 'a.caffemodel.h5': '' }, (folder) =>
    assert.rejects(convertCaffe(folder, {}), { code: 'bad_model', message: /HDF5.*BINARYPROTO/ }),
  );
  const { files } = await inFolder({ 'a.prototxt': net, 'readme.md': '' }, (folder) =>
    convertCaffe(folder, {}),
  );
  assert.deepEqual(files, ['a.prototxt']);
  await assert.rejects(convertCaffe('/nowhere/at/all', {}), {
    code: 'bad_model',
    message: /cannot read the folder/,
  });
});

test('the fields of a fork that no table has are reported', async () => {
  const net = `${DATA} layer { name: "r" type: "ReLU" bottom: "data" top: "out" relu_param { upper_limit: 3 } }`;
  const { notes } = await convertNet(net);
  assert.match(notes.join(), /unknown field "upper_limit" was skipped \(line 2\)/);
});

test('layers without a name keep their connections', async () => {
  const net = `${DATA} layer { type: "Power" bottom: "data" top: "a" power_param { shift: 1 } }
    layer { type: "Power" bottom: "a" top: "b" power_param { scale: 2 } }`;
  assertClose((await runNet(net, {}, { data: ONE_TWO })).b, tensor([1, 2], [4, 6]));
});

test('a Dropout that drops at inference is refused', async () => {
  const net = `${DATA} layer { name: "d" type: "Dropout" bottom: "data" top: "out" dropout_param { sample_weights_test: true } }`;
  await assert.rejects(convertNet(net), {
    code: 'bad_model',
    message: /Dropout \(node "d"\): drops at inference too/,
  });
});

test('a top without a name is refused', async () => {
  const net = `${DATA} layer { name: "r" type: "ReLU" bottom: "data" top: "" }`;
  await assert.rejects(convertNet(net), {
    code: 'bad_model',
    message: /layer "r" has a top or bottom without a name/,
  });
});

test('an output named like an input gets a name of its own', async () => {
  const net = `${DATA} layer { name: "r" type: "ReLU" bottom: "data" top: "data" }`;
  const { graph } = await convertNet(net);
  assert.notEqual(graph.outputs[0]?.name, 'data');
  assertClose(
    (await runNet(net, {}, { data: noiseTensor([1, 2]) }))[graph.outputs[0]?.name ?? ''],
    tensor(
      [1, 2],
      (noiseTensor([1, 2]).data as Float32Array).map((x) => Math.max(0, x)),
    ),
  );
});
