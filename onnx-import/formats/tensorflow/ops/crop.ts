/**
 * Converts CropAndResize: boxes [y1, x1, y2, x2] between 0 and 1 are cut out of a batch of images. It uses
 * TensorFlow's formula in small operations, because ONNX's RoiAlign samples other points.
 */
import { compute, FORMULAS } from '../../../emit/formula.ts';
import { pick, unsqueeze } from '../../../emit/gather.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import type { Value } from '../../../graph/value.ts';
import { floatAttribute, textAttribute } from '../graph.ts';
import { sizeOf } from './dims.ts';
import { cast, int64 } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

/** The sample positions along one axis in pixels: [boxes, count]. */
function samples(g: GraphBuilder, boxes: Value, axis: 0 | 1, last: Value, count: number): Value {
  const low = unsqueeze(g, pick(g, boxes, axis, 1), [1]);
  const high = unsqueeze(g, pick(g, boxes, axis + 2, 1), [1]);
  if (count === 1) return compute(g, '(low + high) * 0.5 * last', { low, high, last });
  const numbers = Float32Array.from({ length: count }, (_, i) => i);
  const steps = g.floats(numbers, [1, count]);
  const text = 'low * last + steps * ((high - low) * last / gaps)';
  return compute(g, text, { low, high, last, steps, gaps: count - 1 });
}

/** The size of an image axis minus 1, as float32. */
function lastPixel(g: GraphBuilder, x: Value, axis: number): Value {
  const size = sizeOf(g, x, axis);
  if (typeof size === 'number') return g.scalar('float32', size - 1);
  return compute(g, 'size - 1', { size: cast(g, size, 'float32') });
}

interface Grid {
  readonly x: Value;
  readonly boxIndex: Value;
  readonly rows: Value;
  readonly columns: Value;
}

/** image[boxIndex, row, column] for every row and column: [boxes, height, width, channels]. */
function at(g: GraphBuilder, { x, boxIndex, rows, columns }: Grid): Value {
  const [b, r, c] = [unsqueeze(g, boxIndex, [1, 2]), unsqueeze(g, rows, [2]), unsqueeze(g, columns, [1])];
  const shape = g.one('Shape', [g.one('Add', [r, c])]);
  const index = [b, r, c].map((part) => unsqueeze(g, g.one('Expand', [part, shape]), [3]));
  return g.one('GatherND', [x, g.one('Concat', index, { axis: 3 })]);
}

function inside(g: GraphBuilder, place: Value, last: Value): Value {
  return compute(g, 'And(place >= 0, place <= last)', { place, last });
}

function pixels(g: GraphBuilder, place: Value, last: Value): Value {
  return cast(g, compute(g, 'Clip(place, 0, last)', { place, last }), 'int64');
}

const cropAndResize: Rule = (node, [image, boxes, boxIndex, size], g) => {
  const [height, width] = constantNumbers(size, 'crop size');
  if (!height || !width || height < 1 || width < 1) return refuse('needs a crop size of two numbers');
  const method = textAttribute(node, 'method', 'bilinear');
  if (method !== 'bilinear' && method !== 'nearest')
    refuse(`needs method bilinear or nearest, got ${method}`);
  const x = cast(g, image, 'float32');
  const [bottom, right] = [lastPixel(g, x, 1), lastPixel(g, x, 2)];
  const [ys, xs] = [samples(g, boxes, 0, bottom, height), samples(g, boxes, 1, right, width)];
  const index = int64(g, boxIndex);
  const rounded = (place: Value) => compute(g, FORMULAS.halfUp, { x: place });
  const value =
    method === 'nearest'
      ? at(g, {
          x,
          boxIndex: index,
          rows: pixels(g, rounded(ys), bottom),
          columns: pixels(g, rounded(xs), right),
        })
      : interpolate(g, x, index, { ys, xs, bottom, right });
  const valid = g.one('And', [
    unsqueeze(g, inside(g, ys, bottom), [2, 3]),
    unsqueeze(g, inside(g, xs, right), [1, 3]),
  ]);
  const outside = g.scalar('float32', floatAttribute(node, 'extrapolation_value', 0));
  return g.one('Where', [valid, value, outside], {}, node.name);
};

function interpolate(
  g: GraphBuilder,
  x: Value,
  boxIndex: Value,
  { ys, xs, bottom, right }: { ys: Value; xs: Value; bottom: Value; right: Value },
): Value {
  const [top, low] = [g.one('Floor', [ys]), g.one('Floor', [xs])];
  const rows = [pixels(g, top, bottom), pixels(g, g.one('Ceil', [ys]), bottom)] as const;
  const columns = [pixels(g, low, right), pixels(g, g.one('Ceil', [xs]), right)] as const;
  const down = unsqueeze(g, g.one('Sub', [ys, top]), [2, 3]);
  const along = unsqueeze(g, g.one('Sub', [xs, low]), [1, 3]);
  const lines = rows.map((row) => {
    const [a, b] = columns.map((column) => at(g, { x, boxIndex, rows: row, columns: column })) as [
      Value,
      Value,
    ];
    return mix(g, a, b, along);
  }) as [Value, Value];
  return mix(g, lines[0], lines[1], down);
}

function mix(g: GraphBuilder, a: Value, b: Value, share: Value): Value {
  return compute(g, 'a + (b - a) * share', { a, b, share });
}

export const CROP: OpTable = takes(4, { CropAndResize: cropAndResize });
