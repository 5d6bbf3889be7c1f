/**
 * Linear models, support vector machines and Scaler of ai.onnx.ml by the specification. A support vector classifier votes as
 * libsvm does: the first class of a pair where its sum is positive. onnx.reference labels such a classifier of two classes
 * always with the second one when a coefficient is negative.
 */
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { RawNode } from '../onnx/rewrite/graph.ts';
import { type Evaluate, intAt, labelsAt, numbersAt, ROUNDING, rowsOf } from '../onnx/rewrite/ml-node.ts';
import { type Scores, transformed, transformOf } from './transform.ts';
import { classified } from './trees.ts';

type Numbers = ArrayLike<number>;

/** The sum of products, and what rounding in any order may move it by. */
function dot(a: Numbers, b: Numbers, start = 0): { value: number; error: number } {
  let [value, size] = [start, Math.abs(start)];
  for (let i = 0; i < a.length; i++) {
    const product = (a[i] as number) * (b[i] as number);
    value += product;
    size += Math.abs(product);
  }
  return { value, error: ROUNDING * (a.length + 4) * size };
}

function scoresOf(pairs: readonly { value: number; error: number }[]): Scores {
  return { values: pairs.map(({ value }) => value), errors: pairs.map(({ error }) => error) };
}

function part(values: Numbers, at: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => values[at * count + i] as number);
}

function linear(node: RawNode, x: Tensor, targets: number): Scores[] {
  const [coefficients, intercepts] = [numbersAt(node, 'coefficients'), numbersAt(node, 'intercepts')];
  return rowsOf(x).map((row) =>
    scoresOf(
      Array.from({ length: targets }, (_, target) =>
        dot(part(coefficients, target, row.length), row, intercepts[target] ?? 0),
      ),
    ),
  );
}

function regressed(node: RawNode, rows: readonly Scores[]) {
  const done = rows.map((row) => transformed(row, transformOf(node)));
  return [{ values: done.flatMap(({ values }) => values), allowed: done.flatMap(({ errors }) => errors) }];
}

export const linearRegressor: Evaluate = (node, [x]) =>
  regressed(node, linear(node, x as Tensor, intAt(node, 'targets', 1)));

export const linearClassifier: Evaluate = (node, [x]) => {
  const labels = labelsAt(node, ['classlabels_strings', 'classlabels_ints']);
  const count = numbersAt(node, 'intercepts').length;
  const isSingle = labels.length === 2 && count === 1;
  if (!isSingle && (count !== labels.length || count < 2)) {
    return `${count} scores of ${labels.length} classes have no meaning in the specification`;
  }
  const rows = linear(node, x as Tensor, count);
  return classified(labels, isSingle ? rows.map(paired) : rows, transformOf(node));
};

function paired({ values: [value = 0], errors: [error = 0] }: Scores): Scores {
  return { values: [-value, value], errors: [error, error] };
}

type Kernel = (a: Numbers, b: Numbers) => { value: number; error: number };

function kernelOf(node: RawNode, isLinear: boolean): Kernel {
  const [gamma = 0, coef = 0, degree = 0] = Array.from(numbersAt(node, 'kernel_params'));
  const shaped = (a: Numbers, b: Numbers, f: (value: number) => number) => {
    const { value, error } = dot(a, b);
    const [low, high] = [f(gamma * (value - error) + coef), f(gamma * (value + error) + coef)];
    const middle = f(gamma * value + coef);
    return { value: middle, error: Math.abs(high - low) + 8 * ROUNDING * Math.abs(middle) + 1e-7 };
  };
  switch (isLinear ? 'LINEAR' : node.text('kernel_type') || 'LINEAR') {
    case 'POLY':
      return (a, b) => shaped(a, b, (value) => value ** degree);
    case 'SIGMOID':
      return (a, b) => shaped(a, b, Math.tanh);
    case 'RBF':
      return (a, b) => {
        const square = Array.from(a, (value, i) => (value - (b[i] as number)) ** 2).reduce(
          (x, y) => x + y,
          0,
        );
        const value = Math.exp(-gamma * square);
        return { value, error: value * (ROUNDING * (a.length + 8) * (1 + Math.abs(gamma) * square)) + 1e-9 };
      };
    default:
      return dot;
  }
}

/** Sums over support vectors. */
function weighted(weights: Numbers, kernels: readonly { value: number; error: number }[], start: number) {
  const sum = dot(weights, kernels.map(({ value }) => value), start); // biome-ignore format: short
  const moved = kernels.reduce((total, { error }, i) => total + Math.abs(weights[i] as number) * error, 0);
  return { value: sum.value, error: sum.error + moved };
}

export const svmRegressor: Evaluate = (node, [x]) => {
  const supports = intAt(node, 'n_supports', 0);
  const kernel = kernelOf(node, supports === 0);
  const coefficients = numbersAt(node, 'coefficients');
  const rho = numbersAt(node, 'rho')[0] ?? 0;
  const isOneClass = intAt(node, 'one_class', 0) !== 0;
  if (isOneClass && transformOf(node) !== 'NONE') return 'a transform of one class has no meaning';
  const vectors = numbersAt(node, 'support_vectors');
  const rows = rowsOf(x as Tensor).map((row) => {
    const kernels = Array.from({ length: supports }, (_, i) => kernel(row, part(vectors, i, row.length)));
    const sum = supports > 0 ? weighted(coefficients, kernels, rho) : dot(coefficients, row, rho);
    if (!isOneClass) return scoresOf([sum]);
    return scoresOf([
      { value: sum.value > 0 ? 1 : -1, error: Math.abs(sum.value) <= sum.error ? Infinity : 0 },
    ]);
  });
  return regressed(node, rows);
};

export const svmClassifier: Evaluate = (node, [x]) => {
  const labels = labelsAt(node, ['classlabels_strings', 'classlabels_ints']);
  const counts = Array.from(numbersAt(node, 'vectors_per_class'));
  const total = counts.reduce((sum, count) => sum + count, 0);
  const coefficients = numbersAt(node, 'coefficients');
  if (labels.length < 2) return 'a single class has no scores in the specification';
  if (total === 0) {
    const rho = numbersAt(node, 'rho')[0] ?? 0;
    const rows = rowsOf(x as Tensor).map((row) =>
      scoresOf(labels.map((_, i) => dot(part(coefficients, i, row.length), row, rho))),
    );
    return classified(labels, rows, transformOf(node));
  }
  if (numbersAt(node, 'prob_a').length > 0) return 'probabilities of pairs are not in the specification';
  const kernel = kernelOf(node, false);
  const vectors = numbersAt(node, 'support_vectors');
  const rows = rowsOf(x as Tensor).map((row) => {
    const kernels = Array.from({ length: total }, (_, i) => kernel(row, part(vectors, i, row.length)));
    return pairsOf(node, { counts, total, kernels });
  });
  const best = rows.map((row) => votedFor(row, labels.length));
  const done = (labels.length === 2 ? rows.map(paired) : rows).map((row) =>
    transformed(row, transformOf(node)),
  );
  return [
    {
      values: best.map((place) => labels[place ?? 0] ?? ''),
      allowed: best.map((place) => (place === undefined ? Infinity : 0)),
    },
    { values: done.flatMap(({ values }) => values), allowed: done.flatMap(({ errors }) => errors) },
  ];
};

interface Supports {
  readonly counts: readonly number[];
  readonly total: number;
  readonly kernels: readonly { value: number; error: number }[];
}

/** A score for each pair of classes: the support vectors of each, with their coefficients against the other. */
function pairsOf(node: RawNode, { counts, total, kernels }: Supports): Scores {
  const [coefficients, rho] = [numbersAt(node, 'coefficients'), numbersAt(node, 'rho')];
  const starts = counts.map((_, i) => counts.slice(0, i).reduce((sum, count) => sum + count, 0));
  const of = (own: number, other: number) => {
    const [start = 0, count = 0] = [starts[own], counts[own]];
    const line = (other > own ? other - 1 : other) * total;
    const weights = Array.from({ length: count }, (_, i) => coefficients[line + start + i] as number);
    return weighted(weights, kernels.slice(start, start + count), 0);
  };
  const pairs: { value: number; error: number }[] = [];
  for (let i = 0; i < counts.length; i++) {
    for (let j = i + 1; j < counts.length; j++) {
      const [a, b, start] = [of(i, j), of(j, i), rho[pairs.length] ?? 0];
      const error = a.error + b.error + ROUNDING * (Math.abs(a.value) + Math.abs(b.value) + Math.abs(start));
      pairs.push({ value: a.value + b.value + start, error });
    }
  }
  return scoresOf(pairs);
}

function votedFor({ values, errors }: Scores, classes: number): number | undefined {
  if (values.some((value, i) => Math.abs(value) <= (errors[i] as number))) return undefined;
  const votes = Array.from({ length: classes }, () => 0);
  let at = 0;
  for (let i = 0; i < classes; i++) {
    for (let j = i + 1; j < classes; j++) {
      const winner = (values[at++] as number) > 0 ? i : j;
      votes[winner] = (votes[winner] as number) + 1;
    }
  }
  return votes.indexOf(Math.max(...votes));
}

export const scaler: Evaluate = (node, [x]) => {
  const [offset, scale] = [numbersAt(node, 'offset'), numbersAt(node, 'scale')];
  const at = (values: Numbers, i: number, fallback: number) =>
    values.length === 1 ? (values[0] as number) : (values[i] ?? fallback);
  const all = rowsOf(x as Tensor).flatMap((row) =>
    row.map((value, i) => {
      const [from, by] = [at(offset, i, 0), at(scale, i, 1)];
      return {
        value: (value - from) * by,
        error: 4 * ROUNDING * (Math.abs(value) + Math.abs(from)) * Math.abs(by),
      };
    }),
  );
  return [{ values: all.map(({ value }) => value), allowed: all.map(({ error }) => error) }];
};
