/** Activations and softmax. Their parameters are inputs, which must be constants. */
import { constantNumber } from '../../../graph/numbers.ts';
import { axisOf, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { OpTable, OvNode, Rule } from '../node.ts';
import { isFloat, scalar, unary } from './elementwise.ts';

function parameter(node: OvNode, i: number, name: string): { float: number } {
  return { float: constantNumber(node.input(i), name) };
}

const relu: Rule = (node) => {
  const x = node.input();
  const slope = node.number('negative_slope', 0);
  if (slope !== 0) return node.one('LeakyRelu', [x], { alpha: { float: slope } });
  return isFloat(x) ? node.one('Relu', [x]) : node.one('Max', [x, scalar(node, x, 0)]);
};

/** A slope for each channel lies on axis 1. */
export const prelu: Rule = (node) => {
  const [x, slope] = [node.input(0), node.input(1)];
  const [shape, own] = [known(x), known(slope)];
  if (own.length !== 1 || own[0] === 1 || shape.length < 2 || own[0] !== shape[1])
    return node.one('PRelu', [x, slope]);
  const axes = Array.from({ length: shape.length - 2 }, (_, i) => i + 1);
  return node.one('PRelu', [
    x,
    axes.length > 0 ? node.g.one('Unsqueeze', [slope, node.g.ints(axes)]) : slope,
  ]);
};

export function gelu(node: OvNode, x: Value, isTanh: boolean): Value {
  const half = node.g.one('Mul', [x, scalar(node, x, 0.5)]);
  if (!isTanh) {
    const curve = node.g.one('Erf', [node.g.one('Mul', [x, scalar(node, x, Math.SQRT1_2)])]);
    return node.one('Mul', [half, node.g.one('Add', [curve, scalar(node, x, 1)])]);
  }
  const cube = node.g.one('Mul', [
    node.g.one('Mul', [x, x]),
    node.g.one('Mul', [x, scalar(node, x, 0.044715)]),
  ]);
  const inner = node.g.one('Mul', [node.g.one('Add', [x, cube]), scalar(node, x, Math.sqrt(2 / Math.PI))]);
  return node.one('Mul', [half, node.g.one('Add', [node.g.one('Tanh', [inner]), scalar(node, x, 1)])]);
}

const geluRule: Rule = (node) =>
  gelu(node, node.input(), node.choice('approximation_mode', ['erf', 'tanh'], 'erf') === 'tanh');

const swish: Rule = (node) => {
  const [x, beta] = [node.input(0), node.optional(1)];
  return node.one('Mul', [x, node.g.one('Sigmoid', [beta ? node.g.one('Mul', [x, beta]) : x])]);
};

/** min(max(x + 3, 0), 6) / 6 */
function hardSigmoid6(node: OvNode, x: Value): Value {
  const shifted = node.g.one('Add', [x, scalar(node, x, 3)]);
  const cut = node.g.one('Clip', [shifted, scalar(node, x, 0), scalar(node, x, 6)]);
  return node.one('Div', [cut, scalar(node, x, 6)]);
}

const mish: Rule = (node) => {
  const x = node.input();
  return node.one('Mul', [x, node.g.one('Tanh', [node.g.one('Softplus', [x])])]);
};

const softmax =
  (op: string): Rule =>
  (node) => {
    const x = node.input();
    const axis = axisOf(node.whole('axis', op === 'LogSoftmax' ? -1 : 1), known(x).length);
    return node.one(op, [x], { axis });
  };

export const ACTIVATIONS: OpTable = {
  Elu: (node) => node.one('Elu', [node.input()], { alpha: { float: node.number('alpha', 1) } }),
  Gelu: geluRule,
  HSigmoid: (node) => hardSigmoid6(node, node.input()),
  HSwish: (node) => node.one('Mul', [node.input(), hardSigmoid6(node, node.input())]),
  HardSigmoid: (node) =>
    node.one('HardSigmoid', [node.input()], {
      alpha: parameter(node, 1, 'alpha'),
      beta: parameter(node, 2, 'beta'),
    }),
  LogSoftmax: softmax('LogSoftmax'),
  Mish: mish,
  PReLU: prelu,
  ReLU: relu,
  Selu: (node) =>
    node.one('Selu', [node.input()], {
      alpha: parameter(node, 1, 'alpha'),
      gamma: parameter(node, 2, 'lambda'),
    }),
  SoftMax: softmax('Softmax'),
  SoftPlus: unary('Softplus'),
  SoftSign: unary('Softsign'),
  Softmax: softmax('Softmax'),
  Swish: swish,
};
