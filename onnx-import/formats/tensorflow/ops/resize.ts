/**
 * Reads how TensorFlow resizes channels-last images. Three rules place the pixels: the old one, align_corners and
 * half_pixel_centers.
 */
import { cutAlong } from '../../../emit/gather.ts';
import { areaWeights, filterWeights, tableWeights } from '../../../emit/pixel-weights.ts';
import { type Coordinates, type Interpolation, pickPixels, resize } from '../../../emit/resize.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { rank } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, type TfNode, textAttribute } from '../graph.ts';
import { reshape, type Size, shapeList, sizeOf } from './dims.ts';
import { cast, int64, makerOf } from './kernels.ts';
import type { Layouts } from './layout.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

const { fround } = Math;

/** Limits the weight matrix, which has one weight for each pair of an input and an output pixel. */
const MAX_WEIGHTS = 2 ** 26;

interface Placing {
  readonly corners: boolean;
  readonly centers: boolean;
}

function placingOf(node: TfNode): Placing {
  const corners = flagAttribute(node, 'align_corners', false);
  const centers = flagAttribute(node, 'half_pixel_centers', false);
  if (corners && centers) refuse('has both align_corners and half_pixel_centers');
  return { corners, centers };
}

/** Input pixels for each output pixel. */
function stepOf(from: number, to: number, { corners }: Placing): number {
  return corners && to > 1 ? fround((from - 1) / (to - 1)) : fround(from / to);
}

/** The output height and width: numbers, or lists with one element. */
function wantedOf(g: GraphBuilder, size: Value): [Size, Size] {
  const list = int64(g, size);
  const of = (i: number): Size => {
    const known = size.elements?.[i];
    return typeof known === 'number' ? known : cutAlong(g, list, 0, i, i + 1);
  };
  return [of(0), of(1)];
}

function image(x: Value): Value {
  if (x.shape && x.shape.length !== 4) refuse(`needs an image, got ${rank(x)} dimensions`);
  if (!x.shape) refuse('needs an image of known rank; give its shape with --input');
  return x;
}

const nearest: Rule = (node, [input, size], g, { layouts }) => {
  const x = image(input);
  const placing = placingOf(node);
  const wanted = wantedOf(g, size);
  const sizes = [sizeOf(g, x, 1), sizeOf(g, x, 2)] as const;
  if (![...wanted, ...sizes].every((part) => typeof part === 'number'))
    return byOnnx(g, node, x, wanted, layouts, {
      mode: 'nearest',
      coordinates: coordinatesOf(placing),
      nearest: placing.corners || placing.centers ? 'round_prefer_ceil' : 'floor',
    });
  return wanted.reduce<Value>((value, target, i) => {
    const [from, to] = [sizes[i] as number, target as number];
    if (to < 1 || to > MAX_WEIGHTS) refuse(`resizes to ${to} pixels`);
    const axis = { axis: i + 1, from, to, scale: to / from, step: stepOf(from, to, placing) };
    const coordinates = placing.centers ? 'tf_half_pixel_for_nn' : 'asymmetric';
    const rounding = placing.corners ? 'round_prefer_ceil' : 'floor';
    return pickPixels(makerOf(g, node.name), value, axis, coordinates, rounding);
  }, x);
};

function coordinatesOf({ corners, centers }: Placing): Coordinates {
  return corners ? 'align_corners' : centers ? 'half_pixel' : 'asymmetric';
}

function byOnnx(
  g: GraphBuilder,
  node: TfNode,
  x: Value,
  [height, width]: readonly [Size, Size],
  layouts: Layouts,
  how: Interpolation,
): Value {
  const pair = layouts.pair(x);
  const outer = [sizeOf(g, x, 0), sizeOf(g, x, 3)] as const;
  const sizes = pair ? [...outer, height, width] : [outer[0], height, width, outer[1]];
  const made = resize(makerOf(g, node.name), pair ?? x, shapeList(g, sizes), how);
  return pair ? layouts.last(g, made, node.name) : made;
}

/**
 * onnxruntime resizes both layouts linearly, so the pair is used: two transposes between convolutions would cost
 * more.
 */
export function resizeLinear(
  node: TfNode,
  input: Value,
  size: Value,
  g: GraphBuilder,
  layouts: Layouts,
  placing: Placing,
): Value {
  const x = cast(g, image(input), 'float32');
  return byOnnx(g, node, x, wantedOf(g, size), layouts, {
    mode: 'linear',
    coordinates: coordinatesOf(placing),
  });
}

const bilinear: Rule = (node, [input, size], g, { layouts }) =>
  resizeLinear(node, input, size, g, layouts, placingOf(node));

/** Resizes both axes as products with weight matrices. `weightsOf` gets axis 0 (rows) or 1 (columns). */
function multiplyAxes(
  node: TfNode,
  input: Value,
  size: Value,
  g: GraphBuilder,
  weightsOf: (axis: number, from: number, to: number) => Float32Array,
): Value {
  const x = image(input);
  const wanted = wantedOf(g, size);
  const [batch, , , channels] = [0, 1, 2, 3].map((axis) => sizeOf(g, x, axis)) as [Size, Size, Size, Size];
  const [rows, columns] = [0, 1].map((axis) => {
    const [from, to] = [x.shape?.[axis + 1], wanted[axis]];
    if (typeof from !== 'number' || typeof to !== 'number')
      return refuse('needs fixed image sizes; give them with --input');
    if (from < 1 || to < 1 || from * to > MAX_WEIGHTS) refuse(`resizes ${from} pixels to ${to}`);
    return g.constant({ dtype: 'float32', shape: [to, from], data: weightsOf(axis, from, to) });
  }) as [Value, Value];
  const [height, width] = [x.shape?.[1] as number, x.shape?.[2] as number];
  const flat = typeof channels === 'number' ? channels * width : -1;
  const tall = g.one('MatMul', [rows, reshape(g, x, [batch, height, flat])]);
  return g.one('MatMul', [columns, reshape(g, tall, [batch, wanted[0], width, channels])], {}, node.name);
}

function byWeights(
  weightsOf: (from: number, to: number, step: number, isCentered: boolean) => Float32Array,
): Rule {
  return (node, [input, size], g) => {
    const placing = placingOf(node);
    return multiplyAxes(node, cast(g, input, 'float32'), size, g, (_axis, from, to) =>
      weightsOf(from, to, stepOf(from, to, placing), placing.centers),
    );
  };
}

/** `tf.image.resize` with antialiasing and with other filters. */
const scaleAndTranslate: Rule = (node, [x, size, scale, move], g) => {
  const filter = textAttribute(node, 'kernel_type', 'lanczos3');
  const antialias = flagAttribute(node, 'antialias', true);
  const [scales, moves] = [constantNumbers(scale, 'scale'), constantNumbers(move, 'translation')];
  return multiplyAxes(node, cast(g, x, 'float32'), size, g, (axis, from, to) =>
    filterWeights(from, to, { filter, antialias, scale: scales[axis] ?? 1, move: moves[axis] ?? 0 }),
  );
};

export const RESIZE: OpTable = {
  ...takes(2, {
    ResizeArea: byWeights(areaWeights),
    ResizeBicubic: byWeights(tableWeights),
    ResizeBilinear: bilinear,
    ResizeNearestNeighbor: nearest,
  }),
  ...takes(4, { ScaleAndTranslate: scaleAndTranslate }),
};
