/** Convolutions. Weights are [outputs, channels / group, ...kernel], of a transposed one [channels, outputs / group, ...]. */
import { badModel } from '../../lib/contract/errors.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import type { Maker } from '../graph/layout.ts';
import { fixed, known } from '../graph/shapes.ts';
import type { Value } from '../graph/value.ts';
import { type PaddedWindows, placeWindows, reachOf, type Windows } from './windows.ts';

export interface Weights {
  readonly weights: Value;
  readonly bias?: Value | undefined;
  /** Default 1. */
  readonly group?: number;
}

/** @throws bad_model unless the groups divide both */
export function assertGroups(group: number, channels: number, outputs: number): void {
  if (!(Number.isInteger(group) && group >= 1) || channels % group !== 0 || outputs % group !== 0)
    throw badModel(`${group} groups do not divide ${channels} channels into ${outputs} outputs`);
}

/** The sizes of the axes of space. */
export function kernelOf(weights: Value): number[] {
  return known(weights)
    .slice(2)
    .map((_, i) => fixed(weights, i + 2));
}

function assertChannels(x: Value, channels: number): void {
  const own = known(x)[1];
  if (typeof own === 'number' && own !== channels)
    throw badModel(`needs ${channels} channels, got ${formatShape(known(x))}`);
}

export function convolve(node: Maker, input: Value, windows: Windows, { weights, bias, group = 1 }: Weights) {
  assertChannels(input, fixed(weights, 1) * group);
  const { kernel, strides, dilations = kernel.map(() => 1) } = windows;
  const { x, attributes } = placeWindows(node, input, windows, 0);
  return node.one('Conv', [x, weights, ...(bias ? [bias] : [])], {
    kernel_shape: kernel,
    strides,
    dilations,
    ...attributes,
    group,
  });
}

/**
 * The gradient of a convolution: pads cut its result off, `added` lengthens it.
 * @throws bad_model when more is added than a stride leaves over
 */
export function convolveBack(
  node: Maker,
  x: Value,
  windows: PaddedWindows,
  { weights, bias, group = 1 }: Weights,
  added: readonly number[] = [],
): Value {
  assertChannels(x, fixed(weights, 0));
  const { kernel, strides, dilations = kernel.map(() => 1), pads } = windows;
  const rank = kernel.length;
  // A negative padding at the end lengthens the result too.
  const output_padding = kernel.map((_, i) => (added[i] ?? 0) + Math.max(0, -(pads[i + rank] as number)));
  const isTooLong = output_padding.some(
    (size, i) => size < 0 || size >= Math.max(strides[i] as number, dilations[i] as number),
  );
  if (isTooLong || pads.slice(0, rank).some((pad) => pad < 0))
    throw badModel(`adds ${output_padding.join('x')} to its windows with a stride of ${strides.join('x')}`);
  const made = node.one('ConvTranspose', [x, weights, ...(bias ? [bias] : [])], {
    kernel_shape: kernel,
    strides,
    dilations,
    pads: pads.map((pad, i) => (i < rank ? pad : Math.max(0, pad))),
    ...(output_padding.some((size) => size > 0) ? { output_padding } : {}),
    group,
  });
  if (made.shape?.some((dim) => typeof dim === 'number' && dim < 1))
    throw badModel(`the window does not fit: ${formatShape(known(x))} becomes ${formatShape(made.shape)}`);
  return made;
}

/** How long a transposed convolution without pads is. */
export function fullSize(size: number, windows: Windows, i: number): number {
  return (size - 1) * (windows.strides[i] as number) + reachOf(windows, i);
}

/** Limits the weights of `patches`. */
const MAX_PATCH = 2 ** 24;

/** The numbers of each window as the channels of one pixel, those of a channel beside each other. */
export function patches(node: Maker, x: Value, windows: Windows): Value {
  const [channels, area] = [fixed(x, 1), windows.kernel.reduce((a, b) => a * b, 1)];
  if (!(channels * area * area <= MAX_PATCH))
    throw badModel(`has patches of ${channels * area} numbers, the limit is ${MAX_PATCH}`);
  const ones = new Float32Array(channels * area * area);
  for (let i = 0; i < channels * area; i++) ones[i * area + (i % area)] = 1;
  const weights = node.g.floats(ones, [channels * area, 1, ...windows.kernel], 'patches');
  return convolve(node, x, windows, { weights, group: channels });
}
