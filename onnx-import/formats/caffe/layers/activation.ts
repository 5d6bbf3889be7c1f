/**
 * Layers that change each element on its own. Caffe's exp, log and power work on `shift + scale * x`; neutral factors
 * are left out.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { compute, FORMULAS, namedRules } from '../../../emit/formula.ts';
import { alongAxis, axisIn, scalar } from '../../../graph/layout.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { ConvertLayer, LayerNode, Parameters } from '../node.ts';

/** A formula of the input x. */
const formula =
  (text: string): ConvertLayer =>
  (node) =>
    compute(node, text, { x: node.input() });

/** shift + scale * x */
function shifted(node: LayerNode, parameters: Parameters): Value {
  const [scale, shift] = [parameters.number('scale', 1), parameters.number('shift', 0)];
  const scaled = scale === 1 ? node.input() : node.one('Mul', [node.input(), scalar(node, scale)]);
  return shift === 0 ? scaled : node.one('Add', [scaled, scalar(node, shift)]);
}

/** The natural logarithm of the base; -1, the default, stands for e. */
function lnBase(parameters: Parameters): number {
  const base = parameters.number('base', -1);
  if (base === -1) return 1;
  if (base > 0) return Math.log(base);
  throw badModel(`base must be positive or -1, got ${base}`);
}

/** 0 is what most files have, and the plain operator is faster. */
function leaky(node: LayerNode, x: Value, slope: number): Value {
  return compute(node, slope === 0 ? 'Relu(x)' : 'LeakyRelu(x, alpha=slope)', { x, slope });
}

const relu: ConvertLayer = (node) =>
  leaky(node, node.input(), node.parameters('relu_param').number('negative_slope'));

const relu6: ConvertLayer = (node) => {
  const slope = Math.max(
    node.parameters('relu6_param').number('negative_slope'),
    node.parameters('relu_param').number('negative_slope'),
  );
  const top = node.parameters('relu6_param').number('threshold', 6);
  const text = slope === 0 ? 'Clip(x, 0, top)' : 'Min(LeakyRelu(x, alpha=slope), top)';
  return compute(node, text, { x: node.input(), slope, top });
};

const prelu: ConvertLayer = (node) => {
  const parameters = node.parameters('prelu_param');
  const input = node.input();
  const shared = parameters.flag('channel_shared');
  const channels = shared ? 1 : fixed(input, axisIn(input, 1));
  const own = parameters.child('filler');
  const filler = parameters.has('filler')
    ? { type: own.text('type') || 'constant', value: own.number('value') }
    : undefined;
  const shape = shared ? [1] : alongAxis([channels], 1, known(input).length);
  return node.one('PRelu', [input, ...node.weights([{ name: 'slope', shape, filler }])]);
};

const power: ConvertLayer = (node) => {
  const parameters = node.parameters('power_param');
  const exponent = parameters.number('power', 1);
  const inner = shifted(node, parameters);
  if (exponent === 1) return inner;
  if (exponent === 2) return node.one('Mul', [inner, inner]);
  return node.one('Pow', [inner, scalar(node, exponent)]);
};

const exp: ConvertLayer = (node) => {
  const parameters = node.parameters('exp_param');
  const inner = shifted(node, parameters);
  const ln = lnBase(parameters);
  return node.one('Exp', [ln === 1 ? inner : node.one('Mul', [inner, scalar(node, ln)])]);
};

const log: ConvertLayer = (node) => {
  const parameters = node.parameters('log_param');
  const made = node.one('Log', [shifted(node, parameters)]);
  const ln = lnBase(parameters);
  return ln === 1 ? made : node.one('Mul', [made, scalar(node, 1 / ln)]);
};

const swish: ConvertLayer = (node) => {
  const beta = node.parameters('swish_param').number('beta', 1);
  return compute(node, beta === 1 ? FORMULAS.swish : 'x * Sigmoid(x * beta)', { x: node.input(), beta });
};

const clip: ConvertLayer = (node) => {
  const parameters = node.parameters('clip_param');
  if (!parameters.has('min') || !parameters.has('max')) throw badModel('clip_param needs min and max');
  const [min, max] = [parameters.number('min'), parameters.number('max')];
  return compute(node, 'Clip(x, min, max)', { x: node.input(), min, max });
};

const threshold: ConvertLayer = (node) => {
  const limit = node.parameters('threshold_param').number('threshold');
  return node.one('Cast', [node.one('Greater', [node.input(), scalar(node, limit)])], { to: 1 });
};

/** [relu(x), relu(-x)] */
const concatenated: ConvertLayer = (node) => {
  const parameters = node.parameters('crelu_param');
  const half = (value: Value) => leaky(node, value, parameters.number('negative_slope'));
  const axis = axisIn(node.input(), parameters.number('concat_axis', 1));
  if (axis === 0) node.bindBatch();
  return node.one('Concat', [half(node.input()), half(node.one('Neg', [node.input()]))], { axis });
};

const softmax: ConvertLayer = (node) => {
  const axis = axisIn(node.input(), node.parameters('softmax_param').number('axis', 1));
  if (axis === 0) node.bindBatch();
  return node.one('Softmax', [node.input()], { axis });
};

export const ACTIVATIONS: Readonly<Record<string, ConvertLayer>> = {
  ...namedRules('AbsVal:Abs BNLL:Softplus Sigmoid TanH:Tanh', (op) => formula(`${op}(x)`)),
  CReLU: concatenated,
  Clip: clip,
  ELU: (node) =>
    node.one('Elu', [node.input()], { alpha: { float: node.parameters('elu_param').number('alpha', 1) } }),
  Exp: exp,
  Log: log,
  Mish: formula(FORMULAS.mish),
  PReLU: prelu,
  Power: power,
  ReLU: relu,
  ReLU6: relu6,
  Softmax: softmax,
  Swish: swish,
  Threshold: threshold,
};
