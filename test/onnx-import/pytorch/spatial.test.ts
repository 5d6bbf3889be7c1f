/** Convolution, pooling and resizing, with numbers computed by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Row, testRows } from '../support/pytorch/rows.ts';
import { convertScript, floats } from '../support/pytorch/run.ts';

/** 4 rows of 4 that count up from -8, so that a padded zero is seen. */
const VALUES = Array.from({ length: 16 }, (_, i) => i - 8);
/** `s` is the corner -8, -7, -4, -3; `line`, `cube` and `w` are other forms and a kernel. */
const BEFORE = `s = torch.slice(torch.slice(x, 2, 0, 2), 3, 0, 2)
line = torch.view(x, [1, 1, 16])
cube = torch.view(x, [1, 1, 4, 2, 2])
w = torch.tensor([[[[1., 2.], [3., 4.]]]])
two = torch.tensor([[[[2.]]], [[[3.]]]])
`;
const times = (factor: number, values: readonly number[]) => values.map((value) => factor * value);

const MAX_POOLING: readonly Row[] = [
  ['torch.max_pool2d(x, [2, 2])', [-3, -1, 5, 7]],
  ['torch.max_pool2d(x, [2, 2], annotate(List[int], []))', [-3, -1, 5, 7]],
  ['torch.max_pool2d(x, [2], [2])', [-3, -1, 5, 7]],
  ['torch.max_pool2d(torch.select(x, 0, 0), [2, 2])', [-3, -1, 5, 7]],
  ['torch.max_pool2d(x, [2, 2], [1, 1])', [-3, -2, -1, 1, 2, 3, 5, 6, 7]],
  ['torch.max_pool2d(x, [1, 2], [2, 1])', [-7, -6, -5, 1, 2, 3]],
  ['torch.max_pool2d(x, [2, 2], [2, 2], [1, 1])', [-8, -6, -5, 0, 2, 3, 4, 6, 7]],
  ['torch.max_pool2d(x, [2, 2], [1, 1], [0, 0], [2, 2])', [2, 3, 6, 7]],
  ['torch.max_pool2d(x, [3, 3], [2, 2])', [2]],
  ['torch.max_pool2d(x, [3, 3], [2, 2], [0, 0], [1, 1], True)', [2, 3, 6, 7]],
  ['torch.max_pool1d(torch.view(x, [1, 16]), [4], [4])', [-5, -1, 3, 7]],
  ['torch.max_pool3d(cube, [2, 2, 2])', [-1, 7]],
  ['torch.max_pool2d_with_indices(x, [2, 2], [2, 2])[0]', [-3, -1, 5, 7]],
  // The indices count within a plane.
  [
    'torch.max_pool2d_with_indices(torch.cat([x, torch.neg(x)], 1), [2, 2], [2, 2])[1]',
    [5, 7, 13, 15, 0, 2, 8, 10],
  ],
];

const AVERAGE_POOLING: readonly Row[] = [
  ['torch.avg_pool2d(x, [2, 2])', [-5.5, -3.5, 2.5, 4.5]],
  ['torch.avg_pool2d(torch.select(x, 0, 0), [2, 2], [1, 2])', [-5.5, -3.5, -1.5, 0.5, 2.5, 4.5]],
  ['torch.avg_pool2d(x, [2, 2], [2, 2], [1, 1])', [-2, -3.25, -1.25, -1, -0.5, 0.5, 1, 2.75, 1.75]],
  ['torch.avg_pool2d(x, [2, 2], [2, 2], [1, 1], False, False)', [-8, -6.5, -5, -2, -0.5, 1, 4, 5.5, 7]],
  ['torch.avg_pool2d(x, [2, 2], [2, 2], [1, 1], True, False)', [-8, -6.5, -5, -2, -0.5, 1, 4, 5.5, 7]],
  // A window beyond the edge divides by what lies inside, padding included if that counts.
  ['torch.avg_pool2d(x, [3, 3], [2, 2], [0, 0], True)', [-3, -1.5, 3, 4.5]],
  ['torch.avg_pool2d(x, [3, 3], [2, 2], [1, 1], True)', [-22 / 9, -24 / 9, -1, 1 / 3, 2, 1.5, 1.5, 3, 1.75]],
  ['torch.avg_pool2d(x, [3, 3], [2, 2], [1, 1], True, False)', [-5.5, -4, -3, 0.5, 2, 3, 4.5, 6, 7]],
  // A third window would begin in the padding, so there is none.
  ['torch.avg_pool2d(x, [2, 2], [3, 3], [1, 1], True, False)', [-8, -5.5, 2, 4.5]],
  ['torch.avg_pool2d(x, [2, 2], [5, 5], [1, 1], True, False)', [-8]],
  ['torch.avg_pool2d(x, [2, 2], [2, 2], [0, 0], False, True, 2)', [-11, -7, 5, 9]],
  ['torch.avg_pool2d(x, [2, 2], [2, 2], [1, 1], False, True, 1)', [-8, -13, -5, -4, -2, 2, 4, 11, 7]],
  ['torch.avg_pool2d(x, [2, 2], [3, 3], [0, 0], False, True, 1)', [-22]],
  ['torch.avg_pool1d(line, [4])', [-6.5, -2.5, 1.5, 5.5]],
  ['torch.avg_pool3d(cube, [2, 2, 2])', [-4.5, 3.5]],
];

const ADAPTIVE_POOLING: readonly Row[] = [
  ['torch.adaptive_avg_pool2d(x, [1, 1])', [-0.5]],
  ['torch.adaptive_avg_pool2d(x, [2, 2])', [-5.5, -3.5, 2.5, 4.5]],
  ['torch.adaptive_avg_pool2d(x, 2)', [-5.5, -3.5, 2.5, 4.5]],
  ['torch.adaptive_avg_pool2d(x, [2, 4])', [-6, -5, -4, -3, 2, 3, 4, 5]],
  ['torch.adaptive_avg_pool2d(x, [4, 4])', VALUES],
  ['torch.adaptive_avg_pool2d(x, [3, 3])', [-5.5, -4.5, -3.5, -1.5, -0.5, 0.5, 2.5, 3.5, 4.5]],
  ['torch.adaptive_avg_pool2d(x, [4, 1])', [-6.5, -2.5, 1.5, 5.5]],
  ['torch.adaptive_avg_pool2d(s, [1, 4])', [-6, -6, -5, -5]],
  ['torch.adaptive_avg_pool2d(torch.select(x, 0, 0), [3, 1])', [-4.5, -0.5, 3.5]],
  ['torch.adaptive_avg_pool1d(line, [3])', [-5.5, -0.5, 4.5]],
  ['torch.adaptive_avg_pool3d(cube, [2, 1, 1])', [-4.5, 3.5]],
  ['torch.adaptive_max_pool2d(x, [1, 1])[0]', [7]],
  ['torch.adaptive_max_pool2d(x, [2, 2])[0]', [-3, -1, 5, 7]],
  ['torch.adaptive_max_pool2d(x, [3, 3])[0]', [-3, -2, -1, 1, 2, 3, 5, 6, 7]],
  ['torch.adaptive_max_pool1d(line, [3])[0]', [-3, 2, 7]],
];

const CONVOLUTION: readonly Row[] = [
  ['torch.conv2d(x, w)', [-46, -36, -26, -6, 4, 14, 34, 44, 54]],
  ['torch.conv2d(x, w, torch.tensor([0.5]), [2, 2])', [-45.5, -25.5, 34.5, 54.5]],
  ['torch.conv2d(torch.select(x, 0, 0), w, None, [2, 1])', [-46, -36, -26, 34, 44, 54]],
  ['torch.conv2d(x, w, None, [2, 2], [1, 1])', [-32, -45, -15, -8, 4, 8, 8, 17, 7]],
  ['torch.conv2d(x, w, None, [1, 1], [0, 0], [2, 2])', [-12, -2, 28, 38]],
  ['torch.conv2d(x, w, None, [1, 1], [0, 0], [2, 1])', [-18, -8, 2, 22, 32, 42]],
  [
    "torch.conv2d(x, w, None, [1, 1], 'same')",
    [-46, -36, -26, -8, -6, 4, 14, 8, 34, 44, 54, 24, 14, 17, 20, 7],
  ],
  ["torch.conv2d(x, w, None, [1, 1], 'valid')", [-46, -36, -26, -6, 4, 14, 34, 44, 54]],
  ["torch._convolution_mode(x, w, None, [2, 2], 'valid')", [-46, -26, 34, 54]],
  // Three taps have as many zeros on both sides.
  [
    "torch.conv1d(torch.narrow(line, 2, 0, 3), torch.tensor([[[1., 10., 100.]]]), None, [1], 'same')",
    [-780, -678, -67],
  ],
  [
    "torch.conv1d(torch.narrow(line, 2, 0, 5), torch.tensor([[[1., 10., 100.]]]), None, [1], 'same', [2])",
    [-680, -570, -468, -57, -46],
  ],
  ['torch.conv2d(torch.cat([x, x], 1), two, None, groups=2)', [...times(2, VALUES), ...times(3, VALUES)]],
  [
    'torch.conv1d(torch.view(x, [1, 2, 8]), torch.tensor([[[1., 2.], [3., 4.]]]))',
    [-18, -8, 2, 12, 22, 32, 42],
  ],
  ['torch.conv3d(cube, torch.full([1, 1, 2, 2, 2], 1.))', [-36, -4, 28]],
  ['torch.convolution(x, w, None, [1, 1], [0, 0], [2, 2], False, [0, 0], 1)', [-12, -2, 28, 38]],
  [
    'torch.im2col(x, [2, 2], [1, 1], [0, 0], [2, 2])',
    [-8, -6, 0, 2, -7, -5, 1, 3, -4, -2, 4, 6, -3, -1, 5, 7],
  ],
  [
    'torch.im2col(torch.cat([x, torch.neg(x)], 1), [2, 2], [2, 2], [1, 1], [3, 3])',
    [0, 0, 0, 2, 0, 0, 1, 0, 0, -2, 0, 0, -3, 0, 0, 0, 0, 0, 0, -2, 0, 0, -1, 0, 0, 2, 0, 0, 3, 0, 0, 0],
  ],
  ['torch.im2col(x, [1, 3], [1, 1], [0, 0], [3, 1])', [-8, -7, 4, 5, -7, -6, 5, 6, -6, -5, 6, 7]],
];

const TRANSPOSED: readonly Row[] = [
  ['torch.conv_transpose2d(s, w)', [-8, -23, -14, -28, -64, -34, -12, -25, -12]],
  ['torch.conv_transpose2d(torch.select(s, 0, 0), w)', [-8, -23, -14, -28, -64, -34, -12, -25, -12]],
  ['torch.conv_transpose2d(s, w, torch.tensor([0.5]), [1, 1], [1, 1])', [-63.5]],
  [
    'torch.conv_transpose2d(s, w, None, [2, 2])',
    [-8, -16, -7, -14, -24, -32, -21, -28, -4, -8, -3, -6, -12, -16, -9, -12],
  ],
  ['torch.conv_transpose2d(s, w, None, [2, 2], [1, 1], [1, 1])', [-32, -21, -28, -8, -3, -6, -16, -9, -12]],
  [
    'torch.conv_transpose2d(s, w, None, [1, 1], [0, 0], [0, 0], 1, [2, 2])',
    [-8, -7, -16, -14, -4, -3, -8, -6, -24, -21, -32, -28, -12, -9, -16, -12],
  ],
  [
    'torch.conv_transpose2d(torch.cat([s, s], 1), two, None, groups=2)',
    [-16, -14, -8, -6, -24, -21, -12, -9],
  ],
  ['torch._convolution(s, w, None, [1, 1], [1, 1], [1, 1], True, [0, 0], 1)', [-64]],
  ['torch.conv_transpose1d(torch.narrow(line, 2, 0, 2), torch.tensor([[[1., 2.]]]))', [-8, -23, -14]],
];

const linear = (values: readonly number[]) => values.map((at) => at - 8);

const RESIZING: readonly Row[] = [
  ['torch.upsample_nearest2d(s, [2, 4], None)', [-8, -8, -7, -7, -4, -4, -3, -3]],
  ['torch.upsample_nearest2d(s, None, [1., 2.])', [-8, -8, -7, -7, -4, -4, -3, -3]],
  ['torch.upsample_nearest2d(s, [4, 2], 2., 1.)', [-8, -7, -8, -7, -4, -3, -4, -3]],
  ['torch.upsample_nearest2d(x, [2, 2], None)', [-8, -6, 0, 2]],
  ['torch.upsample_nearest2d(x, [4, 4], None)', VALUES],
  ['torch.upsample_nearest1d(line, [5], None)', linear([0, 3, 6, 9, 12])],
  ['torch._upsample_nearest_exact1d(line, [5], None)', linear([1, 4, 8, 11, 14])],
  // The scale places the pixels, not the size that it was rounded to.
  ['torch.upsample_nearest1d(line, None, [0.3])', linear([0, 3, 6, 10])],
  ['torch.upsample_nearest1d(line, [4], 0.3)', linear([0, 3, 6, 10])],
  ['torch._upsample_nearest_exact1d(line, None, [0.3])', linear([1, 5, 8, 11])],
  // Beyond the last pixel is the last.
  ['torch.upsample_nearest1d(torch.narrow(line, 2, 0, 2), [5], 2.)', [-8, -8, -7, -7, -7]],
  ['torch.upsample_nearest3d(cube, [2, 2, 2], None)', [-8, -7, -6, -5, 0, 1, 2, 3]],
  ['torch.upsample_linear1d(line, [4], False, None)', linear([1.5, 5.5, 9.5, 13.5])],
  ['torch.upsample_linear1d(line, [4], True, None)', linear([0, 5, 10, 15])],
  ['torch.upsample_linear1d(line, None, False, [0.3])', linear([7 / 6, 4.5, 47 / 6, 67 / 6])],
  ['torch.upsample_linear1d(line, None, True, [0.3])', linear([0, 5, 10, 15])],
  ['torch.upsample_linear1d(line, None, False, [0.25])', linear([1.5, 5.5, 9.5, 13.5])],
  ['torch.upsample_linear1d(line, [16], False, None)', VALUES],
  ['torch.upsample_bilinear2d(s, [2, 4], False, None)', [-8, -7.75, -7.25, -7, -4, -3.75, -3.25, -3]],
  ['torch.upsample_bilinear2d(s, [3, 2], True, 1.5, 1.)', [-8, -7, -6, -5, -4, -3]],
  ['torch.upsample_trilinear3d(cube, [2, 2, 2], False, None)', [-6, -5, -4, -3, 2, 3, 4, 5]],
  // Cubic weights halfway are -3/32 and 19/32, with the edge repeated.
  ['torch.upsample_bicubic2d(x, [2, 2], False, None)', [-5.96875, -3.78125, 2.78125, 4.96875]],
];

const corner = 'torch.tensor([[[[-1., -1.], [0., 0.], [1.5, 0.]]]])';
const GRIDS: readonly Row[] = [
  [`torch.grid_sampler(x, ${corner}, 0, 2, True)`, [-8, -0.5, 0.25]],
  [`torch.grid_sampler(x, ${corner}, 0, 1, False)`, [-8, -0.5, 1]],
  [`torch.grid_sampler(x, ${corner}, 0, 0, False)`, [-2, -0.5, 0]],
  [`torch.grid_sampler(x, torch.tensor([[[[-0.9, -0.9], [2., 2.]]]]), 1, 0, True)`, [-8, 0]],
  [`torch.grid_sampler(x, torch.tensor([[[[0., 0.], [-1., 1.]]]]), 2, 1, True)`, [-0.5, 4]],
];

testRows(
  {
    'max pooling': MAX_POOLING,
    'average pooling': AVERAGE_POOLING,
    'adaptive pooling': ADAPTIVE_POOLING,
    convolution: CONVOLUTION,
    'transposed convolution': TRANSPOSED,
    resizing: RESIZING,
    'sampling a grid': GRIDS,
  },
  floats([1, 1, 4, 4], VALUES),
  BEFORE,
);

test('an average pool is one node, also where its last window reaches beyond the picture', async (t) => {
  const opsOf = async (size: number, stride: number) => {
    const forward = `return torch.avg_pool2d(x, [2, 2], [${stride}, ${stride}], [0, 0], True)`;
    const { graph } = await convertScript(t, { forward }, { inputShapes: { x: [1, 1, size, size] } });
    return graph.nodes.map(({ op }) => op);
  };
  assert.deepEqual(await opsOf(4, 2), ['AveragePool']);
  assert.deepEqual(await opsOf(8, 3), ['AveragePool']);
  assert.deepEqual(await opsOf(5, 2), ['AveragePool']);
});
