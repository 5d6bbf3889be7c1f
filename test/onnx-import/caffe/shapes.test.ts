/** Layers that move elements, and what becomes of the batch a net declares. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import {
  assertClose,
  convertNet,
  inputText,
  noise,
  noiseTensor,
  runNet,
  tensor,
} from '../support/caffe/net.ts';

const SHAPE = [2, 6, 2, 3] as const;
const INPUT = noiseTensor(SHAPE);
const X = INPUT.data as Float32Array;

function layerText(type: string, parameters = '', tops = ['out'], bottoms = ['data']): string {
  const names = [...bottoms.map((name) => `bottom: "${name}"`), ...tops.map((name) => `top: "${name}"`)];
  return `layer { name: "l" type: "${type}" ${names.join(' ')} ${parameters} }`;
}

async function run(
  type: string,
  parameters = '',
  shape: readonly number[] = SHAPE,
): Promise<Tensor | undefined> {
  const text = inputText('data', shape) + layerText(type, parameters);
  return (await runNet(text, {}, { data: { ...INPUT, shape } })).out;
}

/** Element (n, c, y, x) of the input. */
const at = (n: number, c: number, y: number, x: number) => X[((n * 6 + c) * 2 + y) * 3 + x] as number;

const RESHAPES: readonly [string, readonly number[]][] = [
  ['shape { dim: 0 dim: -1 }', [2, 36]],
  ['shape { dim: 2 dim: 36 }', [2, 36]],
  ['shape { dim: -1 dim: 36 }', [2, 36]],
  ['shape { dim: 0 dim: 3 dim: -1 dim: 0 }', [2, 3, 4, 3]],
  ['shape { dim: 3 dim: 2 } axis: 1 num_axes: 1', [2, 3, 2, 2, 3]],
  ['shape { dim: 6 } axis: -3', [2, 6, 6]],
  ['shape { dim: 1 } axis: 1 num_axes: 0', [2, 1, 6, 2, 3]],
  ['shape { dim: 4 dim: -1 }', [4, 18]],
];

for (const [parameters, shape] of RESHAPES)
  test(`Reshape with ${parameters} keeps the elements in order`, async () => {
    assertClose(await run('Reshape', `reshape_param { ${parameters} }`), tensor(shape, X));
  });

test('Reshape refuses a shape of another size, two -1 and an axis that is not there', async () => {
  for (const [parameters, message] of [
    ['shape { dim: 2 dim: 35 }', /cannot reshape \[2,6,2,3\] to \[2,35\]/],
    ['shape { dim: -1 dim: -1 }', /more than one -1/],
    ['shape { dim: -1 dim: 7 }', /cannot divide/],
    ['shape { dim: 0 dim: 0 dim: 0 dim: 0 dim: 0 }', /copies axis 4/],
    ['shape { dim: 1 } axis: 9', /outside of/],
  ] as const) {
    const text = inputText('data', SHAPE) + layerText('Reshape', `reshape_param { ${parameters} }`);
    await assert.rejects(convertNet(text), { code: 'bad_model', message });
  }
});

test('Flatten joins the axes it names', async () => {
  assertClose(await run('Flatten'), tensor([2, 36], X));
  assertClose(await run('Flatten', 'flatten_param { axis: 2 }'), tensor([2, 6, 6], X));
  assertClose(await run('Flatten', 'flatten_param { axis: 1 end_axis: 2 }'), tensor([2, 12, 3], X));
});

test('Permute orders the axes it names first, then the rest', async () => {
  const expected: number[] = [];
  for (let n = 0; n < 2; n++)
    for (let y = 0; y < 2; y++)
      for (let x = 0; x < 3; x++) for (let c = 0; c < 6; c++) expected.push(at(n, c, y, x));
  const out = await run('Permute', 'permute_param { order: 0 order: 2 order: 3 order: 1 }');
  assertClose(out, tensor([2, 2, 3, 6], expected));
  assertClose(
    await run('Permute', 'permute_param { order: 0 order: 2 order: 3 }'),
    tensor([2, 2, 3, 6], expected),
  );
});

test('Slice cuts at its points, or into equal parts', async () => {
  for (const [parameters, sizes] of [
    ['slice_param { slice_point: 1 slice_point: 3 }', [1, 2, 3]],
    ['slice_param { axis: 1 }', [2, 2, 2]],
    ['slice_param { slice_dim: 1 }', [2, 2, 2]],
  ] as const) {
    const text = inputText('data', SHAPE) + layerText('Slice', parameters, ['a', 'b', 'c']);
    const results = await runNet(text, {}, { data: INPUT });
    let first = 0;
    for (const [i, name] of ['a', 'b', 'c'].entries()) {
      const size = sizes[i] as number;
      const expected = [0, 1].flatMap((n) =>
        Array.from(X.slice((n * 6 + first) * 6, (n * 6 + first + size) * 6)),
      );
      assertClose(results[name], tensor([2, size, 2, 3], expected));
      first += size;
    }
  }
});

test('Slice refuses points that do not cut the axis into its tops', async () => {
  for (const points of ['slice_point: 3', 'slice_point: 3 slice_point: 3', 'slice_point: 3 slice_point: 9']) {
    const text = inputText('data', SHAPE) + layerText('Slice', `slice_param { ${points} }`, ['a', 'b', 'c']);
    await assert.rejects(convertNet(text), {
      code: 'bad_model',
      message: /Slice \(node "l"\): cannot cut 6/,
    });
  }
});

test('Concat joins along its axis or its old concat_dim', async () => {
  for (const parameters of ['concat_param { axis: 2 }', 'concat_param { concat_dim: 2 }']) {
    const text = inputText('data', SHAPE) + layerText('Concat', parameters, ['out'], ['data', 'data']);
    const { out } = await runNet(text, {}, { data: INPUT });
    const expected = Array.from({ length: 12 }, (_, i) => [
      ...X.slice(i * 6, i * 6 + 6),
      ...X.slice(i * 6, i * 6 + 6),
    ]);
    assertClose(out, tensor([2, 6, 4, 3], expected.flat()));
  }
});

test('Crop takes the size of its second input at its offsets', async () => {
  for (const [parameters, dy, dx] of [
    ['crop_param { offset: 1 }', 1, 1],
    ['crop_param { axis: 2 offset: 0 offset: 1 }', 0, 1],
    ['', 0, 0],
  ] as const) {
    const text = `${inputText('data', SHAPE)} ${inputText('like', [2, 9, 1, 2])} ${layerText('Crop', parameters, ['out'], ['data', 'like'])}`;
    const { out } = await runNet(text, {}, { data: INPUT, like: noiseTensor([2, 9, 1, 2]) });
    const expected = [0, 1].flatMap((n) =>
      [0, 1, 2, 3, 4, 5].flatMap((c) => [at(n, c, dy, dx), at(n, c, dy, dx + 1)]),
    );
    assertClose(out, tensor([2, 6, 1, 2], expected));
  }
});

test('Crop refuses to reach beyond its input', async () => {
  const text = `${inputText('data', SHAPE)} ${inputText('like', [2, 6, 2, 3])} ${layerText('Crop', 'crop_param { offset: 1 }', ['out'], ['data', 'like'])}`;
  await assert.rejects(convertNet(text), { code: 'bad_model', message: /cannot cut 2 at 1 out of 2/ });
});

test('Tile repeats its axis', async () => {
  const expected = [0, 1].flatMap((n) => [0, 1, 2].flatMap(() => Array.from(X.slice(n * 36, n * 36 + 36))));
  assertClose(await run('Tile', 'tile_param { tiles: 3 }'), tensor([2, 18, 2, 3], expected));
});

test('ShuffleChannel deals the channels of its groups in turn', async () => {
  const expected: number[] = [];
  for (let n = 0; n < 2; n++)
    for (const c of [0, 3, 1, 4, 2, 5])
      for (let i = 0; i < 6; i++) expected.push(X[(n * 6 + c) * 6 + i] as number);
  assertClose(await run('ShuffleChannel', 'shuffle_channel_param { group: 2 }'), tensor(SHAPE, expected));
});

test('Reorg moves blocks to channels as Darknet does', async () => {
  const [c, h, w, s] = [4, 4, 6, 2];
  const input = noiseTensor([1, c, h, w]);
  const text = inputText('data', [1, c, h, w]) + layerText('Reorg', 'reorg_param { stride: 2 }');
  const { out } = await runNet(text, {}, { data: input });
  const expected = new Float32Array(c * h * w);
  const deep = c / (s * s);
  for (let k = 0; k < c; k++)
    for (let j = 0; j < h; j++)
      for (let i = 0; i < w; i++) {
        const [c2, offset] = [k % deep, Math.floor(k / deep)];
        const [w2, h2] = [i * s + (offset % s), j * s + Math.floor(offset / s)];
        expected[i + w * (j + h * k)] = input.data[w2 + w * s * (h2 + h * s * c2)] as number;
      }
  assertClose(out, tensor([1, c * s * s, h / s, w / s], expected));
});

test('a declared batch becomes free, through a Reshape that names it too', async () => {
  const text = `${inputText('data', [10, 4, 1, 3])} ${layerText('Reshape', 'reshape_param { shape { dim: 10 dim: -1 dim: 2 } }')}`;
  const { graph } = await convertNet(text);
  assert.deepEqual(graph.inputs[0]?.shape, ['N', 4, 1, 3]);
  assert.deepEqual(graph.outputs[0]?.value.shape, ['N', 6, 2]);
  const data = noiseTensor([3, 4, 1, 3]);
  assertClose((await runNet(text, {}, { data })).out, { ...data, shape: [3, 6, 2] });
});

const BOUND: readonly [string, string][] = [
  ['Reshape', 'reshape_param { shape { dim: 4 dim: -1 } }'],
  ['Reshape', 'reshape_param { shape { dim: -1 dim: 18 } }'],
  ['Flatten', 'flatten_param { axis: 0 }'],
  ['Softmax', 'softmax_param { axis: 0 }'],
  ['Tile', 'tile_param { axis: 0 tiles: 2 }'],
  ['ArgMax', 'argmax_param { axis: 0 }'],
  ['Permute', 'permute_param { order: 1 order: 0 order: 2 order: 3 }'],
  ['Permute', 'permute_param { order: 3 order: 1 order: 2 order: 0 }'],
  ['Reshape', 'reshape_param { shape { dim: 36 dim: -1 } }'],
  ['Reduction', ''],
];

for (const [type, parameters] of BOUND)
  test(`a batch that ${type} ${parameters} mixes stays as it is declared`, async () => {
    const { graph, notes } = await convertNet(inputText('data', SHAPE) + layerText(type, parameters));
    assert.deepEqual(graph.inputs[0]?.shape, SHAPE);
    assert.match(notes.join('\n'), /the batch stays 2/);
  });

test('inputs of different batches keep them', async () => {
  const text = `${inputText('data', SHAPE)} ${inputText('other', [1, 6, 2, 3])}
    layer { name: "a" type: "ReLU" bottom: "data" top: "x" } layer { name: "b" type: "ReLU" bottom: "other" top: "y" }`;
  const { graph } = await convertNet(text);
  assert.deepEqual(
    graph.inputs.map(({ shape }) => shape?.[0]),
    [2, 1],
  );
});

test('a shape from the person replaces the declared one, free sizes included', async () => {
  const text = `${inputText('data', [1, 3, 8, 8])} layer { name: "c" type: "Convolution" bottom: "data" top: "out"
    convolution_param { num_output: 1 kernel_size: 3 bias_term: false } }`;
  const weights = { c: [{ shape: [1, 3, 3, 3], data: noise(27) }] };
  const { graph } = await convertNet(text, weights, { inputShapes: { data: ['N', 3, 'H', 'W'] } });
  assert.deepEqual(graph.inputs[0]?.shape, ['N', 3, 'H', 'W']);
  const data = noiseTensor([2, 3, 5, 9]);
  const { out } = await runNet(text, weights, { data }, { inputShapes: { data: [1, 3, 5, 9] } });
  assert.deepEqual(out?.shape, [2, 1, 3, 7]);
});

test('sizes that are free meet in Concat, Eltwise and Crop', async () => {
  const conv = (name: string, bottom: string, pad: number) =>
    `layer { name: "${name}" type: "Convolution" bottom: "${bottom}" top: "${name}" convolution_param { num_output: 1 kernel_size: 3 pad: ${pad} bias_term: false } }`;
  const text = `${inputText('data', [1, 1, 8, 8])} ${conv('a', 'data', 1)} ${conv('b', 'data', 1)} ${conv('c', 'data', 0)}
    layer { name: "cat" type: "Concat" bottom: "a" bottom: "b" top: "cat" }
    layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
    layer { name: "crop" type: "Crop" bottom: "sum" bottom: "c" top: "crop" crop_param { offset: 1 } }`;
  const weights = Object.fromEntries(
    ['a', 'b', 'c'].map((name) => [name, [{ shape: [1, 1, 3, 3], data: [0, 0, 0, 0, 1, 0, 0, 0, 0] }]]),
  );
  const data = noiseTensor([1, 1, 3, 4]);
  const inputShapes = { data: ['N', 1, 'H', 'W'] };
  const results = await runNet(text, weights, { data }, { inputShapes });
  const [five, six] = [2 * (data.data[5] as number), 2 * (data.data[6] as number)];
  assertClose(results.crop, tensor([1, 1, 1, 2], [five, six]));
  assert.deepEqual(results.cat?.shape, [1, 2, 3, 4]);
});
