/** Normalizations, and weights that scale and shift. */
import { badModel } from '../../../lib/contract/errors.ts';
import { elementCount, formatShape } from '../../../lib/contract/tensor.ts';
import { averagePool } from '../../emit/pooling.ts';
import { known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { Call, Rule } from '../call.ts';
import type { Weights } from '../tensors.ts';
import { along } from './elements.ts';
import { expectChannels, plain } from './shapes.ts';
import { windowsFrom } from './windows.ts';

function numbersOf(weights: Weights | undefined, count: number, name: string): Float32Array {
  if (weights?.data.length === count) return weights.data;
  throw badModel(`has ${weights?.data.length ?? 'no'} numbers as ${name}, expected ${count}`);
}

/** The statistics of the training, for each channel. */
const batchNorm =
  (rank: number): Rule =>
  (call) => {
    const { module } = call;
    const count = module.int('nOutput');
    const eps = module.number('eps', 1e-5);
    const isLast = module.channelsLast('dataFormat');
    const affine = module.flag('affine', true);
    const mean = numbersOf(module.tensor('runningMean'), count, 'mean');
    const variance = numbersOf(module.tensor('runningVar'), count, 'variance');
    const [scale, shift] = affine ? module.parameters : [];
    const constant = (data: Float32Array, name: string) =>
      call.g.constant({ dtype: 'float32', shape: [count], data }, `${call.hint}/${name}`);
    const weights = [
      constant(affine ? numbersOf(scale, count, 'scale') : new Float32Array(count).fill(1), 'scale'),
      constant(affine ? numbersOf(shift, count, 'shift') : new Float32Array(count), 'shift'),
      constant(mean, 'mean'),
      constant(variance, 'variance'),
    ];
    return call.batched(rank, (input) =>
      call.channelsFirst(input, isLast, (value) => {
        expectChannels(value, 1, count);
        return call.one('BatchNormalization', [value, ...weights], { epsilon: { float: eps } });
      }),
    );
  };

/** The only dimension above 1, counted from 1; 0 when there is not exactly one. */
function onlyWide(size: readonly number[]): number {
  const wide = size.flatMap((dim, i) => (dim > 1 ? [i + 1] : []));
  return wide.length === 1 ? (wide[0] as number) : 0;
}

/**
 * The shape in which weights meet the input: aligned from the first dimension on, the batch before them if they are
 * one short.
 */
function laidAlong(call: Call, size: readonly number[]): number[] {
  const shape = known(call.input);
  const own = size.length === shape.length ? size : [1, ...size];
  const wide = onlyWide(own);
  const laid =
    wide > 0 && wide <= shape.length ? along(own[wide - 1] as number, wide - 1, shape.length) : own;
  const fits = laid.length === shape.length && laid.every((dim, i) => dim === 1 || dim === shape[i]);
  if (!fits) throw badModel(`has weights of [${size.join(',')}] for an input of ${formatShape(shape)}`);
  return laid as number[];
}

function weighted(call: Call, op: string, size: readonly number[]): Value {
  return call.one(op, [call.input, call.constant(firstWeights(call), laidAlong(call, size))]);
}

function firstWeights(call: Call): Weights {
  const [weights] = call.module.parameters;
  if (weights) return weights;
  throw badModel('has no weights');
}

const scale: Rule = (call) => {
  const [factor, term] = [call.module.module('cmul'), call.module.module('cadd')];
  call.module.ignore('size');
  if (!factor || !term) throw badModel('needs a CMul and a CAdd');
  return call.run(term, call.run(factor, call.activity));
};

/** A term for each element of a record. */
const add: Rule = (call) => {
  const count = call.module.int('inputSize');
  const shape = plain(known(call.input).slice(call.rank === 1 ? 0 : 1));
  if (elementCount(shape) !== count)
    throw badModel(`has ${count} terms for ${formatShape(known(call.input))}`);
  const { data } = firstWeights(call);
  if (data.length !== count) throw badModel(`has ${data.length} weights, expected ${count}`);
  return call.one('Add', [call.input, call.g.floats(data, shape)]);
};

function normalized(call: Call, power: number, eps: number): Value {
  call.expectRank(1, 2, 4);
  const axis = call.rank === 1 ? 0 : 1;
  call.bindAt(axis);
  const value = call.input;
  const size = call.one('Abs', [value]);
  if (power === Number.MAX_VALUE) {
    const largest = call.one('ReduceMax', [size], { axes: [axis], keepdims: 1 });
    return call.one('Div', [value, call.one('Add', [largest, call.scalar(eps)])]);
  }
  if (!(power > 0)) throw badModel(`has a norm of ${power}`);
  const powers = call.one('Pow', [size, call.scalar(power)]);
  const sum = call.one('ReduceSum', [powers, call.g.ints([axis])], { keepdims: 1 });
  const norm = call.one('Pow', [call.one('Add', [sum, call.scalar(eps)]), call.scalar(1 / power)]);
  return call.one('Div', [value, norm]);
}

const normalize: Rule = (call) => normalized(call, call.module.number('p'), call.module.number('eps', 1e-10));

const normalizeScale: Rule = (call) => {
  const made = normalized(call, call.module.number('p'), call.module.number('eps', 1e-10));
  call.module.ignore('scale');
  const laid = laidAlong(call, call.module.numbers('size'));
  return call.one('Mul', [made, call.constant(firstWeights(call), laid)]);
};

/** Over neighbouring channels; ONNX has this form for an odd size. */
const acrossChannels: Rule = (call) => {
  const { module } = call;
  const size = module.int('size', 5);
  const attributes = {
    size,
    alpha: { float: module.number('alpha', 1) },
    beta: { float: module.number('beta', 0.75) },
    bias: { float: module.number('k', 1) },
  };
  const isLast = module.channelsLast();
  if (size < 1 || size % 2 === 0) throw badModel(`has a size of ${size}, expected an odd one`);
  call.expectRank(4);
  call.bindAt(isLast ? 3 : 1);
  return call.channelsFirst(call.input, isLast, (value) => call.one('LRN', [value], attributes));
};

/** Over a window of the plane. */
const withinChannel: Rule = (call) => {
  const { module } = call;
  const [size, alpha, beta] = [module.int('size', 5), module.number('alpha', 1), module.number('beta', 0.75)];
  const pad = (size - 1) / 2;
  if (size < 1 || size % 2 === 0) throw badModel(`has a size of ${size}, expected an odd one`);
  const windows = windowsFrom({ kernel: [size, size], strides: [1, 1], pad: [pad, pad] });
  call.expectRank(4);
  const mean = averagePool(call, call.one('Mul', [call.input, call.input]), windows, 'padded');
  const base = call.one('Add', [call.one('Mul', [mean, call.scalar(alpha)]), call.scalar(1)]);
  return call.one('Mul', [call.input, call.one('Pow', [base, call.scalar(-beta)])]);
};

export const NORMALIZATIONS: Readonly<Record<string, Rule>> = {
  Add: add,
  BatchNormalization: batchNorm(2),
  CAdd: (call) => weighted(call, 'Add', call.module.numbers('size')),
  CMul: (call) => weighted(call, 'Mul', call.module.numbers('size')),
  Mul: (call) => call.one('Mul', [call.input, call.weight(0, [1])]),
  Normalize: normalize,
  NormalizeScale: normalizeScale,
  Scale: scale,
  SpatialBatchNormalization: batchNorm(4),
  SpatialCrossMapLRN: acrossChannels,
  SpatialWithinChannelLRN: withinChannel,
  VolumetricBatchNormalization: batchNorm(5),
};
