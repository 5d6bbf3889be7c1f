/**
 * BatchNorm, BN, Scale, Bias, LRN, MVN and Normalize. BatchNorm stores sums, not means; its third blob is the
 * divisor. Without stored statistics (training mode left on) the records of a batch influence each other.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { formatShape } from '../../../lib/contract/tensor.ts';
import {
  acrossChannels,
  batchNormalize,
  centered,
  standardized,
  unitLength,
  withinPlane,
} from '../../emit/normalize.ts';
import { alongAxis, axisIn, canEqual, expectRank, reshape } from '../../graph/layout.ts';
import { fixed, known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { ConvertLayer, LayerNode, Parameters, WantedBlob } from '../node.ts';

function channelsOf(input: Value): number {
  return known(input).length > 1 ? fixed(input, 1) : 1;
}

/** (x - mean) / sqrt(variance + eps) with the statistics of the batch. */
function batchStatistics(node: LayerNode, eps: number): Value {
  node.bindBatch();
  const axes = known(node.input()).flatMap((_, axis) => (axis === 1 ? [] : [axis]));
  return standardized(node, node.input(), axes, eps);
}

const batchNorm: ConvertLayer = (node) => {
  const parameters = node.parameters('batch_norm_param');
  const eps = parameters.number('eps', 1e-5);
  const input = node.input();
  const channels = channelsOf(input);
  if (!parameters.flag('use_global_stats', true)) return batchStatistics(node, eps);
  if (known(input).length < 2) throw badModel(`needs channels, got ${formatShape(known(input))}`);
  const scaled = node.blobCount() === 5;
  const wanted: WantedBlob[] = [
    { name: 'mean', shape: [channels] },
    { name: 'variance', shape: [channels] },
    { name: 'factor', shape: [1] },
  ];
  // NVIDIA's Caffe stores the following Scale layer here too.
  if (scaled) wanted.push({ name: 'scale', shape: [channels] }, { name: 'shift', shape: [channels] });
  const [mean, variance, factor, scale, shift] = node.weights(wanted);
  const sum = Number(factor?.constant?.data[0]);
  const by = sum === 0 ? 0 : 1 / sum;
  const divided = (value: Value | undefined, name: string) =>
    node.g.floats(
      Float32Array.from(value?.constant?.data as Float32Array, (x) => x * by),
      [channels],
      `${node.hint}/${name}`,
    );
  const stored = { mean: divided(mean, 'mean'), variance: divided(variance, 'variance'), scale, shift, eps };
  return batchNormalize(node, input, stored);
};

/** PSPNet stores slope, bias, mean, variance; SegNet scale and shift, with the statistics absorbed. */
const bn: ConvertLayer = (node) => {
  const parameters = node.parameters('bn_param');
  const input = node.input();
  const channels = channelsOf(input);
  if (node.blobCount() === 2) {
    const shape = alongAxis([channels], 1, known(input).length);
    const [scale, shift] = node.weights([
      { name: 'scale', shape },
      { name: 'shift', shape },
    ]);
    const isAbsorbed = parameters.number('bn_mode') === 1;
    const normal = isAbsorbed ? input : batchStatistics(node, parameters.number('eps', 1e-9));
    return node.one('Add', [node.one('Mul', [normal, scale]), shift]);
  }
  const names = ['slope', 'bias', 'mean', 'variance'];
  const [scale, shift, mean, variance] = node.weights(names.map((name) => ({ name, shape: [channels] }))) as [
    Value,
    Value,
    Value,
    Value,
  ];
  return batchNormalize(node, input, { scale, shift, mean, variance, eps: parameters.number('eps', 1e-5) });
};

/** The sizes of a weight: `num_axes` axes from `axis` on, or all for -1. */
function coveredBy(parameters: Parameters, input: Value): { axis: number; shape: number[] } {
  const rank = known(input).length;
  const count = parameters.number('num_axes', 1);
  const axis = axisIn(input, parameters.number('axis', 1));
  const end = count === -1 ? rank : axis + count;
  if (count < -1 || end > rank)
    throw badModel(`num_axes ${count} from axis ${axis} on is outside of ${rank} dimensions`);
  return { axis, shape: Array.from({ length: end - axis }, (_, i) => fixed(input, axis + i)) };
}

function fillerOf(parameters: Parameters, name: string) {
  const filler = parameters.child(name);
  return parameters.has(name)
    ? { type: filler.text('type') || 'constant', value: filler.number('value') }
    : undefined;
}

/** Reshapes the second input so that it broadcasts along the first from `axis` on. */
function laid(node: LayerNode, input: Value, other: Value, wantedAxis: number): Value {
  const [own, rank] = [known(other), known(input).length];
  const axis = axisIn(input, wantedAxis);
  const missing = rank - axis - own.length;
  if (missing < 0 || own.some((dim, i) => !canEqual(dim, known(input)[axis + i])))
    throw badModel(
      `${formatShape(own)} does not lie along ${formatShape(known(input))} from axis ${axis} on`,
    );
  return reshape(node, other, [...own, ...Array.from({ length: missing }, () => 1)]);
}

const scale: ConvertLayer = (node) => {
  const parameters = node.parameters('scale_param');
  const input = node.input();
  const biased = parameters.flag('bias_term');
  const two = node.inputs.length > 1;
  const rank = known(input).length;
  const wanted: WantedBlob[] = [];
  const bias = (shape: readonly number[], axis: number): WantedBlob => ({
    name: 'bias',
    shape: alongAxis(shape, axis, rank),
    filler: fillerOf(parameters, 'bias_filler'),
  });
  if (two) {
    const factor = laid(node, input, node.input(1), parameters.number('axis', 1));
    const made = node.one('Mul', [input, factor]);
    if (!biased) return made;
    const axis = axisIn(input, parameters.number('axis', 1));
    const shape = known(node.input(1)).map((_, i) => fixed(node.input(1), i));
    return node.one('Add', [made, ...node.weights([bias(shape, axis)])]);
  }
  const { axis, shape } = coveredBy(parameters, input);
  if (axis === 0) node.bindBatch();
  wanted.push({
    name: 'scale',
    shape: alongAxis(shape, axis, rank),
    filler: fillerOf(parameters, 'filler'),
  });
  if (biased) wanted.push(bias(shape, axis));
  const [factor, shift] = node.weights(wanted);
  const made = node.one('Mul', [input, factor]);
  return shift ? node.one('Add', [made, shift]) : made;
};

const bias: ConvertLayer = (node) => {
  const parameters = node.parameters('bias_param');
  const input = node.input();
  if (node.inputs.length > 1)
    return node.one('Add', [input, laid(node, input, node.input(1), parameters.number('axis', 1))]);
  const { axis, shape } = coveredBy(parameters, input);
  if (axis === 0) node.bindBatch();
  const wanted = alongAxis(shape, axis, known(input).length);
  const filler = fillerOf(parameters, 'filler');
  return node.one('Add', [input, ...node.weights([{ name: 'bias', shape: wanted, filler }])]);
};

const responseNormalization: ConvertLayer = (node) => {
  const parameters = node.parameters('lrn_param');
  const input = node.input();
  const own = {
    size: parameters.number('local_size', 5),
    alpha: parameters.number('alpha', 1),
    beta: parameters.number('beta', 0.75),
  };
  expectRank(input, 4);
  if (parameters.number('norm_region') === 0)
    return acrossChannels(node, input, { ...own, bias: parameters.number('k', 1) });
  // Within a channel Caffe ignores k.
  return withinPlane(node, input, { ...own, bias: 1 });
};

const meanVariance: ConvertLayer = (node) => {
  const parameters = node.parameters('mvn_param');
  const input = node.input();
  const from = parameters.flag('across_channels') ? 1 : 2;
  const axes = known(input).flatMap((_, axis) => (axis >= from ? [axis] : []));
  if (axes.length === 0) throw badModel(`needs an input with a plane, got ${formatShape(known(input))}`);
  if (!parameters.flag('normalize_variance', true)) return centered(node, input, axes);
  return standardized(node, input, axes, parameters.number('eps', 1e-9), 'outside');
};

/** SSD's Normalize: x / sqrt(sum of squares + eps) * scale, summed over the channels or the whole record. */
const normalize: ConvertLayer = (node) => {
  const parameters = node.parameters('norm_param');
  const input = node.input();
  const rank = known(input).length;
  if (rank < 2) throw badModel(`needs channels, got ${formatShape(known(input))}`);
  const all = Array.from({ length: rank - 1 }, (_, i) => i + 1);
  const axes = parameters.flag('across_spatial', true) ? all : [1];
  const unit = unitLength(node, input, axes, parameters.number('eps', 1e-10));
  const shape = parameters.flag('channel_shared', true) ? [1] : alongAxis([fixed(input, 1)], 1, rank);
  const filler = fillerOf(parameters, 'scale_filler');
  return node.one('Mul', [unit, ...node.weights([{ name: 'scale', shape, filler }])]);
};

export const NORMALIZATIONS: Readonly<Record<string, ConvertLayer>> = {
  BatchNorm: batchNorm,
  BN: bn,
  Bias: bias,
  LRN: responseNormalization,
  MVN: meanVariance,
  Normalize: normalize,
  Scale: scale,
};
