/**
 * Interpolation. With fixed sizes the nearest pixels are computed here, and for what onnxruntime does not resize also
 * the weights of each pixel: float32 rounding decides which pixel is nearest.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { axisOf, fixed, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { isFloat, scalar } from './elementwise.ts';

const { fround } = Math;
const COORDINATES = [
  'half_pixel',
  'pytorch_half_pixel',
  'asymmetric',
  'tf_half_pixel_for_nn',
  'align_corners',
] as const;
const NEAREST = ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil', 'simple'] as const;
const MODES = ['nearest', 'linear', 'linear_onnx', 'cubic'] as const;

export interface Resizing {
  readonly mode: (typeof MODES)[number];
  readonly coordinates: (typeof COORDINATES)[number];
  readonly nearest: (typeof NEAREST)[number];
  readonly antialias: boolean;
  readonly cube: number;
}

interface Axis {
  readonly axis: number;
  readonly from: number;
  readonly to: number;
  /** Output pixels for each input pixel. */
  readonly scale: number;
}

/** The most weights of one axis. */
const MAX_WEIGHTS = 2 ** 26;

const interpolate: Rule = (node) => {
  const isFirst = node.inputs.length === 2 && node.has('axes');
  const how: Resizing = isFirst ? firstVersion(node) : versionFour(node);
  const x = padded(node, node.input(0));
  const rank = known(x).length;
  const given = (i: number) => {
    const value = node.optional(i);
    return value && constantNumbers(value, 'sizes, scales and axes');
  };
  const isEleventh = node.opset >= 11;
  const sizesOrScales = given(1) ?? [];
  if (isFirst) return resized(node, x, axesFor(x, node.numbers('axes'), sizesOrScales, undefined), how);
  const scales = isEleventh ? sizesOrScales : (given(2) ?? []);
  const listed = given(isEleventh ? 2 : 3) ?? Array.from({ length: rank }, (_, i) => i);
  const isBySizes = node.choice('shape_calculation_mode', ['sizes', 'scales']) === 'sizes';
  return resized(
    node,
    x,
    axesFor(x, listed, isBySizes ? sizesOrScales : undefined, isBySizes ? undefined : scales),
    how,
  );
};

function versionFour(node: OvNode): Resizing {
  return {
    mode: node.choice('mode', MODES),
    coordinates: node.choice('coordinate_transformation_mode', COORDINATES, 'half_pixel'),
    nearest: node.choice('nearest_mode', NEAREST, 'round_prefer_floor'),
    antialias: node.flag('antialias', false),
    cube: node.number('cube_coeff', -0.75),
  };
}

function firstVersion(node: OvNode): Resizing {
  const mode = node.choice('mode', MODES);
  const corners = node.flag('align_corners', true);
  return {
    mode: mode === 'linear' ? 'linear_onnx' : mode,
    coordinates: corners ? 'align_corners' : 'asymmetric',
    nearest: 'simple',
    antialias: node.flag('antialias', false),
    cube: -0.75,
  };
}

function padded(node: OvNode, x: Value): Value {
  const rank = known(x).length;
  const of = (name: string) => {
    const pads = node.numbers(name, []);
    if (pads.length > rank) throw badModel(`${name} has ${pads.length} numbers for ${rank} axes`);
    return Array.from({ length: rank }, (_, i) => pads[i] ?? 0);
  };
  const pads = [...of('pads_begin'), ...of('pads_end')];
  return pads.every((pad) => pad === 0) ? x : node.g.one('Pad', [x, node.g.ints(pads), scalar(node, x, 0)]);
}

/** The axes that change. */
function axesFor(
  x: Value,
  listed: readonly number[],
  sizes: readonly number[] | undefined,
  scales: readonly number[] | undefined,
): Axis[] {
  const rank = known(x).length;
  return listed.flatMap((each, i) => {
    const axis = axisOf(each, rank);
    const dim = known(x)[axis];
    const wanted = sizes?.[i];
    const given = fround(scales?.[i] ?? 1);
    if (wanted === undefined && scales?.[i] === undefined) throw badModel(`has no size for axis ${axis}`);
    if (typeof dim === 'string' && (given === 1 ? wanted === undefined || wanted === 1 : false)) return [];
    const from = fixed(x, axis);
    const to = wanted ?? Math.floor(fround(from * given + 1e-5));
    if (!Number.isSafeInteger(to) || to < 1 || from < 1 || to * from > MAX_WEIGHTS)
      throw badModel(`resizes ${from} to ${to}`);
    const scale = wanted === undefined ? given : fround(to / from);
    return from === to && scale === 1 ? [] : [{ axis, from, to, scale }];
  });
}

export function resized(node: OvNode, x: Value, axes: readonly Axis[], how: Resizing): Value {
  if (axes.length === 0) return node.one('Identity', [x]);
  if (how.mode === 'nearest') return axes.reduce((value, axis) => nearest(node, value, axis, how), x);
  if (!isFloat(x)) throw badModel(`resizes ${x.dtype} by ${how.mode}, which is not supported`);
  if (how.antialias && axes.some(({ scale }) => scale < 1))
    throw badModel('antialias is not supported where a picture shrinks');
  const isPlane = known(x).length === 4 && axes.every(({ axis }) => axis >= 2);
  const isOwn = how.coordinates === 'tf_half_pixel_for_nn' || !isPlane;
  return isOwn
    ? axes.reduce((value, axis) => weighted(node, value, axis, how), x)
    : byOnnx(node, x, axes, how);
}

export function sizesFor(x: Value, sizes: ReadonlyMap<number, number>): Axis[] {
  return axesFor(x, [...sizes.keys()], [...sizes.values()], undefined);
}

function byOnnx(node: OvNode, x: Value, axes: readonly Axis[], how: Resizing): Value {
  const scales = known(x).map((_, i) => axes.find(({ axis }) => axis === i)?.scale ?? 1);
  const attributes = {
    mode: how.mode === 'cubic' ? 'cubic' : 'linear',
    coordinate_transformation_mode: how.coordinates,
    ...(how.mode === 'cubic' ? { cubic_coeff_a: { float: how.cube } } : {}),
  };
  const shape = known(x).map((dim, i) => axes.find(({ axis }) => axis === i)?.to ?? dim);
  const results = [{ dtype: x.dtype, shape }];
  const options = { hint: node.hint, results };
  // By sizes onnxruntime computes the scale itself, as OpenVINO does; a given scale is kept.
  const isExact = axes.every(({ from, to, scale }) => fround(to / from) === scale);
  const isStatic = shape.every((dim) => typeof dim === 'number');
  if (isExact && isStatic)
    return node.g.add(
      'Resize',
      [x, undefined, undefined, node.g.ints(shape)],
      attributes,
      options,
    )[0] as Value;
  const isCounted = axes.every(({ from, to, scale }) => Math.floor(fround(from * scale)) === to);
  if (!isCounted) throw badModel('has a scale that onnxruntime rounds to another size');
  return node.g.add('Resize', [x, undefined, node.g.floats(scales)], attributes, options)[0] as Value;
}

/** The place in the input of an output pixel. */
function placeOf(i: number, { from, to, scale }: Axis, { coordinates }: Resizing): number {
  if (scale === 1 || from === to) return i;
  switch (coordinates) {
    case 'align_corners':
      return to === 1 ? 0 : fround(fround(i * fround(from - 1)) / fround(to - 1));
    case 'asymmetric':
      return fround(i / scale);
    case 'tf_half_pixel_for_nn':
      return fround(fround(i + 0.5) / scale);
    case 'pytorch_half_pixel':
      return to > 1 ? fround(fround(fround(i + 0.5) / scale) - 0.5) : 0;
    default:
      return fround(fround(fround(i + 0.5) / scale) - 0.5);
  }
}

function nearestPixel(place: number, { scale }: Axis, how: Resizing): number {
  switch (how.nearest) {
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

function nearest(node: OvNode, x: Value, axis: Axis, how: Resizing): Value {
  const pixels = Array.from({ length: axis.to }, (_, i) =>
    Math.min(Math.max(nearestPixel(placeOf(i, axis, how), axis, how), 0), axis.from - 1),
  );
  return node.one('Gather', [x, node.g.ints(pixels)], { axis: axis.axis });
}

/** The weights [from, to] of each input pixel in each output pixel. */
function weightsOf(axis: Axis, how: Resizing): Float32Array {
  const { from, to } = axis;
  const weights = new Float32Array(from * to);
  for (let i = 0; i < to; i++) {
    const place = placeOf(i, axis, how);
    const start = Math.floor(place);
    const part = place - start;
    const taps = how.mode === 'cubic' ? cubic(part, how.cube) : [0, 1 - part, part, 0];
    for (const [k, weight] of taps.entries()) {
      const pixel = Math.min(Math.max(start - 1 + k, 0), from - 1);
      weights[pixel * to + i] = (weights[pixel * to + i] as number) + weight;
    }
  }
  return weights;
}

function cubic(part: number, a: number): number[] {
  const near = (d: number) => (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1;
  const far = (d: number) => a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a;
  return [far(1 + part), near(part), near(1 - part), far(2 - part)];
}

function weighted(node: OvNode, x: Value, axis: Axis, how: Resizing): Value {
  const { g } = node;
  const weights = g.floats(weightsOf(axis, how), [axis.from, axis.to], 'weights');
  const last = known(x).length - 1;
  if (axis.axis === last) return node.one('MatMul', [x, cast(node, weights, x.dtype)]);
  const perm = Array.from({ length: last + 1 }, (_, i) =>
    i === axis.axis ? last : i === last ? axis.axis : i,
  );
  const turned = g.one('MatMul', [g.one('Transpose', [x], { perm }), cast(node, weights, x.dtype)]);
  return node.one('Transpose', [turned], { perm });
}

export const RESIZINGS: OpTable = { Interpolate: interpolate };
