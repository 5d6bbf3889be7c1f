/** Convolutions, LRN and Interp, against plain loops over their formulas. */
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
import { make, reader } from '../support/caffe/planes.ts';

interface Convolution {
  readonly group: number;
  readonly kernel: readonly [number, number];
  readonly stride: number;
  readonly pad: number;
  readonly dilation: number;
  readonly outputs: number;
}

function naiveConvolution(
  input: Tensor,
  weights: Float32Array,
  bias: Float32Array,
  options: Convolution,
): Tensor {
  const { group, kernel, stride, pad, dilation, outputs } = options;
  const [n = 1, c = 1, h = 1, w = 1] = input.shape;
  const inner = c / group;
  const size = (length: number, k: number) =>
    Math.floor((length + 2 * pad - (dilation * (k - 1) + 1)) / stride) + 1;
  const read = reader(input);
  return make([n, outputs, size(h, kernel[0]), size(w, kernel[1])], (a, o, y, x) => {
    let sum = bias[o] as number;
    const first = Math.floor(o / (outputs / group)) * inner;
    for (let i = 0; i < inner; i++)
      for (let ky = 0; ky < kernel[0]; ky++)
        for (let kx = 0; kx < kernel[1]; kx++) {
          const value =
            read(a, first + i, y * stride - pad + ky * dilation, x * stride - pad + kx * dilation) ?? 0;
          sum += value * (weights[((o * inner + i) * kernel[0] + ky) * kernel[1] + kx] as number);
        }
    return sum;
  });
}

const CONVOLUTIONS: readonly Convolution[] = [
  { group: 1, kernel: [3, 2], stride: 2, pad: 1, dilation: 1, outputs: 4 },
  { group: 2, kernel: [3, 3], stride: 1, pad: 2, dilation: 2, outputs: 6 },
  { group: 4, kernel: [3, 3], stride: 1, pad: 1, dilation: 1, outputs: 4 },
];

for (const options of CONVOLUTIONS)
  test(`Convolution with ${JSON.stringify(options)} is the sum over its window`, async () => {
    const { group, kernel, outputs } = options;
    const input = noiseTensor([2, 4, 7, 8]);
    const weights = noise(outputs * (4 / group) * kernel[0] * kernel[1], 2);
    const bias = noise(outputs, 3);
    const text = `${inputText('data', [1, 4, 7, 8])} layer { name: "c" type: "Convolution" bottom: "data" top: "out"
      convolution_param { num_output: ${outputs} group: ${group} kernel_h: ${kernel[0]} kernel_w: ${kernel[1]}
      stride: ${options.stride} pad: ${options.pad} dilation: ${options.dilation} } }`;
    const blobs = [
      { shape: [outputs, 4 / group, ...kernel], data: weights },
      { shape: [outputs], data: bias },
    ];
    const { out } = await runNet(text, { c: blobs }, { data: input });
    assertClose(out, naiveConvolution(input, weights, bias, options));
  });

test('a depthwise convolution has a filter for each channel without saying so', async () => {
  const options = { group: 4, kernel: [3, 3], stride: 1, pad: 1, dilation: 1, outputs: 4 } as const;
  const input = noiseTensor([1, 4, 5, 5]);
  const weights = noise(36, 2);
  for (const type of ['ConvolutionDepthwise', 'DepthwiseConvolution']) {
    const text = `${inputText('data', [1, 4, 5, 5])} layer { name: "c" type: "${type}" bottom: "data" top: "out"
      convolution_param { num_output: 4 kernel_size: 3 pad: 1 bias_term: false } }`;
    const { out } = await runNet(text, { c: [{ shape: [4, 1, 3, 3], data: weights }] }, { data: input });
    assertClose(out, naiveConvolution(input, weights, new Float32Array(4), options));
  }
});

test('a convolution with two inputs uses its weights for both', async () => {
  const text = `${inputText('a', [1, 1, 2, 2])} ${inputText('b', [1, 1, 2, 2])}
    layer { name: "c" type: "Convolution" bottom: "a" bottom: "b" top: "x" top: "y" convolution_param { num_output: 1 kernel_size: 2 } }`;
  const blobs = [
    { shape: [1, 1, 2, 2], data: [1, 2, 3, 4] },
    { shape: [1], data: [0.5] },
  ];
  const ones = tensor([1, 1, 2, 2], [1, 1, 1, 1]);
  const results = await runNet(text, { c: blobs }, { a: ones, b: tensor([1, 1, 2, 2], [1, 0, 0, 2]) });
  assert.deepEqual([results.x?.data[0], results.y?.data[0]], [10.5, 9.5]);
});

test('Deconvolution with groups spreads each element over its window', async () => {
  const [group, outputs, kernel, stride, pad] = [2, 6, 4, 2, 1];
  const input = noiseTensor([2, 4, 3, 5]);
  const weights = noise(4 * (outputs / group) * kernel * kernel, 2);
  const bias = noise(outputs, 3);
  const text = `${inputText('data', [1, 4, 3, 5])} layer { name: "d" type: "Deconvolution" bottom: "data" top: "out"
    convolution_param { num_output: ${outputs} group: ${group} kernel_size: ${kernel} stride: ${stride} pad: ${pad} } }`;
  const blobs = [
    { shape: [4, outputs / group, kernel, kernel], data: weights },
    { shape: [outputs], data: bias },
  ];
  const { out } = await runNet(text, { d: blobs }, { data: input });
  const expected = make([2, outputs, 6, 10], (_, o) => bias[o] as number);
  const read = reader(input);
  const sums = expected.data as Float32Array;
  for (let n = 0; n < 2; n++)
    for (let i = 0; i < 4; i++)
      for (let y = 0; y < 3; y++)
        for (let x = 0; x < 5; x++)
          for (let o = 0; o < outputs / group; o++)
            for (let ky = 0; ky < kernel; ky++)
              for (let kx = 0; kx < kernel; kx++) {
                const [ty, tx] = [y * stride - pad + ky, x * stride - pad + kx];
                if (ty < 0 || tx < 0 || ty >= 6 || tx >= 10) continue;
                const channel = Math.floor(i / (4 / group)) * (outputs / group) + o;
                const weight = weights[((i * (outputs / group) + o) * kernel + ky) * kernel + kx] as number;
                const at = ((n * outputs + channel) * 6 + ty) * 10 + tx;
                sums[at] = (sums[at] as number) + weight * (read(n, i, y, x) as number);
              }
  assertClose(out, expected);
});

test('a bilinear filler without weights in the file makes the upsampling kernel, with a note', async () => {
  const text = `${inputText('data', [1, 2, 2, 2])} layer { name: "d" type: "Deconvolution" bottom: "data" top: "out"
    convolution_param { num_output: 2 group: 2 kernel_size: 4 stride: 2 pad: 1 bias_term: false weight_filler { type: "bilinear" } } }`;
  const { notes } = await convertNet(text);
  assert.match(
    notes.join(),
    /layer "d" has no weights in the caffemodel; it got those of its filler \(bilinear\)/,
  );
  const { out } = await runNet(text, {}, { data: tensor([1, 2, 2, 2], [1, 1, 1, 1, 0, 4, 0, 4]) });
  // In the middle the four parts of constant 1 add up to 1; along a row 0 -> 4 is met at 1 and 3.
  const plane = (channel: number, y: number, x: number) => out?.data[(channel * 4 + y) * 4 + x];
  assert.deepEqual([plane(0, 1, 1), plane(0, 2, 2)], [1, 1]);
  assert.deepEqual([plane(1, 1, 1), plane(1, 1, 2)], [1, 3]);
});

test('LRN within a channel divides by the mean square of the padded window and leaves k out', async () => {
  const input = noiseTensor([1, 2, 5, 6]);
  const text = `${inputText('data', [1, 2, 5, 6])} layer { name: "l" type: "LRN" bottom: "data" top: "out"
    lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 2 beta: 0.5 k: 7 } }`;
  const { out } = await runNet(text, {}, { data: input });
  const read = reader(input);
  const expected = make([1, 2, 5, 6], (n, c, y, x) => {
    let sum = 0;
    for (let dy = -1; dy <= 1; dy++)
      for (let dx = -1; dx <= 1; dx++) sum += (read(n, c, y + dy, x + dx) ?? 0) ** 2;
    return (read(n, c, y, x) as number) * (1 + (2 * sum) / 9) ** -0.5;
  });
  assertClose(out, expected);
});

test('LRN across channels divides by the mean square of the neighbours, k included', async () => {
  const input = noiseTensor([1, 5, 2, 2]);
  const text = `${inputText('data', [1, 5, 2, 2])} layer { name: "l" type: "LRN" bottom: "data" top: "out"
    lrn_param { local_size: 3 alpha: 2 beta: 0.5 k: 7 } }`;
  const { out } = await runNet(text, {}, { data: input });
  const read = reader(input);
  const square = (n: number, c: number, y: number, x: number) =>
    c < 0 || c > 4 ? 0 : (read(n, c, y, x) as number) ** 2;
  const expected = make([1, 5, 2, 2], (n, c, y, x) => {
    const sum = square(n, c - 1, y, x) + square(n, c, y, x) + square(n, c + 1, y, x);
    return (read(n, c, y, x) as number) * (7 + (2 * sum) / 3) ** -0.5;
  });
  assertClose(out, expected);
});

/** Bilinear with corner on corner. */
function naiveInterp(input: Tensor, height: number, width: number, cut = [0, 0]): Tensor {
  const [n = 1, c = 1, h = 1, w = 1] = input.shape;
  const [before = 0, after = 0] = cut;
  const [innerH, innerW] = [h - before - after, w - before - after];
  const read = reader(input);
  const step = (from: number, to: number) => (to > 1 ? (from - 1) / (to - 1) : 0);
  return make([n, c, height, width], (a, b, y, x) => {
    const [sy, sx] = [y * step(innerH, height), x * step(innerW, width)];
    const [y0, x0] = [Math.min(Math.floor(sy), innerH - 1), Math.min(Math.floor(sx), innerW - 1)];
    const [y1, x1] = [Math.min(y0 + 1, innerH - 1), Math.min(x0 + 1, innerW - 1)];
    const at = (yy: number, xx: number) => read(a, b, yy + before, xx + before) as number;
    const row = (yy: number) => at(yy, x0) * (1 - (sx - x0)) + at(yy, x1) * (sx - x0);
    return row(y0) * (1 - (sy - y0)) + row(y1) * (sy - y0);
  });
}

const INTERPS = [
  { text: 'height: 9 width: 8', size: [9, 8] },
  { text: 'zoom_factor: 2', size: [9, 11] },
  { text: 'shrink_factor: 2', size: [3, 3] },
  { text: 'shrink_factor: 2 zoom_factor: 3', size: [7, 7] },
  { text: 'height: 6 width: 4 pad_beg: -1 pad_end: -1', size: [6, 4], cut: [1, 1] },
] as const;

for (const { text, size, ...rest } of INTERPS)
  test(`Interp with ${text} lays corner on corner`, async () => {
    const input = noiseTensor([2, 2, 5, 6]);
    const layer = `layer { name: "i" type: "Interp" bottom: "data" top: "out" interp_param { ${text} } }`;
    const { out } = await runNet(inputText('data', [1, 2, 5, 6]) + layer, {}, { data: input });
    assertClose(out, naiveInterp(input, size[0], size[1], 'cut' in rest ? [...rest.cut] : []));
  });

test('Interp takes its size from a second input', async () => {
  const input = noiseTensor([1, 1, 3, 3]);
  const text = `${inputText('data', [1, 1, 3, 3])} ${inputText('like', [1, 4, 5, 7])}
    layer { name: "i" type: "Interp" bottom: "data" bottom: "like" top: "out" }`;
  const { out } = await runNet(text, {}, { data: input, like: noiseTensor([1, 4, 5, 7]) });
  assertClose(out, naiveInterp(input, 5, 7));
});
