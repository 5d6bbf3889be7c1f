/** The rarer operations of TensorFlow, against their definitions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import {
  type AttributeSpec,
  attribute as a,
  assertTensor,
  constant,
  floats,
  int32s,
  type NodeSpec,
  noisy,
  run,
  tensor,
} from './graph.ts';

const list = (value: Tensor) => Array.from(value.data, Number);
const F32 = { element_dtype: a.type('float32') };

/** One node after constants; its outputs. */
async function one(
  op: string,
  inputs: Readonly<Record<string, Tensor>>,
  constants: Readonly<Record<string, Tensor>> = {},
  options: {
    attributes?: AttributeSpec;
    ports?: number;
    order?: readonly string[];
    sizes?: 'fixed' | 'fixed and batch';
  } = {},
): Promise<Tensor[]> {
  const names = options.order ?? [...Object.keys(inputs), ...Object.keys(constants)];
  return run({
    inputs,
    nodes: [
      ...Object.entries(constants).map(([name, value]) => constant(name, value)),
      ['y', op, names, options.attributes ?? {}],
    ],
    outputs: Array.from({ length: options.ports ?? 1 }, (_, i) => `y:${i}`),
    ...(options.sizes ? { sizes: options.sizes } : {}),
  });
}

test('Conv3DBackpropInputV2 is the gradient of Conv3D', async () => {
  const x = noisy([1, 2, 2, 2, 3]);
  const w = noisy([2, 2, 2, 2, 3], 2);
  const [y] = await one(
    'Conv3DBackpropInputV2',
    { x },
    { sizes: int32s([5], [1, 4, 4, 4, 2]), w },
    {
      attributes: { strides: a.ints([1, 2, 2, 2, 1]), padding: a.text('SAME'), data_format: a.text('NDHWC') },
      order: ['sizes', 'w', 'x'],
    },
  );
  const expected = new Float32Array(4 * 4 * 4 * 2);
  const at = (shape: number[], index: number[]) =>
    index.reduce((sum, i, k) => sum * (shape[k] as number) + i, 0);
  for (let i = 0; i < 8; i++)
    for (let j = 0; j < 8; j++)
      for (let o = 0; o < 3; o++)
        for (let c = 0; c < 2; c++) {
          const out = [i >> 2, (i >> 1) & 1, i & 1];
          const k = [j >> 2, (j >> 1) & 1, j & 1];
          const to = at([4, 4, 4, 2], [...out.map((p, axis) => 2 * p + (k[axis] as number)), c]);
          expected[to] =
            (expected[to] as number) +
            (x.data[at([2, 2, 2, 3], [...out, o])] as number) *
              (w.data[at([2, 2, 2, 2, 3], [...k, c, o])] as number);
        }
  assertTensor(y as Tensor, floats([1, 4, 4, 4, 2], expected), 'y', 1e-4);
});

test('a depthwise gradient is a transposed convolution of each channel', async () => {
  const x = noisy([1, 2, 2, 4]);
  const w = noisy([2, 2, 2, 2], 2);
  const [y] = await one(
    'DepthwiseConv2dNativeBackpropInput',
    { x },
    { sizes: int32s([4], [1, 4, 4, 2]), w },
    { attributes: { strides: a.ints([1, 2, 2, 1]), padding: a.text('VALID') }, order: ['sizes', 'w', 'x'] },
  );
  const expected = Array.from({ length: 32 }, (_, i) => {
    const [row, column, c] = [i >> 3, (i >> 1) & 3, i & 1];
    const pixel = ((row >> 1) * 2 + (column >> 1)) * 4;
    const weight = ((row & 1) * 2 + (column & 1)) * 4;
    return [0, 1].reduce(
      (sum, m) => sum + (x.data[pixel + c * 2 + m] as number) * (w.data[weight + c * 2 + m] as number),
      0,
    );
  });
  assertTensor(y as Tensor, floats([1, 4, 4, 2], expected));
});

test('pooling takes its windows from inputs too, and pools over depth', async () => {
  const x = noisy([1, 4, 4, 2]);
  const windows = { ksize: int32s([4], [1, 2, 2, 1]), strides: int32s([4], [1, 2, 2, 1]) };
  const attributes = { padding: a.text('VALID') };
  const [max] = await one('MaxPoolV2', { x }, windows, { attributes });
  const [average] = await one('AvgPoolV2', { x }, windows, { attributes });
  const window = (i: number) => {
    const [row, column, k] = [i >> 2, (i >> 1) & 1, i & 1];
    return [0, 1, 4, 5].map(
      (step) => x.data[((row * 2 + (step >> 2)) * 4 + column * 2 + (step & 1)) * 2 + k] as number,
    );
  };
  const each = (combine: (values: number[]) => number) =>
    floats(
      [1, 2, 2, 2],
      Array.from({ length: 8 }, (_, i) => combine(window(i))),
    );
  assertTensor(
    max as Tensor,
    each((values) => Math.max(...values)),
  );
  assertTensor(
    average as Tensor,
    each((values) => values.reduce((p, q) => p + q, 0) / 4),
  );
  const deep = floats([1, 1, 4, 4, 2], x.data as Float32Array);
  const by = { ksize: a.ints([1, 1, 2, 2, 1]), strides: a.ints([1, 1, 2, 2, 1]), padding: a.text('VALID') };
  const [deepMax] = await one(
    'MaxPool3D',
    { x: deep },
    {},
    { attributes: { ...by, data_format: a.text('NDHWC') } },
  );
  const [deepAverage] = await one(
    'AvgPool3D',
    { x: deep },
    {},
    { attributes: { ...by, data_format: a.text('NDHWC') } },
  );
  assert.deepEqual(list(deepMax as Tensor), list(max as Tensor));
  assertTensor(deepAverage as Tensor, floats([1, 1, 2, 2, 2], list(average as Tensor)));
});

test('ResizeArea averages what a pixel covers', async () => {
  const x = noisy([1, 4, 6, 1]);
  const [y] = await one('ResizeArea', { x }, { size: int32s([2], [2, 4]) }, { sizes: 'fixed and batch' });
  const values: number[] = [];
  for (let row = 0; row < 2; row++)
    for (let column = 0; column < 4; column++) {
      let sum = 0;
      for (let i = 0; i < 2; i++)
        for (let j = 0; j < 6; j++) {
          const share = Math.max(0, Math.min(j + 1, 1.5 * (column + 1)) - Math.max(j, 1.5 * column)) / 1.5;
          sum += (share / 2) * (x.data[(row * 2 + i) * 6 + j] as number);
        }
      values.push(sum);
    }
  assertTensor(y as Tensor, floats([1, 2, 4, 1], values));
});

test('searching, the n-th smallest, and being among the best', async () => {
  const sorted = floats([2, 4], [1, 2, 2, 5, 0, 3, 6, 9]);
  const values = floats([2, 2], [2, 7, 3, -1]);
  const [low] = await one('LowerBound', { sorted, values });
  const [high] = await one('UpperBound', { sorted, values });
  assertTensor(low as Tensor, int32s([2, 2], [1, 4, 1, 0]));
  assertTensor(high as Tensor, int32s([2, 2], [3, 4, 2, 0]));
  const x = floats([2, 4], [5, 1, 4, 2, -1, 8, 0, 3]);
  const [second] = await one('NthElement', { x }, { n: int32s([], [1]) });
  const [largest] = await one(
    'NthElement',
    { x },
    { n: int32s([], [0]) },
    { attributes: { reverse: a.flag(true) } },
  );
  assertTensor(second as Tensor, floats([2], [2, 0]));
  assertTensor(largest as Tensor, floats([2], [5, 8]));
  const [among] = await one(
    'InTopKV2',
    { x },
    { targets: int32s([2], [2, 0]), k: int32s([], [2]) },
    { sizes: 'fixed' },
  );
  const [first] = await one(
    'InTopK',
    { x },
    { targets: int32s([2], [0, 0]) },
    { attributes: { k: a.int(1) }, sizes: 'fixed' },
  );
  assertTensor(among as Tensor, tensor('bool', [2], [1, 0]));
  assertTensor(first as Tensor, tensor('bool', [2], [1, 0]));
});

test('sums, clips, casts and logic', async () => {
  const [x, y] = [floats([3], [-2, 0.5, 3]), floats([3], [1, 0.5, Number.NaN])];
  const [p, q] = [tensor('bool', [4], [0, 0, 1, 1]), tensor('bool', [4], [0, 1, 0, 1])];
  const outputs = [
    'sum',
    'clip',
    'cut',
    'whole',
    'nan',
    'finite',
    'or',
    'xor',
    'near',
    'erf',
    'erfc',
    'gelu',
    'exact',
    'xlog',
  ];
  const results = await run({
    inputs: { x, y, p, q },
    nodes: [
      constant('low', floats([], [-1])),
      constant('high', floats([], [2])),
      constant('lows', floats([3], [-1, 1, 1])),
      ['sum', 'AddN', ['x', 'x', 'x']],
      ['clip', 'ClipByValue', ['x', 'low', 'high']],
      ['cut', 'ClipByValue', ['x', 'lows', 'high']],
      ['whole', 'Cast', ['x'], { DstT: a.type('int32') }],
      ['nan', 'IsNan', ['y']],
      ['finite', 'IsFinite', ['y']],
      ['or', 'LogicalOr', ['p', 'q']],
      ['xor', 'LogicalXor', ['p', 'q']],
      ['near', 'ApproximateEqual', ['x', 'y'], { tolerance: a.float(0.1) }],
      ['erf', 'Erf', ['x']],
      ['erfc', 'Erfc', ['x']],
      ['gelu', 'Gelu', ['x'], { approximate: a.flag(true) }],
      ['exact', 'Gelu', ['x'], { approximate: a.flag(false) }],
      ['xlog', 'Xlog1py', ['x', 'high']],
    ],
    outputs,
    sizes: 'fixed and batch',
  });
  // erf(2), erf(0.5), erf(3) from tables.
  const erf = [-0.9953222650189527, 0.5204998778130465, 0.9999779095030014];
  const phi = [-2, 0.5, 3].map(
    (v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3))),
  );
  // x * P(X <= x) of the normal distribution.
  const normal = [-2 * 0.022750131948179195, 0.5 * 0.6914624612740131, 3 * 0.9986501019683699];
  const expected: Tensor[] = [
    floats([3], [-6, 1.5, 9]),
    floats([3], [-1, 0.5, 2]),
    floats([3], [-1, 1, 2]),
    int32s([3], [-2, 0, 3]),
    tensor('bool', [3], [0, 0, 1]),
    tensor('bool', [3], [1, 1, 0]),
    tensor('bool', [4], [0, 1, 1, 1]),
    tensor('bool', [4], [0, 1, 1, 0]),
    tensor('bool', [3], [0, 1, 0]),
    floats([3], erf),
    floats(
      [3],
      erf.map((value) => 1 - value),
    ),
    floats([3], phi),
    floats([3], normal),
    floats(
      [3],
      [-2, 0.5, 3].map((v) => v * Math.log1p(2)),
    ),
  ];
  for (const [i, want] of expected.entries()) assertTensor(results[i] as Tensor, want, outputs[i]);
});

test('splitting, tiling, spacing and joining', async () => {
  const x = noisy([2, 4]);
  const outputs = [
    'left',
    'split:1',
    'tiled',
    'steps',
    'joined',
    'ones',
    'none',
    'size',
    'rank',
    'both:1',
    'thin',
    'same',
  ];
  const results = await run({
    inputs: { x },
    nodes: [
      constant('axis', int32s([], [1])),
      constant('times', int32s([2], [2, 1])),
      constant('from', floats([], [1])),
      constant('to', floats([], [2])),
      constant('count', int32s([], [5])),
      ['split', 'Split', ['axis', 'x'], { num_split: a.int(2) }],
      ['left', 'Snapshot', ['split:0']],
      ['tiled', 'Tile', ['x', 'times']],
      ['steps', 'LinSpace', ['from', 'to', 'count']],
      ['joined', 'Concat', ['axis', 'split:1', 'split:0']],
      ['ones', 'OnesLike', ['x']],
      ['none', 'ZerosLike', ['x']],
      ['size', 'Size', ['x']],
      ['rank', 'Rank', ['x']],
      ['both', 'ShapeN', ['x', 'left']],
      ['wide', 'ExpandDims', ['x', 'axis']],
      ['thin', 'Squeeze', ['wide'], { squeeze_dims: a.ints([1]) }],
      ['same', 'EnsureShape', ['x'], { shape: a.shape([-1, 4]) }],
    ],
    outputs,
  });
  const rows = [list(x).slice(0, 4), list(x).slice(4)];
  const half = (from: number) => rows.flatMap((row) => row.slice(from, from + 2));
  const expected: Tensor[] = [
    floats([2, 2], half(0)),
    floats([2, 2], half(2)),
    floats([4, 4], [...list(x), ...list(x)]),
    floats([5], [1, 1.25, 1.5, 1.75, 2]),
    floats(
      [2, 4],
      rows.flatMap((row) => [...row.slice(2), ...row.slice(0, 2)]),
    ),
    floats([2, 4], new Float32Array(8).fill(1)),
    floats([2, 4], new Float32Array(8)),
    int32s([], [8]),
    int32s([], [2]),
    int32s([2], [2, 2]),
    x,
    x,
  ];
  for (const [i, want] of expected.entries()) assertTensor(results[i] as Tensor, want, outputs[i]);
});

test('Prod, ArgMin, L2Loss and a contrast', async () => {
  const x = noisy([1, 2, 2, 2]);
  const [product, least, loss, contrast] = await run({
    inputs: { x },
    nodes: [
      constant('axes', int32s([3], [0, 1, 2])),
      constant('last', int32s([], [-1])),
      constant('factor', floats([], [3])),
      ['p', 'Prod', ['x', 'axes']],
      ['m', 'ArgMin', ['x', 'last']],
      ['l', 'L2Loss', ['x']],
      ['c', 'AdjustContrastv2', ['x', 'factor']],
    ],
    outputs: ['p', 'm', 'l', 'c'],
  });
  const values = list(x);
  const column = (k: number) => values.filter((_, i) => i % 2 === k);
  assertTensor(
    product as Tensor,
    floats(
      [2],
      [0, 1].map((k) => column(k).reduce((p, q) => p * q, 1)),
    ),
  );
  const smaller = column(0).map((value, i) => (value <= (column(1)[i] as number) ? 0 : 1));
  assertTensor(least as Tensor, tensor('int64', [1, 2, 2], smaller));
  assertTensor(loss as Tensor, floats([], [values.reduce((sum, value) => sum + value * value, 0) / 2]));
  const means = [0, 1].map((k) => column(k).reduce((p, q) => p + q, 0) / 4);
  const apart = values.map((value, i) => (value - (means[i % 2] as number)) * 3 + (means[i % 2] as number));
  assertTensor(contrast as Tensor, floats([1, 2, 2, 2], apart));
});

test('products of sparse matrices, of bytes, and shapes that broadcast', async () => {
  const dense = noisy([3, 2]);
  const [y] = await one(
    'SparseTensorDenseMatMul',
    { dense },
    {
      at: tensor('int64', [2, 2], [0, 2, 1, 0]),
      values: floats([2], [2, -1]),
      shape: tensor('int64', [2], [2, 3]),
    },
    { order: ['at', 'values', 'shape', 'dense'], sizes: 'fixed and batch' },
  );
  const d = list(dense);
  assertTensor(
    y as Tensor,
    floats([2, 2], [2 * (d[4] as number), 2 * (d[5] as number), -(d[0] as number), -(d[1] as number)]),
  );
  const [bytes] = await one(
    'BatchMatMulV3',
    { x: tensor('int8', [1, 2], [100, 100]), z: tensor('int8', [2, 1], [100, 27]) },
    {},
    { attributes: { Tout: a.type('int32') } },
  );
  assertTensor(bytes as Tensor, int32s([1, 1], [12700]));
  const [shape] = await one(
    'BroadcastArgs',
    { s: int32s([1], [4]) },
    { t: int32s([2], [3, 1]) },
    { sizes: 'fixed' },
  );
  assertTensor(shape as Tensor, int32s([2], [3, 4]));
  const [wide] = await one('BroadcastTo', { x: noisy([1, 2]) }, { shape: int32s([2], [3, 2]) });
  assertTensor(
    wide as Tensor,
    floats(
      [3, 2],
      [0, 1, 2].flatMap(() => list(noisy([1, 2]))),
    ),
  );
});

test('DynamicPartition sorts rows into lists', async () => {
  const x = noisy([4, 2]);
  const [zero, one_] = await one(
    'DynamicPartition',
    { x },
    { parts: int32s([4], [1, 0, 1, 1]) },
    { attributes: { num_partitions: a.int(2) }, ports: 2 },
  );
  assertTensor(zero as Tensor, floats([1, 2], list(x).slice(2, 4)));
  assertTensor(one_ as Tensor, floats([3, 2], [...list(x).slice(0, 2), ...list(x).slice(4)]));
});

test('lists tell their length, give rows, join and lose their last', async () => {
  const x = noisy([3, 2, 2]);
  const [length, rows, joined, lengths, rest, last, shape] = await run({
    inputs: { x },
    nodes: [
      constant('any', int32s([2], [-1, 2])),
      constant('at', int32s([2], [2, 0])),
      ['l', 'TensorListFromTensor', ['x', 'any'], F32],
      ['n', 'TensorListLength', ['l']],
      ['g', 'TensorListGather', ['l', 'at', 'any'], F32],
      ['c', 'TensorListConcatV2', ['l', 'any', 'at'], F32],
      ['p', 'TensorListPopBack', ['l', 'any'], F32],
      ['r', 'TensorListStack', ['p:0', 'any'], F32],
      ['e', 'TensorListElementShape', ['l']],
    ],
    outputs: ['n', 'g', 'c:0', 'c:1', 'r', 'p:1', 'e'],
  });
  const v = list(x);
  assertTensor(length as Tensor, int32s([], [3]));
  assertTensor(rows as Tensor, floats([2, 2, 2], [...v.slice(8), ...v.slice(0, 4)]));
  assertTensor(joined as Tensor, floats([6, 2], v));
  assertTensor(lengths as Tensor, tensor('int64', [3], [2, 2, 2]));
  assertTensor(rest as Tensor, floats([2, 2, 2], v.slice(0, 8)));
  assertTensor(last as Tensor, floats([2, 2], v.slice(8)));
  // The declared shape, not that of the items.
  assertTensor(shape as Tensor, int32s([2], [-1, 2]));
});

test('QuantizeAndDequantize rounds to steps on both sides of zero', async () => {
  const x = floats([5], [-2, -0.3, 0, 0.26, 1.9]);
  for (const op of ['QuantizeAndDequantizeV2', 'QuantizeAndDequantizeV4']) {
    const [y] = await one(
      op,
      { x },
      { low: floats([], [-1]), high: floats([], [1.5]) },
      { attributes: { range_given: a.flag(true), signed_input: a.flag(true), num_bits: a.int(8) } },
    );
    const scale = Math.min(-128 / -1, 127 / 1.5);
    const expected = list(x).map((value) => {
      const inside = Math.min(Math.max(value, -128 / scale), 127 / scale);
      return Math.round(inside * scale) / scale;
    });
    assertTensor(y as Tensor, floats([5], expected));
  }
});

test('QuantizeAndDequantize has the steps of its bits, sign and narrow range', async () => {
  const x = floats([4], [-2, -0.3, 0.26, 1.9]);
  // The steps per unit, and the first and the last of them.
  for (const [more, bits, [scale, first, last]] of [
    [{ signed_input: a.flag(true), narrow_range: a.flag(true) }, undefined, [127 / 1.5, -127, 127]],
    [{ signed_input: a.flag(false) }, undefined, [255 / 1.5, 0, 255]],
    [{ signed_input: a.flag(true), num_bits: a.int(4) }, undefined, [7 / 1.5, -8, 7]],
    [{ signed_input: a.flag(true), round_mode: a.text('HALF_UP') }, 3, [3 / 1.5, -4, 3]],
  ] as const) {
    const range = { low: floats([], [-1]), high: floats([], [1.5]) };
    const [y] = await one(
      bits === undefined ? 'QuantizeAndDequantizeV2' : 'QuantizeAndDequantizeV3',
      { x },
      bits === undefined ? range : { ...range, bits: int32s([], [bits]) },
      { attributes: { range_given: a.flag(true), ...more } },
    );
    const expected = list(x).map(
      (value) => Math.min(Math.max(Math.round(value * scale), first), last) / scale,
    );
    assertTensor(y as Tensor, floats([4], expected), JSON.stringify(more));
  }
});

test('QuantizeV2 with a range for each channel is refused', async () => {
  const range = { low: floats([2], [-1, -1]), high: floats([2], [1, 1]) };
  await assert.rejects(
    one('QuantizeV2', { x: floats([2], [1, 2]) }, range, {
      attributes: { axis: a.int(0) },
      ports: 3,
    }),
    { message: /per channel is not supported/ },
  );
});

test('QuantizeAndDequantize with a range for each channel, without a range or without 0 in it is refused', async () => {
  const given = { range_given: a.flag(true), signed_input: a.flag(true), num_bits: a.int(8) };
  const range = { low: floats([], [-1]), high: floats([], [1.5]) };
  for (const [attributes, constants, message] of [
    [{ ...given, axis: a.int(0) }, range, /per channel is not supported/],
    [{ ...given, range_given: a.flag(false) }, range, /needs a given range/],
    [given, { low: floats([], [0]), high: floats([], [0]) }, /needs a range with 0 inside, got 0 to 0/],
  ] as const)
    await assert.rejects(
      one('QuantizeAndDequantizeV4', { x: floats([2], [1, 2]) }, constants, { attributes }),
      {
        message,
      },
    );
});

test('one step of the LSTM cell forgets by its bias and clips its state', async () => {
  const [x, cs, h] = [noisy([1, 2]), floats([1, 2], [5, -5]), noisy([1, 2], 2)];
  const w = noisy([4, 8], 3);
  const zeros = floats([2], [0, 0]);
  const [state, hidden] = (
    await one(
      'LSTMBlockCell',
      { x, cs, h },
      { w, p: zeros, q: zeros, r: zeros, b: floats([8], new Float32Array(8)) },
      { attributes: { forget_bias: a.float(1), cell_clip: a.float(3) }, ports: 7 },
    )
  ).filter((_, i) => i === 1 || i === 6) as [Tensor, Tensor];
  const input = [...list(x), ...list(h)];
  const gate = (j: number) => input.reduce((sum, value, i) => sum + value * (w.data[i * 8 + j] as number), 0);
  const sigmoid = (value: number) => 1 / (1 + Math.exp(-value));
  const cells = [0, 1].map((k) => {
    const free =
      sigmoid(gate(k)) * Math.tanh(gate(2 + k)) + sigmoid(gate(4 + k) + 1) * (cs.data[k] as number);
    return Math.min(Math.max(free, -3), 3);
  });
  assertTensor(state, floats([1, 2], cells));
  assertTensor(
    hidden,
    floats(
      [1, 2],
      cells.map((value, k) => sigmoid(gate(6 + k)) * Math.tanh(value)),
    ),
  );
});

test('batch norm fused with an addition and an activation', async () => {
  const [x, side] = [noisy([1, 2, 2, 2]), noisy([1, 2, 2, 2], 2)];
  const [scale, offset, mean, variance] = [
    noisy([2], 3),
    noisy([2], 4),
    noisy([2], 5),
    floats([2], [0.5, 2]),
  ];
  const moments: NodeSpec[] = Object.entries({ scale, offset, mean, variance }).map(([name, value]) =>
    constant(name, value),
  );
  const [fused, old] = await run({
    inputs: { x, side },
    nodes: [
      ...moments,
      [
        'f',
        '_FusedBatchNormEx',
        ['x', 'scale', 'offset', 'mean', 'variance', 'side'],
        {
          is_training: a.flag(false),
          epsilon: a.float(0.01),
          num_side_inputs: a.int(1),
          activation_mode: a.text('Relu'),
        },
      ],
      [
        'o',
        'BatchNormWithGlobalNormalization',
        ['x', 'mean', 'variance', 'offset', 'scale'],
        { variance_epsilon: a.float(0.01), scale_after_normalization: a.flag(false) },
      ],
    ],
    outputs: ['f:0', 'o'],
  });
  const normal = (i: number, factor: number) =>
    (((x.data[i] as number) - (mean.data[i % 2] as number)) /
      Math.sqrt((variance.data[i % 2] as number) + 0.01)) *
      factor +
    (offset.data[i % 2] as number);
  const each = (compute: (i: number) => number) =>
    floats(
      [1, 2, 2, 2],
      Array.from({ length: 8 }, (_, i) => compute(i)),
    );
  assertTensor(
    fused as Tensor,
    each((i) => Math.max(0, normal(i, scale.data[i % 2] as number) + (side.data[i] as number))),
  );
  assertTensor(
    old as Tensor,
    each((i) => normal(i, 1)),
  );
});

test('the old SpaceToBatch and BatchToSpace use one block size for rows and columns', async () => {
  const x = noisy([1, 2, 2, 1]);
  const none = int32s([2, 2], [0, 0, 0, 0]);
  const attributes = { block_size: a.int(2) };
  const [parts] = await one('SpaceToBatch', { x }, { none }, { attributes });
  assertTensor(parts as Tensor, floats([4, 1, 1, 1], list(x)));
  const [back] = await one('BatchToSpace', { parts: parts as Tensor }, { none }, { attributes });
  assertTensor(back as Tensor, x);
  const [padded] = await one(
    'PadV2',
    { x },
    { pads: int32s([4, 2], [0, 0, 1, 0, 0, 0, 0, 0]), fill: floats([], [7]) },
  );
  assertTensor(padded as Tensor, floats([1, 3, 2, 1], [7, 7, ...list(x)]));
});

test('TensorArrays and resources gather as their tensors do', async () => {
  const x = noisy([3, 2]);
  const [rows, counted, index, counts] = await run({
    inputs: { x, n: floats([4], [2, 7, 2, 2]) },
    nodes: [
      constant('at', int32s([2], [2, 0])),
      ['g', 'ResourceGather', ['x', 'at']],
      ['u', 'UniqueWithCounts', ['n']],
    ],
    outputs: ['g', 'u:0', 'u:1', 'u:2'],
  });
  assertTensor(rows as Tensor, floats([2, 2], [...list(x).slice(4), ...list(x).slice(0, 2)]));
  assertTensor(counted as Tensor, floats([2], [2, 7]));
  assertTensor(index as Tensor, int32s([4], [0, 1, 0, 0]));
  assertTensor(counts as Tensor, int32s([2], [3, 1]));
});
