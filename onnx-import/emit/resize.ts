/**
 * Resizing. Sources differ in where an output pixel lies in the input, in how that place is rounded to a pixel, and in the
 * float32 arithmetic of both, which decides between two pixels. So nearest pixels are picked by index; all else is ONNX's
 * Resize, or a product with the weights of each pixel (pixel-weights.ts).
 */
import { badModel } from '../../lib/contract/errors.ts';
import { type Maker, named } from '../graph/layout.ts';
import { tensorOf } from '../graph/numbers.ts';
import { known } from '../graph/shapes.ts';
import type { Attributes, Dim, Shape, Value } from '../graph/value.ts';
import { linearWeights } from './pixel-weights.ts';

const { fround } = Math;

export const COORDINATES = [
  'half_pixel',
  'pytorch_half_pixel',
  'asymmetric',
  'tf_half_pixel_for_nn',
  'align_corners',
] as const;
export type Coordinates = (typeof COORDINATES)[number];

export const NEAREST = ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil', 'simple'] as const;
/** `simple` rounds up when shrinking, else down. */
export type Nearest = (typeof NEAREST)[number];

/** One axis and its sizes before and after. */
export interface Axis {
  readonly axis: number;
  readonly from: number;
  readonly to: number;
  /** Output pixels for each input pixel. */
  readonly scale: number;
  /** Input pixels for each output pixel, for sources that multiply by it: dividing by `scale` rounds differently. */
  readonly step?: number;
}

/** Larger sides are an error in the file. */
export const MAX_SIDE = 2 ** 16;

/** @throws bad_model for sizes that no image has */
export function assertSides(sides: readonly number[]): void {
  if (!sides.every((size) => Number.isInteger(size) && size >= 1 && size <= MAX_SIDE))
    throw badModel(`cannot resize to ${sides.join('x')}`);
}

/** The place in the input of an output pixel. */
function placeOf(i: number, { from, to, scale, step }: Axis, coordinates: Coordinates): number {
  if (step === undefined && (scale === 1 || from === to)) return i;
  const move = (pixels: number) => fround(step === undefined ? pixels / scale : pixels * step);
  switch (coordinates) {
    case 'align_corners':
      return to === 1 ? 0 : fround(fround(i * fround(from - 1)) / fround(to - 1));
    case 'asymmetric':
      return move(i);
    case 'tf_half_pixel_for_nn':
      return move(fround(i + 0.5));
    case 'pytorch_half_pixel':
      return to > 1 ? fround(move(fround(i + 0.5)) - 0.5) : 0;
    default:
      return fround(move(fround(i + 0.5)) - 0.5);
  }
}

function nearestPixel(place: number, { scale }: Axis, nearest: Nearest): number {
  switch (nearest) {
    case 'floor':
      return Math.floor(place);
    case 'ceil':
      return Math.ceil(place);
    case 'round_prefer_ceil':
      return Math.floor(place + 0.5);
    case 'simple':
      return scale < 1 ? Math.ceil(place) : Math.floor(place);
    default:
      return Math.ceil(place - 0.5);
  }
}

/** Gather copies whole rows and pixels, which onnxruntime's Resize does not (3 ms instead of 22). */
export function pickPixels(
  node: Maker,
  x: Value,
  axis: Axis,
  coordinates: Coordinates,
  nearest: Nearest,
): Value {
  const pixels = Array.from({ length: axis.to }, (_, i) => {
    const pixel = nearestPixel(placeOf(i, axis, coordinates), axis, nearest);
    return Math.min(Math.max(pixel, 0), axis.from - 1);
  });
  if (axis.from === axis.to && pixels.every((pixel, i) => pixel === i)) return x;
  return node.one('Gather', [x, node.g.ints(pixels)], { axis: axis.axis });
}

/** Resizes one axis by weights of neighboring pixels. @param cube the coefficient of cubic weights; undefined: linear */
export function weighPixels(
  node: Maker,
  x: Value,
  axis: Axis,
  coordinates: Coordinates,
  cube: number | undefined,
): Value {
  const places = Array.from({ length: axis.to }, (_, i) => placeOf(i, axis, coordinates));
  const numbers = linearWeights(axis.from, places, cube);
  const weights = node.g.constant(tensorOf(x.dtype, [axis.from, axis.to], numbers), 'weights');
  const last = known(x).length - 1;
  if (axis.axis === last) return node.one('MatMul', [x, weights]);
  const perm = Array.from({ length: last + 1 }, (_, i) =>
    i === axis.axis ? last : i === last ? axis.axis : i,
  );
  const turned = node.g.one('MatMul', [node.g.one('Transpose', [x], { perm }), weights]);
  return node.one('Transpose', [turned], { perm });
}

/** What ONNX's Resize does between the pixels. */
export interface Interpolation {
  readonly mode: 'nearest' | 'linear' | 'cubic';
  readonly coordinates: Coordinates;
  readonly nearest?: Nearest;
  /** The coefficient of cubic weights. */
  readonly cube?: number;
}

/**
 * By sizes onnxruntime computes the scales itself; given scales are kept.
 * @param to a list of all sizes, or the scale of each axis
 * @param shape of the result, where inference does not find it
 */
export function resize(
  node: Maker,
  x: Value,
  to: Value | readonly number[],
  { mode, coordinates, nearest, cube }: Interpolation,
  shape?: Shape,
): Value {
  const isScaled = Array.isArray(to);
  const inputs = isScaled ? [x, undefined, node.g.floats(to)] : [x, undefined, undefined, to as Value];
  const attributes: Attributes = {
    mode,
    coordinate_transformation_mode: coordinates,
    ...(nearest ? { nearest_mode: nearest } : {}),
    ...(mode === 'cubic' && cube !== undefined ? { cubic_coeff_a: { float: cube } } : {}),
  };
  if (!shape) return node.one('Resize', inputs, attributes);
  const options = { ...named(node), results: [{ dtype: x.dtype, shape }] };
  return node.g.add('Resize', inputs, attributes, options)[0] as Value;
}

/** A list of all sizes, a free batch included, of N,C and this plane. */
export function planeSizes({ g }: Maker, x: Value, plane: readonly number[]): Value {
  const lead = g.one('Slice', [g.one('Shape', [x]), g.ints([0]), g.ints([2]), g.ints([0])]);
  return g.one('Concat', [lead, g.ints(plane)], { axis: 0 });
}

/** Resizes the plane of an N,C,H,W image. @throws bad_model for sizes that no image has */
export function resizePlane(
  node: Maker,
  x: Value,
  plane: readonly number[],
  coordinates: Coordinates,
): Value {
  assertSides(plane);
  const shape = [...known(x).slice(0, 2), ...plane];
  return resize(node, x, planeSizes(node, x, plane), { mode: 'linear', coordinates }, shape);
}

const REPEATED: Interpolation = { mode: 'nearest', coordinates: 'asymmetric', nearest: 'floor' };

/** Repeats each pixel along the axes of space. */
export function repeatPixels(node: Maker, x: Value, counts: readonly number[]): Value {
  if (!counts.every((count) => Number.isInteger(count) && count >= 1 && count <= MAX_SIDE))
    throw badModel(`repeats each element ${counts.join('x')} times`);
  const shape = known(x).map((dim, i): Dim => {
    const count = counts[i - 2];
    if (count === undefined) return dim;
    return typeof dim === 'number' ? dim * count : node.g.fresh();
  });
  return resize(node, x, [1, 1, ...counts], REPEATED, shape);
}
