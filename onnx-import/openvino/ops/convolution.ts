/** Convolutions. Weights of groups have an axis for the group; ONNX joins it with the next. */
import { badModel } from '../../../lib/contract/errors.ts';
import { convolve, convolveBack, fullSize, kernelOf } from '../../emit/convolution.ts';
import { assertWindows, halves, type Windows } from '../../emit/windows.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { fixed, known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { OpTable, OvNode, Rule } from '../node.ts';

export const MODES = ['explicit', 'notset', 'valid', 'same_upper', 'same_lower', ''] as const;

/** The paddings before and after each axis. */
export function padsOf(node: OvNode, rank: number): Windows['pads'] {
  const mode = node.choice('auto_pad', MODES, 'explicit');
  const none = new Array<number>(rank).fill(0);
  const [begin, end] = [node.numbers('pads_begin', none), node.numbers('pads_end', none)];
  if (mode === 'valid') return [...none, ...none];
  if (mode === 'same_upper' || mode === 'same_lower') return mode;
  if (begin.length !== rank || end.length !== rank)
    throw badModel(`has ${begin.length} paddings for ${rank} axes`);
  return [...begin, ...end];
}

/** Windows with the attributes of a kernel that stands elsewhere. */
export function windowsOf(node: OvNode, kernel: readonly number[], pads: Windows['pads']): Windows {
  const ones = kernel.map(() => 1);
  const windows = {
    kernel,
    strides: node.numbers('strides', ones),
    dilations: node.numbers('dilations', ones),
    pads,
  };
  // What is negative in the pads of a transposed convolution lengthens it.
  assertWindows({ ...windows, pads: [...ones, ...ones] });
  return windows;
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
    const kernel = kernelOf(weights);
    return convolve(node, x, windowsOf(node, kernel, padsOf(node, kernel.length)), { weights, group });
  };

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
    const kernel = kernelOf(weights);
    const added = node.numbers(
      'output_padding',
      kernel.map(() => 0),
    );
    const bare = windowsOf(node, kernel, 'same_upper');
    const full = () => kernel.map((_, i) => fullSize(fixed(x, i + 2), bare, i) + (added[i] ?? 0));
    const pads = wanted
      ? padsFor(node, constantNumbers(wanted, 'output shape'), full())
      : declaredPads(node, kernel.length);
    return convolveBack(node, x, { ...bare, pads }, { weights, group }, added);
  };

/** Without an output shape `same` adds no padding. */
function declaredPads(node: OvNode, rank: number): readonly number[] {
  const pads = padsOf(node, rank);
  return typeof pads === 'string' ? new Array<number>(2 * rank).fill(0) : pads;
}

/** The paddings that leave an output of this shape. */
function padsFor(node: OvNode, wanted: readonly number[], full: readonly number[]): readonly number[] {
  const mode = node.choice('auto_pad', MODES, 'explicit');
  node.ignore('pads_begin', 'pads_end');
  if (wanted.length !== full.length) throw badModel(`has an output shape of ${wanted.length} sizes`);
  const all = full.map((size, i) => size - (wanted[i] as number));
  if (mode === 'same_upper' || mode === 'same_lower') {
    if (all.some((pad) => pad < 0)) throw badModel('has an output shape larger than its windows');
    // An odd padding has its larger half where that of a convolution has its smaller.
    const each = all.map((pad) => halves(pad, mode === 'same_upper'));
    return [...each.map(([before]) => before), ...each.map(([, after]) => after)];
  }
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
