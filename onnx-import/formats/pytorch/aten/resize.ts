/** Reads how torch resizes. */
import { type Interpolation, MAX_SIDE, pickPixels, resize } from '../../../emit/resize.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { Float, itemsOf, refuse } from '../run/values.ts';
import type { Args, Rule, Table } from './schema.ts';

const { fround } = Math;

interface Resizing {
  readonly from: readonly number[];
  readonly to: readonly number[];
  /** What the caller gave: torch places pixels by it, also where the size was rounded. */
  readonly scales: readonly (number | undefined)[];
}

/** The scales: one argument each, or a list. */
function scalesOf(a: Args, spatial: number): (number | undefined)[] {
  const list = itemsOf(a.raw('scale_factors'));
  if (list)
    return list.map((item) =>
      item instanceof Float ? item.value : typeof item === 'number' ? item : undefined,
    );
  return ['scale_1', 'scale_2', 'scale_3']
    .slice(0, spatial)
    .map((name) => (a.isSet(name) ? a.float(name) : undefined));
}

function resizing(c: Context, a: Args, x: Value, spatial: number): Resizing {
  if (x.shape?.length !== spatial + 2) refuse(`needs ${spatial + 2} dimensions`);
  const from = Array.from({ length: spatial }, (_, i) => c.fixed(c.sizeOf(x, i + 2), 'size to resize'));
  const scales = scalesOf(a, spatial);
  const to = a.isSet('size')
    ? a.ns('size', spatial)
    : from.map((size, i) => Math.floor(size * (scales[i] ?? refuse('has neither a size nor scales'))));
  for (const size of to) if (!(size >= 1 && size <= MAX_SIDE)) refuse(`resizes to ${size} pixels`);
  return { from, to, scales };
}

const nearest =
  (spatial: number, exact = false): Rule =>
  (c, a) => {
    const x = a.v('x');
    const { from, to, scales } = resizing(c, a, x, spatial);
    return to.reduce<Value>((value, size, i) => {
      const [own, given] = [from[i] as number, scales[i]];
      const step = given === undefined || given <= 0 ? fround(own / size) : fround(1 / given);
      const axis = { axis: i + 2, from: own, to: size, scale: size / own, step };
      return pickPixels(c, value, axis, exact ? 'tf_half_pixel_for_nn' : 'asymmetric', 'floor');
    }, x);
  };

const smooth =
  (spatial: number, mode: 'linear' | 'cubic'): Rule =>
  (c, a) => {
    const x = a.v('x');
    const { from, to, scales } = resizing(c, a, x, spatial);
    if (from.every((size, i) => size === to[i] && (scales[i] ?? 1) === 1)) return x;
    const corners = a.bool('align_corners');
    const how: Interpolation = { mode, coordinates: corners ? 'align_corners' : 'half_pixel', cube: -0.75 };
    // Only with a scale of its own do the pixels differ from those that the sizes give.
    const isGiven =
      !corners &&
      scales.some((scale, i) => scale !== undefined && scale !== (to[i] as number) / (from[i] as number));
    if (isGiven) {
      const factors = to.map((size, i) => scales[i] ?? size / (from[i] as number));
      const made = resize(c, x, [1, 1, ...factors], how);
      if (made.shape?.slice(2).some((size, i) => size !== to[i]))
        refuse('rounds its size in a way that ONNX does not');
      return made;
    }
    const sizes = [c.sizeOf(x, 0), c.sizeOf(x, 1), ...to];
    return c.shaped(resize(c, x, c.sizes.list(c.g, sizes), how), sizes);
  };

const gridSample: Rule = (c, a) => {
  const x = a.v('x');
  if (x.shape?.length !== 4) refuse('needs 4 dimensions');
  const mode = ['bilinear', 'nearest', 'bicubic'][a.n('mode')] ?? refuse('has an unknown mode');
  const padding = ['zeros', 'border', 'reflection'][a.n('padding')] ?? refuse('has an unknown padding');
  const attributes = { mode, padding_mode: padding, align_corners: a.bool('align_corners') ? 1 : 0 };
  const grid = a.v('grid');
  const sizes = [c.sizeOf(x, 0), c.sizeOf(x, 1), c.sizeOf(grid, 1), c.sizeOf(grid, 2)];
  return c.shaped(c.one('GridSample', [x, grid], attributes), sizes);
};

const SCALES = 'float? scale_1=None, float? scale_2=None, float? scale_3=None';

function both(name: string, corners: string): string {
  const own = corners === '' ? '' : `, bool ${corners}`;
  return `${name}(Tensor x, int[]? size${own}, float[]? scale_factors) | ${name}(Tensor x, int[] size${own}, ${SCALES})`;
}

export const RESIZE: Table = {
  ...Object.fromEntries([1, 2, 3].map((n) => [both(`upsample_nearest${n}d`, ''), nearest(n)] as const)),
  ...Object.fromEntries(
    [1, 2, 3].map((n) => [both(`_upsample_nearest_exact${n}d`, ''), nearest(n, true)] as const),
  ),
  [both('upsample_linear1d', 'align_corners')]: smooth(1, 'linear'),
  [both('upsample_bilinear2d', 'align_corners')]: smooth(2, 'linear'),
  [both('upsample_trilinear3d', 'align_corners')]: smooth(3, 'linear'),
  [both('upsample_bicubic2d', 'align_corners')]: smooth(2, 'cubic'),
  'grid_sampler(Tensor x, Tensor grid, int mode, int padding, bool align_corners)': gridSample,
};
