/**
 * Converts padding, DepthToSpace and SpaceToDepth, and image patches. TensorFlow gives paddings per axis, ONNX all
 * begins followed by all ends.
 */

import { patches } from '../../emit/convolution.ts';
import { TO_END } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { fixed } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { intAttribute, listAttribute, type TfNode, textAttribute } from '../graph.ts';
import { transpose } from './dims.ts';
import { emit, int64, makerOf } from './kernels.ts';
import { axisInTwin } from './layout.ts';
import { refuse } from './refuse.ts';
import { type Context, type Operands, type OpTable, type Rule, takes } from './rule.ts';
import { channelsLast, paddingOf, spatial } from './windows.ts';

/** [[before, after], ...] */
export function pairsOf(value: Value, what: string): [number, number][] {
  const numbers = constantNumbers(value, what);
  return Array.from({ length: numbers.length / 2 }, (_, i) => [
    numbers[2 * i] as number,
    numbers[2 * i + 1] as number,
  ]);
}

/** ONNX's order: all begins, then all ends. */
export function padsOf(pairs: readonly (readonly [number, number])[]): number[] {
  return [...pairs.map(([before]) => before), ...pairs.map(([, after]) => after)];
}

export function pad(
  node: TfNode,
  x: Value,
  paddings: Value,
  g: GraphBuilder,
  context: Context,
  options: { mode: 'constant' | 'reflect'; fill?: Value },
): Value {
  const { mode, fill } = options;
  const extra = fill && !(fill.constant && Number(fill.constant.data[0]) === 0) ? [fill] : [];
  if (!paddings.constant) {
    // [[before, after], ...] -> [before..., after...]
    const list = g.one('Reshape', [transpose(g, int64(g, paddings), [1, 0]), g.ints([-1])]);
    return emit(g, 'Pad', [x, list, ...extra], { mode }, node.name);
  }
  const pairs = pairsOf(paddings, 'padding');
  if (pairs.every(([before, after]) => before === 0 && after === 0)) return x;
  const paired = context.layouts.pair(x);
  if (!paired || paired.shape?.length !== pairs.length)
    return emit(g, 'Pad', [x, g.ints(padsOf(pairs)), ...extra], { mode }, node.name);
  const moved = pairs.map(() => [0, 0] as [number, number]);
  for (const [axis, pair] of pairs.entries()) moved[axisInTwin(axis, pairs.length)] = pair;
  const made = emit(g, 'Pad', [paired, g.ints(padsOf(moved)), ...extra], { mode }, node.name);
  return context.layouts.last(g, made, node.name);
}

/** Mirrors including the border pixel, which ONNX's Pad does not support before opset 19. */
function symmetric(g: GraphBuilder, x: Value, pairs: readonly (readonly [number, number])[]): Value {
  return pairs.reduce<Value>((value, [before, after], axis) => {
    if (before === 0 && after === 0) return value;
    const reversed = (start: number, end: number) =>
      g.one('Slice', [value, g.ints([start]), g.ints([end]), g.ints([axis]), g.ints([-1])]);
    return g.one(
      'Concat',
      [
        ...(before > 0 ? [reversed(before - 1, -TO_END)] : []),
        value,
        ...(after > 0 ? [reversed(-1, -after - 1)] : []),
      ],
      { axis },
    );
  }, x);
}

export function padImage(
  node: TfNode,
  x: Value,
  paddings: Value,
  mode: string,
  g: GraphBuilder,
  context: Context,
): Value {
  if (mode === 'REFLECT') return pad(node, x, paddings, g, context, { mode: 'reflect' });
  if (mode === 'SYMMETRIC') return symmetric(g, x, pairsOf(paddings, 'padding'));
  return refuse(`needs mode REFLECT or SYMMETRIC, got ${mode}`);
}

const mirrorPad: Rule = (node, [x, paddings], g, context) =>
  padImage(node, x, paddings, textAttribute(node, 'mode'), g, context);

function shuffle(op: 'DepthToSpace' | 'SpaceToDepth'): Rule {
  return (node, [x], g, context) => {
    const last = channelsLast(node);
    const first = last ? context.layouts.first(g, x) : x;
    const made = emit(g, op, [first], { blocksize: intAttribute(node, 'block_size') }, node.name);
    return last ? context.layouts.last(g, made, node.name) : made;
  };
}

/** Turns each window into the channels of one pixel: (row, column, channel). */
const extractPatches: Rule = (node, [x], g, context) => {
  const [kernel, strides, dilations] = (['ksizes', 'strides', 'rates'] as const).map((name) =>
    spatial(listAttribute(node, name).ints, true, name, 4),
  ) as [number[], number[], number[]];
  const [height, width] = kernel as [number, number];
  const channels = fixed(x, 3);
  const count = height * width;
  const first = context.layouts.first(g, x);
  const windows = { kernel, strides, dilations, pads: paddingOf(node, true, 4) };
  const made = patches(makerOf(g, node.name), first, windows);
  // (channel, row, column) -> (row, column, channel)
  const order = Array.from(
    { length: channels * count },
    (_, i) => (i % channels) * count + Math.floor(i / channels),
  );
  return context.layouts.last(g, g.one('Gather', [made, g.ints(order)], { axis: 1 }), node.name);
};

const plainPad = (node: TfNode, [x, paddings]: Operands, g: GraphBuilder, context: Context) =>
  pad(node, x, paddings, g, context, { mode: 'constant' });

export const BLOCKS: OpTable = {
  ...takes(1, {
    DepthToSpace: shuffle('DepthToSpace'),
    ExtractImagePatches: extractPatches,
    SpaceToDepth: shuffle('SpaceToDepth'),
  }),
  ...takes(2, {
    MirrorPad: mirrorPad,
    Pad: plainPad,
  }),
  ...takes(3, {
    PadV2: (node, [x, paddings, fill], g, context) =>
      pad(node, x, paddings, g, context, { mode: 'constant', fill }),
  }),
};
