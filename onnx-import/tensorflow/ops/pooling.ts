/**
 * Converts pooling to MaxPool and AveragePool; V2 operations have their windows as constant inputs. TensorFlow's
 * average ignores padding.
 */
import { averagePool, maxPool } from '../../emit/pooling.ts';
import type { Windows } from '../../emit/windows.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { fixed, rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, listAttribute, type TfNode, typeAttribute } from '../graph.ts';
import { reshape, sizesOf } from './dims.ts';
import { cast, makerOf } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type Context, type OpTable, type Rule, takes } from './rule.ts';
import { channelsLast, paddingOf, spatial } from './windows.ts';

function imageOf(x: Value, size: number, g: GraphBuilder): Value {
  if (x.shape) return rank(x) === size ? x : refuse(`needs ${size} dimensions, got ${rank(x)}`);
  const shape = Array.from({ length: size }, g.fresh);
  return g.add('Identity', [x], {}, { results: [{ dtype: x.dtype, shape }], hint: x.name })[0] as Value;
}

function windowsOf(
  node: TfNode,
  kernel: readonly number[],
  strides: readonly number[],
  last = channelsLast(node),
): Windows {
  const size = kernel.length;
  return {
    kernel: spatial(kernel, last, 'kernel sizes', size),
    strides: spatial(strides, last, 'strides', size),
    pads: paddingOf(node, last, size),
  };
}

function pool(
  node: TfNode,
  g: GraphBuilder,
  context: Context,
  parts: { x: Value; kernel: readonly number[]; strides: readonly number[]; max: boolean },
): Value {
  const last = channelsLast(node);
  const windows = windowsOf(node, parts.kernel, parts.strides);
  const image = imageOf(parts.x, parts.kernel.length, g);
  const first = last ? context.layouts.first(g, image) : image;
  const own = makerOf(g, node.name);
  const made = parts.max
    ? (maxPool(own, first, windows)[0] as Value)
    : averagePool(own, first, windows, 'inside');
  return last ? context.layouts.last(g, made, node.name) : made;
}

function byAttributes(max: boolean): Rule {
  return (node, [x], g, context) =>
    pool(node, g, context, {
      x,
      kernel: listAttribute(node, 'ksize').ints,
      strides: listAttribute(node, 'strides').ints,
      max,
    });
}

function byInputs(max: boolean): Rule {
  return (node, [x, kernel, strides], g, context) =>
    pool(node, g, context, {
      x,
      kernel: constantNumbers(kernel, 'kernel size'),
      strides: constantNumbers(strides, 'strides'),
      max,
    });
}

/** ONNX numbers positions in (n, c, h, w), TensorFlow in (h, w, c), optionally with the batch. */
const maxPoolWithArgmax: Rule = (node, [input], g, context) => {
  const image = imageOf(input, 4, g);
  const [height, width, channels] = [fixed(image, 1), fixed(image, 2), fixed(image, 3)];
  const windows = windowsOf(
    node,
    listAttribute(node, 'ksize').ints,
    listAttribute(node, 'strides').ints,
    true,
  );
  const [max, at] = maxPool(makerOf(g, node.name), context.layouts.first(g, image), windows, 2) as [
    Value,
    Value,
  ];
  const place = g.one('Mod', [at, g.scalar('int64', height * width)]);
  const scaled = g.one('Mul', [place, g.scalar('int64', channels)]);
  const channel = g.constant({
    dtype: 'int64',
    shape: [channels, 1, 1],
    data: BigInt64Array.from({ length: channels }, (_, i) => BigInt(i)),
  });
  const own = g.one('Add', [scaled, channel]);
  const positions = flagAttribute(node, 'include_batch_in_index', false)
    ? g.one('Add', [own, imageOffset(g, at, height * width * channels)])
    : own;
  const dtype = typeAttribute(node, 'Targmax', 'int64') === 'int32' ? 'int32' : 'int64';
  return [context.layouts.last(g, max, node.name), cast(g, context.layouts.last(g, positions), dtype)];
};

/** The offset of each image of the batch: 0, size, 2 size and so on. */
function imageOffset(g: GraphBuilder, like: Value, size: number): Value {
  const batch = sizesOf(g, like)[0] as number | Value;
  const count = typeof batch === 'number' ? g.scalar('int64', batch) : g.one('Squeeze', [batch, g.ints([0])]);
  const range = g.one('Range', [g.scalar('int64', 0), count, g.scalar('int64', 1)]);
  return reshape(g, g.one('Mul', [range, g.scalar('int64', size)]), [batch, 1, 1, 1]);
}

/** Unpooling: adds each value at the position of its window's maximum. */
const maxPoolGrad: Rule = (node, [input, , values], g, context) => {
  const last = channelsLast(node);
  const windows = windowsOf(node, listAttribute(node, 'ksize').ints, listAttribute(node, 'strides').ints);
  const image = imageOf(input, windows.kernel.length + 2, g);
  const first = last ? context.layouts.first(g, image) : image;
  const [, places] = maxPool(makerOf(g, node.name), first, windows, 2) as [Value, Value];
  const flat = (value: Value) => g.one('Reshape', [value, g.ints([-1])]);
  const shape = g.one('Shape', [first]);
  const none = flat(g.one('Expand', [g.scalar(values.dtype, 0), shape]));
  const ordered = last ? context.layouts.first(g, values) : values;
  const spread = g.one('ScatterElements', [none, flat(places), flat(ordered)], { axis: 0, reduction: 'add' });
  const results = [{ dtype: values.dtype, shape: first.shape }];
  const made = g.add('Reshape', [spread, shape], {}, { results, hint: node.name })[0] as Value;
  return last ? context.layouts.last(g, made, node.name) : made;
};

export const POOLING: OpTable = {
  ...takes(1, {
    AvgPool: byAttributes(false),
    AvgPool3D: byAttributes(false),
    MaxPool: byAttributes(true),
    MaxPool3D: byAttributes(true),
    MaxPoolWithArgmax: maxPoolWithArgmax,
  }),
  ...takes(3, { AvgPoolV2: byInputs(false), MaxPoolGrad: maxPoolGrad, MaxPoolV2: byInputs(true) }),
};
