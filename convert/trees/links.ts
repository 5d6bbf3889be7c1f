/** How an objective turns the sums of trees into predictions, in operators of ONNX. */
import type { GraphBuilder } from '../graph/builder.ts';
import type { Value } from '../graph/value.ts';

export type Link =
  | { readonly kind: 'identity' | 'exp' | 'softmax' | 'argmax' | 'softplus' | 'signed_square' | 'step' }
  /** 1 / (1 + exp(-scale * x)) */
  | { readonly kind: 'sigmoid'; readonly scale: number };

/** @param x [rows, outputs] */
export function linked(g: GraphBuilder, x: Value, link: Link): Value {
  const number = (value: number) => g.scalar('float32', value);
  switch (link.kind) {
    case 'identity':
      return x;
    case 'exp':
      return g.one('Exp', [x]);
    case 'softmax':
      return g.one('Softmax', [x], { axis: 1 });
    case 'softplus':
      return g.one('Softplus', [x]);
    case 'signed_square':
      return g.one('Mul', [x, g.one('Abs', [x])]);
    case 'step':
      return g.one('Cast', [g.one('Greater', [x, number(0)])], { to: 1 });
    case 'argmax':
      return g.one('Cast', [g.one('ArgMax', [x], { axis: 1, keepdims: 1 })], { to: 1 });
    case 'sigmoid': {
      const scaled = link.scale === 1 ? x : g.one('Mul', [x, number(link.scale)]);
      return g.one('Sigmoid', [scaled]);
    }
  }
}
