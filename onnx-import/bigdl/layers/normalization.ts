/** Normalizations, and weights that scale and shift. */
import { badModel } from '../../../lib/contract/errors.ts';
import { elementCount, formatShape } from '../../../lib/contract/tensor.ts';
import { acrossChannels, batchNormalize, type Neighbours, withinPlane } from '../../emit/normalize.ts';
import { reduce } from '../../emit/reduce.ts';
import { known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { Call, Rule } from '../call.ts';
import type { Weights } from '../tensors.ts';
import { along } from './elements.ts';
import { expectChannels, plain } from './shapes.ts';

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
    const stored = {
      mean: constant(mean, 'mean'),
      variance: constant(variance, 'variance'),
      scale: affine ? constant(numbersOf(scale, count, 'scale'), 'scale') : undefined,
      shift: affine ? constant(numbersOf(shift, count, 'shift'), 'shift') : undefined,
      eps,
    };
    return call.batched(rank, (input) =>
      call.channelsFirst(input, isLast, (value) => {
        expectChannels(value, 1, count);
        return batchNormalize(call, value, stored);
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
    const largest = reduce(call, 'ReduceMax', size, [axis], true);
    return call.one('Div', [value, call.one('Add', [largest, call.scalar(eps)])]);
  }
  if (!(power > 0)) throw badModel(`has a norm of ${power}`);
  const powers = call.one('Pow', [size, call.scalar(power)]);
  const sum = reduce(call, 'ReduceSum', powers, [axis], true);
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

function neighboursOf({ module }: Call): Neighbours {
  const [size, alpha, beta] = [module.int('size', 5), module.number('alpha', 1), module.number('beta', 0.75)];
  return { size, alpha, beta, bias: 1 };
}

const channelNeighbours: Rule = (call) => {
  const given = { ...neighboursOf(call), bias: call.module.number('k', 1) };
  const isLast = call.module.channelsLast();
  call.expectRank(4);
  call.bindAt(isLast ? 3 : 1);
  return call.channelsFirst(call.input, isLast, (value) => acrossChannels(call, value, given));
};

const planeNeighbours: Rule = (call) => {
  call.expectRank(4);
  plain(known(call.input).slice(2));
  return withinPlane(call, call.input, neighboursOf(call));
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
  SpatialCrossMapLRN: channelNeighbours,
  SpatialWithinChannelLRN: planeNeighbours,
  VolumetricBatchNormalization: batchNorm(5),
};
