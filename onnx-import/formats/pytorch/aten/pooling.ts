/** Pooling over 1 to 3 spatial axes. */
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { product } from '../run/sizes.ts';
import { type Py, refuse, Tuple } from '../run/values.ts';
import { batched, each } from './convolution.ts';
import { concat } from './moves.ts';
import { reduce } from './reduction.ts';
import type { Args, Rule, Table } from './schema.ts';
import { cut } from './shaping.ts';
import { floating } from './types.ts';

interface Window {
  readonly kernel: readonly number[];
  readonly strides: readonly number[];
  readonly pads: readonly number[];
  readonly dilations: readonly number[];
  readonly ceil: boolean;
}

function windowOf(a: Args, spatial: number, hasDilation: boolean): Window {
  const kernel = a.ns('kernel_size', spatial);
  const given = a.isSet('stride') ? a.ns('stride', spatial) : [];
  return {
    kernel,
    strides: given.length === 0 ? kernel : given,
    pads: a.ns('padding', spatial),
    dilations: hasDilation ? a.ns('dilation', spatial) : kernel.map(() => 1),
    ceil: a.bool('ceil_mode'),
  };
}

function attributesOf({ kernel, strides, pads, ceil }: Window) {
  return { kernel_shape: kernel, strides, pads: [...pads, ...pads], ceil_mode: ceil ? 1 : 0 };
}

const maxPool =
  (spatial: number, withIndices = false): Rule =>
  (c, a) => {
    const window = windowOf(a, spatial, true);
    const x = floating(c, a.v('x'));
    const attributes = { ...attributesOf(window), dilations: window.dilations };
    if (!withIndices) return batched(c, x, spatial, (own) => c.one('MaxPool', [own], attributes));
    const [values, places] = c.g.add('MaxPool', [x], attributes, { outputs: 2 }) as [Value, Value];
    // Torch counts within a plane, ONNX over all.
    const plane = product(c.shapeOf(x).slice(2));
    return c.tuple([values, c.one('Mod', [places, c.sizes.value(c.g, plane)])]);
  };

const avgPool =
  (spatial: number): Rule =>
  (c, a) => {
    const window = windowOf(a, spatial, false);
    const includes = a.bool('count_include_pad');
    const x = floating(c, a.v('x'));
    const divisor = a.isSet('divisor') ? a.n('divisor') : undefined;
    return batched(c, x, spatial, (own) => {
      const sizes = c.shapeOf(own).slice(2);
      const isPlain =
        divisor === undefined && (!window.ceil || sizes.every((size, i) => isWhole(size, window, i)));
      if (isPlain) {
        const attributes = {
          ...attributesOf({ ...window, ceil: false }),
          count_include_pad: includes ? 1 : 0,
        };
        return c.one('AveragePool', [own], attributes);
      }
      return counted(
        c,
        own,
        sizes.map((size) => c.fixed(size, 'size to pool')),
        window,
        includes,
        divisor,
      );
    });
  };

/** Whether rounding up gives no more windows than rounding down. */
function isWhole(size: unknown, { kernel, strides, pads }: Window, i: number): boolean {
  if (typeof size !== 'number') return false;
  return (size + 2 * (pads[i] as number) - (kernel[i] as number)) % (strides[i] as number) === 0;
}

/** The sums of all windows over zeros at the edges, divided by what torch counts in each. */
function counted(
  c: Context,
  x: Value,
  sizes: readonly number[],
  { kernel, strides, pads, ceil }: Window,
  includes: boolean,
  divisor: number | undefined,
): Value {
  const counts: number[][] = [];
  const after = sizes.map((size, i) => {
    const [k, s, p] = [kernel[i] as number, strides[i] as number, pads[i] as number];
    let windows = (ceil ? Math.ceil((size + 2 * p - k) / s) : Math.floor((size + 2 * p - k) / s)) + 1;
    if (ceil && (windows - 1) * s >= size + p) windows -= 1;
    if (!(windows > 0) || windows > 2 ** 20) refuse('has impossible windows');
    counts.push(
      Array.from({ length: windows }, (_, at) => {
        const start = at * s - p;
        const end = Math.min(start + k, size + p);
        return includes ? end - start : Math.min(end, size) - Math.max(start, 0);
      }),
    );
    return (windows - 1) * s + k - size - p;
  });
  const zeros = [0, 0];
  const padsAll = [...zeros, ...pads, ...zeros, ...after.map((pad) => Math.max(0, pad))];
  const padded = c.one('Pad', [x, c.g.ints(padsAll), c.g.scalar(x.dtype, 0)]);
  const means = c.one('AveragePool', [padded], { kernel_shape: kernel, strides });
  const area = kernel.reduce((one, other) => one * other, 1);
  const shape = counts.map((row) => row.length);
  const factors = counts.reduce<number[]>(
    (all, row) => all.flatMap((one) => row.map((count) => one * count)),
    [1],
  );
  const scale = c.g.floats(
    factors.map((count) => area / (divisor ?? count)),
    shape,
  );
  return c.one('Mul', [means, c.cast(scale, x.dtype)]);
}

/** The window of each output of an adaptive pool: [floor(i * in / out), ceil((i + 1) * in / out)). */
function adaptiveWindows(size: number, out: number): [number, number][] {
  return Array.from({ length: out }, (_, i) => [
    Math.floor((i * size) / out),
    Math.ceil(((i + 1) * size) / out),
  ]);
}

const adaptive =
  (spatial: number, op: 'ReduceMean' | 'ReduceMax', withIndices = false): Rule =>
  (c, a) => {
    const own = floating(c, a.v('x'));
    const wanted = adaptiveSizes(a, spatial);
    const made = batched(c, own, spatial, (x) => adaptivePool(c, x, wanted, op));
    const indices: Py = null;
    return withIndices ? new Tuple([c.tensor(made), indices]) : made;
  };

function adaptiveSizes(a: Args, spatial: number): (number | null)[] {
  const value = a.raw('size');
  if (typeof value === 'number') return new Array<number>(spatial).fill(value);
  return a.ns('size', spatial);
}

function adaptivePool(
  c: Context,
  x: Value,
  wanted: readonly (number | null)[],
  op: 'ReduceMean' | 'ReduceMax',
): Value {
  const axes = wanted.map((_, i) => i + 2);
  if (wanted.every((size) => size === 1)) return reduce(c, op, x, axes, true);
  const sizes = axes.map((axis) => c.fixed(c.sizeOf(x, axis), 'size to pool'));
  const outs = wanted.map((size, i) => size ?? (sizes[i] as number));
  if (outs.some((out) => out < 1 || out > 2 ** 16)) refuse('has an impossible size');
  if (outs.every((out, i) => out === sizes[i])) return x;
  if (outs.every((out, i) => (sizes[i] as number) % out === 0)) {
    const kernel = outs.map((out, i) => (sizes[i] as number) / out);
    return c.one(op === 'ReduceMean' ? 'AveragePool' : 'MaxPool', [x], {
      kernel_shape: kernel,
      strides: kernel,
    });
  }
  // The windows of one axis do not depend on the others, so the axes are pooled one after the other.
  return outs.reduce((value, out, i) => {
    if (out === sizes[i]) return value;
    const parts = adaptiveWindows(sizes[i] as number, out).map(([start, end]) =>
      reduce(c, op, cut(c, value, i + 2, start, end), [i + 2], true),
    );
    return concat(c, parts, i + 2);
  }, x);
}

export const POOLING: Table = each((n) => ({
  [`max_pool${n}d(Tensor x, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool ceil_mode=False)`]:
    maxPool(n),
  [`max_pool${n}d_with_indices(Tensor x, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool ceil_mode=False)`]:
    maxPool(n, true),
  [`avg_pool${n}d(Tensor x, int[] kernel_size, int[]? stride=None, int[] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor=None)`]:
    avgPool(n),
  [`adaptive_avg_pool${n}d(Tensor x, int[] size)`]: adaptive(n, 'ReduceMean'),
  [`adaptive_max_pool${n}d(Tensor x, int[] size)`]: adaptive(n, 'ReduceMax', true),
}));
