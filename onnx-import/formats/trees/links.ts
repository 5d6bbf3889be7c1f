/** How an objective turns the sums of trees into predictions, in operators of ONNX. */
import { ELEMENT_TYPES } from '../../graph/attributes.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import type { Value } from '../../graph/value.ts';

export type Link =
  | { readonly kind: 'identity' | 'exp' | 'softmax' | 'argmax' | 'softplus' | 'signed_square' | 'step' }
  /** 1 / (1 + exp(-scale * x)) */
  | { readonly kind: 'sigmoid'; readonly scale: number };

/**
 * In float64, because onnxruntime's Sigmoid has an absolute error of 1e-7, and rounding a sum of -69 to float32 moves its
 * probability by 4e-6 of itself.
 * @param x [rows, outputs]
 */
export function linked(g: GraphBuilder, x: Value, link: Link): Value {
  const cast = (value: Value, to: 'float32' | 'float64') =>
    value.dtype === to ? value : g.one('Cast', [value], { to: ELEMENT_TYPES[to] });
  const value = valueOf(g, x, link, (of) => cast(of, 'float64'));
  return cast(value, 'float32');
}

function valueOf(g: GraphBuilder, x: Value, link: Link, wide: (value: Value) => Value): Value {
  switch (link.kind) {
    case 'identity':
      return x;
    case 'step':
      return g.one('Greater', [x, g.scalar(x.dtype, 0)]);
    case 'argmax':
      return g.one('ArgMax', [x], { axis: 1, keepdims: 1 });
    case 'exp':
      return g.one('Exp', [wide(x)]);
    case 'softplus':
      return softplus(g, wide(x));
    case 'signed_square':
      return g.one('Mul', [wide(x), g.one('Abs', [wide(x)])]);
    case 'softmax': {
      // XGBoost rounds this difference to float32.
      const below = g.one('Sub', [x, g.one('ReduceMax', [x], { axes: [1], keepdims: 1 })]);
      const exp = g.one('Exp', [wide(below)]);
      return g.one('Div', [exp, g.one('ReduceSum', [exp, g.ints([1])], { keepdims: 1 })]);
    }
    case 'sigmoid': {
      const exp = g.one('Exp', [g.one('Mul', [wide(x), g.scalar('float64', -link.scale)])]);
      return g.one('Div', [g.scalar('float64', 1), g.one('Add', [exp, g.scalar('float64', 1)])]);
    }
  }
}

/** log(1 + exp(x)), whose plain form is 0 where exp(x) is lost beside 1. */
function softplus(g: GraphBuilder, x: Value): Value {
  const [zero, one] = [g.scalar('float64', 0), g.scalar('float64', 1)];
  const small = g.one('Exp', [g.one('Neg', [g.one('Abs', [x])])]);
  const sum = g.one('Add', [small, one]);
  // What is lost in the sum is lost in both factors.
  const rounded = g.one('Sub', [sum, one]);
  const log = g.one('Div', [g.one('Mul', [small, g.one('Log', [sum])]), rounded]);
  const isLost = g.one('Equal', [rounded, zero]);
  return g.one('Add', [g.one('Max', [x, zero]), g.one('Where', [isLost, small, log])]);
}
