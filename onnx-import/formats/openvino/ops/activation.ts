/** Activations and softmax. Their parameters are inputs, which must be constants. */
import { compute, FORMULAS } from '../../../emit/formula.ts';
import { constantNumber } from '../../../graph/numbers.ts';
import { axisOf, known } from '../../../graph/shapes.ts';
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

/** A formula of the input x and of the layer's numbers. */
const formula =
  (text: string): Rule =>
  (node) =>
    compute(node, text, { x: node.input() }, (name) => node.number(name));

const gelu: Rule = (node) => {
  const isTanh = node.choice('approximation_mode', ['erf', 'tanh'], 'erf') === 'tanh';
  return formula(isTanh ? FORMULAS.tanhGelu : FORMULAS.gelu)(node);
};

const swish: Rule = (node) => {
  const [x, beta] = [node.input(0), node.optional(1)];
  return beta ? compute(node, 'x * Sigmoid(x * beta)', { x, beta }) : compute(node, FORMULAS.swish, { x });
};

const HARD_SIGMOID = 'Clip(x + 3, 0, 6) / 6';

const softmax =
  (op: string): Rule =>
  (node) => {
    const x = node.input();
    const axis = axisOf(node.whole('axis', op === 'LogSoftmax' ? -1 : 1), known(x).length);
    return node.one(op, [x], { axis });
  };

export const ACTIVATIONS: OpTable = {
  Elu: (node) => node.one('Elu', [node.input()], { alpha: { float: node.number('alpha', 1) } }),
  Gelu: gelu,
  HSigmoid: formula(HARD_SIGMOID),
  HSwish: formula(`x * (${HARD_SIGMOID})`),
  HardSigmoid: (node) =>
    node.one('HardSigmoid', [node.input()], {
      alpha: parameter(node, 1, 'alpha'),
      beta: parameter(node, 2, 'beta'),
    }),
  LogSoftmax: softmax('LogSoftmax'),
  Mish: formula(FORMULAS.mish),
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
