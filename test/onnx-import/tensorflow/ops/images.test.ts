/** TensorFlow's image operations against loops that follow their definition. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import {
  type AttributeSpec,
  attribute as a,
  assertTensor,
  constant,
  floats,
  graphOf,
  int32s,
  type NodeSpec,
  noisy,
  run,
} from './graph.ts';

interface ConvCase {
  readonly size: readonly [number, number];
  readonly kernel: readonly [number, number];
  readonly stride: number;
  readonly dilation?: number;
  readonly padding: 'SAME' | 'VALID';
}

function padBefore(size: number, kernel: number, stride: number, dilation: number, same: boolean): number {
  if (!same) return 0;
  const reach = (kernel - 1) * dilation + 1;
  return Math.floor(Math.max((Math.ceil(size / stride) - 1) * stride + reach - size, 0) / 2);
}

function outSize(size: number, kernel: number, stride: number, dilation: number, same: boolean): number {
  const reach = (kernel - 1) * dilation + 1;
  return same ? Math.ceil(size / stride) : Math.ceil((size - reach + 1) / stride);
}

/** Visits every pair of an output pixel and an input pixel that its window covers. */
function windows(
  c: ConvCase,
  visit: (out: [number, number], k: [number, number], at: [number, number]) => void,
): [number, number] {
  const { size, kernel, stride, dilation = 1 } = c;
  const same = c.padding === 'SAME';
  const out = [0, 1].map((i) => outSize(size[i] as number, kernel[i] as number, stride, dilation, same)) as [
    number,
    number,
  ];
  const pad = [0, 1].map((i) =>
    padBefore(size[i] as number, kernel[i] as number, stride, dilation, same),
  ) as [number, number];
  for (let y = 0; y < out[0]; y++)
    for (let x = 0; x < out[1]; x++)
      for (let i = 0; i < kernel[0]; i++)
        for (let j = 0; j < kernel[1]; j++) {
          const row = y * stride + i * dilation - pad[0];
          const column = x * stride + j * dilation - pad[1];
          if (row >= 0 && row < size[0] && column >= 0 && column < size[1])
            visit([y, x], [i, j], [row, column]);
        }
  return out;
}

function conv(x: Tensor, w: Tensor, c: ConvCase): Tensor {
  const [, , inputs, outputs] = w.shape as [number, number, number, number];
  const all = x.shape[3] as number;
  const groups = all / inputs;
  const [batch] = x.shape as [number];
  const entries: number[][] = [];
  let out: [number, number] = [0, 0];
  for (let n = 0; n < batch; n++) {
    out = windows(c, ([y, xx], [i, j], [row, column]) => {
      for (let o = 0; o < outputs; o++) {
        const group = Math.floor(o / (outputs / groups));
        for (let k = 0; k < inputs; k++) {
          const value = x.data[
            ((n * c.size[0] + row) * c.size[1] + column) * all + group * inputs + k
          ] as number;
          const weight = w.data[((i * c.kernel[1] + j) * inputs + k) * outputs + o] as number;
          entries.push([n, y, xx, o, value * weight]);
        }
      }
    });
  }
  const shape = [batch, ...out, outputs];
  const data = new Float32Array(shape.reduce((p, q) => p * q, 1));
  for (const [n, y, xx, o, value] of entries as [number, number, number, number, number][]) {
    const at = ((n * out[0] + y) * out[1] + xx) * outputs + o;
    data[at] = (data[at] as number) + value;
  }
  return { dtype: 'float32', shape, data };
}

function convAttributes(c: ConvCase): AttributeSpec {
  const d = c.dilation ?? 1;
  return {
    strides: a.ints([1, c.stride, c.stride, 1]),
    dilations: a.ints([1, d, d, 1]),
    padding: a.text(c.padding),
  };
}

const CASES: readonly ConvCase[] = [
  { size: [5, 6], kernel: [3, 3], stride: 1, padding: 'SAME' },
  { size: [5, 6], kernel: [3, 2], stride: 2, padding: 'SAME' },
  { size: [6, 7], kernel: [2, 2], stride: 3, padding: 'SAME' },
  { size: [7, 8], kernel: [1, 1], stride: 2, padding: 'SAME' },
  { size: [7, 9], kernel: [2, 1], stride: 4, padding: 'SAME' },
  { size: [9, 8], kernel: [3, 3], stride: 1, dilation: 2, padding: 'SAME' },
  { size: [9, 8], kernel: [3, 3], stride: 2, dilation: 2, padding: 'SAME' },
  { size: [7, 6], kernel: [3, 2], stride: 2, padding: 'VALID' },
];

for (const c of CASES) {
  const name = `${c.kernel.join('x')} stride ${c.stride} dilation ${c.dilation ?? 1} ${c.padding}`;
  test(`Conv2D ${name} pads as TensorFlow does, for fixed and free sizes`, async () => {
    const x = noisy([2, ...c.size, 3]);
    const w = noisy([...c.kernel, 3, 4], 2);
    const [y] = await run({
      inputs: { x },
      nodes: [constant('w', w), ['y', 'Conv2D', ['x', 'w'], convAttributes(c)]],
      outputs: ['y'],
    });
    assertTensor(y as Tensor, conv(x, w, c), 'y', 1e-4);
  });

  test(`MaxPool and AvgPool ${name} leave out what is padded`, async () => {
    if (c.dilation) return;
    const x = noisy([2, ...c.size, 2]);
    const attributes = {
      ksize: a.ints([1, ...c.kernel, 1]),
      strides: a.ints([1, c.stride, c.stride, 1]),
      padding: a.text(c.padding),
    };
    const [max, average] = await run({
      inputs: { x },
      nodes: [
        ['max', 'MaxPool', ['x'], attributes],
        ['average', 'AvgPool', ['x'], attributes],
      ],
      outputs: ['max', 'average'],
    });
    const found = new Map<string, number[]>();
    let out: [number, number] = [0, 0];
    for (let n = 0; n < 2; n++)
      for (let k = 0; k < 2; k++)
        out = windows(c, ([y, xx], _k, [row, column]) => {
          const key = [n, y, xx, k].join();
          const value = x.data[((n * c.size[0] + row) * c.size[1] + column) * 2 + k] as number;
          found.set(key, [...(found.get(key) ?? []), value]);
        });
    const expect = (combine: (values: number[]) => number) => {
      const values: number[] = [];
      for (let n = 0; n < 2; n++)
        for (let y = 0; y < out[0]; y++)
          for (let xx = 0; xx < out[1]; xx++)
            for (let k = 0; k < 2; k++) values.push(combine(found.get([n, y, xx, k].join()) as number[]));
      return floats([2, ...out, 2], values);
    };
    assertTensor(
      max as Tensor,
      expect((values) => Math.max(...values)),
    );
    assertTensor(
      average as Tensor,
      expect((values) => values.reduce((p, q) => p + q, 0) / values.length),
    );
  });
}

test('a convolution whose input has more channels than its weights is grouped', async () => {
  const c: ConvCase = { size: [4, 4], kernel: [3, 3], stride: 1, padding: 'SAME' };
  const x = noisy([1, 4, 4, 6]);
  const w = noisy([3, 3, 2, 9], 3);
  const [y] = await run({
    inputs: { x },
    nodes: [constant('w', w), ['y', 'Conv2D', ['x', 'w'], convAttributes(c)]],
    outputs: ['y'],
    sizes: 'fixed and batch',
  });
  assertTensor(y as Tensor, conv(x, w, c), 'y', 1e-4);
});

test('a depthwise convolution with a multiplier keeps the order channel, multiplier', async () => {
  const c: ConvCase = { size: [5, 4], kernel: [3, 3], stride: 2, padding: 'SAME' };
  const x = noisy([1, 5, 4, 3]);
  const w = noisy([3, 3, 3, 2], 4);
  const [y] = await run({
    inputs: { x },
    nodes: [constant('w', w), ['y', 'DepthwiseConv2dNative', ['x', 'w'], convAttributes(c)]],
    outputs: ['y'],
  });
  // The same as a grouped convolution with weights [3, 3, 1, 6].
  const grouped = floats([3, 3, 1, 6], w.data as Float32Array);
  assertTensor(y as Tensor, conv(x, grouped, c), 'y', 1e-4);
});

test('NCHW convolution, bias, batch norm and pooling give what NHWC gives, transposed', async () => {
  const x = noisy([1, 4, 5, 3]);
  const w = noisy([3, 3, 3, 4], 2);
  const [bias, mean, scale] = [noisy([4], 5), noisy([4], 6), noisy([4], 7)];
  const variance = floats([4], [0.5, 1, 1.5, 2]);
  const toFirst = constant('first', int32s([4], [0, 3, 1, 2]));
  const last = constant('last', int32s([4], [0, 2, 3, 1]));
  const chain = (prefix: string, format: string, input: string) => {
    const order = (values: readonly number[]) =>
      a.ints(format === 'NHWC' ? values : [0, 3, 1, 2].map((i) => values[i] as number));
    const data_format = a.text(format);
    return [
      [
        `${prefix}c`,
        'Conv2D',
        [input, 'w'],
        { strides: order([1, 2, 1, 1]), padding: a.text('SAME'), data_format },
      ],
      [`${prefix}b`, 'BiasAdd', [`${prefix}c`, 'bias'], { data_format }],
      [
        `${prefix}n`,
        'FusedBatchNormV3',
        [`${prefix}b`, 'scale', 'bias', 'mean', 'variance'],
        { is_training: a.flag(false), epsilon: a.float(0.001), data_format },
      ],
      [
        `${prefix}p`,
        'MaxPool',
        [`${prefix}n`],
        { ksize: order([1, 2, 2, 1]), strides: order([1, 1, 2, 1]), padding: a.text('SAME'), data_format },
      ],
    ] as const;
  };
  const [one, other] = await run({
    inputs: { x },
    nodes: [
      constant('w', w),
      constant('bias', bias),
      constant('mean', mean),
      constant('scale', scale),
      constant('variance', variance),
      toFirst,
      last,
      ...chain('l', 'NHWC', 'x'),
      ['t', 'Transpose', ['x', 'first']],
      ...chain('f', 'NCHW', 't'),
      ['back', 'Transpose', ['fp', 'last']],
    ],
    outputs: ['lp', 'back'],
    sizes: 'fixed and batch',
  });
  assertTensor(other as Tensor, one as Tensor, 'NCHW', 1e-5);
  assert.ok((one as Tensor).data.some((value) => value !== 0));
});

test('FusedBatchNorm in training mode uses the mean and variance of the batch', async () => {
  const x = noisy([2, 3, 2, 2]);
  const [scale, offset] = [floats([2], [1.5, -2]), floats([2], [0.25, 1])];
  const outputs = await run({
    inputs: { x },
    nodes: [
      constant('scale', scale),
      constant('offset', offset),
      constant('none', floats([0], [])),
      ['y', 'FusedBatchNorm', ['x', 'scale', 'offset', 'none', 'none'], { epsilon: a.float(0.001) }],
    ],
    outputs: ['y:0', 'y:1', 'y:2'],
  });
  const columns = [0, 1].map((k) => Array.from(x.data as Float32Array).filter((_, i) => i % 2 === k));
  const means = columns.map((column) => column.reduce((p, q) => p + q, 0) / column.length);
  const squares = columns.map((column, k) =>
    column.reduce((sum, value) => sum + (value - (means[k] as number)) ** 2, 0),
  );
  const expected = Array.from(x.data as Float32Array, (value, i) => {
    const k = i % 2;
    const deviation = Math.sqrt((squares[k] as number) / 12 + 0.001);
    return (
      ((value - (means[k] as number)) / deviation) * (scale.data[k] as number) + (offset.data[k] as number)
    );
  });
  assertTensor(outputs[0] as Tensor, floats(x.shape, expected), 'y', 1e-4);
  assertTensor(outputs[1] as Tensor, floats([2], means));
  assertTensor(
    outputs[2] as Tensor,
    floats(
      [2],
      squares.map((sum) => sum / 11),
    ),
    'unbiased variance',
  );
});

test('a transposed convolution is the gradient of the convolution', async () => {
  for (const [padding, stride, kernel, size] of [
    ['SAME', 2, 3, 7],
    ['SAME', 2, 4, 8],
    ['SAME', 3, 2, 7],
    ['VALID', 2, 3, 8],
    ['VALID', 1, 2, 5],
  ] as const) {
    const c: ConvCase = { size: [size, size], kernel: [kernel, kernel], stride, padding };
    const w = noisy([kernel, kernel, 2, 3], 2);
    const [rows] = windows(c, () => undefined);
    const x = noisy([1, rows, rows, 3]);
    const spec = {
      inputs: { x },
      nodes: [
        constant('w', w),
        constant('sizes', int32s([4], [1, size, size, 2])),
        ['y', 'Conv2DBackpropInput', ['sizes', 'w', 'x'], convAttributes(c)],
      ] as const,
      outputs: ['y'],
    };
    const [y] = await run(spec);
    const expected = new Float32Array(size * size * 2);
    windows(c, ([oy, ox], [i, j], [row, column]) => {
      for (let k = 0; k < 2; k++)
        for (let o = 0; o < 3; o++) {
          const at = (row * size + column) * 2 + k;
          expected[at] =
            (expected[at] as number) +
            (x.data[(oy * rows + ox) * 3 + o] as number) *
              (w.data[((i * kernel + j) * 2 + k) * 3 + o] as number);
        }
    });
    assertTensor(y as Tensor, floats([1, size, size, 2], expected), `${padding} ${stride} ${kernel}`, 1e-4);
  }
});

for (const [corners, centers] of [
  [false, false],
  [true, false],
  [false, true],
] as const) {
  const name = corners ? 'align_corners' : centers ? 'half_pixel_centers' : 'the old rule';
  for (const [height, width] of [
    [7, 3],
    [2, 9],
    [1, 4],
  ] as const) {
    const x = noisy([2, 4, 5, 3]);
    const attributes = { align_corners: a.flag(corners), half_pixel_centers: a.flag(centers) };
    const place = (i: number, from: number, to: number, nearest: boolean) => {
      const scale = corners && to > 1 ? (from - 1) / (to - 1) : from / to;
      return centers ? (i + 0.5) * scale - (nearest ? 0 : 0.5) : i * scale;
    };
    const pixel = (n: number, row: number, column: number, k: number) =>
      x.data[
        ((n * 4 + Math.max(0, Math.min(row, 3))) * 5 + Math.max(0, Math.min(column, 4))) * 3 + k
      ] as number;
    const expect = (at: (n: number, y: number, xx: number, k: number) => number) => {
      const values: number[] = [];
      for (let n = 0; n < 2; n++)
        for (let y = 0; y < height; y++)
          for (let xx = 0; xx < width; xx++) for (let k = 0; k < 3; k++) values.push(at(n, y, xx, k));
      return floats([2, height, width, 3], values);
    };
    const nodes = (op: string) =>
      [constant('size', int32s([2], [height, width])), ['y', op, ['x', 'size'], attributes]] as const;

    test(`ResizeBilinear to ${height}x${width} by ${name} mixes the four pixels around`, async () => {
      const [y] = await run({ inputs: { x }, nodes: nodes('ResizeBilinear'), outputs: ['y'] });
      const expected = expect((n, row, column, k) => {
        const [v, u] = [place(row, 4, height, false), place(column, 5, width, false)];
        const [top, left] = [Math.floor(v), Math.floor(u)];
        const [dv, du] = [v - top, u - left];
        const line = (r: number) => pixel(n, r, left, k) * (1 - du) + pixel(n, r, left + 1, k) * du;
        return line(top) * (1 - dv) + line(top + 1) * dv;
      });
      assertTensor(y as Tensor, expected, 'y', 1e-5);
    });

    test(`ResizeNearestNeighbor to ${height}x${width} by ${name} takes TensorFlow's pixel`, async () => {
      const [y] = await run({ inputs: { x }, nodes: nodes('ResizeNearestNeighbor'), outputs: ['y'] });
      const near = (i: number, from: number, to: number) => {
        const at = place(i, from, to, true);
        return corners ? Math.round(at) : Math.floor(at);
      };
      assertTensor(
        y as Tensor,
        expect((n, row, column, k) => pixel(n, near(row, 4, height), near(column, 5, width), k)),
      );
    });

    test(`ResizeBicubic to ${height}x${width} by ${name} weighs sixteen pixels`, async () => {
      const [y] = await run({
        inputs: { x },
        nodes: nodes('ResizeBicubic'),
        outputs: ['y'],
        sizes: 'fixed and batch',
      });
      const cubic = (distance: number) => {
        const d = Math.abs(distance);
        const A = centers ? -0.5 : -0.75;
        if (d <= 1) return ((A + 2) * d - (A + 3)) * d * d + 1;
        return d < 2 ? ((A * d - 5 * A) * d + 8 * A) * d - 4 * A : 0;
      };
      const weights = (i: number, from: number, to: number) => {
        const at = place(i, from, to, false);
        const low = Math.floor(at) - 1;
        const parts = [0, 1, 2, 3].map((k): [number, number] => {
          const outside = low + k < 0 || low + k >= from;
          return [low + k, centers && outside ? 0 : cubic(at - low - k)];
        });
        const sum = parts.reduce((total, [, weight]) => total + weight, 0);
        return parts.map(([p, weight]): [number, number] => [p, centers ? weight / sum : weight]);
      };
      const expected = expect((n, row, column, k) => {
        let sum = 0;
        for (const [r, wr] of weights(row, 4, height))
          for (const [c, wc] of weights(column, 5, width)) sum += wr * wc * pixel(n, r, c, k);
        return sum;
      });
      // TensorFlow looks the weights up at one of 1,024 places.
      assertTensor(y as Tensor, expected, 'y', 2e-3);
    });
  }
}

test('CropAndResize samples inside the box and fills what lies outside of the image', async () => {
  const x = noisy([2, 4, 5, 2]);
  const boxes = floats([3, 4], [0, 0, 1, 1, 0.2, 0.1, 0.7, 0.9, -0.5, 0.5, 0.5, 1.5]);
  const index = [0, 1, 1];
  const [height, width] = [3, 4];
  const [y] = await run({
    inputs: { x, boxes },
    nodes: [
      constant('index', int32s([3], index)),
      constant('size', int32s([2], [height, width])),
      ['y', 'CropAndResize', ['x', 'boxes', 'index', 'size'], { extrapolation_value: a.float(-7) }],
    ],
    outputs: ['y'],
  });
  const values: number[] = [];
  for (let b = 0; b < 3; b++)
    for (let i = 0; i < height; i++)
      for (let j = 0; j < width; j++) {
        const [y1, x1, y2, x2] = Array.from({ length: 4 }, (_, k) => boxes.data[b * 4 + k] as number) as [
          number,
          number,
          number,
          number,
        ];
        const v = y1 * 3 + (i * (y2 - y1) * 3) / (height - 1);
        const u = x1 * 4 + (j * (x2 - x1) * 4) / (width - 1);
        for (let k = 0; k < 2; k++) {
          if (v < 0 || v > 3 || u < 0 || u > 4) {
            values.push(-7);
            continue;
          }
          const at = (r: number, c: number) =>
            x.data[(((index[b] as number) * 4 + r) * 5 + c) * 2 + k] as number;
          const [top, left, low, right] = [Math.floor(v), Math.floor(u), Math.ceil(v), Math.ceil(u)];
          const line = (r: number) => at(r, left) + (at(r, right) - at(r, left)) * (u - left);
          values.push(line(top) + (line(low) - line(top)) * (v - top));
        }
      }
  assertTensor(y as Tensor, floats([3, height, width, 2], values), 'y', 1e-4);
});

test('SpaceToBatchND, Conv2D, BatchToSpaceND is one dilated convolution', async () => {
  const c: ConvCase = { size: [7, 6], kernel: [3, 3], stride: 1, dilation: 2, padding: 'SAME' };
  const x = noisy([2, 7, 6, 2]);
  const w = noisy([3, 3, 2, 3], 2);
  const [pads, crops] = [int32s([2, 2], [2, 3, 2, 2]), int32s([2, 2], [0, 1, 0, 0])];
  const nodes: NodeSpec[] = [
    constant('w', w),
    constant('block', int32s([2], [2, 2])),
    ['s', 'SpaceToBatchND', ['x', 'block', 'pads']],
    ['c', 'Conv2D', ['s', 'w'], { strides: a.ints([1, 1, 1, 1]), padding: a.text('VALID') }],
    ['y', 'BatchToSpaceND', ['c', 'block', 'crops']],
  ];
  const fixed = {
    inputs: { x },
    nodes: [constant('pads', pads), constant('crops', crops), ...nodes],
    outputs: ['y'],
  };
  const [y] = await run(fixed);
  assertTensor(y as Tensor, conv(x, w, c), 'y', 1e-4);
  const ops = convertTensorflow(graphOf(fixed, 'batch'), {}).graph.nodes.map(({ op }) => op);
  assert.deepEqual(ops, ['Pad', 'Transpose', 'Conv', 'Transpose']);
  // Amounts that are computed while the model runs, as for images of free size.
  const [computed] = await run({ inputs: { x, pads, crops }, nodes, outputs: ['y'] });
  assertTensor(computed as Tensor, conv(x, w, c), 'y', 1e-4);
});

test('SpaceToBatchND takes blocks apart and BatchToSpaceND puts them together', async () => {
  const x = noisy([2, 4, 6, 3]);
  const nodes: NodeSpec[] = [
    constant('block', int32s([2], [2, 3])),
    constant('none', int32s([2, 2], [0, 0, 0, 0])),
    ['s', 'SpaceToBatchND', ['x', 'block', 'none']],
    ['y', 'BatchToSpaceND', ['s', 'block', 'none']],
  ];
  const [parts, y] = await run({ inputs: { x }, nodes, outputs: ['s', 'y'] });
  assertTensor(y as Tensor, x);
  assert.deepEqual((parts as Tensor).shape, [12, 2, 2, 3]);
  // Block (1, 2), image 1, pixel (1, 0): row 2 * 1 + 1, column 3 * 0 + 2.
  const from = ((1 * 4 + 3) * 6 + 2) * 3;
  const at = ((((1 * 3 + 2) * 2 + 1) * 2 + 1) * 2 + 0) * 3;
  assert.deepEqual([...(parts as Tensor).data].slice(at, at + 3), [...x.data].slice(from, from + 3));
});

test('BatchToSpaceND crops each side of each axis by its own amount', async () => {
  const x = noisy([1, 4, 6, 1]);
  for (const crops of [
    [1, 0, 0, 2],
    [0, 1, 2, 0],
    [2, 1, 1, 1],
  ] as const) {
    const nodes: NodeSpec[] = [
      constant('block', int32s([2], [2, 3])),
      constant('none', int32s([2, 2], [0, 0, 0, 0])),
      ['s', 'SpaceToBatchND', ['x', 'block', 'none']],
      ['y', 'BatchToSpaceND', ['s', 'block', 'crops']],
    ];
    const [top, bottom, left, right] = crops;
    const [height, width] = [4 - top - bottom, 6 - left - right];
    const expected = floats(
      [1, height, width, 1],
      Array.from(
        { length: height * width },
        (_, i) => x.data[(top + Math.floor(i / width)) * 6 + left + (i % width)] as number,
      ),
    );
    const amounts = int32s([2, 2], [...crops]);
    const [y] = await run({ inputs: { x }, nodes: [constant('crops', amounts), ...nodes], outputs: ['y'] });
    assertTensor(y as Tensor, expected, crops.join());
    // Amounts that are computed while the model runs.
    const [free] = await run({ inputs: { x, crops: amounts }, nodes, outputs: ['y'] });
    assertTensor(free as Tensor, expected, crops.join());
  }
});

test('DepthToSpace undoes SpaceToDepth, and MirrorPad mirrors with and without the border', async () => {
  const x = noisy([1, 4, 6, 3]);
  const pads = constant('pads', int32s([4, 2], [0, 0, 1, 2, 2, 1, 0, 0]));
  const [deep, back, reflected, symmetric] = await run({
    inputs: { x },
    nodes: [
      pads,
      ['deep', 'SpaceToDepth', ['x'], { block_size: a.int(2) }],
      ['back', 'DepthToSpace', ['deep'], { block_size: a.int(2) }],
      ['r', 'MirrorPad', ['x', 'pads'], { mode: a.text('REFLECT') }],
      ['s', 'MirrorPad', ['x', 'pads'], { mode: a.text('SYMMETRIC') }],
    ],
    outputs: ['deep', 'back', 'r', 's'],
  });
  assertTensor(back as Tensor, x);
  // Pixel (1, 2) of the blocks: rows 2 and 3, columns 4 and 5, (row, column, channel).
  const at = (row: number, column: number, k: number) => x.data[(row * 6 + column) * 3 + k];
  const block = [2, 3].flatMap((row) => [4, 5].flatMap((column) => [0, 1, 2].map((k) => at(row, column, k))));
  assert.deepEqual((deep as Tensor).shape, [1, 2, 3, 12]);
  assert.deepEqual([...(deep as Tensor).data].slice((1 * 3 + 2) * 12), block);
  const mirrored = (border: number) => {
    const fold = (i: number, size: number) =>
      i < 0 ? -i - border : i >= size ? 2 * size - i - 2 + border : i;
    const values: unknown[] = [];
    for (let row = -1; row < 6; row++)
      for (let column = -2; column < 7; column++)
        for (let k = 0; k < 3; k++) values.push(at(fold(row, 4), fold(column, 6), k));
    return values;
  };
  assert.deepEqual([...(reflected as Tensor).data], mirrored(0));
  assert.deepEqual([...(symmetric as Tensor).data], mirrored(1));
});

test('LRN sums the squares of 2 r + 1 channels', async () => {
  const x = noisy([1, 2, 2, 6]);
  const [y] = await run({
    inputs: { x },
    nodes: [
      [
        'y',
        'LRN',
        ['x'],
        { depth_radius: a.int(2), alpha: a.float(0.5), beta: a.float(0.75), bias: a.float(2) },
      ],
    ],
    outputs: ['y'],
  });
  const expected = Array.from(x.data as Float32Array, (value, i) => {
    const channel = i % 6;
    let sum = 0;
    for (let k = Math.max(0, channel - 2); k <= Math.min(5, channel + 2); k++)
      sum += (x.data[i - channel + k] as number) ** 2;
    return value / (2 + 0.5 * sum) ** 0.75;
  });
  assertTensor(y as Tensor, floats(x.shape, expected));
});

test('MaxPoolWithArgmax counts rows, columns, channels', async () => {
  const x = noisy([2, 4, 4, 3]);
  const [max, plain, batched] = await run({
    inputs: { x },
    nodes: [false, true].map(
      (flag) =>
        [
          flag ? 'b' : 'p',
          'MaxPoolWithArgmax',
          ['x'],
          {
            ksize: a.ints([1, 2, 2, 1]),
            strides: a.ints([1, 2, 2, 1]),
            padding: a.text('VALID'),
            include_batch_in_index: a.flag(flag),
          },
        ] as const,
    ),
    outputs: ['p:0', 'p:1', 'b:1'],
    sizes: 'fixed and batch',
  });
  for (const [i, value] of (max as Tensor).data.entries()) {
    assert.equal(x.data[Number((batched as Tensor).data[i])], value);
    assert.equal(Number((plain as Tensor).data[i]), Number((batched as Tensor).data[i]) % 48);
  }
});

test('ExtractImagePatches gives each window as row, column, channel', async () => {
  const x = noisy([1, 4, 5, 2]);
  const [y] = await run({
    inputs: { x },
    nodes: [
      [
        'y',
        'ExtractImagePatches',
        ['x'],
        {
          ksizes: a.ints([1, 2, 3, 1]),
          strides: a.ints([1, 2, 1, 1]),
          rates: a.ints([1, 1, 1, 1]),
          padding: a.text('VALID'),
        },
      ],
    ],
    outputs: ['y'],
    sizes: 'fixed and batch',
  });
  const values: number[] = [];
  for (const row of [0, 2])
    for (const column of [0, 1, 2])
      for (const i of [0, 1])
        for (const j of [0, 1, 2])
          for (const k of [0, 1]) values.push(x.data[((row + i) * 5 + column + j) * 2 + k] as number);
  assertTensor(y as Tensor, floats([1, 2, 3, 12], values));
});

test('Conv3D slides over depth too', async () => {
  const x = noisy([1, 3, 4, 4, 2]);
  const w = noisy([2, 3, 3, 2, 3], 2);
  const [y] = await run({
    inputs: { x },
    nodes: [
      constant('w', w),
      [
        'y',
        'Conv3D',
        ['x', 'w'],
        { strides: a.ints([1, 1, 1, 1, 1]), padding: a.text('VALID'), data_format: a.text('NDHWC') },
      ],
    ],
    outputs: ['y'],
  });
  const values: number[] = [];
  for (let d = 0; d < 2; d++)
    for (let r = 0; r < 2; r++)
      for (let c = 0; c < 2; c++)
        for (let o = 0; o < 3; o++) {
          let sum = 0;
          for (let i = 0; i < 2; i++)
            for (let j = 0; j < 3; j++)
              for (let k = 0; k < 3; k++)
                for (let m = 0; m < 2; m++)
                  sum +=
                    (x.data[(((d + i) * 4 + r + j) * 4 + c + k) * 2 + m] as number) *
                    (w.data[(((i * 3 + j) * 3 + k) * 2 + m) * 3 + o] as number);
          values.push(sum);
        }
  assertTensor(y as Tensor, floats([1, 2, 2, 2, 3], values), 'y', 1e-4);
});

test('ScaleAndTranslate with a triangle and antialiasing averages what it shrinks', async () => {
  const x = noisy([1, 6, 4, 2]);
  const [y] = await run({
    inputs: { x },
    nodes: [
      constant('size', int32s([2], [3, 4])),
      constant('scale', floats([2], [0.5, 1])),
      constant('move', floats([2], [0, 0])),
      ['y', 'ScaleAndTranslate', ['x', 'size', 'scale', 'move'], { kernel_type: a.text('triangle') }],
    ],
    outputs: ['y'],
    sizes: 'fixed and batch',
  });
  // Rows 2 i - 1 .. 2 i + 2 by 1, 3, 3, 1, without those outside.
  const values: number[] = [];
  for (let i = 0; i < 3; i++)
    for (let k = 0; k < 8; k++) {
      let [sum, weights] = [0, 0];
      for (const [at, weight] of [1, 3, 3, 1].entries()) {
        const row = 2 * i - 1 + at;
        if (row < 0 || row > 5) continue;
        sum += weight * (x.data[row * 8 + k] as number);
        weights += weight;
      }
      values.push(sum / weights);
    }
  assertTensor(y as Tensor, floats([1, 3, 4, 2], values));
});

test('what TensorFlow has fused gives what the separate operations give', async () => {
  const x = noisy([1, 4, 4, 2]);
  const strides = { strides: a.ints([1, 1, 1, 1]), padding: a.text('SAME') };
  const [fused, plain, product, apart] = await run({
    inputs: { x, m: noisy([2, 3], 5) },
    nodes: [
      constant('w', noisy([3, 3, 2, 3], 2)),
      constant('b', noisy([3], 3)),
      constant('n', noisy([3, 3], 4)),
      ['f', '_FusedConv2D', ['x', 'w', 'b'], { ...strides, fused_ops: a.texts(['BiasAdd', 'Relu6']) }],
      ['c', 'Conv2D', ['x', 'w'], strides],
      ['d', 'BiasAdd', ['c', 'b']],
      ['p', 'Relu6', ['d']],
      [
        'g',
        '_FusedMatMul',
        ['m', 'n', 'b'],
        { transpose_b: a.flag(true), fused_ops: a.texts(['BiasAdd', 'Tanh']) },
      ],
      ['h', 'MatMul', ['m', 'n'], { transpose_b: a.flag(true) }],
      ['i', 'BiasAdd', ['h', 'b']],
      ['q', 'Tanh', ['i']],
    ],
    outputs: ['f', 'p', 'g', 'q'],
  });
  assertTensor(fused as Tensor, plain as Tensor);
  assertTensor(product as Tensor, apart as Tensor);
});

test('the layer norm of Keras, a batch norm in training mode over channels-first rows, normalizes each row', async () => {
  const x = noisy([3, 4]);
  const [y] = await run({
    inputs: { x },
    nodes: [
      ['shape', 'Shape', ['x']],
      constant('at', int32s([1], [0])),
      constant('next', int32s([1], [1])),
      ['rows', 'StridedSlice', ['shape', 'at', 'next', 'next'], { shrink_axis_mask: a.int(1) }],
      constant('one', int32s([], [1])),
      constant('four', int32s([], [4])),
      ['wide', 'Pack', ['one', 'rows', 'four', 'one'], { axis: a.int(0) }],
      ['image', 'Reshape', ['x', 'wide']],
      ['list', 'Pack', ['rows'], { axis: a.int(0) }],
      constant('f1', floats([], [1])),
      constant('f0', floats([], [0])),
      ['scale', 'Fill', ['list', 'f1']],
      ['offset', 'Fill', ['list', 'f0']],
      constant('none', floats([0], [])),
      [
        'norm',
        'FusedBatchNormV3',
        ['image', 'scale', 'offset', 'none', 'none'],
        { data_format: a.text('NCHW'), epsilon: a.float(0.001), is_training: a.flag(true) },
      ],
      ['y', 'Reshape', ['norm', 'shape']],
    ],
    outputs: ['y'],
  });
  const expected = [0, 1, 2].flatMap((i) => {
    const row = [...x.data].slice(4 * i, 4 * i + 4).map(Number);
    const mean = row.reduce((p, q) => p + q, 0) / 4;
    const variance = row.reduce((p, q) => p + (q - mean) ** 2, 0) / 4;
    return row.map((value) => (value - mean) / Math.sqrt(variance + 0.001));
  });
  assertTensor(y as Tensor, floats([3, 4], expected));
});

test('a resize between convolutions gives what it gives by itself', async () => {
  const x = noisy([1, 5, 4, 2]);
  const strides = { strides: a.ints([1, 1, 1, 1]), padding: a.text('SAME') };
  const turn = (name: string, input: string): NodeSpec[] => [
    // Through NCHW and back, so that no twin is left.
    [`${name}1`, 'Reshape', [input, 'flat']],
    [name, 'Reshape', [`${name}1`, 'image']],
  ];
  for (const op of ['ResizeBilinear', 'ResizeNearestNeighbor']) {
    const [between, alone] = await run({
      inputs: { x },
      nodes: [
        constant('w', noisy([3, 3, 2, 2], 2)),
        constant('size', int32s([2], [7, 9])),
        constant('flat', int32s([1], [-1])),
        constant('image', int32s([4], [1, 5, 4, 2])),
        ['c', 'Conv2D', ['x', 'w'], strides],
        ['r', op, ['c', 'size'], { half_pixel_centers: a.flag(true) }],
        ['y', 'Conv2D', ['r', 'w'], strides],
        ...turn('plain', 'c'),
        ['s', op, ['plain', 'size'], { half_pixel_centers: a.flag(true) }],
        ['z', 'Conv2D', ['s', 'w'], strides],
      ],
      outputs: ['y', 'z'],
    });
    assertTensor(between as Tensor, alone as Tensor, op);
  }
});

test('MaxPoolGrad puts each value where the maximum of its window was', async () => {
  const x = noisy([2, 4, 5, 2]);
  const values = noisy([2, 2, 3, 2], 2);
  const attributes = {
    ksize: a.ints([1, 3, 2, 1]),
    strides: a.ints([1, 2, 2, 1]),
    padding: a.text('SAME'),
  };
  const [y] = await run({
    inputs: { x, values },
    nodes: [
      ['m', 'MaxPool', ['x'], attributes],
      ['y', 'MaxPoolGrad', ['x', 'm', 'values'], attributes],
    ],
    outputs: ['y'],
    sizes: 'fixed and batch',
  });
  const expected = new Float32Array(x.data.length);
  const c: ConvCase = { size: [4, 5], kernel: [3, 2], stride: 2, padding: 'SAME' };
  for (let n = 0; n < 2; n++)
    for (let k = 0; k < 2; k++) {
      const best = new Map<string, number>();
      windows(c, ([row, column], _k, [i, j]) => {
        const at = ((n * 4 + i) * 5 + j) * 2 + k;
        const key = `${row},${column}`;
        const known = best.get(key);
        if (known === undefined || (x.data[at] as number) > (x.data[known] as number)) best.set(key, at);
      });
      for (const [key, at] of best) {
        const [row, column] = key.split(',').map(Number) as [number, number];
        expected[at] =
          (expected[at] as number) + (values.data[((n * 2 + row) * 3 + column) * 2 + k] as number);
      }
    }
  assertTensor(y as Tensor, floats(x.shape, expected));
});

test('FusedResizeAndPadConv2D resizes, mirrors and convolves', async () => {
  const x = noisy([1, 4, 4, 2]);
  const strides = { strides: a.ints([1, 1, 1, 1]), padding: a.text('VALID') };
  const [fused, apart] = await run({
    inputs: { x },
    nodes: [
      constant('w', noisy([3, 3, 2, 2], 2)),
      constant('size', int32s([2], [6, 5])),
      constant('pads', int32s([4, 2], [0, 0, 1, 1, 1, 1, 0, 0])),
      [
        'f',
        'FusedResizeAndPadConv2D',
        ['x', 'size', 'pads', 'w'],
        { ...strides, mode: a.text('REFLECT'), resize_align_corners: a.flag(true) },
      ],
      ['r', 'ResizeBilinear', ['x', 'size'], { align_corners: a.flag(true) }],
      ['p', 'MirrorPad', ['r', 'pads'], { mode: a.text('REFLECT') }],
      ['c', 'Conv2D', ['p', 'w'], strides],
    ],
    outputs: ['f', 'c'],
    sizes: 'fixed and batch',
  });
  assertTensor(fused as Tensor, apart as Tensor);
});
