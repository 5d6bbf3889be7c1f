/** Operators that reduce, sort or scan along axes. */
import type { DType } from '../../../../lib/contract/tensor.ts';
import { compute } from '../../../emit/formula.ts';
import { centered } from '../../../emit/normalize.ts';
import { reduce } from '../../../emit/reduce.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { product } from '../run/sizes.ts';
import { type Py, refuse, Tuple } from '../run/values.ts';
import type { Args, Rule, Table } from './schema.ts';
import { reshape } from './shaping.ts';
import { computed, floating, isFloat } from './types.ts';

/** The axes to reduce: all without dim, or with an empty one. */
function axesOf(a: Args, x: Value): number[] {
  const all = (x.shape ?? refuse('needs a known rank')).map((_, i) => i);
  if (!a.isSet('dim')) return all;
  const axes = x.shape?.length === 0 ? [] : a.axes('dim', x);
  return axes.length === 0 ? all : axes;
}

function numeric(c: Context, a: Args, x: Value): Value {
  const dtype = a.dtype('dtype') ?? (isFloat(x.dtype) ? x.dtype : 'int64');
  return c.cast(x, dtype);
}

const sum: Rule = (c, a) => {
  const x = numeric(c, a, a.v('x'));
  return reduce(c, 'ReduceSum', x, axesOf(a, x), a.bool('keepdim'));
};

const mean: Rule = (c, a) => {
  const own = a.v('x');
  const x = a.isSet('dtype') ? c.cast(own, a.dtype('dtype') as DType) : own;
  if (!isFloat(x.dtype)) refuse(`is not defined for ${x.dtype}`);
  return reduce(c, 'ReduceMean', x, axesOf(a, x), a.bool('keepdim'));
};

/** The sum of squared differences from the mean, divided by count - correction. */
function variance(c: Context, x: Value, axes: readonly number[], keep: boolean, correction: number): Value {
  const apart = centered(c, x, axes);
  const squares = c.one('Mul', [apart, apart]);
  const spread = reduce(c, 'ReduceMean', squares, axes, keep);
  if (correction === 0) return spread;
  const count = product(axes.map((axis) => c.sizeOf(x, axis)));
  const whole = c.number(count, x.dtype);
  return compute(c, 'spread * (whole / (whole - correction))', { spread, whole, correction });
}

function correctionOf(a: Args): number {
  const given = a.raw('correction');
  if (given !== null) return a.float('correction');
  return a.raw('unbiased') === false ? 0 : 1;
}

const spread =
  (root: boolean, withMean = false): Rule =>
  (c, a) => {
    const x = floating(c, a.v('x'));
    const axes = axesOf(a, x);
    const keep = a.bool('keepdim');
    const made = variance(c, x, axes, keep, correctionOf(a));
    const own = root ? c.one('Sqrt', [made]) : made;
    return withMean ? c.tuple([own, reduce(c, 'ReduceMean', x, axes, keep)]) : own;
  };

function extreme(op: 'ReduceMax' | 'ReduceMin'): Rule {
  return (c, a) => {
    const x = a.v('x');
    const own = c.cast(x, computed(x.dtype));
    return c.cast(reduce(c, op, own, axesOf(a, x), a.bool('keepdim')), x.dtype);
  };
}

const arg =
  (op: 'ArgMax' | 'ArgMin'): Rule =>
  (c, a) => {
    const x = a.v('x');
    const own = c.cast(x, computed(x.dtype));
    const keep = a.bool('keepdim');
    if (!a.isSet('dim')) return reshape(c, c.one(op, [reshape(c, own, [-1])], { axis: 0, keepdims: 0 }), []);
    if (x.shape?.length === 0) return c.g.scalar('int64', 0);
    return c.one(op, [own], { axis: a.axis('dim', x), keepdims: keep ? 1 : 0 });
  };

/** max and min over an axis give values and indices. */
const extremeWithIndex =
  (reduceOp: 'ReduceMax' | 'ReduceMin', argOp: 'ArgMax' | 'ArgMin'): Rule =>
  (c, a) => {
    const x = a.v('x');
    if (x.shape?.length === 0) return c.tuple([x, c.g.scalar('int64', 0)]);
    const own = c.cast(x, computed(x.dtype));
    const axis = a.axis('dim', x);
    const keep = a.bool('keepdim');
    const values = c.cast(reduce(c, reduceOp, own, [axis], keep), x.dtype);
    return c.tuple([values, c.one(argOp, [own], { axis, keepdims: keep ? 1 : 0 })]);
  };

const truth =
  (op: 'ReduceMax' | 'ReduceMin'): Rule =>
  (c, a) => {
    const x = c.cast(c.cast(a.v('x'), 'bool'), 'int32');
    return c.cast(reduce(c, op, x, axesOf(a, x), a.bool('keepdim')), 'bool');
  };

const softmax =
  (op: string): Rule =>
  (c, a) => {
    const own = a.v('x');
    const x = floating(c, a.isSet('dtype') ? c.cast(own, a.dtype('dtype') as DType) : own);
    if (x.shape?.length === 0) return refuse('needs at least one dimension');
    return c.one(op, [x], { axis: a.axis('dim', x) });
  };

const logsumexp: Rule = (c, a) => {
  const x = floating(c, a.v('x'));
  return reduce(c, 'ReduceLogSumExp', x, axesOf(a, x), a.bool('keepdim'));
};

const prod: Rule = (c, a) => {
  const x = numeric(c, a, a.v('x'));
  return reduce(c, 'ReduceProd', x, axesOf(a, x), a.bool('keepdim'));
};

/** The p-norm over axes. */
export function normOf(c: Context, x: Value, p: number, axes: readonly number[], keep: boolean): Value {
  if (p === 2) return reduce(c, 'ReduceL2', x, axes, keep);
  if (p === 1) return reduce(c, 'ReduceL1', x, axes, keep);
  const size = c.one('Abs', [x]);
  if (p === Infinity) return reduce(c, 'ReduceMax', size, axes, keep);
  if (p === -Infinity) return reduce(c, 'ReduceMin', size, axes, keep);
  if (!(p > 0)) return refuse(`order ${p} is not supported`);
  const powers = reduce(c, 'ReduceSum', c.one('Pow', [size, c.g.scalar(x.dtype, p)]), axes, keep);
  return c.one('Pow', [powers, c.g.scalar(x.dtype, 1 / p)]);
}

const norm: Rule = (c, a) => {
  const x = floating(c, a.v('x'));
  const p = a.raw('p');
  const order = p === null ? 2 : p === 'fro' ? 2 : a.float('p');
  return normOf(c, x, order, axesOf(a, x), a.bool('keepdim'));
};

const cumsum: Rule = (c, a) => {
  const x = numeric(c, a, a.v('x'));
  if (x.shape?.length === 0) return x;
  return c.one('CumSum', [x, c.g.scalar('int64', a.axis('dim', x))]);
};

const topk: Rule = (c, a) => {
  const x = a.v('x');
  const k = c.sizes.list(c.g, [a.int('k')]);
  const attributes = {
    axis: a.axis('dim', x),
    largest: a.bool('largest') ? 1 : 0,
    sorted: a.bool('sorted') ? 1 : 0,
  };
  return c.tuple(c.g.add('TopK', [x, k], attributes, { outputs: 2 }));
};

function sorted(c: Context, a: Args): readonly Value[] {
  const x = a.v('x');
  const axis = a.axis('dim', x);
  const k = c.sizes.list(c.g, [c.sizeOf(x, axis)]);
  return c.g.add('TopK', [x, k], { axis, largest: a.bool('descending') ? 1 : 0, sorted: 1 }, { outputs: 2 });
}

const median: Rule = () => refuse('is not supported');

const normalize: Rule = (c, a) => {
  const x = floating(c, a.v('x'));
  const length = normOf(c, x, a.float('p'), a.axes('dim', x), true);
  return c.one('Div', [x, c.one('Max', [length, c.g.scalar(x.dtype, a.float('eps'))])]);
};

const cosine: Rule = (c, a) => {
  const [x, y] = [floating(c, a.v('x')), floating(c, a.v('y'))];
  const axis = a.axis('dim', x);
  const length = (value: Value) =>
    c.one('Max', [normOf(c, value, 2, [axis], true), c.g.scalar(x.dtype, a.float('eps'))]);
  const products = c.one('Mul', [c.one('Div', [x, length(x)]), c.one('Div', [y, length(y)])]);
  return reduce(c, 'ReduceSum', products, [axis], false);
};

/** Distances between all rows of two matrices. */
const cdist: Rule = (c, a) => {
  const [x, y] = [floating(c, a.v('x')), floating(c, a.v('y'))];
  const rank = x.shape?.length ?? 0;
  const difference = c.one('Sub', [
    c.one('Unsqueeze', [x, c.g.ints([rank - 1])]),
    c.one('Unsqueeze', [y, c.g.ints([rank - 2])]),
  ]);
  return normOf(c, difference, a.float('p'), [rank], false);
};

const pair = (left: Py, right: Py): Tuple => new Tuple([left, right]);

export const REDUCTIONS: Table = {
  'sum(Tensor x, *, int? dtype=None) | sum(Tensor x, int[]? dim=None, bool keepdim=False, *, int? dtype=None)':
    (c, a) => sum(c, a),
  'mean(Tensor x, *, int? dtype=None) | mean(Tensor x, int[]? dim=None, bool keepdim=False, *, int? dtype=None)':
    mean,
  'prod(Tensor x, *, int? dtype=None) | prod(Tensor x, int dim, bool keepdim=False, *, int? dtype=None)':
    prod,
  'var(Tensor x, bool unbiased=True) | var(Tensor x, int[]? dim=None, bool unbiased=True, bool keepdim=False) | var(Tensor x, int[]? dim=None, Scalar? correction=1, bool keepdim=False)':
    spread(false),
  'std(Tensor x, bool unbiased=True) | std(Tensor x, int[]? dim=None, bool unbiased=True, bool keepdim=False) | std(Tensor x, int[]? dim=None, Scalar? correction=1, bool keepdim=False)':
    spread(true),
  'var_mean(Tensor x, bool unbiased=True) | var_mean(Tensor x, int[]? dim=None, bool unbiased=True, bool keepdim=False) | var_mean(Tensor x, int[]? dim=None, Scalar? correction=1, bool keepdim=False)':
    spread(false, true),
  'std_mean(Tensor x, bool unbiased=True) | std_mean(Tensor x, int[]? dim=None, bool unbiased=True, bool keepdim=False)':
    spread(true, true),
  'max(Tensor x) | amax(Tensor x, int[]? dim=None, bool keepdim=False)': extreme('ReduceMax'),
  'min(Tensor x) | amin(Tensor x, int[]? dim=None, bool keepdim=False)': extreme('ReduceMin'),
  'max(Tensor x, int dim, bool keepdim=False)': extremeWithIndex('ReduceMax', 'ArgMax'),
  'min(Tensor x, int dim, bool keepdim=False)': extremeWithIndex('ReduceMin', 'ArgMin'),
  'aminmax(Tensor x, int? dim=None, bool keepdim=False)': (c, a) =>
    pair(c.tensor(extreme('ReduceMin')(c, a) as Value), c.tensor(extreme('ReduceMax')(c, a) as Value)),
  'argmax(Tensor x, int? dim=None, bool keepdim=False)': arg('ArgMax'),
  'argmin(Tensor x, int? dim=None, bool keepdim=False)': arg('ArgMin'),
  'all(Tensor x) | all(Tensor x, int[]? dim=None, bool keepdim=False)': truth('ReduceMin'),
  'any(Tensor x) | any(Tensor x, int[]? dim=None, bool keepdim=False)': truth('ReduceMax'),
  'softmax(Tensor x, int dim, int? dtype=None) | _softmax(Tensor x, int dim, bool half_to_float=False)':
    softmax('Softmax'),
  'log_softmax(Tensor x, int dim, int? dtype=None) | _log_softmax(Tensor x, int dim, bool half_to_float=False)':
    softmax('LogSoftmax'),
  'logsumexp(Tensor x, int[] dim, bool keepdim=False)': logsumexp,
  'norm(Tensor x, any p=2) | norm(Tensor x, any p, int[]? dim, bool keepdim=False, *, int? dtype=None) | linalg_vector_norm(Tensor x, any p=2, int[]? dim=None, bool keepdim=False, *, int? dtype=None) | frobenius_norm(Tensor x, int[]? dim=None, bool keepdim=False)':
    norm,
  'cumsum(Tensor x, int dim, int? dtype=None)': cumsum,
  'topk(Tensor x, int k, int dim=-1, bool largest=True, bool sorted=True)': topk,
  'sort(Tensor x, int dim=-1, bool descending=False) | sort(Tensor x, bool? stable, int dim=-1, bool descending=False)':
    (c, a) => c.tuple(sorted(c, a)),
  'argsort(Tensor x, int dim=-1, bool descending=False)': (c, a) => sorted(c, a)[1] as Value,
  'median(Tensor x) | median(Tensor x, int dim, bool keepdim=False)': median,
  'normalize(Tensor x, float p=2, int[] dim=1, float eps=1e-12)': normalize,
  'cosine_similarity(Tensor x, Tensor y, int dim=1, float eps=1e-8)': cosine,
  'cdist(Tensor x, Tensor y, float p=2, any compute_mode=None)': cdist,
  'pairwise_distance(Tensor x, Tensor y, float p=2, float eps=0.000001, bool keepdim=False)': (c, a) => {
    const x = floating(c, a.v('x'));
    const difference = compute(c, 'x - y + eps', { x, y: a.v('y'), eps: a.float('eps') });
    const rank = difference.shape?.length ?? refuse('needs a known rank');
    return normOf(c, difference, a.float('p'), [rank - 1], a.bool('keepdim'));
  },
};
