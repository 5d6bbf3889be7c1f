/** Reads how Interpolate resizes, of all versions. */
import { badModel } from '../../../../lib/contract/errors.ts';
import {
  type Axis,
  COORDINATES,
  type Coordinates,
  NEAREST,
  type Nearest,
  pickPixels,
  resize,
  weighPixels,
} from '../../../emit/resize.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { axisOf, fixed, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { OpTable, OvNode, Rule } from '../node.ts';
import { isFloat, scalar } from './elementwise.ts';

const { fround } = Math;
const MODES = ['nearest', 'linear', 'linear_onnx', 'cubic'] as const;

export interface Resizing {
  readonly mode: (typeof MODES)[number];
  readonly coordinates: Coordinates;
  readonly nearest: Nearest;
  readonly antialias: boolean;
  readonly cube: number;
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
  if (how.mode === 'nearest')
    return axes.reduce((value, axis) => pickPixels(node, value, axis, how.coordinates, how.nearest), x);
  if (!isFloat(x)) throw badModel(`resizes ${x.dtype} by ${how.mode}, which is not supported`);
  if (how.antialias && axes.some(({ scale }) => scale < 1))
    throw badModel('antialias is not supported where a picture shrinks');
  const isPlane = known(x).length === 4 && axes.every(({ axis }) => axis >= 2);
  const cube = how.mode === 'cubic' ? how.cube : undefined;
  const isOwn = how.coordinates === 'tf_half_pixel_for_nn' || !isPlane;
  return isOwn
    ? axes.reduce((value, axis) => weighPixels(node, value, axis, how.coordinates, cube), x)
    : byOnnx(node, x, axes, how);
}

export function sizesFor(x: Value, sizes: ReadonlyMap<number, number>): Axis[] {
  return axesFor(x, [...sizes.keys()], [...sizes.values()], undefined);
}

function byOnnx(node: OvNode, x: Value, axes: readonly Axis[], how: Resizing): Value {
  const scales = known(x).map((_, i) => axes.find(({ axis }) => axis === i)?.scale ?? 1);
  const shape = known(x).map((dim, i) => axes.find(({ axis }) => axis === i)?.to ?? dim);
  const { coordinates, cube } = how;
  const between = { mode: how.mode === 'cubic' ? how.mode : 'linear', coordinates, cube } as const;
  // By sizes onnxruntime computes the scale itself, as OpenVINO does.
  const isExact = axes.every(({ from, to, scale }) => fround(to / from) === scale);
  if (isExact && shape.every((dim) => typeof dim === 'number'))
    return resize(node, x, node.g.ints(shape), between, shape);
  const isCounted = axes.every(({ from, to, scale }) => Math.floor(fround(from * scale)) === to);
  if (!isCounted) throw badModel('has a scale that onnxruntime rounds to another size');
  return resize(node, x, scales, between, shape);
}

export const RESIZINGS: OpTable = { Interpolate: interpolate };
