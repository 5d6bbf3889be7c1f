/**
 * Converts convolutions to Conv and ConvTranspose. Images become channels-first and weights go from [kernel..., in,
 * out] to [out, in, kernel...]. A transposed convolution is the gradient of a convolution, so its pads follow from
 * the requested output size.
 */

import { convolve, convolveBack, fullSize } from '../../emit/convolution.ts';
import { cutAlong } from '../../emit/gather.ts';
import { halves, reachOf, samePad, type Windows } from '../../emit/windows.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { fixed, rank } from '../../graph/shapes.ts';
import type { Dim, Value } from '../../graph/value.ts';
import { listAttribute, type TfNode, textAttribute } from '../graph.ts';
import { reshape, type Size, sizeOf, transpose } from './dims.ts';
import { int64, makerOf } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type Context, type OpTable, type Rule, takes } from './rule.ts';
import { channelsLast, paddingOf, spatial } from './windows.ts';

/** An unknown rank is that of the kernel. */
function imageOf(x: Value, filter: Value, g: GraphBuilder): Value {
  if (x.shape) return x;
  const shape = Array.from({ length: rank(filter) }, g.fresh);
  return g.add('Identity', [x], {}, { results: [{ dtype: x.dtype, shape }], hint: x.name })[0] as Value;
}

function windowsOf(node: TfNode, filter: Value, last: boolean): Windows {
  const size = rank(filter);
  return {
    kernel: Array.from({ length: size - 2 }, (_, i) => fixed(filter, i)),
    strides: spatial(listAttribute(node, 'strides').ints, last, 'strides', size),
    dilations: spatial(listAttribute(node, 'dilations').ints, last, 'dilations', size),
    pads: paddingOf(node, last, size),
  };
}

/** [kernel..., in, out] -> [out, in, kernel...] */
function weightsFirst(g: GraphBuilder, filter: Value): Value {
  const size = rank(filter);
  return transpose(
    g,
    filter,
    [size - 1, size - 2, ...Array.from({ length: size - 2 }, (_, i) => i)],
    filter.name,
  );
}

/** [kernel..., channels, multiplier] -> [kernel..., 1, channels * multiplier] */
function perChannel(g: GraphBuilder, filter: Value): Value {
  const kernel = Array.from({ length: rank(filter) - 2 }, (_, i) => fixed(filter, i));
  const outputs = fixed(filter, kernel.length) * fixed(filter, kernel.length + 1);
  return reshape(g, filter, [...kernel, 1, outputs], filter.name);
}

interface Convolution {
  readonly x: Value;
  readonly filter: Value;
  readonly group?: number;
  /** Overrides the node's attribute. */
  readonly dilations?: readonly number[];
}

function convolution(node: TfNode, g: GraphBuilder, context: Context, parts: Convolution): Value {
  const last = channelsLast(node);
  const image = imageOf(parts.x, parts.filter, g);
  const first = last ? context.layouts.first(g, image) : image;
  const own = windowsOf(node, parts.filter, last);
  const windows = parts.dilations ? { ...own, dilations: parts.dilations } : own;
  const size = rank(parts.filter);
  const group = parts.group ?? groupsOf(first.shape?.[1], fixed(parts.filter, size - 2));
  const made = convolve(makerOf(g, node.name), first, windows, {
    weights: weightsFirst(g, parts.filter),
    group,
  });
  const result = last ? context.layouts.last(g, made, node.name) : made;
  noteBlocks(node, result, windows, parts, context);
  return result;
}

/** Notes that a convolution of an image in blocks may be a dilated convolution of the whole image. */
function noteBlocks(
  node: TfNode,
  result: Value,
  windows: Windows,
  parts: Convolution,
  context: Context,
): void {
  const spaced = context.facts.spaced.get(parts.x);
  const plain = [...windows.strides, ...(windows.dilations ?? [])].every((step) => step === 1);
  if (!spaced || spaced.convolve || !plain || textAttribute(node, 'padding', '') !== 'VALID') return;
  if (spaced.blocks.length !== windows.kernel.length || !channelsLast(node)) return;
  const dilations = spaced.blocks;
  context.facts.spaced.set(result, {
    ...spaced,
    convolve: (x, g, inner) => convolution(node, g, inner, { ...parts, x, dilations }),
  });
}

/** If the number of channels is free, there is one group. */
function groupsOf(channels: Dim | undefined, perGroup: number): number {
  if (typeof channels !== 'number') return 1;
  if (perGroup < 1 || channels % perGroup !== 0)
    refuse(`has ${channels} channels and weights for ${perGroup}, which does not divide them`);
  return channels / perGroup;
}

export const conv: Rule = (node, [x, filter], g, context) => convolution(node, g, context, { x, filter });

export const depthwise: Rule = (node, [x, filter], g, context) =>
  convolution(node, g, context, {
    x,
    filter: perChannel(g, filter),
    group: fixed(filter, rank(filter) - 2),
  });

/** The output sizes requested of a transposed convolution, as far as they are known. */
function wantedSizes(g: GraphBuilder, sizes: Value, last: boolean, count: number): Size[] {
  const list = int64(g, sizes);
  // Newer files may give only the spatial sizes.
  const length = list.shape?.[0];
  const from = length === count ? 0 : last ? 1 : 2;
  return Array.from({ length: count }, (_, i) => {
    const known = sizes.elements?.[from + i];
    return typeof known === 'number' ? known : cutAlong(g, list, 0, from + i, from + i + 1);
  });
}

interface Transposed {
  readonly x: Value;
  readonly filter: Value;
  readonly sizes: Value;
  readonly group?: number;
}

function transposed(node: TfNode, g: GraphBuilder, context: Context, parts: Transposed): Value {
  const { filter } = parts;
  const last = channelsLast(node);
  const image = imageOf(parts.x, filter, g);
  const x = last ? context.layouts.first(g, image) : image;
  const windows = windowsOf(node, filter, last);
  const wanted = wantedSizes(g, parts.sizes, last, windows.kernel.length);
  const inputs: Size[] = windows.kernel.map((_, i) => sizeOf(g, x, i + 2));
  const weights = { weights: weightsFirst(g, filter), group: parts.group ?? 1 };
  const known = knownPads(node, windows, inputs, wanted, last);
  const pads = known?.pads ?? windows.kernel.flatMap(() => [0, 0]);
  const back = (added: readonly number[]) =>
    convolveBack(makerOf(g, node.name), x, { ...windows, pads }, weights, added);
  const made = known
    ? back(known.added)
    : cutToSize(g, node, back(mostAdded(node, windows)), { windows, inputs, wanted });
  return last ? context.layouts.last(g, made, node.name) : made;
}

function knownPads(
  node: TfNode,
  windows: Windows,
  inputs: readonly Size[],
  wanted: readonly Size[],
  last: boolean,
): { pads: number[]; added: number[] } | undefined {
  const before: number[] = [];
  const after: number[] = [];
  const extra: number[] = [];
  const explicit = explicitBack(node, windows.kernel.length, last);
  for (const [i, size] of inputs.entries()) {
    const target = wanted[i];
    if (typeof size !== 'number' || typeof target !== 'number') return undefined;
    const [stride, reach] = [windows.strides[i] as number, reachOf(windows, i)];
    const full = fullSize(size, windows, i);
    const [begin, end] = explicit?.[i] ?? halves(isSame(node) ? samePad(target, reach, stride) : 0);
    before.push(begin);
    after.push(end);
    extra.push(target - (full - begin - end));
  }
  if (extra.some((size, i) => size < 0 || size >= (windows.strides[i] as number)))
    refuse(`cannot give the size [${wanted.map(String).join(',')}] from [${inputs.map(String).join(',')}]`);
  return { pads: [...before, ...after], added: extra };
}

function isSame(node: TfNode): boolean {
  const padding = node.attributes.padding;
  return padding?.kind === 'string' && padding.value === 'SAME';
}

function explicitBack(node: TfNode, count: number, last: boolean): [number, number][] | undefined {
  const values = listAttribute(node, 'explicit_paddings').ints;
  if (values.length === 0) return undefined;
  const from = last ? 1 : 2;
  return Array.from({ length: count }, (_, i) => [
    values[2 * (i + from)] ?? 0,
    values[2 * (i + from) + 1] ?? 0,
  ]);
}

/** What makes the result as long as it can be: a VALID convolution may leave up to stride - 1 pixels over. */
function mostAdded(node: TfNode, windows: Windows): number[] {
  return windows.strides.map((stride, i) =>
    isSame(node) ? Math.max(stride - reachOf(windows, i), 0) : stride - 1,
  );
}

/** Cuts off the padding of SAME, by sizes that are computed at run time. */
function cutToSize(
  g: GraphBuilder,
  node: TfNode,
  full: Value,
  { windows, inputs, wanted }: { windows: Windows; inputs: readonly Size[]; wanted: readonly Size[] },
): Value {
  if (listAttribute(node, 'explicit_paddings').ints.length > 0)
    refuse('needs fixed image sizes for explicit paddings; give them with --input');
  const same = isSame(node);
  return wanted.reduce<Value>((x, target, i) => {
    const list = typeof target === 'number' ? g.ints([target]) : target;
    if (!same) return cutAlong(g, x, i + 2, 0, list);
    const size = inputs[i] as Size;
    const [stride, reach] = [windows.strides[i] as number, reachOf(windows, i)];
    const steps = g.one('Mul', [typeof size === 'number' ? g.ints([size]) : size, g.ints([stride])]);
    const whole = g.one('Add', [steps, g.ints([reach - stride])]);
    const total = g.one('Max', [g.one('Sub', [whole, list]), g.ints([0])]);
    const start = g.one('Div', [total, g.ints([2])]);
    return cutAlong(g, x, i + 2, start, g.one('Add', [start, list]));
  }, full);
}

const convBack: Rule = (node, [sizes, filter, x], g, context) => {
  const channels = rank(filter) - 1;
  const last = channelsLast(node);
  const inputs = imageOf(x, filter, g).shape?.[last ? channels : 1];
  const perGroup = fixed(filter, channels);
  if (typeof inputs === 'number' && inputs !== perGroup)
    refuse(`has ${inputs} channels and weights for ${perGroup}`);
  const asked = sizes.elements?.[last ? channels : 1];
  const group = typeof asked === 'number' ? asked / fixed(filter, channels - 1) : 1;
  if (!Number.isInteger(group))
    refuse(`has weights for ${fixed(filter, channels - 1)} of ${String(asked)} channels`);
  return transposed(node, g, context, { x, filter, sizes, group });
};

const depthwiseBack: Rule = (node, [sizes, filter, x], g, context) =>
  transposed(node, g, context, {
    x,
    filter: perChannel(g, filter),
    sizes,
    group: fixed(filter, rank(filter) - 2),
  });

export const CONVOLUTION: OpTable = {
  ...takes(2, {
    Conv2D: conv,
    Conv3D: conv,
    DepthwiseConv2dNative: depthwise,
  }),
  ...takes(3, {
    Conv2DBackpropInput: convBack,
    Conv3DBackpropInputV2: convBack,
    DepthwiseConv2dNativeBackpropInput: depthwiseBack,
  }),
};
