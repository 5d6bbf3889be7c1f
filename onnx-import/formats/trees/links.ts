/** How an objective turns the sums of trees into predictions, in operators of ONNX. */
import { compute } from '../../emit/formula.ts';
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
      return compute(g, 'x > 0', { x });
    case 'argmax':
      return g.one('ArgMax', [x], { axis: 1, keepdims: 1 });
    case 'exp':
      return compute(g, 'Exp(x)', { x: wide(x) });
    case 'softplus':
      return compute(g, SOFTPLUS, { x: wide(x) });
    case 'signed_square':
      return compute(g, 'x * Abs(x)', { x: wide(x) });
    case 'softmax': {
      // XGBoost rounds this difference to float32.
      const below = g.one('Sub', [x, g.one('ReduceMax', [x], { axes: [1], keepdims: 1 })]);
      const exp = g.one('Exp', [wide(below)]);
      return g.one('Div', [exp, g.one('ReduceSum', [exp, g.ints([1])], { keepdims: 1 })]);
    }
    case 'sigmoid':
      return compute(g, '1 / (Exp(x * scale) + 1)', { x: wide(x), scale: -link.scale });
  }
}

/**
 * log(1 + exp(x)), whose plain form is 0 where exp(x) is lost beside 1. What is lost in the sum is lost in both factors.
 */
const SOFTPLUS =
  'small = Exp(-Abs(x)); sum = small + 1; rounded = sum - 1; log = small * Log(sum) / rounded; ' +
  'Max(x, 0) + Where(rounded == 0, small, log)';
