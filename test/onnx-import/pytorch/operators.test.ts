/** Operators of TorchScript, each with numbers that PyTorch's documentation defines; the rows of a group are one archive. */
import { test } from 'node:test';
import { assertClose, type Row, testRows } from '../support/pytorch/rows.ts';
import { floats, runScript } from '../support/pytorch/run.ts';

const VALUES = [3, -1, 2, 0.5, 4, -2];
const X = floats([2, 3], VALUES);
const of = (compute: (x: number) => number) => VALUES.map(compute);
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const softplus = (x: number) => Math.log1p(Math.exp(x));
const softmax = (row: readonly number[]) => {
  const all = row.map(Math.exp);
  return all.map((value) => value / all.reduce((sum, one) => sum + one, 0));
};
const byRow = (compute: (row: readonly number[]) => number | number[]) =>
  [VALUES.slice(0, 3), VALUES.slice(3)].flatMap(compute);
const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
const spread = (row: readonly number[], correction: number) => {
  const mean = sum(row) / row.length;
  return sum(row.map((value) => (value - mean) ** 2)) / (row.length - correction);
};

const REDUCTIONS: readonly Row[] = [
  ['torch.sum(x)', [6.5]],
  ['torch.sum(x, [0])', [3.5, 3, 0]],
  ['torch.sum(x, [-1])', [4, 2.5]],
  ['torch.sum(x, [0, 1])', [6.5]],
  ['torch.mean(x, [1])', [4 / 3, 2.5 / 3]],
  ['torch.mean(x)', [6.5 / 6]],
  ['torch.prod(x)', [24]],
  ['torch.prod(x, 1)', [-6, -4]],
  ['torch.var(x, [1])', byRow((row) => spread(row, 1))],
  ['torch.var(x, [1], False)', byRow((row) => spread(row, 0))],
  ['torch.var(x, [1], correction=2)', byRow((row) => spread(row, 2))],
  ['torch.var(x)', [spread(VALUES, 1)]],
  ['torch.std(x, [1])', byRow((row) => Math.sqrt(spread(row, 1)))],
  ['torch.std(x, False)', [Math.sqrt(spread(VALUES, 0))]],
  ['torch.max(x)', [4]],
  ['torch.min(x)', [-2]],
  ['torch.amax(x, [0])', [3, 4, 2]],
  ['torch.amin(x, [1])', [-1, -2]],
  ['torch.argmax(x)', [4]],
  ['torch.argmin(x)', [5]],
  ['torch.argmax(x, 1)', [0, 1]],
  ['torch.argmin(x, 0)', [1, 0, 1]],
  ['torch.all(torch.gt(x, -1))', [0]],
  ['torch.all(torch.gt(x, -3))', [1]],
  ['torch.any(torch.gt(x, 3), 1)', [0, 1]],
  ['torch.all(torch.gt(x, 0), 0)', [1, 0, 0]],
  ['torch.logsumexp(x, [1])', byRow((row) => Math.log(sum(row.map(Math.exp))))],
  ['torch.softmax(x, 1)', byRow(softmax)],
  ['torch.log_softmax(x, -1)', byRow((row) => softmax(row).map(Math.log))],
  ['torch.norm(x)', [Math.sqrt(34.25)]],
  ['torch.norm(x, 1, [1])', [6, 6.5]],
  ['torch.norm(x, 2, [0])', [Math.sqrt(9.25), Math.sqrt(17), Math.sqrt(8)]],
  ['torch.norm(x, 3, [1])', [Math.cbrt(36), Math.cbrt(72.125)]],
  ['torch.linalg_vector_norm(x, inf, [1])', [3, 4]],
  ['torch.linalg_vector_norm(x, -inf, [1])', [1, 0.5]],
  ['torch.cumsum(x, 1)', [3, 2, 4, 0.5, 4.5, 2.5]],
  ['torch.cumsum(x, 0)', [3, -1, 2, 3.5, 3, 0]],
  ['torch.argsort(x)', [1, 2, 0, 2, 0, 1]],
  ['torch.argsort(x, 1, True)', [0, 2, 1, 1, 0, 2]],
  ['torch.argsort(x, 0)', [1, 0, 1, 0, 1, 0]],
  ['torch.normalize(x, 1., [1])', byRow((row) => row.map((value) => value / sum(row.map(Math.abs))))],
  ['torch.cosine_similarity(x, torch.neg(x))', [-1, -1]],
  [
    'torch.cosine_similarity(x, torch.ones_like(x), 0)',
    [3.5, 3, 0].map((dot, i) => dot / Math.sqrt(2) / Math.sqrt([9.25, 17, 8][i] as number)),
  ],
  ['torch.cdist(x, x, 1.)', [0, 11.5, 11.5, 0]],
  ['torch.pairwise_distance(x, torch.zeros_like(x), 1., 0.)', [6, 6.5]],
];

/** Of several results; `a` and `b` are theirs. */
const PAIRS: readonly (readonly [call: string, a: readonly number[], b: readonly number[]])[] = [
  ['torch.sort(x, 1)', [-1, 2, 3, -2, 0.5, 4], [1, 2, 0, 2, 0, 1]],
  ['torch.sort(x, 1, True)', [3, 2, -1, 4, 0.5, -2], [0, 2, 1, 1, 0, 2]],
  ['torch.sort(x, 0)', [0.5, -1, -2, 3, 4, 2], [1, 0, 1, 0, 1, 0]],
  ['torch.topk(x, 2)', [3, 2, 4, 0.5], [0, 2, 1, 0]],
  ['torch.topk(x, 2, 1, False)', [-1, 2, -2, 0.5], [1, 2, 2, 0]],
  ['torch.topk(x, 1, 0)', [3, 4, 2], [0, 1, 0]],
  ['torch.max(x, 1)', [3, 4], [0, 1]],
  ['torch.min(x, 0)', [0.5, -1, -2], [1, 0, 1]],
  ['torch.var_mean(x, [1])', byRow((row) => spread(row, 1)), [4 / 3, 2.5 / 3]],
  ['torch.std_mean(x, [1], False)', byRow((row) => Math.sqrt(spread(row, 0))), [4 / 3, 2.5 / 3]],
  ['torch.aminmax(x)', [-2], [4]],
  ['torch.aminmax(x, dim=1)', [-1, -2], [3, 4]],
];

const ELEMENTWISE: readonly Row[] = [
  ['torch.sub(x, 1, alpha=2)', of((x) => x - 2)],
  ['torch.rsub(x, 1)', of((x) => 1 - x)],
  ['torch.div(x, 4)', of((x) => x / 4)],
  ["torch.div(x, 2, rounding_mode='floor')", [1, -1, 1, 0, 2, -1]],
  ["torch.div(x, 2, rounding_mode='trunc')", [1, 0, 1, 0, 2, -1]],
  ['torch.floor_divide(x, 2)', [1, -1, 1, 0, 2, -1]],
  ['torch.floor_divide(torch.long(x), 2)', [1, -1, 1, 0, 2, -1]],
  // The remainder has the sign of the divisor, that of fmod the sign of the dividend.
  ['torch.remainder(x, 3)', [0, 2, 2, 0.5, 1, 1]],
  ['torch.fmod(x, 3)', [0, -1, 2, 0.5, 1, -2]],
  ['torch.pow(x, 2)', of((x) => x ** 2)],
  ['torch.pow(x, 3)', of((x) => x ** 3)],
  ['torch.pow(torch.abs(x), 0.5)', of((x) => Math.sqrt(Math.abs(x)))],
  ['torch.pow(2, x)', of((x) => 2 ** x)],
  ['torch.maximum(x, torch.neg(x))', of(Math.abs)],
  ['torch.minimum(x, torch.neg(x))', of((x) => -Math.abs(x))],
  ['torch.square(x)', of((x) => x * x)],
  ['torch.rsqrt(torch.abs(x))', of((x) => 1 / Math.sqrt(Math.abs(x)))],
  ['torch.exp2(x)', of((x) => 2 ** x)],
  ['torch.expm1(x)', of(Math.expm1)],
  // What is lost beside 1 would make them 0.
  ['torch.expm1(x * 1e-9) * 1e9', of((x) => x)],
  ['torch.log1p(torch.abs(x) * 1e-9) * 1e9', of(Math.abs)],
  ['torch.log1p(torch.abs(x))', of((x) => Math.log1p(Math.abs(x)))],
  ['torch.log2(torch.abs(x))', of((x) => Math.log2(Math.abs(x)))],
  ['torch.log10(torch.abs(x))', of((x) => Math.log10(Math.abs(x)))],
  ['torch.add(torch.erf(x), torch.erfc(x))', of(() => 1)],
  ['torch.logit(torch.sigmoid(x))', VALUES],
  ['torch.sign(x)', of(Math.sign)],
  ['torch.floor(torch.div(x, 4))', [0, -1, 0, 0, 1, -1]],
  ['torch.ceil(torch.div(x, 4))', [1, 0, 1, 1, 1, 0]],
  ['torch.trunc(torch.div(x, 4))', [0, 0, 0, 0, 1, 0]],
  ['torch.frac(torch.div(x, 4))', [0.75, -0.25, 0.5, 0.125, 0, -0.5]],
  // Half to even.
  ['torch.round(torch.div(x, 2))', [2, 0, 1, 0, 2, -1]],
  ['torch.round(torch.div(x, 8), decimals=1)', [0.4, -0.1, 0.2, 0.1, 0.5, -0.2]],
  ['torch.isfinite(torch.div(1, torch.add(x, 1)))', [1, 0, 1, 1, 1, 1]],
  ['torch.isinf(torch.div(1, torch.add(x, 1)))', [0, 1, 0, 0, 0, 0]],
  ['torch.isnan(torch.log(x))', [0, 1, 0, 0, 0, 1]],
  ['torch.clamp(x, 0, 2)', [2, 0, 2, 0.5, 2, 0]],
  ['torch.clamp(x, min=0)', [3, 0, 2, 0.5, 4, 0]],
  ['torch.clamp(x, max=1)', [1, -1, 1, 0.5, 1, -2]],
  // Where the bounds cross, the upper one.
  ['torch.clamp(x, 2, 1)', [1, 1, 1, 1, 1, 1]],
  ['torch.clamp_min(x, 1)', [3, 1, 2, 1, 4, 1]],
  ['torch.clamp_max(x, 1)', [1, -1, 1, 0.5, 1, -2]],
  ['torch.addcmul(x, x, x, value=2)', of((x) => x + 2 * x * x)],
  ['torch.addcdiv(x, x, torch.full_like(x, 4), value=2)', of((x) => 1.5 * x)],
  ['torch.lerp(x, torch.zeros_like(x), 0.25)', of((x) => 0.75 * x)],
];

const ACTIVATIONS: readonly Row[] = [
  ['torch.relu(x)', of((x) => Math.max(x, 0))],
  ['torch.relu6(torch.mul(x, 2))', of((x) => Math.min(Math.max(2 * x, 0), 6))],
  ['torch.leaky_relu(x)', of((x) => (x < 0 ? 0.01 * x : x))],
  ['torch.leaky_relu(x, 0.2)', of((x) => (x < 0 ? 0.2 * x : x))],
  // The mean of the slopes from 1/8 to 1/3.
  ['torch.rrelu(x)', of((x) => (x < 0 ? (x * 11) / 48 : x))],
  ['torch.elu(x)', of((x) => (x < 0 ? Math.expm1(x) : x))],
  ['torch.elu(x, 2)', of((x) => (x < 0 ? 2 * Math.expm1(x) : x))],
  ['torch.celu(x, 2)', of((x) => (x < 0 ? 2 * Math.expm1(x / 2) : x))],
  ['torch.selu(x)', of((x) => 1.0507009873554805 * (x < 0 ? 1.6732632423543772 * Math.expm1(x) : x))],
  ['torch.silu(x)', of((x) => x * sigmoid(x))],
  ['torch.mish(x)', of((x) => x * Math.tanh(softplus(x)))],
  ['torch.hardswish(x)', of((x) => (x * Math.min(Math.max(x + 3, 0), 6)) / 6)],
  ['torch.hardsigmoid(x)', of((x) => Math.min(Math.max(x + 3, 0), 6) / 6)],
  ['torch.hardsigmoid(torch.mul(x, 2))', of((x) => Math.min(Math.max(2 * x + 3, 0), 6) / 6)],
  ['torch.prelu(torch.view(x, [1, 2, 3]), torch.tensor([0.5, 0.1]))', [3, -0.5, 2, 0.5, 4, -0.2]],
  ['torch.glu(torch.t(x))', [0, 1, 2].map((i) => (VALUES[i] as number) * sigmoid(VALUES[i + 3] as number))],
  ['torch.hardtanh(x)', of((x) => Math.min(Math.max(x, -1), 1))],
  ['torch.hardtanh(x, -2, 3)', of((x) => Math.min(Math.max(x, -2), 3))],
  ['torch.log_sigmoid(x)', of((x) => Math.log(sigmoid(x)))],
  ['torch.softplus(x)', of(softplus)],
  ['torch.softplus(x, 2)', of((x) => softplus(2 * x) / 2)],
  // Above the threshold it is the line.
  ['torch.softplus(x, 1, 1)', of((x) => (x > 1 ? x : softplus(x)))],
  ['torch.softshrink(x)', of((x) => (Math.abs(x) > 0.5 ? x - 0.5 * Math.sign(x) : 0))],
  ['torch.softshrink(x, 1)', of((x) => (Math.abs(x) > 1 ? x - Math.sign(x) : 0))],
  ['torch.hardshrink(x)', of((x) => (Math.abs(x) > 0.5 ? x : 0))],
  ['torch.hardshrink(x, 2)', of((x) => (Math.abs(x) > 2 ? x : 0))],
  ['torch.tanhshrink(x)', of((x) => x - Math.tanh(x))],
  ['torch.threshold(x, 2, 7)', of((x) => (x > 2 ? x : 7))],
  [
    "torch.gelu(x, approximate='tanh')",
    of((x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))),
  ],
  ['torch.gelu(torch.add(torch.mul(x, 0), 1))', of(() => 0.8413447460685429)],
  ['torch.prelu(x, torch.full([1], 0.5))', of((x) => (x < 0 ? x / 2 : x))],
  ['torch.glu(x, 0)', [0, 1, 2].map((i) => (VALUES[i] as number) * sigmoid(VALUES[i + 3] as number))],
];

const TWO = 'torch.zeros([3, 2])';

const MOVES: readonly Row[] = [
  // Only the shape of the other tensor counts; the transposed rows show it.
  ['torch.t(torch.view(x, [3, 2]))', [3, 2, 4, -1, 0.5, -2]],
  ['torch.t(torch.view(x, [-1, 2]))', [3, 2, 4, -1, 0.5, -2]],
  [`torch.t(torch.view_as(x, ${TWO}))`, [3, 2, 4, -1, 0.5, -2]],
  ['torch.t(torch.reshape(x, [3, -1]))', [3, 2, 4, -1, 0.5, -2]],
  [`torch.t(torch.reshape_as(x, ${TWO}))`, [3, 2, 4, -1, 0.5, -2]],
  ['torch.select(torch.flatten(x), 0, 4)', [4]],
  ['torch.select(torch.ravel(x), 0, 3)', [0.5]],
  ['torch.select(torch.flatten(torch.view(x, [1, 2, 3]), 1, 2), 1, 3)', [0.5]],
  ['torch.select(torch.unflatten(x, 1, [3, 1]), 1, 1)', [-1, 4]],
  ['torch.select(torch.permute(torch.view(x, [1, 2, 3]), [2, 0, 1]), 0, 2)', [2, -2]],
  ['torch.select(torch.mT(torch.view(x, [1, 2, 3])), 1, 2)', [2, -2]],
  ['torch.select(torch.vstack([torch.select(x, 0, 0), torch.select(x, 0, 1)]), 1, 1)', [-1, 4]],
  ['torch.mT(x)', [3, 0.5, -1, 4, 2, -2]],
  ['torch.select(torch.movedim(torch.view(x, [1, 2, 3]), [2], [0]), 0, 1)', [-1, 4]],
  ['torch.add(torch.unsqueeze(x, 1), torch.zeros([2, 2, 1]))', [3, -1, 2, 3, -1, 2, 0.5, 4, -2, 0.5, 4, -2]],
  ['torch.select(torch.squeeze(torch.view(x, [1, 2, 1, 3])), 1, 0)', [3, 0.5]],
  ['torch.select(torch.squeeze(torch.view(x, [1, 2, 1, 3]), 2), 1, 1)', [0.5, 4, -2]],
  ['torch.expand(torch.slice(x, 0, 0, 1), [2, -1])', [3, -1, 2, 3, -1, 2]],
  ['torch.expand_as(torch.slice(x, 1, 0, 1), x)', [3, 3, 3, 0.5, 0.5, 0.5]],
  ['torch.broadcast_to(torch.select(x, 0, 1), [2, 3])', [0.5, 4, -2, 0.5, 4, -2]],
  ['torch.chunk(x, 2, 1)[1]', [2, -2]],
  ['torch.split(x, 2, 1)[0]', [3, -1, 0.5, 4]],
  ['torch.split(x, [1, 2], 1)[1]', [-1, 2, 4, -2]],
  ['torch.unbind(x, 1)[2]', [2, -2]],
  ['torch.to(x, 4)', [3, -1, 2, 0, 4, -2]],
  ['torch.long(x)', [3, -1, 2, 0, 4, -2]],
  ['torch.bool(torch.sub(x, 2))', [1, 1, 0, 1, 1, 1]],
  ['torch.type_as(x, torch.long(x))', [3, -1, 2, 0, 4, -2]],
  ['torch.index_select(x, 1, torch.tensor([2, 0]))', [2, 3, -2, 0.5]],
  ['torch.gather(x, 1, torch.argsort(x, 1))', [-1, 2, 3, -2, 0.5, 4]],
  ['torch.take(x, torch.tensor([5, 0]))', [-2, 3]],
  ['torch.scatter(x, 1, torch.argmax(x, 1, True), 9)', [9, -1, 2, 0.5, 9, -2]],
  ['torch.scatter_add(x, 1, torch.argmax(x, 1, True), torch.ones([2, 1]))', [4, -1, 2, 0.5, 5, -2]],
  ['torch.index_fill(x, 1, torch.tensor([1]), 7)', [3, 7, 2, 0.5, 7, -2]],
  ['torch.index_copy(x, 0, torch.tensor([0]), torch.ones([1, 3]))', [1, 1, 1, 0.5, 4, -2]],
  ['torch.index_add(x, 0, torch.tensor([1]), torch.ones([1, 3]))', [3, -1, 2, 1.5, 5, -1]],
  ['torch.one_hot(torch.argmax(x, 1), 3)', [1, 0, 0, 0, 1, 0]],
  ['torch.matmul(x, torch.t(x))', [14, -6.5, -6.5, 20.25]],
  ['torch.mv(x, torch.tensor([1., 2., 3.]))', [7, 2.5]],
  ['torch.dot(torch.select(x, 0, 0), torch.select(x, 0, 1))', [-6.5]],
  ['torch.outer(torch.select(x, 0, 0), torch.tensor([1., 2.]))', [3, 6, -1, -2, 2, 4]],
  ['torch.linear(x, torch.tensor([[1., 0., 2.]]), torch.tensor([0.5]))', [7.5, -3]],
  ['torch.addmm(torch.ones([2, 2]), x, torch.t(x), beta=3, alpha=2)', [31, -10, -10, 43.5]],
  ["torch.einsum('ij,kj->ki', [x, x])", [14, -6.5, -6.5, 20.25]],
  ['torch.transpose(x, 0, 1)', [3, 0.5, -1, 4, 2, -2]],
  ['torch.t(x)', [3, 0.5, -1, 4, 2, -2]],
  ['torch.flip(x, [1])', [2, -1, 3, -2, 4, 0.5]],
  ['torch.roll(x, [1], [1])', [2, 3, -1, -2, 0.5, 4]],
  ['torch.narrow(x, 1, 1, 2)', [-1, 2, 4, -2]],
  ['torch.slice(x, 1, 0, 3, 2)', [3, 2, 0.5, -2]],
  ['torch.select(x, 1, -1)', [2, -2]],
  ['torch.cat([x, x], 1)', [3, -1, 2, 3, -1, 2, 0.5, 4, -2, 0.5, 4, -2]],
  ['torch.stack([x, x], 1)', [3, -1, 2, 3, -1, 2, 0.5, 4, -2, 0.5, 4, -2]],
  ['torch.hstack([x, x])', [3, -1, 2, 3, -1, 2, 0.5, 4, -2, 0.5, 4, -2]],
  ['torch.vstack([x, x])', [...VALUES, ...VALUES]],
  ['torch.repeat(x, [1, 2])', [3, -1, 2, 3, -1, 2, 0.5, 4, -2, 0.5, 4, -2]],
  ['torch.tile(x, [2])', [3, -1, 2, 3, -1, 2, 0.5, 4, -2, 0.5, 4, -2]],
  ['torch.repeat_interleave(torch.select(x, 0, 0), 2, 0)', [3, 3, -1, -1, 2, 2]],
  ['torch.pad(x, [1, 0])', [0, 3, -1, 2, 0, 0.5, 4, -2]],
  ["torch.pad(x, [0, 1, 1, 0], 'constant', 9.)", [9, 9, 9, 9, 3, -1, 2, 9, 0.5, 4, -2, 9]],
  ['torch.reflection_pad1d(x, [2, 0])', [2, -1, 3, -1, 2, -2, 4, 0.5, 4, -2]],
  ['torch.replication_pad1d(x, [0, 1])', [3, -1, 2, 2, 0.5, 4, -2, -2]],
  ['torch.tril(x)', [3, 0, 0, 0.5, 4, 0]],
  ['torch.tril(x, 1)', [3, -1, 0, 0.5, 4, -2]],
  ['torch.triu(x)', [3, -1, 2, 0, 4, -2]],
  ['torch.triu(x, 1)', [0, -1, 2, 0, 0, -2]],
  ['torch.arange(2, 8, 2)', [2, 4, 6]],
  ['torch.arange(3)', [0, 1, 2]],
  ['torch.linspace(0, 1, 5)', [0, 0.25, 0.5, 0.75, 1]],
  ['torch.eye(2)', [1, 0, 0, 1]],
  ['torch.eye(2, 3)', [1, 0, 0, 0, 1, 0]],
  ['torch.full([2], 7)', [7, 7]],
  ['torch.where(torch.gt(x, 1), x, torch.zeros_like(x))', [3, 0, 2, 0, 4, 0]],
  ['torch.masked_fill(x, torch.lt(x, 0), 9)', [3, 9, 2, 0.5, 4, 9]],
  ['torch.logical_and(torch.gt(x, 0), torch.lt(x, 3))', [0, 0, 1, 1, 0, 0]],
  ['torch.logical_xor(torch.gt(x, 0), torch.lt(x, 3))', [1, 1, 0, 0, 1, 1]],
  ['torch.ge(x, 2)', [1, 0, 1, 0, 1, 0]],
  ['torch.le(x, 2)', [0, 1, 1, 1, 0, 1]],
  ['torch.ne(x, 2)', [1, 1, 0, 1, 1, 1]],
];

testRows({ reductions: REDUCTIONS, elementwise: ELEMENTWISE, activations: ACTIVATIONS, moves: MOVES }, X);

test('what has two results has them in their order', async (t) => {
  const lines = PAIRS.map(([call], i) => `a${i}, b${i} = ${call}`);
  const all = PAIRS.flatMap((_, i) => [`a${i}`, `b${i}`]).join(', ');
  const results = await runScript(t, { forward: `${lines.join('\n')}\nreturn (${all})` }, X);
  for (const [i, [call, a, b]] of PAIRS.entries()) {
    assertClose(results[2 * i], a, call);
    assertClose(results[2 * i + 1], b, `${call}, the second`);
  }
});
