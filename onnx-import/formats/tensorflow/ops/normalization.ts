/**
 * Converts biases and normalization to Mul and Add, which need no transposes. FusedBatchNorm uses the mean and
 * variance of the batch when is_training is true or missing, even in a served graph; its second variance output is
 * the unbiased one.
 */

import { compute } from '../../../emit/formula.ts';
import { unsqueeze } from '../../../emit/gather.ts';
import { acrossChannels } from '../../../emit/normalize.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { rank } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, floatAttribute, intAttribute, type TfNode } from '../graph.ts';
import { Arithmetic } from './arithmetic.ts';
import { product, sizeOf } from './dims.ts';
import { cast, emit, makerOf } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type Context, type Operands, type OpTable, type Rule, takes } from './rule.ts';
import { channelsLast } from './windows.ts';

/** Reshapes a list of one value per channel so that it broadcasts over an image. */
function perChannel(on: Arithmetic, list: Value, size: number, last: boolean): Value {
  if (last || size < 3) return list;
  return unsqueeze(
    on.g,
    list,
    Array.from({ length: size - 2 }, (_, i) => i + 1),
  );
}

export function biasAdd(on: Arithmetic, x: Value, bias: Value, last: boolean): Value {
  return on.one('Add', [x, last ? bias : perChannel(on, bias, rank(x), last)]);
}

interface Moments {
  readonly scale: Value;
  readonly offset: Value;
  readonly mean: Value;
  readonly variance: Value;
  readonly epsilon: number;
}

/** (x - mean) / sqrt(variance + epsilon) * scale + offset, as x * a + b. */
export function normalize(on: Arithmetic, x: Value, moments: Moments, last: boolean): Value {
  const { scale, offset, mean, variance, epsilon } = moments;
  const g = on.g;
  const deviation = emit(g, 'Sqrt', [emit(g, 'Add', [variance, g.scalar(variance.dtype, epsilon)])]);
  const a = emit(g, 'Div', [scale, deviation], {}, 'scale');
  const b = emit(g, 'Sub', [offset, emit(g, 'Mul', [mean, a])], {}, 'offset');
  const size = last ? 0 : rank(x);
  const scaled = on.one('Mul', [x, perChannel(on, a, size, last)]);
  return on.one('Add', [scaled, perChannel(on, b, size, last)]);
}

interface Batch {
  readonly mean: Value;
  /** The sum of squares divided by the number of elements. */
  readonly variance: Value;
  /** The sum of squares divided by the number of elements minus one. */
  readonly unbiased: Value;
}

function momentsOf(on: Arithmetic, x: Value, last: boolean, context: Context): Batch {
  const g = on.g;
  const image = last ? (context.layouts.pair(x) ?? x) : x;
  const channel = last && image === x ? rank(x) - 1 : 1;
  const axes = Array.from({ length: rank(image) }, (_, i) => i).filter((axis) => axis !== channel);
  const mean = emit(g, 'ReduceMean', [image], { axes, keepdims: 1 });
  const apart = emit(g, 'Sub', [image, mean]);
  const variance = emit(g, 'ReduceMean', [emit(g, 'Mul', [apart, apart])], { axes, keepdims: 0 });
  const count = product(
    g,
    axes.map((axis) => sizeOf(g, image, axis)),
  );
  const number = typeof count === 'number' ? g.scalar(x.dtype, count) : cast(g, count, x.dtype);
  const text = 'variance * (number / Max(number - 1, 1))';
  const unbiased = compute(makerOf(g, 'unbiased'), text, { variance, number });
  return { mean: g.one('Squeeze', [mean, g.ints(axes)]), variance, unbiased };
}

/** The moving average of training: the old value plus a share of the new one. */
function mixed(g: GraphBuilder, old: Value, own: Value, share: number): Value {
  if (share === 1) return own;
  return compute(makerOf(g, 'moved'), 'old * rest + own * share', { old, own, share, rest: 1 - share });
}

export const fusedBatchNorm: Rule = (node, [x, scale, offset, mean, variance], g, context) => {
  const last = channelsLast(node);
  const on = new Arithmetic(g, context, node.name);
  const epsilon = floatAttribute(node, 'epsilon', 1e-4);
  if (!flagAttribute(node, 'is_training', true)) {
    const y = normalize(on, x, { scale, offset, mean, variance, epsilon }, last);
    return [y, mean, variance, mean, variance, variance];
  }
  const batch = momentsOf(on, x, last, context);
  const y = normalize(on, x, { scale, offset, mean: batch.mean, variance: batch.variance, epsilon }, last);
  const share = floatAttribute(node, 'exponential_avg_factor', 1);
  const running = (old: Value, own: Value) => mixed(g, old, own, share);
  const moved = [running(mean, batch.mean), running(variance, batch.unbiased)];
  return [y, ...moved, batch.mean, batch.variance, batch.variance];
};

/** Unfused batch normalization. Inputs: t, mean, variance, beta, gamma. */
const batchNormGlobal: Rule = (node, [x, mean, variance, offset, gamma], g, context) => {
  const on = new Arithmetic(g, context, node.name);
  const one = g.scalar(gamma.dtype, 1);
  const scale = flagAttribute(node, 'scale_after_normalization', true)
    ? gamma
    : emit(g, 'Expand', [one, g.one('Shape', [gamma])]);
  const epsilon = floatAttribute(node, 'variance_epsilon', 1e-3);
  return normalize(on, x, { scale, offset, mean, variance, epsilon }, true);
};

/** Local response normalization: TensorFlow sums over 2 r + 1 channels, ONNX takes the mean. */
const lrn: Rule = (node, [x], g, context) => {
  const size = 2 * intAttribute(node, 'depth_radius', 5) + 1;
  if (rank(x) !== 4) refuse(`needs an image, got ${rank(x)} dimensions`);
  const made = acrossChannels(makerOf(g, node.name), context.layouts.first(g, x), {
    size,
    alpha: floatAttribute(node, 'alpha', 1) * size,
    beta: floatAttribute(node, 'beta', 0.5),
    bias: floatAttribute(node, 'bias', 1),
  });
  return context.layouts.last(g, made, node.name);
};

const l2Loss: Rule = (node, [x], g) => {
  const sum = emit(g, 'ReduceSumSquare', [x], { keepdims: 0 });
  return emit(g, 'Mul', [sum, g.scalar(x.dtype, 0.5)], {}, node.name);
};

/** Moves each channel of an image away from, or closer to, its mean. */
const adjustContrast: Rule = (node, [x, factor], g) => {
  const size = rank(x);
  const mean = emit(g, 'ReduceMean', [x], { axes: [size - 3, size - 2], keepdims: 1 });
  return compute(makerOf(g, node.name), '(x - mean) * factor + mean', { x, mean, factor });
};

function addBias(node: TfNode, [x, list]: Operands, g: GraphBuilder, context: Context): Value {
  return biasAdd(new Arithmetic(g, context, node.name), x, list, channelsLast(node));
}

export const NORMALIZATION: OpTable = {
  ...takes(1, { L2Loss: l2Loss, LRN: lrn }),
  ...takes(2, { AdjustContrastv2: adjustContrast, BiasAdd: addBias, BiasAddV1: addBias }),
  ...takes(5, {
    BatchNormWithGlobalNormalization: batchNormGlobal,
    FusedBatchNorm: fusedBatchNorm,
    FusedBatchNormV2: fusedBatchNorm,
    FusedBatchNormV3: fusedBatchNorm,
  }),
};
