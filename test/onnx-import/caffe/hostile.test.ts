/** Malicious files: each ends in one bad_model error, or in a graph. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import {
  caffemodel,
  convertNet,
  field,
  floatBytes,
  inputText,
  noise,
  runNet,
  tensor,
  varint,
} from '../support/caffe/net.ts';

const DATA = inputText('data', [1, 3, 8, 8]);
const CONV = `layer { name: "c" type: "Convolution" bottom: "data" top: "out" convolution_param { num_output: 2 kernel_size: 3 } }`;
const WEIGHTS = {
  c: [
    { shape: [2, 3, 3, 3], data: noise(54) },
    { shape: [2], data: [1, 2] },
  ],
};

/** True when it was refused as bad_model, false when it was converted; anything else fails the test. */
async function isRefused(net: string, model: Uint8Array = Buffer.alloc(0)): Promise<boolean> {
  try {
    await convertNet(net, model);
    return false;
  } catch (error) {
    assert.ok(error instanceof ServingError && error.code === 'bad_model', String(error));
    assert.ok(error.message.length < 20_000);
    return true;
  }
}

test('a net that goes in a circle is refused with the layer that takes too early', async () => {
  const net = `layer { name: "a" type: "ReLU" bottom: "y" top: "x" } layer { name: "b" type: "ReLU" bottom: "x" top: "y" }`;
  await assert.rejects(convertNet(net), {
    code: 'bad_model',
    message: /layer "a" \(ReLU\) takes "y", which nothing before it makes/,
  });
});

test('a caffemodel cut at any offset is refused or lacks its weights', async () => {
  const model = caffemodel(WEIGHTS);
  const net = DATA + CONV;
  for (let length = 0; length < model.length; length++)
    assert.ok(await isRefused(net, model.subarray(0, length)), `${length}`);
  assert.equal(await isRefused(net, model), false);
});

test('a prototxt cut at any offset is refused or converted, never worse', async () => {
  const text = `${DATA} ${CONV} layer { name: "r" type: "Reshape" bottom: "out" top: "last" reshape_param { shape { dim: 0 dim: -1 } } }`;
  for (let length = 0; length < text.length; length += 3)
    await isRefused(text.slice(0, length), caffemodel(WEIGHTS));
});

test('flipped bytes of a caffemodel are refused or read, never worse', async () => {
  const model = caffemodel(WEIGHTS);
  const values = noise(400, 9);
  for (let i = 0; i < 200; i++) {
    const broken = Buffer.from(model);
    const at = Math.floor(Math.abs(values[2 * i] as number) * (broken.length - 1));
    broken[at] = Math.floor(Math.abs(values[2 * i + 1] as number) * 255);
    await isRefused(DATA + CONV, broken);
  }
});

test('blocks nested without end are refused', async () => {
  const depth = 100_000;
  assert.ok(await isRefused(`layer { name: "a" ${'unknown { '.repeat(depth)} ${'}'.repeat(depth)} }`));
  assert.ok(await isRefused('layer { convolution_param { weight_filler { '.repeat(1000)));
});

test('messages nested without end in a caffemodel are skipped or refused', async () => {
  let inner = field(1, Buffer.from('x'));
  for (let i = 0; i < 2000; i++) inner = field(7, inner);
  await isRefused(DATA + CONV, field(100, inner));
  assert.ok(await isRefused(DATA + CONV, Buffer.alloc(100_000, 0x0b)));
});

test('blobs whose shape and numbers disagree are refused with the layer', async () => {
  for (const dims of [[2, 2], [1 << 30, 1 << 30, 1 << 30], [3]]) {
    const blob = field(
      7,
      Buffer.concat([
        field(5, floatBytes([1, 2, 3, 4, 5])),
        field(7, field(1, Buffer.concat(dims.map(varint)))),
      ]),
    );
    const model = field(100, Buffer.concat([field(1, Buffer.from('c')), blob]));
    await assert.rejects(convertNet(DATA + CONV, model), (error: ServingError) => {
      assert.equal(error.code, 'bad_model');
      assert.match(error.message, /blob 0 of layer "c"/);
      return true;
    });
  }
});

const NUMBERS = [
  ['Convolution', 'convolution_param { num_output: 4294967295 kernel_size: 3 }'],
  ['Convolution', 'convolution_param { num_output: 2 kernel_size: 4294967295 }'],
  ['Convolution', 'convolution_param { num_output: 2 kernel_size: 0 }'],
  ['Convolution', 'convolution_param { num_output: 2 kernel_size: 3 stride: 0 }'],
  ['Convolution', 'convolution_param { num_output: 2 kernel_size: 3 group: 0 }'],
  ['Convolution', 'convolution_param { num_output: 2 kernel_size: 3 pad: -1 }'],
  ['Convolution', 'convolution_param { num_output: 2 kernel_size: 3 kernel_size: 3 kernel_size: 3 }'],
  ['Pooling', 'pooling_param { kernel_size: 0 }'],
  ['Pooling', 'pooling_param { kernel_size: 3 stride: 0 }'],
  ['Pooling', 'pooling_param { kernel_size: 9 }'],
  ['Pooling', 'pooling_param { kernel_size: 3 pad: 3 }'],
  ['InnerProduct', 'inner_product_param { num_output: 0 }'],
  ['InnerProduct', 'inner_product_param { num_output: 2 axis: 99 }'],
  ['Tile', 'tile_param { tiles: 2147483647 }'],
  ['Tile', 'tile_param { tiles: -1 }'],
  ['Interp', 'interp_param { height: 2147483647 width: 2147483647 }'],
  ['Interp', 'interp_param { zoom_factor: 2147483647 }'],
  ['Interp', 'interp_param { zoom_factor: 2 pad_beg: -100 }'],
  ['Interp', 'interp_param { zoom_factor: 0 }'],
  ['Upsample', 'upsample_param { scale: 1e30 }'],
  ['Upsample', 'upsample_param { scale: nan }'],
  ['SPP', 'spp_param { pyramid_height: 4000000000 }'],
  ['Reshape', 'reshape_param { shape { dim: 9223372036854775807 dim: 9223372036854775807 } }'],
  ['Reshape', 'reshape_param { shape { dim: -9 } }'],
  ['ArgMax', 'argmax_param { top_k: 4294967295 }'],
  ['Permute', 'permute_param { order: 4294967295 }'],
  ['Permute', 'permute_param { order: 0 order: 0 }'],
  ['Flatten', 'flatten_param { axis: 3 end_axis: 1 }'],
  ['LRN', 'lrn_param { local_size: 4 }'],
  ['Crop', ''],
  ['Clip', ''],
  ['ShuffleChannel', 'shuffle_channel_param { group: 0 }'],
  ['Embed', 'embed_param { num_output: 4294967295 input_dim: 4294967295 }'],
  ['PriorBox', 'prior_box_param { min_size: 1 img_size: 0 }'],
  ['PriorBox', 'prior_box_param { min_size: nan img_size: 1 }'],
  ['Eltwise', 'eltwise_param { coeff: 1 coeff: 2 coeff: 3 }'],
  ['Concat', 'concat_param { axis: -9 }'],
  ['LSTM', 'recurrent_param { num_output: 3 }'],
  ['DetectionOutput', 'detection_output_param { num_classes: 4294967295 }'],
] as const;

for (const [type, parameters] of NUMBERS)
  test(`${type} { ${parameters} } is refused`, async () => {
    assert.ok(
      await isRefused(
        `${DATA} layer { name: "c" type: "${type}" bottom: "data" top: "out" ${parameters} }`,
        caffemodel(WEIGHTS),
      ),
    );
  });

test('inputs with negative, zero and huge dimensions are refused', async () => {
  for (const dims of [[-1, 3], [0, 3], [1, 65536, 65536], [1, 2 ** 40], Array.from({ length: 40 }, () => 2)])
    assert.ok(
      await isRefused(
        `${inputText('data', dims)} layer { name: "r" type: "ReLU" bottom: "data" top: "out" }`,
      ),
      dims.join(),
    );
});

test('a blob that grows beyond Caffe own limit is refused where it does', async () => {
  const tiles = Array.from(
    { length: 12 },
    (_, i) =>
      `layer { name: "t${i}" type: "Tile" bottom: "${i === 0 ? 'data' : `b${i - 1}`}" top: "b${i}" tile_param { tiles: 100 } }`,
  );
  await assert.rejects(convertNet(DATA + tiles.join('\n')), {
    code: 'bad_model',
    message: /Tile \(node "t3"\): a blob of \[1,300000000,8,8\]/,
  });
});

test('twenty thousand layers in a row are converted', async () => {
  const layers = Array.from(
    { length: 20_000 },
    (_, i) => `layer { name: "r${i}" type: "ReLU" bottom: "data" top: "data" }`,
  );
  const { graph } = await convertNet(`${inputText('data', [1, 3])} ${layers.join('\n')}`);
  assert.equal(graph.nodes.length, 20_000);
});

test('more layers than the limit, and more outputs, are refused', async () => {
  const layer = (i: number) => `layer { name: "r" type: "ReLU" bottom: "data" top: "${i}" }`;
  assert.ok(await isRefused(DATA + Array.from({ length: 50_001 }, (_, i) => layer(i)).join('\n')));
  await assert.rejects(convertNet(DATA + Array.from({ length: 1001 }, (_, i) => layer(i)).join('\n')), {
    code: 'bad_model',
    message: /1001 outputs, the limit is 1000/,
  });
});

test('long lists and long names do not make long messages', async () => {
  const many = 'order: 0 '.repeat(50_000);
  const dims = 'dim: 2 '.repeat(50_000);
  const long = 'x'.repeat(100_000);
  for (const net of [
    `${DATA} layer { name: "p" type: "Permute" bottom: "data" top: "out" permute_param { ${many} } }`,
    `${DATA} layer { name: "p" type: "Slice" bottom: "data" top: "a" top: "b" slice_param { ${many.replaceAll('order', 'slice_point')} } }`,
    `${DATA} layer { name: "p" type: "Reshape" bottom: "data" top: "out" reshape_param { shape { ${dims} } } }`,
    `${'input: "data" '.repeat(50_000)} layer { name: "p" type: "ReLU" bottom: "data" top: "out" }`,
    `input: "${long}" layer { name: "p" type: "ReLU" bottom: "data" top: "out" }`,
    `input: "data" input_shape { ${dims} } layer { name: "p" type: "ReLU" bottom: "data" top: "out" }`,
    `${DATA} layer { name: "${long}" type: "${long}" bottom: "data" top: "out" }`,
  ])
    assert.ok(await isRefused(net));
});

test('names that are properties of every object are names like others', async () => {
  const net = `${inputText('data', [1, 2])} layer { name: "hasOwnProperty" type: "Power" bottom: "data" top: "__proto__" }
    layer { name: "constructor" type: "InnerProduct" bottom: "__proto__" top: "toString" inner_product_param { num_output: 1 bias_term: false } }`;
  const weights = { constructor: [{ shape: [1, 2], data: [1, 2] }] };
  const results = await runNet(net, weights, { data: tensor([1, 2], [3, 4]) });
  assert.equal(Object.getOwnPropertyDescriptor(results, 'toString')?.value.data[0], 11);
  assert.ok(await isRefused(`${DATA} layer { name: "a" type: "constructor" bottom: "data" top: "out" }`));
});
