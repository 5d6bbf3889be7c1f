/** Layers of versions 2 to 7 with answers computed by hand, because no runtime of today reads these versions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { answerOf, bytesOf, type LayerText, netText, shaped } from '../support/openvino.ts';

interface OldLayer extends Omit<LayerText, 'id' | 'from' | 'shapes'> {
  readonly input?: readonly number[];
  readonly output: readonly number[];
  readonly numbers?: readonly number[];
  readonly version?: number;
}

/** The layer after an input, by default of [1,2,2,2] with the numbers 1 to 8. */
function ask({ input = [1, 2, 2, 2], output, numbers = [], version = 7, ...layer }: OldLayer) {
  const count = input.reduce((all, dim) => all * dim, 1);
  const xml = netText(version, [
    { id: 0, name: 'data', type: 'Input', shapes: [input] },
    { id: 1, from: [0], shapes: [output], ...layer },
  ]);
  const values: Tensor = shaped(input, ...Array.from({ length: count }, (_, i) => i + 1));
  return answerOf(xml, [values], bytesOf(Float32Array.from(numbers)));
}

const CASES: readonly (readonly [what: string, layer: OldLayer, answer: readonly number[]])[] = [
  [
    'Power computes (shift + scale x) ^ power',
    { type: 'Power', data: { power: 2, scale: 2, shift: 1 }, output: [1, 2, 2, 2] },
    [9, 25, 49, 81, 121, 169, 225, 289],
  ],
  [
    'ScaleShift has a factor and a shift for each channel',
    {
      type: 'ScaleShift',
      output: [1, 2, 2, 2],
      blobs: { weights: [0, 8], biases: [8, 8] },
      numbers: [2, 10, 1, -1],
    },
    [3, 5, 7, 9, 49, 59, 69, 79],
  ],
  [
    'FullyConnected takes each record as one row',
    {
      type: 'FullyConnected',
      data: { 'out-size': 2 },
      output: [1, 2],
      blobs: { weights: [0, 64], biases: [64, 8] },
      numbers: [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 100, 200],
    },
    [101, 208],
  ],
  [
    'Convolution of version 2 names its axes one by one',
    {
      version: 2,
      type: 'Convolution',
      data: {
        'kernel-x': 2,
        'kernel-y': 1,
        'stride-x': 1,
        'stride-y': 1,
        'pad-x': 0,
        'pad-y': 0,
        output: 1,
        group: 1,
      },
      output: [1, 1, 2, 1],
      blobs: { weights: [0, 16], biases: [16, 4] },
      numbers: [1, 2, 10, 20, 0.5],
    },
    [1 + 4 + 50 + 120 + 0.5, 3 + 8 + 70 + 160 + 0.5],
  ],
  [
    'Pooling rounds its windows up where it says so',
    {
      input: [1, 1, 3, 3],
      type: 'Pooling',
      data: {
        kernel: '2,2',
        strides: '2,2',
        pads_begin: '0,0',
        pads_end: '0,0',
        'pool-method': 'max',
        rounding_type: 'ceil',
      },
      output: [1, 1, 2, 2],
    },
    [5, 6, 8, 9],
  ],
  [
    'Eltwise adds with factors',
    { type: 'Eltwise', data: { operation: 'sum', coeff: '2,-1' }, output: [1, 2, 2, 2] },
    [1, 2, 3, 4, 5, 6, 7, 8],
  ],
  [
    'BatchNormalization has its variance as weights and its mean as biases',
    {
      type: 'BatchNormalization',
      data: { epsilon: 0 },
      output: [1, 2, 2, 2],
      blobs: { weights: [0, 8], biases: [8, 8] },
      numbers: [4, 16, 1, 5],
    },
    [0, 0.5, 1, 1.5, 0, 0.25, 0.5, 0.75],
  ],
  [
    'Normalize divides by the length over the channels',
    {
      input: [1, 2, 1, 1],
      type: 'Normalize',
      data: { across_spatial: 0, channel_shared: 0, eps: 0 },
      output: [1, 2, 1, 1],
      blobs: { weights: [0, 8] },
      numbers: [1, 10],
    },
    [1 / Math.sqrt(5), 20 / Math.sqrt(5)],
  ],
  [
    'Permute',
    { type: 'Permute', data: { order: '0,2,3,1' }, output: [1, 2, 2, 2] },
    [1, 5, 2, 6, 3, 7, 4, 8],
  ],
  ['Flatten', { type: 'Flatten', data: { axis: 1, end_axis: -1 }, output: [1, 8] }, [1, 2, 3, 4, 5, 6, 7, 8]],
  ['Crop', { type: 'Crop', data: { axis: '1,3', offset: '1,1', dim: '1,1' }, output: [1, 1, 2, 1] }, [6, 8]],
  ['Tile', { input: [1, 2], type: 'Tile', data: { axis: 1, tiles: 2 }, output: [1, 4] }, [1, 2, 1, 2]],
  [
    'Resample repeats pixels',
    {
      input: [1, 1, 1, 2],
      type: 'Resample',
      data: { type: 'caffe.ResampleParameter.NEAREST', factor: 2, antialias: 0 },
      output: [1, 1, 2, 4],
    },
    [1, 1, 2, 2, 1, 1, 2, 2],
  ],
  [
    'Interp with aligned corners',
    {
      input: [1, 1, 1, 2],
      type: 'Interp',
      data: { align_corners: 1, height: 1, width: 3, pad_beg: 0, pad_end: 0 },
      output: [1, 1, 1, 3],
    },
    [1, 1.5, 2],
  ],
  [
    'PReLU has a slope for each channel',
    {
      input: [1, 2],
      type: 'PReLU',
      data: { channel_shared: 0 },
      output: [1, 2],
      blobs: { weights: [0, 8] },
      numbers: [3, 4],
    },
    [1, 2],
  ],
];

for (const [what, layer, answer] of CASES) {
  test(what, async () => {
    const second = layer.type === 'Eltwise' ? eltwise(layer) : ask(layer);
    const { shape, data } = await second;
    assert.deepEqual(shape, layer.output);
    for (const [i, value] of answer.entries())
      assert.ok(Math.abs((data[i] as number) - value) < 1e-5, data.join());
  });
}

function eltwise(layer: OldLayer) {
  const input = [1, 2, 2, 2];
  const xml = netText(7, [
    { id: 0, type: 'Input', shapes: [input] },
    { id: 1, ...layer, from: [0, 0], shapes: [input] },
  ]);
  return answerOf(xml, [shaped(input, 1, 2, 3, 4, 5, 6, 7, 8)]);
}

test('a Crop of channels leaves the batch free, one of the batch keeps it as in the file', async () => {
  const crop = (axis: number, output: readonly number[]) =>
    netText(7, [
      { id: 0, name: 'data', type: 'Input', shapes: [[2, 2]] },
      { id: 1, type: 'Crop', data: { axis, offset: 1, dim: 1 }, from: [0], shapes: [output] },
    ]);
  const rows = shaped([3, 2], 1, 2, 3, 4, 5, 6);
  assert.deepEqual(await answerOf(crop(1, [2, 1]), [rows]), { shape: [3, 1], data: [2, 4, 6] });
  await assert.rejects(answerOf(crop(0, [1, 2]), [rows]), /Got: 3 Expected: 2/);
  assert.deepEqual(await answerOf(crop(0, [1, 2]), [shaped([2, 2], 1, 2, 3, 4)]), {
    shape: [1, 2],
    data: [3, 4],
  });
});

test('a loop of version 7, which joins its body by ports, is refused', async () => {
  const loop = { type: 'TensorIterator', output: [1, 2, 2, 2] };
  await assert.rejects(async () => ask(loop), {
    code: 'bad_model',
    message: /TensorIterator .*is not supported/,
  });
});

/** [begin, end, strides] as constants; a 1 in a mask of version 7 keeps the bound, one of version 10 ignores it. */
async function sliced(version: number, mask: string): Promise<readonly number[]> {
  const precision = version >= 10 ? 'I64' : 'I32';
  const numbers = version >= 10 ? BigInt64Array.of(1n, 3n, 1n) : Int32Array.of(1, 3, 1);
  const bytes = numbers.BYTES_PER_ELEMENT;
  const constant = (id: number): LayerText => {
    const at = (id - 1) * bytes;
    const common = { id, type: 'Const', shapes: [[1]], precision };
    if (version < 10) return { ...common, blobs: { custom: [at, bytes] } };
    return { ...common, data: { element_type: 'i64', shape: '1', offset: at, size: bytes } };
  };
  const size = mask === (version >= 10 ? '0' : '1') ? 2 : 4;
  const data = {
    begin_mask: mask,
    end_mask: mask,
    new_axis_mask: '0',
    shrink_axis_mask: '0',
    ellipsis_mask: '0',
  };
  const xml = netText(version, [
    version >= 10
      ? { id: 0, type: 'Parameter', data: { element_type: 'f32', shape: '4' }, shapes: [[4]] }
      : { id: 0, type: 'Input', shapes: [[4]] },
    constant(1),
    constant(2),
    constant(3),
    { id: 4, type: 'StridedSlice', data, from: [0, 1, 2, 3], shapes: [[size]] },
    ...(version >= 10 ? [{ id: 5, type: 'Result', from: [4] }] : []),
  ]);
  return (await answerOf(xml, [shaped([4], 1, 2, 3, 4)], bytesOf(numbers))).data;
}

test('the masks of StridedSlice mean the opposite since version 10', async () => {
  assert.deepEqual(await sliced(7, '1'), [2, 3]);
  assert.deepEqual(await sliced(7, '0'), [1, 2, 3, 4]);
  assert.deepEqual(await sliced(10, '0'), [2, 3]);
  assert.deepEqual(await sliced(10, '1'), [1, 2, 3, 4]);
});
