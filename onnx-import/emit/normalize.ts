/** Normalizations: by statistics of the values themselves, by stored ones, and by what lies around. */
import { badModel } from '../../lib/contract/errors.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import type { Maker } from '../graph/layout.ts';
import { fixed, known } from '../graph/shapes.ts';
import type { Value } from '../graph/value.ts';
import { compute } from './formula.ts';
import { reduce } from './reduce.ts';

/** Where a small number keeps the divisor from 0: beside the variance, or beside its root. */
export type Guard = 'inside' | 'outside';

function meanOf(node: Maker, x: Value, axes: readonly number[]): Value {
  return reduce(node, 'ReduceMean', x, axes, true);
}

/** x without its mean. */
export function centered(node: Maker, x: Value, axes: readonly number[]): Value {
  return node.one('Sub', [x, meanOf(node, x, axes)]);
}

/** (x - mean) / deviation */
export function standardized(
  node: Maker,
  x: Value,
  axes: readonly number[],
  eps: number,
  guard: Guard = 'inside',
): Value {
  const apart = centered(node, x, axes);
  const variance = meanOf(node, node.one('Mul', [apart, apart]), axes);
  const text = guard === 'inside' ? 'apart / Sqrt(variance + eps)' : 'apart / (Sqrt(variance) + eps)';
  return compute(node, text, { apart, variance, eps });
}

/** x / root of the sum of squares, to which eps is added or of which it is the least. */
export function unitLength(
  node: Maker,
  x: Value,
  axes: readonly number[],
  eps: number,
  mode: 'Add' | 'Max' = 'Add',
): Value {
  const sum = reduce(node, 'ReduceSum', node.one('Mul', [x, x]), axes, true);
  return compute(node, `x / Sqrt(${mode}(sum, eps))`, { x, sum, eps });
}

/** x / root of the mean square */
export function byRootMeanSquare(node: Maker, x: Value, axes: readonly number[], eps: number): Value {
  const power = meanOf(node, node.one('Mul', [x, x]), axes);
  return compute(node, 'x / Sqrt(power + eps)', { x, power, eps });
}

export interface Stored {
  readonly mean: Value;
  readonly variance: Value;
  /** Default 1. */
  readonly scale?: Value | undefined;
  /** Default 0. */
  readonly shift?: Value | undefined;
  readonly eps: number;
}

/** By statistics of the training, one for each channel of axis 1. */
export function batchNormalize(node: Maker, x: Value, { mean, variance, scale, shift, eps }: Stored): Value {
  const channels = fixed(mean, 0);
  const own = known(x)[1];
  if (typeof own === 'number' && own !== channels)
    throw badModel(`needs ${channels} channels, got ${formatShape(known(x))}`);
  const filled = (value: Value | undefined, fill: number, hint: string) =>
    value ?? node.g.floats(new Float32Array(channels).fill(fill), [channels], hint);
  const weights = [filled(scale, 1, 'ones'), filled(shift, 0, 'zeros'), mean, variance];
  return node.one('BatchNormalization', [x, ...weights], { epsilon: { float: eps } });
}

export interface Neighbours {
  /** How many neighbours, odd. */
  readonly size: number;
  /** Before it is divided by the number of neighbours. */
  readonly alpha: number;
  readonly beta: number;
  readonly bias: number;
}

/** x / (bias + alpha * mean of squares) ^ beta, over neighbouring channels. */
export function acrossChannels(node: Maker, x: Value, { size, alpha, beta, bias }: Neighbours): Value {
  assertOdd(size);
  if (known(x).length < 3) throw badModel(`needs channels and a plane, got ${formatShape(known(x))}`);
  return node.one('LRN', [x], {
    size,
    alpha: { float: alpha },
    beta: { float: beta },
    bias: { float: bias },
  });
}

/** The same over a window of the plane, of which what is outside counts as 0. */
export function withinPlane(node: Maker, x: Value, { size, alpha, beta, bias }: Neighbours): Value {
  assertOdd(size);
  const rank = known(x).length - 2;
  const around = node.one('AveragePool', [node.one('Mul', [x, x])], {
    kernel_shape: new Array<number>(rank).fill(size),
    pads: new Array<number>(2 * rank).fill((size - 1) / 2),
    count_include_pad: 1,
  });
  return compute(node, 'x * Pow(around * alpha + bias, power)', { x, around, alpha, bias, power: -beta });
}

function assertOdd(size: number): void {
  if (!(size >= 1 && size % 2 === 1)) throw badModel(`has a size of ${size}, expected an odd one`);
}
