/** Convolution and pooling over 1 to 3 spatial axes, of a batch or of one record without a batch axis. */
import type { Value } from '../../../graph/value.ts';
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

function convolve(c: Context, a: Args, spatial: number): Value {
  const [x, weight] = [a.v('x'), a.v('weight')];
  const [strides, dilations] = [a.ns('stride', spatial), a.ns('dilation', spatial)];
  const kernel = (weight.shape ?? [])
    .slice(2)
    .map((size) => (typeof size === 'number' ? size : refuse('needs fixed weights')));
  const group = a.n('groups');
  const attributes = { strides, dilations, pads: padsOf(a, kernel, dilations), kernel_shape: kernel, group };
  c.match(c.sizeOf(x, -spatial - 1), multiply(c.sizeOf(weight, 1), group), 'channels');
  return batched(c, x, spatial, (own) => c.one('Conv', [own, weight, a.opt('bias')], attributes));
}

function padsOf(a: Args, kernel: readonly number[], dilations: readonly number[]): number[] {
  const said = a.raw('padding');
  if (said === 'valid') return kernel.flatMap(() => [0, 0]);
  if (said === 'same') {
    const totals = kernel.map((size, i) => (size - 1) * (dilations[i] as number));
    return [...totals.map((total) => Math.floor(total / 2)), ...totals.map((total) => Math.ceil(total / 2))];
  }
  const pads = a.ns('padding', kernel.length);
  return [...pads, ...pads];
}

const conv =
  (spatial: number): Rule =>
  (c, a) =>
    convolve(c, a, spatial);

function transposed(c: Context, a: Args, spatial: number): Value {
  const pads = a.ns('padding', spatial);
  const attributes = {
    strides: a.ns('stride', spatial),
    dilations: a.ns('dilation', spatial),
    pads: [...pads, ...pads],
    output_padding: a.ns('output_padding', spatial),
    group: a.n('groups'),
  };
  const inputs = [a.v('weight'), a.opt('bias')];
  c.match(c.sizeOf(a.v('x'), -spatial - 1), c.sizeOf(a.v('weight'), 0), 'channels');
  return batched(c, a.v('x'), spatial, (own) => c.one('ConvTranspose', [own, ...inputs], attributes));
}

const convTranspose =
  (spatial: number): Rule =>
  (c, a) =>
    transposed(c, a, spatial);

const anyConvolution: Rule = (c, a) => {
  const spatial = (a.v('weight').shape?.length ?? 0) - 2;
  if (a.bool('transposed')) return transposed(c, a, spatial);
  return convolve(c, a, spatial);
};

/** Sliding blocks as columns. */
const im2col: Rule = (c, a) => {
  const [kernel, dilations] = [a.ns('kernel_size', 2), a.ns('dilation', 2)];
  const [pads, strides] = [a.ns('padding', 2), a.ns('stride', 2)];
  const x = a.v('x');
  if (x.shape?.length !== 4) refuse('needs 4 dimensions');
  const padded = c.one('Pad', [x, c.g.ints([0, 0, ...pads, 0, 0, ...pads]), c.g.scalar(x.dtype, 0)]);
  const counts: number[] = [];
  const made = [0, 1].reduce((value, i) => {
    const size = c.fixed(c.sizeOf(x, i + 2), 'size') + 2 * (pads[i] as number);
    const [k, d, s] = [kernel[i] as number, dilations[i] as number, strides[i] as number];
    const count = Math.floor((size - d * (k - 1) - 1) / s) + 1;
    if (!(count > 0 && k > 0) || count * k > 2 ** 22) refuse('has impossible windows');
    counts.push(count);
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
  }, padded);
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
    convolve(c, a, (a.v('weight').shape?.length ?? 0) - 2),
  'im2col(Tensor x, int[] kernel_size, int[] dilation=1, int[] padding=0, int[] stride=1)': im2col,
};
