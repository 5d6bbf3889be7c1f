/** Convolution and pooling over 1 to 3 spatial axes, of a batch or of one record without a batch axis. */
import { convolve, convolveBack, kernelOf, type Weights } from '../../emit/convolution.ts';
import { layWindows, padSpace, type Windows } from '../../emit/windows.ts';
import type { Value } from '../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { multiply } from '../run/sizes.ts';
import { refuse } from '../run/values.ts';
import type { Args, Rule, Table } from './schema.ts';
import { permute, reshape } from './shaping.ts';

/** Adds a batch axis where torch was given none, and takes it off the result. */
export function batched(c: Context, x: Value, spatial: number, compute: (x: Value) => Value): Value {
  const rank = x.shape?.length ?? refuse('needs a known rank');
  if (rank === spatial + 2) return compute(x);
  if (rank !== spatial + 1) return refuse(`needs ${spatial + 2} dimensions, got ${rank}`);
  const made = compute(c.one('Unsqueeze', [x, c.g.ints([0])]));
  return c.one('Squeeze', [made, c.g.ints([0])]);
}

function windowsOf(a: Args, kernel: readonly number[], pads: Windows['pads']): Windows {
  const { length } = kernel;
  return { kernel, strides: a.ns('stride', length), dilations: a.ns('dilation', length), pads };
}

function weightsOf(a: Args): Weights & { readonly kernel: number[] } {
  const [weights, bias, group] = [a.v('weight'), a.opt('bias'), a.n('groups')];
  return { weights, bias, group, kernel: kernelOf(weights) };
}

function convolution(c: Context, a: Args, spatial: number): Value {
  const [x, given] = [a.v('x'), weightsOf(a)];
  c.match(c.sizeOf(x, -spatial - 1), multiply(c.sizeOf(given.weights, 1), a.n('groups')), 'channels');
  const windows = windowsOf(a, given.kernel, padsOf(a, spatial));
  return batched(c, x, spatial, (own) => convolve(c, own, windows, given));
}

function padsOf(a: Args, spatial: number): Windows['pads'] {
  const said = a.raw('padding');
  if (said === 'valid') return Array.from({ length: 2 * spatial }, () => 0);
  if (said === 'same') return 'same_upper';
  const pads = a.ns('padding', spatial);
  return [...pads, ...pads];
}

const conv =
  (spatial: number): Rule =>
  (c, a) =>
    convolution(c, a, spatial);

function transposed(c: Context, a: Args, spatial: number): Value {
  const [x, given, pad] = [a.v('x'), weightsOf(a), a.ns('padding', spatial)];
  c.match(c.sizeOf(x, -spatial - 1), c.sizeOf(given.weights, 0), 'channels');
  const pads = [...pad, ...pad];
  const windows = { ...windowsOf(a, given.kernel, pads), pads };
  const added = a.ns('output_padding', spatial);
  return batched(c, x, spatial, (own) => convolveBack(c, own, windows, given, added));
}

const convTranspose =
  (spatial: number): Rule =>
  (c, a) =>
    transposed(c, a, spatial);

const anyConvolution: Rule = (c, a) => {
  const spatial = (a.v('weight').shape?.length ?? 0) - 2;
  return a.bool('transposed') ? transposed(c, a, spatial) : convolution(c, a, spatial);
};

/** Sliding blocks as columns. */
const im2col: Rule = (c, a) => {
  const [kernel, dilations] = [a.ns('kernel_size', 2), a.ns('dilation', 2)];
  const [pads, strides] = [a.ns('padding', 2), a.ns('stride', 2)];
  const x = a.v('x');
  if (x.shape?.length !== 4) refuse('needs 4 dimensions');
  const windows = { kernel, strides, dilations, pads: [...pads, ...pads] };
  const sizes = [2, 3].map((axis) => c.fixed(c.sizeOf(x, axis), 'size'));
  const counts = (layWindows(sizes, windows) ?? []).map(({ count }) => count);
  const made = counts.reduce(
    (value, count, i) => {
      const [k, d, s] = [kernel[i] as number, dilations[i] as number, strides[i] as number];
      if (count * k > 2 ** 22) refuse('has impossible windows');
      const places = Array.from(
        { length: k * count },
        (_, at) => Math.floor(at / count) * d + (at % count) * s,
      );
      const list = c.g.constant({
        dtype: 'int64',
        shape: [k, count],
        data: BigInt64Array.from(places, BigInt),
      });
      return c.one('Gather', [value, list], { axis: 2 + 2 * i });
    },
    padSpace(c, x, windows.pads, 0),
  );
  const [n, channels] = c.shapeOf(x) as [number, number];
  const order = permute(c, made, [0, 1, 2, 4, 3, 5]);
  const area = (kernel[0] as number) * (kernel[1] as number);
  return reshape(c, order, [n, multiply(channels, area), (counts[0] as number) * (counts[1] as number)]);
};

const CONV = 'Tensor x, Tensor weight, Tensor? bias=None, int[] stride=1';
export const each = (make: (spatial: number) => Table): Table =>
  Object.assign({}, ...[1, 2, 3].map(make)) as Table;

export const CONVOLUTION: Table = {
  ...each((n) => ({
    [`conv${n}d(${CONV}, int[] padding=0, int[] dilation=1, int groups=1) | conv${n}d(${CONV}, str padding='valid', int[] dilation=1, int groups=1)`]:
      conv(n),
    [`conv_transpose${n}d(${CONV}, int[] padding=0, int[] output_padding=0, int groups=1, int[] dilation=1)`]:
      convTranspose(n),
  })),
  [`_convolution(${CONV}, int[] padding=0, int[] dilation=1, bool transposed=False, int[] output_padding=0, int groups=1, bool benchmark=False, bool deterministic=False, bool cudnn_enabled=True, bool allow_tf32=True) | convolution(${CONV}, int[] padding=0, int[] dilation=1, bool transposed=False, int[] output_padding=0, int groups=1)`]:
    anyConvolution,
  [`_convolution_mode(${CONV}, str padding='valid', int[] dilation=1, int groups=1)`]: (c, a) =>
    convolution(c, a, (a.v('weight').shape?.length ?? 0) - 2),
  'im2col(Tensor x, int[] kernel_size, int[] dilation=1, int[] padding=0, int[] stride=1)': im2col,
};
