/** Where weights come from: formats, precisions, sharing, and what does not fit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  assertClose,
  convertNet,
  field,
  floatBytes,
  inputText,
  runNet,
  tensor,
  varint,
} from '../support/caffe/net.ts';

const IP = (name: string, bottom: string, top: string, extra = '') =>
  `layer { name: "${name}" type: "InnerProduct" bottom: "${bottom}" top: "${top}" ${extra} inner_product_param { num_output: 2 bias_term: false } }\n`;
const DATA = inputText('data', [1, 2]);
const ONE_TWO = tensor([1, 2], [1, 2]);
const MATRIX = { shape: [2, 2], data: [1, 2, 3, 4] };

test('shared parameters come from the layer that has them in the file', async () => {
  const net = DATA + IP('a', 'data', 'x', 'param { name: "w" }') + IP('b', 'x', 'out', 'param { name: "w" }');
  const { out } = await runNet(net, { a: [MATRIX] }, { data: ONE_TWO });
  // [1,2] -> [5,11] -> [27,59]
  assertClose(out, tensor([1, 2], [27, 59]));
});

test('two layers of one name have the same weights', async () => {
  const { y } = await runNet(
    DATA + IP('a', 'data', 'x') + IP('a', 'x', 'y'),
    { a: [MATRIX] },
    { data: ONE_TWO },
  );
  assertClose(y, tensor([1, 2], [27, 59]));
});

test('layers, enums and weights of the old generation are read', async () => {
  const net = `input: "data" input_dim: 1 input_dim: 1 input_dim: 1 input_dim: 2
    layers { name: "ip" type: INNER_PRODUCT bottom: "data" top: "ip" blobs_lr: 1 weight_decay: 0 inner_product_param { num_output: 2 bias_term: false } }
    layers { name: "relu" type: RELU bottom: "ip" top: "ip" }
    layers { name: "prob" type: SOFTMAX bottom: "ip" top: "prob" }`;
  // Blob with num, channels, height, width instead of a shape.
  const legacy = Buffer.concat([
    ...[1, 1, 2, 2].map((dim, i) => Buffer.concat([varint((i + 1) * 8), varint(dim)])),
    field(5, floatBytes([1, 2, 3, 4])),
  ]);
  const layer = Buffer.concat([field(4, Buffer.from('ip')), field(6, legacy)]);
  const { prob } = await runNet(net, field(2, layer), { data: tensor([1, 1, 1, 2], [1, 2]) });
  const [a, b] = [Math.exp(5), Math.exp(11)];
  assertClose(prob, tensor([1, 2], [a / (a + b), b / (a + b)]));
});

test('weights in double and in half precision become float32', async () => {
  const shape = field(7, field(1, Buffer.concat([varint(2), varint(2)])));
  const doubles = field(8, Buffer.from(Float64Array.of(1, 2, 3, 4).buffer));
  // 1, 2, 3, 4 as IEEE half floats; type 2 in field 10.
  const halves = Buffer.concat([
    Buffer.from([0x50, 2]),
    field(12, Buffer.from(Uint16Array.of(0x3c00, 0x4000, 0x4200, 0x4400).buffer)),
  ]);
  for (const content of [doubles, halves]) {
    const blob = field(7, Buffer.concat([content, shape]));
    const model = field(100, Buffer.concat([field(1, Buffer.from('a')), blob]));
    const { out } = await runNet(DATA + IP('a', 'data', 'out'), model, { data: ONE_TWO });
    assertClose(out, tensor([1, 2], [5, 11]));
  }
});

test('aligned weights of the file become the graph without a copy', async () => {
  const blob = Buffer.concat([
    field(5, floatBytes(new Float32Array(400))),
    field(7, field(1, Buffer.concat([varint(20), varint(20)]))),
  ]);
  const make = (name: string) => field(100, Buffer.concat([field(1, Buffer.from(name)), field(7, blob)]));
  const net = (name: string) =>
    `${inputText('data', [1, 20])} layer { name: "${name}" type: "InnerProduct" bottom: "data" top: "out" inner_product_param { num_output: 20 bias_term: false } }`;
  const views = await Promise.all(
    ['a', 'ab', 'abc', 'abcd'].map(async (name) => {
      const { graph } = await convertNet(net(name), make(name));
      const weights = graph.nodes
        .flatMap(({ inputs }) => inputs)
        .find((value) => value?.constant?.data.length === 400);
      return (weights?.constant?.data as Float32Array).buffer.byteLength > 1600;
    }),
  );
  // A name of each length modulo four: one of them leaves the floats where a view can lie.
  assert.ok(views.includes(true));
});

test('weights that do not fit are refused with layer, blob and both sizes', async () => {
  const net = DATA + IP('a', 'data', 'out');
  for (const [weights, message] of [
    [
      { a: [{ shape: [2, 3], data: [1, 2, 3, 4, 5, 6] }] },
      /InnerProduct \(node "a"\): blob 0 \(weights\) is \[2,3\], expected \[2,2\]/,
    ],
    [{ a: [{ shape: [4, 1], data: [1, 2, 3, 4] }] }, /blob 0 \(weights\) is \[4,1\], expected \[2,2\]/],
    [{ a: [MATRIX, MATRIX] }, /needs 1 blobs \(weights\), the weights have 2/],
    [{ b: [MATRIX] }, /has no blobs in the caffemodel; its name must be the same in both files/],
    [{}, /needs weights, and there is no .caffemodel file/],
  ] as const)
    await assert.rejects(convertNet(net, weights), { code: 'bad_model', message });
});
