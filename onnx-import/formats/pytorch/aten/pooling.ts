/** Pooling over 1 to 3 spatial axes. */
import { adaptivePool, averagePool, maxPool } from '../../../emit/pooling.ts';
import type { Windows } from '../../../emit/windows.ts';
import type { Value } from '../../../graph/value.ts';
import { product } from '../run/sizes.ts';
import { type Py, Tuple } from '../run/values.ts';
import { batched, each } from './convolution.ts';
import type { Args, Rule, Table } from './schema.ts';
import { floating } from './types.ts';

function windowsOf(a: Args, spatial: number, hasDilation: boolean): Windows {
  const kernel = a.ns('kernel_size', spatial);
  const given = a.isSet('stride') ? a.ns('stride', spatial) : [];
  const pads = a.ns('padding', spatial);
  return {
    kernel,
    strides: given.length === 0 ? kernel : given,
    ...(hasDilation ? { dilations: a.ns('dilation', spatial) } : {}),
    pads: [...pads, ...pads],
    ceil: a.bool('ceil_mode'),
    drops: 'always',
  };
}

const maxima =
  (spatial: number, withIndices = false): Rule =>
  (c, a) => {
    const windows = windowsOf(a, spatial, true);
    const x = floating(c, a.v('x'));
    if (!withIndices) return batched(c, x, spatial, (own) => maxPool(c, own, windows)[0] as Value);
    const [values, places] = maxPool(c, x, windows, 2) as [Value, Value];
    // Torch counts within a plane, ONNX over all.
    const plane = product(c.shapeOf(x).slice(2));
    return c.tuple([values, c.one('Mod', [places, c.sizes.value(c.g, plane)])]);
  };

const averages =
  (spatial: number): Rule =>
  (c, a) => {
    const windows = windowsOf(a, spatial, false);
    const x = floating(c, a.v('x'));
    const divisor = a.isSet('divisor') ? a.n('divisor') : undefined;
    const counted = divisor !== undefined ? 'whole' : a.bool('count_include_pad') ? 'padded' : 'inside';
    return batched(c, x, spatial, (own) => {
      if (windows.ceil) for (const size of c.shapeOf(own).slice(2)) c.fixed(size, 'size to pool');
      const made = averagePool(c, own, windows, counted);
      if (divisor === undefined) return made;
      const area = windows.kernel.reduce((one, other) => one * other, 1);
      return c.one('Mul', [made, c.g.scalar(x.dtype, area / divisor)]);
    });
  };

const adaptive =
  (spatial: number, op: 'ReduceMean' | 'ReduceMax', withIndices = false): Rule =>
  (c, a) => {
    const own = floating(c, a.v('x'));
    const wanted = adaptiveSizes(a, spatial);
    const made = batched(c, own, spatial, (x) => {
      if (wanted.some((size) => size !== 1))
        for (const size of c.shapeOf(x).slice(2)) c.fixed(size, 'size to pool');
      return adaptivePool(c, x, op, wanted);
    });
    const indices: Py = null;
    return withIndices ? new Tuple([c.tensor(made), indices]) : made;
  };

function adaptiveSizes(a: Args, spatial: number): (number | null)[] {
  const value = a.raw('size');
  if (typeof value === 'number') return new Array<number>(spatial).fill(value);
  return a.ns('size', spatial);
}

export const POOLING: Table = each((n) => ({
  [`max_pool${n}d(Tensor x, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool ceil_mode=False)`]:
    maxima(n),
  [`max_pool${n}d_with_indices(Tensor x, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool ceil_mode=False)`]:
    maxima(n, true),
  [`avg_pool${n}d(Tensor x, int[] kernel_size, int[]? stride=None, int[] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor=None)`]:
    averages(n),
  [`adaptive_avg_pool${n}d(Tensor x, int[] size) | _adaptive_avg_pool${n}d(Tensor x, int[] size)`]: adaptive(
    n,
    'ReduceMean',
  ),
  [`adaptive_max_pool${n}d(Tensor x, int[] size)`]: adaptive(n, 'ReduceMax', true),
}));
