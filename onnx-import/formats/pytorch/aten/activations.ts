/** Activation functions. */
import { compute, FORMULAS } from '../../../emit/formula.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { refuse } from '../run/values.ts';
import { float, floats, numbers, s, same } from './elementwise.ts';
import type { Rule, Table } from './schema.ts';
import { floating } from './types.ts';

const relu = (c: Context, x: Value): Value =>
  x.dtype === 'float32' || x.dtype === 'float64' ? c.one('Relu', [x]) : c.one('Max', [x, s(c, x, 0)]);

const gelu = float((c, x, a) => {
  const approximate = a.text('approximate');
  if (approximate === 'none') return compute(c, FORMULAS.gelu, { x });
  if (approximate === 'tanh') return compute(c, FORMULAS.tanhGelu, { x });
  return refuse(`approximate ${approximate} is not supported`);
});

/** Above the threshold softplus is the identity. */
const softplus = float((c, x, a) => {
  const [beta, threshold] = [a.float('beta'), a.float('threshold')];
  const text =
    beta === 1
      ? 'Where(x > threshold, x, Softplus(x))'
      : 'steep = x * beta; Where(steep > threshold, x, Softplus(steep) / beta)';
  return compute(c, text, { x, beta, threshold });
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

const HARD_SIGMOID = 'Min(Max(x + 3, 0), 6) / 6';

const threshold: Rule = (c, a) => {
  const x = floating(c, a.v('x'));
  const number = (name: string) => c.number(a.raw(name), x.dtype);
  return compute(c, 'Where(x > threshold, x, value)', {
    x,
    threshold: number('threshold'),
    value: number('value'),
  });
};

const glu: Rule = (c, a) => {
  const x = a.v('x');
  const axis = a.axis('dim', x);
  const half = c.sizes.divide(c.sizeOf(x, axis), 2);
  const [one, other] = c.g.add('Split', [x, c.sizes.list(c.g, [half, half])], { axis }, { outputs: 2 });
  return compute(c, 'x * Sigmoid(y)', { x: one as Value, y: other as Value });
};

export const ACTIVATIONS: Table = {
  'relu(Tensor x)': same(relu),
  'relu6(Tensor x)': numbers('Min(Max(x, 0), 6)'),
  'leaky_relu(Tensor x, Scalar negative_slope=0.01)': floats('LeakyRelu(x, alpha=negative_slope)'),
  'rrelu(Tensor x, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, any generator=None)':
    float((c, x, a) => {
      if (a.bool('training')) refuse('draws random slopes in training mode; call model.eval() before saving');
      return c.one('LeakyRelu', [x], { alpha: { float: (a.float('lower') + a.float('upper')) / 2 } });
    }),
  'elu(Tensor x, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)': float((c, x, a) => {
    if (a.float('scale') !== 1 || a.float('input_scale') !== 1) refuse('a scale is not supported');
    return compute(c, 'Elu(x, alpha=alpha)', { x, alpha: a.float('alpha') });
  }),
  'celu(Tensor x, Scalar alpha=1.0)': floats('Celu(x, alpha=alpha)'),
  'selu(Tensor x)': floats('Selu(x)'),
  "gelu(Tensor x, str approximate='none')": gelu,
  'silu(Tensor x) | swish(Tensor x)': floats(FORMULAS.swish),
  'mish(Tensor x)': floats(FORMULAS.mish),
  'hardswish(Tensor x)': floats(`x * (${HARD_SIGMOID})`),
  'hardsigmoid(Tensor x)': floats(HARD_SIGMOID),
  'hardtanh(Tensor x, Scalar min_val=-1, Scalar max_val=1)': numbers('Min(Max(x, min_val), max_val)'),
  'log_sigmoid(Tensor x)': floats(FORMULAS.logSigmoid),
  'softplus(Tensor x, Scalar beta=1, Scalar threshold=20)': softplus,
  'softshrink(Tensor x, Scalar lambd=0.5)': floats('Shrink(x, lambd=lambd, bias=lambd)'),
  'hardshrink(Tensor x, Scalar lambd=0.5)': float((c, x, a) =>
    compute(c, 'Shrink(x, lambd=lambd, bias=bias)', { x, lambd: a.float('lambd'), bias: 0 }),
  ),
  'tanhshrink(Tensor x)': floats(FORMULAS.tanhShrink),
  'threshold(Tensor x, Scalar threshold, Scalar value)': threshold,
  'prelu(Tensor x, Tensor weight)': prelu,
  'glu(Tensor x, int dim=-1)': glu,
};
