/**
 * Converts pooling to MaxPool and AveragePool; V2 operations have their windows as constant inputs. TensorFlow's
 * average ignores padding.
 */
import type { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { fixed, rank } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, listAttribute, type TfNode, typeAttribute } from '../graph.ts';
import { reshape, sizesOf } from './dims.ts';
import { cast, emit, emitAll } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type Context, type OpTable, type Rule, takes } from './rule.ts';
import { channelsLast, padWindows, spatial, type Windows } from './windows.ts';

function imageOf(x: Value, size: number, g: GraphBuilder): Value {
  if (x.shape) return rank(x) === size ? x : refuse(`needs ${size} dimensions, got ${rank(x)}`);
  const shape = Array.from({ length: size }, g.fresh);
  return g.add('Identity', [x], {}, { results: [{ dtype: x.dtype, shape }], hint: x.name })[0] as Value;
}

function windowsOf(kernel: readonly number[], strides: readonly number[], last: boolean): Windows {
  const size = kernel.length;
  return {
    kernel: spatial(kernel, last, 'kernel sizes', size),
    strides: spatial(strides, last, 'strides', size),
    dilations: Array.from({ length: size - 2 }, () => 1),
  };
}

function pool(
  node: TfNode,
  g: GraphBuilder,
  context: Context,
  parts: { x: Value; kernel: readonly number[]; strides: readonly number[]; max: boolean },
): Value {
  const { kernel, strides, max } = parts;
  const last = channelsLast(node);
  const windows = windowsOf(kernel, strides, last);
  const image = imageOf(parts.x, kernel.length, g);
  const first = last ? context.layouts.first(g, image) : image;
  const { x, attributes, grown } = padWindows(g, node, first, windows, {
    last,
    fill: max ? lowest(first) : 0,
  });
  const all = { ...attributes, kernel_shape: windows.kernel, strides: windows.strides };
  const made = max ? emit(g, 'MaxPool', [x], all, node.name) : average(g, node, first, x, all, grown);
  return last ? context.layouts.last(g, made, node.name) : made;
}

function lowest(x: Value): number {
  if (x.dtype === 'float32') return -3.4028234663852886e38;
  if (x.dtype === 'float64') return -Number.MAX_VALUE;
  return x.dtype.startsWith('u') ? 0 : -128;
}

/** If the input itself was padded, the average of ones gives the share of a window inside the image. */
function average(
  g: GraphBuilder,
  node: TfNode,
  inside: Value,
  padded: Value,
  attributes: Record<string, number | readonly number[] | string | undefined>,
  grown: boolean,
): Value {
  const made = emit(g, 'AveragePool', [padded], attributes, node.name);
  if (!grown) return made;
  const ones = emit(g, 'Expand', [g.scalar(inside.dtype, 1), g.one('Shape', [inside])]);
  const windows = {
    kernel: attributes.kernel_shape as readonly number[],
    strides: attributes.strides as readonly number[],
    dilations: (attributes.strides as readonly number[]).map(() => 1),
  };
  const { x } = padWindows(g, node, ones, windows, { last: false, fill: 0 });
  return emit(g, 'Div', [made, emit(g, 'AveragePool', [x], attributes)], {}, node.name);
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
  const windows = windowsOf(listAttribute(node, 'ksize').ints, listAttribute(node, 'strides').ints, true);
  const padded = padWindows(g, node, context.layouts.first(g, image), windows, { last: true, fill: 0 });
  const [max, at] = emitAll(
    g,
    'MaxPool',
    [padded.x],
    { ...padded.attributes, kernel_shape: windows.kernel, strides: windows.strides },
    { outputs: 2, hint: node.name },
  ) as [Value, Value];
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
  const windows = windowsOf(listAttribute(node, 'ksize').ints, listAttribute(node, 'strides').ints, last);
  const image = imageOf(input, windows.kernel.length + 2, g);
  const first = last ? context.layouts.first(g, image) : image;
  const { x, attributes, grown } = padWindows(g, node, first, windows, { last, fill: lowest(first) });
  if (grown) refuse('needs fixed image sizes; give them with --input');
  const all = { ...attributes, kernel_shape: windows.kernel, strides: windows.strides };
  const [, places] = emitAll(g, 'MaxPool', [x], all, { outputs: 2 }) as [Value, Value];
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
