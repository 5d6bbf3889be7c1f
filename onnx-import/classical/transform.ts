/** What `post_transform` makes of the scores of a row, and how rounding of the scores moves it. */
import type { RawNode } from '../onnx/rewrite/graph.ts';
import type { Label } from '../onnx/rewrite/ml-node.ts';
import { TRANSFORM_NAMES } from '../onnx/rewrite/scores.ts';

/** Scores of a row with how far each may be off. */
export interface Scores {
  readonly values: readonly number[];
  readonly errors: readonly number[];
}

/** Of values that are computed in float32 at best. */
const RELATIVE = 1e-6;

export function transformOf(node: RawNode): string {
  return node.text('post_transform') || (TRANSFORM_NAMES[node.number('post_transform')] as string);
}

/** What is left open, such as PROBIT beyond probabilities, is allowed to be anything. */
export function transformed({ values, errors }: Scores, transform: string): Scores {
  if (transform === 'NONE') return { values, errors };
  const result = apply(values, transform);
  const most = Math.max(...errors);
  return {
    values: result,
    errors: result.map((value, i) => {
      if (transform === 'PROBIT') return probitError(values[i] as number, errors[i] as number);
      // An error of a score moves its probability by that part of it.
      return Math.abs(value) * (RELATIVE + 2 * most);
    }),
  };
}

function apply(values: readonly number[], transform: string): number[] {
  switch (transform) {
    case 'LOGISTIC':
      return values.map((value) => 1 / (1 + Math.exp(-value)));
    case 'SOFTMAX':
      return softmax(values);
    case 'SOFTMAX_ZERO':
      return softmaxZero(values);
    default:
      return values.map(probit);
  }
}

function softmax(values: readonly number[]): number[] {
  const most = Math.max(...values);
  const exp = values.map((value) => Math.exp(value - most));
  const sum = exp.reduce((total, value) => total + value, 0);
  return exp.map((value) => value / sum);
}

/** Softmax of the scores that are not 0, which stay 0. onnx.reference says 0.5 for rows of zeros only, of two classes. */
function softmaxZero(values: readonly number[]): number[] {
  const isZero = values.map((value) => Math.abs(value) < 1e-7);
  if (isZero.every(Boolean)) return softmax(values);
  const rest = softmax(values.filter((_, i) => !isZero[i]));
  return isZero.map((zero) => (zero ? 0 : (rest.shift() as number)));
}

/** Winitzki's approximation, which onnxruntime and onnx.reference share; the exact quantile differs by up to 2e-3. */
function probit(p: number): number {
  const x = 2 * p - 1;
  const log = Math.log((1 - x) * (1 + x));
  const half = 2 / (Math.PI * 0.147) + 0.5 * log;
  return Math.sign(x) * Math.SQRT2 * Math.sqrt(Math.sqrt(half * half - log / 0.147) - half);
}

function probitError(p: number, error: number): number {
  // Near 0 and 1 it is as steep as float32 is coarse; beyond there is no answer.
  return p > 0.001 && p < 0.999 ? 1e-3 + 1e3 * error : Infinity;
}

/** The place of the largest score, the first of equal ones; undefined where rounding decides. */
export function bestOf({ values, errors }: Scores): number | undefined {
  const best = values.reduce((most, value, i) => (value > (values[most] as number) ? i : most), 0);
  const isOpen = values.some((value, i) => {
    const distance = (values[best] as number) - value;
    return i !== best && distance > 0 && distance <= (errors[i] as number) + (errors[best] as number);
  });
  return isOpen || values.some(Number.isNaN) ? undefined : best;
}

export function labelOf(labels: readonly Label[], scores: Scores): Label | undefined {
  const best = bestOf(scores);
  return best === undefined ? undefined : labels[best];
}
