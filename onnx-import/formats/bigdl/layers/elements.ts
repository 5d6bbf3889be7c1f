/** Modules that change each element on its own, and layers that are the identity once a model is trained. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { compute, FORMULAS, namedRules } from '../../../emit/formula.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { Call, Rule } from '../call.ts';

/** A formula of the input x and of the module's numbers. */
const formula =
  (text: string): Rule =>
  (call) =>
    compute(call, text, { x: call.input }, (name) => call.module.number(name));

const FLOAT = { to: 1 };

function times(call: Call, value: Value, factor: number): Value {
  return factor === 1 ? value : call.one('Mul', [value, call.scalar(factor)]);
}

function plus(call: Call, value: Value, term: number): Value {
  return term === 0 ? value : call.one('Add', [value, call.scalar(term)]);
}

/** (shift + scale * x) ^ power */
const power: Rule = (call) => {
  const { module } = call;
  const [exponent, scale, shift] = [
    module.number('power'),
    module.number('scale', 1),
    module.number('shift', 0),
  ];
  const inner = plus(call, times(call, call.input, scale), shift);
  if (exponent === 1) return inner;
  return exponent === 2 ? call.one('Mul', [inner, inner]) : call.one('Pow', [inner, call.scalar(exponent)]);
};

/** It scales when the model is used, not while it is trained. */
const spatialDropout: Rule = (call) => {
  call.module.ignore('format');
  return times(call, call.input, 1 - call.module.number('initP'));
};

/** Without `scale`, the factor that training leaves out is applied here. */
const dropout: Rule = (call) => {
  const rate = call.module.number('initP');
  return call.module.flag('scale', true) ? call.input : times(call, call.input, 1 - rate);
};

const softPlus: Rule = (call) => {
  const beta = call.module.number('beta');
  return times(call, call.one('Softplus', [times(call, call.input, beta)]), 1 / beta);
};

/** Shrinks toward zero by `lambda`, or sets to zero what is within. */
const shrink =
  (bias: boolean): Rule =>
  (call) => {
    const lambd = call.module.number('lambda');
    const attributes = { lambd: { float: lambd }, bias: { float: bias ? lambd : 0 } };
    return call.shaped('Shrink', [call.input], attributes, known(call.input));
  };

const binaryThreshold: Rule = (call) => call.one('Cast', [formula('x > th')(call) as Value], FLOAT);

/** One slope, or one for each channel: the first axis of a record. */
const prelu: Rule = (call) => {
  const planes = call.module.int('nOutputPlane');
  if (planes === 0) return call.one('PRelu', [call.input, call.weight(0, [1])]);
  call.expectRank(1, 2, 3, 4);
  const axis = (call.rank + 1) % 2;
  if (fixed(call.input, axis) !== planes)
    throw badModel(`has ${planes} slopes for an input of ${formatShape(known(call.input))}`);
  return call.one('PRelu', [call.input, call.weight(0, along(planes, axis, call.rank))]);
};

/** The shape in which a list lies along one axis. */
export function along(size: number, axis: number, rank: number): number[] {
  return Array.from({ length: rank }, (_, i) => (i === axis ? size : 1));
}

/**
 * BigDL adds the left threshold to the right one at every call, so that its answers drift unless the left one is 0.
 */
const srelu: Rule = (call) => {
  const { module } = call;
  const shape = [...module.numbers('shape')];
  for (const axis of module.list('sharedAxes') ?? []) shape[axis - 1] = 1;
  module.ignore('tLeft', 'aLeft', 'tRight', 'aRight');
  const weights = ['tLeft', 'aLeft', 'tRight', 'aRight'].map((name) => {
    const own = module.tensor(name);
    if (!own) throw badModel(`has no weights "${name}"`);
    return own;
  });
  if (weights[0]?.data.some((element) => element !== 0))
    throw badModel(
      'has left thresholds other than 0, with which each of its answers differs from the one before',
    );
  const [, slope, limit, steep] = weights.map((each) => call.constant(each, shape));
  return compute(
    call,
    'right = Abs(limit); above = right + steep * (x - right); Where(x >= right, above, Where(x <= 0, slope * x, x))',
    { x: call.input, slope: slope as Value, limit: limit as Value, steep: steep as Value },
  );
};

/** Softmax over the channels: the last axis of 1 or 2 dimensions, the first of a record of images. */
function softmaxAxis(call: Call): number {
  const { rank, job } = call;
  const position = call.module.int('pos', 1);
  if (position !== 1) throw badModel(`takes dimension ${position}, expected 1`);
  if (job.version >= 2) return rank - 1;
  if (rank < 1 || rank > 4) throw badModel(`needs 1 to 4 dimensions, got ${formatShape(known(call.input))}`);
  return rank === 1 || rank === 3 ? 0 : 1;
}

const softmax: Rule = (call) => {
  const axis = softmaxAxis(call);
  call.bindAt(axis);
  return call.one('Softmax', [call.input], { axis });
};

const softmin: Rule = (call) => {
  call.expectRank(1, 2, 3, 4);
  const axis = call.rank === 1 || call.rank === 3 ? 0 : 1;
  call.bindAt(axis);
  return call.one('Softmax', [call.one('Neg', [call.input])], { axis });
};

const logSoftmax: Rule = (call) => {
  call.expectRank(1, 2);
  call.bindAt(call.rank - 1);
  return call.one('LogSoftmax', [call.input], { axis: call.rank - 1 });
};

/** A module that trains only. @param names its attributes */
const identity =
  (...names: readonly string[]): Rule =>
  (call) => {
    call.module.ignore(...names);
    return call.activity;
  };

export const ELEMENTS: Readonly<Record<string, Rule>> = {
  ...namedRules('Abs Exp Log ReLU:Relu Sigmoid SoftSign:Softsign Sqrt Tanh', (op) => formula(`${op}(x)`)),
  ActivityRegularization: identity('l1', 'l2'),
  AddConstant: (call) => plus(call, call.input, call.module.number('constant_scalar')),
  BinaryThreshold: binaryThreshold,
  Clamp: formula('Clip(x, minV, maxV)'),
  Contiguous: identity(),
  Dropout: dropout,
  ELU: formula('Elu(x, alpha=alpha)'),
  Echo: identity('feval', 'beval'),
  GaussianDropout: identity('rate'),
  GaussianNoise: identity('stddev'),
  GradientReversal: identity('lambda'),
  HardShrink: shrink(false),
  HardSigmoid: (call) => compute(call, 'HardSigmoid(x, alpha=a, beta=b)', { x: call.input, a: 0.2, b: 0.5 }),
  HardTanh: formula('Clip(x, minValue, maxValue)'),
  Identity: identity(),
  Input: identity(),
  L1Penalty: identity('l1weight', 'sizeAverage', 'provideOutput'),
  LeakyReLU: formula('LeakyRelu(x, alpha=negval)'),
  LogSigmoid: formula(FORMULAS.logSigmoid),
  LogSoftMax: logSoftmax,
  MulConstant: (call) => times(call, call.input, call.module.number('constant')),
  Negative: formula('-x'),
  NegativeEntropyPenalty: identity('beta'),
  PReLU: prelu,
  Power: power,
  RReLU: (call) => {
    const slope = (call.module.number('lower') + call.module.number('upper')) / 2;
    return compute(call, 'LeakyRelu(x, alpha=slope)', { x: call.input, slope });
  },
  ReLU6: formula('Clip(x, 0, 6)'),
  SReLU: srelu,
  SoftMax: softmax,
  SoftMin: softmin,
  SoftPlus: softPlus,
  SoftShrink: shrink(true),
  SpatialDropout1D: spatialDropout,
  SpatialDropout2D: spatialDropout,
  SpatialDropout3D: spatialDropout,
  Square: formula(FORMULAS.square),
  TanhShrink: formula(FORMULAS.tanhShrink),
  Threshold: formula('Where(x > th, x, v)'),
};
