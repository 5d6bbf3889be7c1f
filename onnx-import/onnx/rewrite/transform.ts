/**
 * What `post_transform` makes of scores, in standard operators. In float64: onnxruntime's own LOGISTIC has an absolute error
 * of 6e-8, which takes small probabilities away.
 */
import type { NewNodes } from './nodes.ts';

export const TRANSFORMS = ['LOGISTIC', 'SOFTMAX', 'SOFTMAX_ZERO', 'PROBIT'] as const;
export type Transform = (typeof TRANSFORMS)[number];

export function isTransform(name: string): name is Transform {
  return (TRANSFORMS as readonly string[]).includes(name);
}

/** ONNX's numbers of the types. */
export const [FLOAT32, FLOAT64] = [1, 11];

/** @param scores [rows, scores]. @param to the value that is made, and its type */
export function addTransform(
  nodes: NewNodes,
  scores: string,
  transform: Transform | undefined,
  to: { readonly output: string; readonly dtype: number },
): void {
  const x = transform && nodes.add('Cast', [scores], { to: FLOAT64 });
  const result = transform && x !== undefined ? transformed(nodes, x, transform) : scores;
  nodes.add('Cast', [result], { to: to.dtype }, to.output);
}

function transformed(nodes: NewNodes, x: string, transform: Transform): string {
  const one = nodes.number(1);
  switch (transform) {
    case 'LOGISTIC':
      return nodes.add('Div', [one, nodes.add('Add', [one, nodes.add('Exp', [nodes.add('Neg', [x])])])]);
    case 'SOFTMAX':
      return nodes.add('Softmax', [x], { axis: 1 });
    case 'SOFTMAX_ZERO': {
      // A score of 0 stays 0. Of scores that are all 0 each is as likely, as of SOFTMAX.
      const isZero = nodes.add('Less', [nodes.add('Abs', [x]), nodes.number(1e-7)]);
      return nodes.add('Softmax', [nodes.add('Where', [isZero, nodes.number(-1e300), x])], { axis: 1 });
    }
    case 'PROBIT':
      return probit(nodes, x, one);
  }
}

/** The approximation of the inverse of erf that onnxruntime and onnx.reference share, which is right to 2e-3. */
function probit(nodes: NewNodes, p: string, one: string): string {
  const both = (operator: string, a: string, b: string | number) =>
    nodes.add(operator, [a, typeof b === 'number' ? nodes.number(b) : b]);
  const x = both('Sub', both('Mul', p, 2), one);
  const log = nodes.add('Log', [both('Mul', both('Sub', one, x), both('Add', one, x))]);
  const half = both('Add', both('Mul', log, 0.5), 2 / (Math.PI * 0.147));
  const inner = both('Sub', both('Mul', half, half), both('Div', log, 0.147));
  const size = nodes.add('Sqrt', [both('Sub', nodes.add('Sqrt', [inner]), half)]);
  return both('Mul', both('Mul', nodes.add('Sign', [x]), size), Math.SQRT2);
}
