/**
 * Convolutions. Weights of groups have an axis for the group; ONNX joins it with the next. `same` padding is computed
 * here where the sizes are known, because onnxruntime's is wrong for strides longer than the kernel.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Attributes, Shape, Value } from '../../../graph/value.ts';
import type { OpTable, OvNode, Rule } from '../node.ts';

/** The paddings before and after each axis, as ONNX has them. */
export function padsOf(
  node: OvNode,
  spatial: Shape,
  reach: readonly number[],
  strides: readonly number[],
): readonly number[] {
  const rank = reach.length;
  const mode = node.choice(
    'auto_pad',
    ['explicit', 'notset', 'valid', 'same_upper', 'same_lower', ''],
    'explicit',
  );
  const none = reach.map(() => 0);
  const [begin, end] = [node.numbers('pads_begin', none), node.numbers('pads_end', none)];
  if (mode === 'valid') return [...none, ...none];
  if (mode !== 'same_upper' && mode !== 'same_lower') {
    if (begin.length !== rank || end.length !== rank)
      throw badModel(`has ${begin.length} paddings for ${rank} axes`);
    return [...begin, ...end];
  }
  const all = reach.map((size, i) => samePad(spatial[i], size, strides[i] as number));
  const small = all.map((pad) => Math.floor(pad / 2));
  const large = all.map((pad) => Math.ceil(pad / 2));
  return mode === 'same_upper' ? [...small, ...large] : [...large, ...small];
}

function samePad(dim: number | string | undefined, reach: number, stride: number): number {
  // With stride 1 the padding does not depend on the size.
  if (stride === 1) return reach - 1;
  if (typeof dim !== 'number') throw badModel('needs fixed sizes for its padding; give them with --input');
  return Math.max(0, (Math.ceil(dim / stride) - 1) * stride + reach - dim);
}

export function positives(node: OvNode, name: string, rank: number): readonly number[] {
  const numbers = node.numbers(name, new Array<number>(rank).fill(1));
  if (numbers.length === rank && numbers.every((each) => Number.isSafeInteger(each) && each >= 1))
    return numbers;
  throw badModel(`${name} must be ${rank} whole numbers of at least 1, got ${numbers.slice(0, 10).join()}`);
}

/** Weights [G, O, I, ...] as [G * O, I, ...]. */
function ungrouped(node: OvNode, weights: Value): { weights: Value; group: number } {
  const shape = Array.from(known(weights), (_, i) => fixed(weights, i));
  const [group, outputs] = shape as [number, number];
  return {
    weights: node.g.one('Reshape', [weights, node.g.ints([group * outputs, ...shape.slice(2)])]),
    group,
  };
}

const convolution =
  (isGrouped: boolean): Rule =>
  (node) => {
    const x = node.input(0);
    const { weights, group } = isGrouped
      ? ungrouped(node, node.input(1))
      : { weights: node.input(1), group: 1 };
    node.ignore('output_padding');
    return convolve(node, x, weights, undefined, group);
  };

export function convolve(
  node: OvNode,
  x: Value,
  weights: Value,
  bias: Value | undefined,
  group: number,
): Value {
  const spatial = known(x).slice(2);
  const rank = spatial.length;
  const kernel = known(weights)
    .slice(2)
    .map((_, i) => fixed(weights, i + 2));
  if (kernel.length !== rank || rank < 1)
    throw badModel(`has weights ${formatShape(known(weights))} for an input ${formatShape(known(x))}`);
  const [strides, dilations] = [positives(node, 'strides', rank), positives(node, 'dilations', rank)];
  const reach = kernel.map((size, i) => (size - 1) * (dilations[i] as number) + 1);
  const pads = padsOf(node, spatial, reach, strides);
  return node.one('Conv', [x, weights, ...(bias ? [bias] : [])], { strides, dilations, pads, group });
}

const deconvolution =
  (isGrouped: boolean): Rule =>
  (node) => {
    const x = node.input(0);
    const own = node.input(1);
    const shape = Array.from(known(own), (_, i) => fixed(own, i));
    const group = isGrouped ? (shape[0] as number) : 1;
    // [G, I, O, ...] becomes [G * I, O, ...].
    const weights = isGrouped
      ? node.g.one('Reshape', [own, node.g.ints([group * (shape[1] as number), ...shape.slice(2)])])
      : own;
    const wanted = node.optional(2);
    return deconvolve(node, x, weights, undefined, group, wanted && constantNumbers(wanted, 'output shape'));
  };

export function deconvolve(
  node: OvNode,
  x: Value,
  weights: Value,
  bias: Value | undefined,
  group: number,
  wanted: readonly number[] | undefined,
): Value {
  const spatial = known(x).slice(2);
  const rank = spatial.length;
  const kernel = spatial.map((_, i) => fixed(weights, i + 2));
  const [strides, dilations] = [positives(node, 'strides', rank), positives(node, 'dilations', rank)];
  const added = node.numbers(
    'output_padding',
    spatial.map(() => 0),
  );
  const reach = kernel.map((size, i) => (size - 1) * (dilations[i] as number) + 1);
  const pads = wanted
    ? padsFor(
        node,
        wanted,
        spatial.map(
          (_, i) =>
            (fixed(x, i + 2) - 1) * (strides[i] as number) + (reach[i] as number) + (added[i] as number),
        ),
      )
    : declaredPads(node, reach);
  // A negative padding at the end is an output padding.
  const before = pads.slice(0, rank);
  const after = pads.slice(rank).map((pad) => Math.max(0, pad));
  const output_padding = pads.slice(rank).map((pad, i) => Math.max(0, -pad) + (added[i] as number));
  if (
    before.some((pad) => pad < 0) ||
    output_padding.some((pad, i) => pad >= Math.max(strides[i] as number, dilations[i] as number))
  )
    throw badModel('has an output shape larger than its windows');
  const attributes: Attributes = { strides, dilations, pads: [...before, ...after], output_padding, group };
  return node.one('ConvTranspose', [x, weights, ...(bias ? [bias] : [])], attributes);
}

/** Without an output shape `same` adds no padding. */
function declaredPads(node: OvNode, reach: readonly number[]): readonly number[] {
  if (!node.text('auto_pad', 'explicit').toLowerCase().startsWith('same')) return padsOf(node, [], reach, []);
  node.ignore('pads_begin', 'pads_end');
  return [...reach, ...reach].map(() => 0);
}

/** An odd padding has its larger half where that of a convolution has its smaller. */
function halves(mode: string, all: readonly number[]): readonly number[] {
  if (all.some((pad) => pad < 0)) throw badModel('has an output shape larger than its windows');
  const [small, large] = [all.map((pad) => Math.floor(pad / 2)), all.map((pad) => Math.ceil(pad / 2))];
  return mode === 'same_lower' ? [...small, ...large] : [...large, ...small];
}

/** The paddings that leave an output of this shape. */
function padsFor(node: OvNode, wanted: readonly number[], full: readonly number[]): readonly number[] {
  const mode = node.choice(
    'auto_pad',
    ['explicit', 'notset', 'valid', 'same_upper', 'same_lower', ''],
    'explicit',
  );
  node.ignore('pads_begin', 'pads_end');
  if (wanted.length !== full.length) throw badModel(`has an output shape of ${wanted.length} sizes`);
  const all = full.map((size, i) => size - (wanted[i] as number));
  if (mode === 'same_upper' || mode === 'same_lower') return halves(mode, all);
  const begin = node.numbers(
    'pads_begin',
    full.map(() => 0),
  );
  return [...begin, ...all.map((pad, i) => pad - (begin[i] as number))];
}

export const CONVOLUTIONS: OpTable = {
  Convolution: convolution(false),
  ConvolutionBackpropData: deconvolution(false),
  GroupConvolution: convolution(true),
  GroupConvolutionBackpropData: deconvolution(true),
};
