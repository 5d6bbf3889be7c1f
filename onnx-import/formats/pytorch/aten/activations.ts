/** Activation functions. */
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { refuse } from '../run/values.ts';
import { clampValue, float, floatOp, s, same } from './elementwise.ts';
import type { Rule, Table } from './schema.ts';
import { floating } from './types.ts';

const relu = (c: Context, x: Value): Value =>
  x.dtype === 'float32' || x.dtype === 'float64' ? c.one('Relu', [x]) : c.one('Max', [x, s(c, x, 0)]);

export function erfGelu(c: Context, x: Value): Value {
  const erf = c.one('Erf', [c.one('Mul', [x, s(c, x, Math.SQRT1_2)])]);
  return c.one('Mul', [c.one('Mul', [x, s(c, x, 0.5)]), c.one('Add', [erf, s(c, x, 1)])]);
}

function tanhGelu(c: Context, x: Value): Value {
  const cube = c.one('Mul', [c.one('Mul', [x, x]), x]);
  const inner = c.one('Add', [x, c.one('Mul', [cube, s(c, x, 0.044715)])]);
  const tanh = c.one('Tanh', [c.one('Mul', [inner, s(c, x, Math.sqrt(2 / Math.PI))])]);
  return c.one('Mul', [c.one('Mul', [x, s(c, x, 0.5)]), c.one('Add', [tanh, s(c, x, 1)])]);
}

const gelu = float((c, x, a) => {
  const approximate = a.text('approximate');
  if (approximate === 'none') return erfGelu(c, x);
  return approximate === 'tanh' ? tanhGelu(c, x) : refuse(`approximate ${approximate} is not supported`);
});

const sigmoid = (c: Context, x: Value): Value => c.one('Sigmoid', [x]);

/** Above the threshold softplus is the identity. */
const softplus = float((c, x, a) => {
  const [beta, threshold] = [a.float('beta'), a.float('threshold')];
  const steep = beta === 1 ? x : c.one('Mul', [x, s(c, x, beta)]);
  const soft = c.one('Softplus', [steep]);
  const made = beta === 1 ? soft : c.one('Div', [soft, s(c, x, beta)]);
  return c.one('Where', [c.one('Greater', [steep, s(c, x, threshold)]), x, made]);
});

const prelu: Rule = (c, a) => {
  const [x, weight] = [a.v('x'), a.v('weight')];
  const count = weight.shape?.[0];
  if (count === 1 || count === undefined) return c.one('PRelu', [x, weight]);
  const rest = Math.max(0, (x.shape?.length ?? 2) - 2);
  return c.one('PRelu', [
    x,
    c.one('Reshape', [weight, c.g.ints([count as number, ...new Array<number>(rest).fill(1)])]),
  ]);
};

const hardsigmoid = (c: Context, x: Value): Value =>
  c.one('Div', [clampValue(c, c.one('Add', [x, s(c, x, 3)]), s(c, x, 0), s(c, x, 6)), s(c, x, 6)]);

const threshold: Rule = (c, a) => {
  const x = floating(c, a.v('x'));
  return c.one('Where', [
    c.one('Greater', [x, c.number(a.raw('threshold'), x.dtype)]),
    x,
    c.number(a.raw('value'), x.dtype),
  ]);
};

const glu: Rule = (c, a) => {
  const x = a.v('x');
  const axis = a.axis('dim', x);
  const half = c.sizes.divide(c.sizeOf(x, axis), 2);
  const [one, other] = c.g.add('Split', [x, c.sizes.list(c.g, [half, half])], { axis }, { outputs: 2 });
  return c.one('Mul', [one, sigmoid(c, other as Value)]);
};

export const ACTIVATIONS: Table = {
  'relu(Tensor x)': same(relu),
  'relu6(Tensor x)': same((c, x) => clampValue(c, x, s(c, x, 0), s(c, x, 6))),
  'leaky_relu(Tensor x, Scalar negative_slope=0.01)': float((c, x, a) =>
    c.one('LeakyRelu', [x], { alpha: { float: a.float('negative_slope') } }),
  ),
  'rrelu(Tensor x, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, any generator=None)':
    float((c, x, a) => {
      if (a.bool('training')) refuse('draws random slopes in training mode; call model.eval() before saving');
      return c.one('LeakyRelu', [x], { alpha: { float: (a.float('lower') + a.float('upper')) / 2 } });
    }),
  'elu(Tensor x, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)': float((c, x, a) => {
    if (a.float('scale') !== 1 || a.float('input_scale') !== 1) refuse('a scale is not supported');
    return c.one('Elu', [x], { alpha: { float: a.float('alpha') } });
  }),
  'celu(Tensor x, Scalar alpha=1.0)': float((c, x, a) =>
    c.one('Celu', [x], { alpha: { float: a.float('alpha') } }),
  ),
  'selu(Tensor x)': floatOp('Selu'),
  "gelu(Tensor x, str approximate='none')": gelu,
  'silu(Tensor x) | swish(Tensor x)': float((c, x) => c.one('Mul', [x, sigmoid(c, x)])),
  'mish(Tensor x)': float((c, x) => c.one('Mul', [x, c.one('Tanh', [c.one('Softplus', [x])])])),
  'hardswish(Tensor x)': float((c, x) => c.one('Mul', [x, hardsigmoid(c, x)])),
  'hardsigmoid(Tensor x)': float((c, x) => hardsigmoid(c, x)),
  'hardtanh(Tensor x, Scalar min_val=-1, Scalar max_val=1)': same((c, x, a) =>
    clampValue(c, x, s(c, x, a.float('min_val')), s(c, x, a.float('max_val'))),
  ),
  'log_sigmoid(Tensor x)': float((c, x) => c.one('Neg', [c.one('Softplus', [c.one('Neg', [x])])])),
  'softplus(Tensor x, Scalar beta=1, Scalar threshold=20)': softplus,
  'softshrink(Tensor x, Scalar lambd=0.5)': float((c, x, a) => {
    const lambd = a.float('lambd');
    return c.one('Shrink', [x], { lambd: { float: lambd }, bias: { float: lambd } });
  }),
  'hardshrink(Tensor x, Scalar lambd=0.5)': float((c, x, a) =>
    c.one('Shrink', [x], { lambd: { float: a.float('lambd') }, bias: { float: 0 } }),
  ),
  'tanhshrink(Tensor x)': float((c, x) => c.one('Sub', [x, c.one('Tanh', [x])])),
  'threshold(Tensor x, Scalar threshold, Scalar value)': threshold,
  'prelu(Tensor x, Tensor weight)': prelu,
  'glu(Tensor x, int dim=-1)': glu,
};
