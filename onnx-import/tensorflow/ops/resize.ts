/**
 * Resizes channels-last images to exactly TensorFlow's pixels. Three rules place the pixels (old, align_corners,
 * half_pixel_centers), and float32 rounding decides which is nearest, so for fixed sizes the nearest pixels and the
 * cubic weights are computed here.
 */
import { cutAlong } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, type TfNode } from '../graph.ts';
import { reshape, type Size, shapeList, sizeOf } from './dims.ts';
import { cast, emit, int64 } from './kernels.ts';
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

function scaleOf(from: number, to: number, { corners }: Placing): number {
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

/** The input pixel that each output pixel takes. */
function nearestPixels(from: number, to: number, placing: Placing): number[] {
  const scale = scaleOf(from, to, placing);
  return Array.from({ length: to }, (_, i) => {
    const at = fround((placing.centers ? fround(i + 0.5) : i) * scale);
    return Math.max(0, Math.min(placing.corners ? Math.floor(at + 0.5) : Math.floor(at), from - 1));
  });
}

const nearest: Rule = (node, [input, size], g, { layouts }) => {
  const x = image(input);
  const placing = placingOf(node);
  const wanted = wantedOf(g, size);
  const sizes = [sizeOf(g, x, 1), sizeOf(g, x, 2)] as const;
  if (![...wanted, ...sizes].every((part) => typeof part === 'number'))
    return byOnnx(g, node, x, wanted, layouts, placing, {
      mode: 'nearest',
      nearest_mode: placing.corners || placing.centers ? 'round_prefer_ceil' : 'floor',
    });
  // Gather copies whole rows and pixels, which Resize does not (3 ms instead of 22).
  return wanted.reduce<Value>((value, to, i) => {
    if ((to as number) < 1 || (to as number) > MAX_WEIGHTS) refuse(`resizes to ${to as number} pixels`);
    const pixels = nearestPixels(sizes[i] as number, to as number, placing);
    if (pixels.every((pixel, at) => pixel === at) && pixels.length === sizes[i]) return value;
    return g.one('Gather', [value, g.ints(pixels)], { axis: i + 1 }, node.name);
  }, x);
};

function byOnnx(
  g: GraphBuilder,
  node: TfNode,
  x: Value,
  [height, width]: readonly [Size, Size],
  layouts: Layouts,
  { corners, centers }: Placing,
  attributes: Record<string, string | number | { float: number }>,
): Value {
  const coordinates = corners ? 'align_corners' : centers ? 'half_pixel' : 'asymmetric';
  const all = { coordinate_transformation_mode: coordinates, ...attributes };
  const pair = layouts.pair(x);
  const outer = [sizeOf(g, x, 0), sizeOf(g, x, 3)] as const;
  const sizes = pair ? [...outer, height, width] : [outer[0], height, width, outer[1]];
  const made = emit(g, 'Resize', [pair ?? x, undefined, undefined, shapeList(g, sizes)], all, node.name);
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
  return byOnnx(g, node, x, wantedOf(g, size), layouts, placing, { mode: 'linear' });
}

const bilinear: Rule = (node, [input, size], g, { layouts }) =>
  resizeLinear(node, input, size, g, layouts, placingOf(node));

/** Returns one row per output pixel with the weight of each input pixel. */
type Weights = (from: number, to: number, placing: Placing) => Float32Array;

function put(weights: Float32Array, at: number, value: number): void {
  weights[at] = fround((weights[at] as number) + value);
}

const TABLE = 1024;

/** The four cubic weights, from a table with 1,024 entries as in TensorFlow. */
function cubicAt(fraction: number, a: number): [number, number, number, number] {
  const near = (x: number) => ((a + 2) * x - (a + 3)) * x * x + 1;
  const far = (x: number) => ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  const x = evenRound(fraction * TABLE) / TABLE;
  return [far(x + 1), near(x), near(1 - x), far(2 - x)];
}

function evenRound(value: number): number {
  const low = Math.floor(value);
  const rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}

const cubicWeights: Weights = (from, to, placing) => {
  const weights = new Float32Array(from * to);
  const scale = scaleOf(from, to, placing);
  for (let i = 0; i < to; i++) {
    const at = placing.centers ? fround(fround(fround(i + 0.5) * scale) - 0.5) : fround(i * scale);
    const low = Math.floor(at);
    const parts = cubicAt(at - low, placing.centers ? -0.5 : -0.75);
    const inside = parts.map((part, k) => {
      const pixel = low - 1 + k;
      return placing.centers && (pixel < 0 || pixel >= from) ? 0 : part;
    });
    // Half-pixel centers ignore pixels outside the image; the old rule repeats the border.
    const sum = placing.centers ? inside.reduce((a, b) => a + b, 0) : 1;
    for (const [k, part] of inside.entries()) {
      const pixel = Math.max(0, Math.min(low - 1 + k, from - 1));
      put(weights, i * from + pixel, part / (Math.abs(sum) >= 1000 * 1.1754944e-38 ? sum : 1));
    }
  }
  return weights;
};

/** Weighs each pixel by its overlap with the output pixel. */
const areaWeights: Weights = (from, to, placing) => {
  const weights = new Float32Array(from * to);
  const scale = scaleOf(from, to, placing);
  for (let i = 0; i < to; i++) {
    const [start, end] = [fround(i * scale), fround((i + 1) * scale)];
    for (let k = Math.floor(start); k < Math.ceil(end); k++) {
      const share = (Math.min(k + 1, end) - Math.max(k, start)) / scale;
      put(weights, i * from + Math.max(0, Math.min(k, from - 1)), share);
    }
  }
  return weights;
};

/** Resizes both axes as products with weight matrices. `weightsOf` gets axis 0 (rows) or 1 (columns). */
export function multiplyAxes(
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

function byWeights(weightsOf: Weights): Rule {
  return (node, [input, size], g) => {
    const placing = placingOf(node);
    return multiplyAxes(node, cast(g, input, 'float32'), size, g, (_axis, from, to) =>
      weightsOf(from, to, placing),
    );
  };
}

export const RESIZE: OpTable = takes(2, {
  ResizeArea: byWeights(areaWeights),
  ResizeBicubic: byWeights(cubicWeights),
  ResizeBilinear: bilinear,
  ResizeNearestNeighbor: nearest,
});
