/** Layers of versions 2 to 7 that have their weights as blobs, and pooling, which names its windows like them. */

import { badModel } from '../../../../lib/contract/errors.ts';
import { assertGroups, convolve, convolveBack } from '../../../emit/convolution.ts';
import { compute } from '../../../emit/formula.ts';
import { cutAlong } from '../../../emit/gather.ts';
import { assertWindows, type PaddedWindows } from '../../../emit/windows.ts';
import { fixed, known, product } from '../../../graph/shapes.ts';
import type { Dim, Value } from '../../../graph/value.ts';
import type { OpTable, OvNode, Rule } from '../node.ts';
import { readConstant } from '../weights.ts';
import { MODES } from './convolution.ts';
import { ofUnitLength } from './normalization.ts';
import { averages, maxima, rounded } from './pooling.ts';
import { oneStep } from './recurrent.ts';
import { alongBatch, reshapeKnown } from './shaping.ts';

/** Versions 2 and 3 name the two axes one by one: `kernel-x`, `pad-y`, `pad-r`. */
const OLD_NAMES: Readonly<Record<string, readonly [string, string, number | undefined]>> = {
  kernel: ['kernel-y', 'kernel-x', undefined],
  strides: ['stride-y', 'stride-x', 1],
  dilations: ['dilation-y', 'dilation-x', 1],
  pads_begin: ['pad-y', 'pad-x', 0],
};

function pairOf(node: OvNode, name: string): readonly number[] {
  const [y, x, fallback] = OLD_NAMES[name] as readonly [string, string, number | undefined];
  if (node.has(name)) return node.numbers(name);
  return [node.number(y, fallback), node.number(x, fallback)];
}

function windowsOf(node: OvNode, x: Value): PaddedWindows {
  const kernel = pairOf(node, 'kernel');
  const strides = pairOf(node, 'strides');
  const dilations = pairOf(node, 'dilations');
  const begin = pairOf(node, 'pads_begin');
  const [bottom, right] = [node.number('pad-b', begin[0]), node.number('pad-r', begin[1] ?? 0)];
  const end = node.has('pads_end') ? node.numbers('pads_end') : [bottom, right];
  const mode = node.choice('auto_pad', MODES, 'explicit');
  // The paddings that the file's tool computed stand beside same_upper.
  if (mode.startsWith('same') && !node.has('pads_end')) throw badModel('has no paddings beside its auto_pad');
  const pads = mode === 'valid' ? [...begin, ...end].map(() => 0) : [...begin, ...end];
  const windows = { kernel, strides, dilations, pads };
  assertWindows(windows);
  if (kernel.length !== known(x).length - 2) throw badModel(`has a kernel of ${kernel.length} axes`);
  return windows;
}

const convolution =
  (isBack: boolean): Rule =>
  (node) => {
    const x = node.input(0);
    const windows = windowsOf(node, x);
    const { kernel } = windows;
    const [group, outputs] = [node.whole('group', 1), node.whole('output')];
    const channels = fixed(x, 1);
    assertGroups(group, channels, outputs);
    const shape = isBack ? [channels, outputs / group, ...kernel] : [outputs, channels / group, ...kernel];
    const given = node.optional(1);
    const weights = given ? node.g.one('Reshape', [given, node.g.ints(shape)]) : node.blob('weights', shape);
    const bias =
      node.optional(2) ?? (node.layer.blobs.has('biases') ? node.blob('biases', [outputs]) : undefined);
    return (isBack ? convolveBack : convolve)(node, x, windows, { weights, bias, group });
  };

const fullyConnected: Rule = (node) => {
  const x = node.input(0);
  const outputs = node.whole('out-size');
  const size = product(known(x).slice(1));
  if (typeof size !== 'number') throw badModel('needs fixed sizes; give them with --input');
  const flat = reshapeKnown(node, x, [known(x)[0] as Dim, size]);
  const weights = node.optional(1) ?? node.blob('weights', [outputs, size]);
  const bias =
    node.optional(2) ?? (node.layer.blobs.has('biases') ? node.blob('biases', [outputs]) : undefined);
  return node.one('Gemm', [flat, weights, ...(bias ? [bias] : [])], { transB: 1 });
};

const pooling: Rule = (node) => {
  const x = node.input();
  const rounding = node.choice(
    node.has('rounding_type') ? 'rounding_type' : 'rounding-type',
    ['floor', 'ceil'],
    'floor',
  );
  const windows = rounded(windowsOf(node, x), rounding);
  const method = node.choice('pool-method', ['max', 'avg'], 'max');
  const excludesPads = node.flag('exclude-pad', false);
  return method === 'max'
    ? (maxima(node, x, windows, 1)[0] as Value)
    : averages(node, x, windows, excludesPads);
};

/** Numbers of channels, along axis 1. */
function perChannel(node: OvNode, x: Value, name: string): Value | undefined {
  if (!node.layer.blobs.has(name)) return undefined;
  const rank = known(x).length;
  return node.blob(name, rank < 2 ? [fixed(x, 0)] : [fixed(x, 1), ...new Array<number>(rank - 2).fill(1)]);
}

const scaleShift: Rule = (node) => {
  const x = node.input();
  if (node.flag('broadcast', false)) node.ignore('broadcast');
  const [scale, shift] = [perChannel(node, x, 'weights'), perChannel(node, x, 'biases')];
  if (!scale && !shift) throw badModel('has neither weights nor biases');
  const scaled = scale ? node.one('Mul', [x, scale]) : x;
  return shift ? node.one('Add', [scaled, shift]) : scaled;
};

const batchNormalization: Rule = (node) => {
  const x = node.input();
  const [variance, mean] = [perChannel(node, x, 'weights'), perChannel(node, x, 'biases')];
  if (!variance || !mean) throw badModel('has no mean or no variance');
  const eps = node.number('epsilon');
  return compute(node, '(x - mean) / Sqrt(variance + eps)', { x, mean, variance, eps });
};

const normalize: Rule = (node) => {
  const x = node.input();
  const axes = node.flag('across_spatial', false)
    ? Array.from({ length: known(x).length - 1 }, (_, i) => i + 1)
    : [1];
  const unit = ofUnitLength(node, x, axes, node.number('eps'));
  const isShared = node.flag('channel_shared', false);
  return node.one('Mul', [
    unit,
    isShared ? node.blob('weights', [1]) : (perChannel(node, x, 'weights') ?? node.blob('weights')),
  ]);
};

const prelu: Rule = (node) => {
  const x = node.input();
  return node.one('PRelu', [
    x,
    node.flag('channel_shared', false)
      ? node.blob('weights', [1])
      : (perChannel(node, x, 'weights') ?? node.blob('weights')),
  ]);
};

const constant: Rule = (node) => {
  const place = node.layer.blobs.get('custom');
  const port = node.layer.outputs[0];
  if (!place || !port) throw badModel('has no blob');
  const type = port.precision || node.layer.precision || 'f32';
  return node.g.constant(readConstant(node.net.weights, place, type, port.dims), node.hint);
};

/** The weights of input and state stand side by side in each row. */
const cell =
  (kind: 'LSTM' | 'GRU' | 'RNN', gates: number): Rule =>
  (node) => {
    const hidden = node.whole('hidden_size');
    const x = node.input(0);
    const size = fixed(x, 1);
    const states = Array.from({ length: kind === 'LSTM' ? 2 : 1 }, (_, i) =>
      alongBatch(node, node.input(i + 1), x, 0),
    );
    const whole = node.blob('weights', [gates * hidden, size + hidden]);
    const isReset = node.flag('linear_before_reset', false);
    const bias = node.blob('biases', [(isReset ? gates + 1 : gates) * hidden]);
    return oneStep(node, kind, x, states, {
      input: cutAlong(node, whole, 1, 0, size),
      state: cutAlong(node, whole, 1, size, size + hidden),
      bias,
    });
  };

export const BLOB_LAYERS: OpTable = {
  BatchNormalization: batchNormalization,
  Const: constant,
  Convolution: convolution(false),
  Deconvolution: convolution(true),
  FullyConnected: fullyConnected,
  GRUCell: cell('GRU', 3),
  InnerProduct: fullyConnected,
  LSTMCell: cell('LSTM', 4),
  Normalize: normalize,
  PReLU: prelu,
  Pooling: pooling,
  RNNCell: cell('RNN', 1),
  ScaleShift: scaleShift,
};
