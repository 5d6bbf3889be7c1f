/** Normalization and attention, against a plain reading of PyTorch's formulas. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Row, tensorText, testRows } from '../support/pytorch/rows.ts';
import { floats, runScript } from '../support/pytorch/run.ts';

const VALUES = Array.from({ length: 16 }, (_, i) => i - 8);
const X = floats([4, 4], VALUES);
const BEFORE = `channels = torch.view(x, [1, 4, 2, 2])
rows = torch.view(x, [1, 4, 4])
pair = torch.view(x, [2, 2, 4])
ones = torch.tensor([1., 1., 1., 1.])
upward = torch.tensor([1., 2., 3., 4.])
`;
/** Four numbers in sequence have the variance 1.25, so an epsilon of 1 makes the root 1.5. */
const EVEN = [-1, -1 / 3, 1 / 3, 1];
/** Eight have 5.25, so it makes 2.5. */
const EIGHT = [-1.4, -1, -0.6, -0.2, 0.2, 0.6, 1, 1.4];
const four = (compute: (value: number, i: number) => number) => [0, 1, 2, 3].flatMap(() => EVEN.map(compute));
const squares = (values: readonly number[]) => values.reduce((sum, value) => sum + value * value, 0);
const rms = (length: number, eps: number) =>
  VALUES.map((value, i) => {
    const start = i - (i % length);
    return value / Math.sqrt(squares(VALUES.slice(start, start + length)) / length + eps);
  });

const NORMS: readonly Row[] = [
  ['torch.layer_norm(x, [4], None, None, 1.)', four((value) => value)],
  ['torch.layer_norm(x, [4], upward, ones, 1.)', four((value, i) => value * (i + 1) + 1)],
  ['torch.layer_norm(pair, [2, 4], None, None, 1.)', [...EIGHT, ...EIGHT]],
  ['torch.layer_norm(x, [4])', four((value) => (value * 1.5) / Math.sqrt(1.25 + 1e-5))],
  ['torch.group_norm(rows, 2, None, None, 1.)', [...EIGHT, ...EIGHT]],
  [
    'torch.group_norm(rows, 2, upward, torch.tensor([0., 0., 0., 1.]), 1.)',
    [...EIGHT, ...EIGHT].map((value, i) => value * (Math.floor(i / 4) + 1) + (i >= 12 ? 1 : 0)),
  ],
  ['torch.group_norm(rows, 4)', four((value) => (value * 1.5) / Math.sqrt(1.25 + 1e-5))],
  ['torch.instance_norm(rows, None, None, None, None, True, 0.1, 1.)', four((value) => value)],
  [
    'torch.instance_norm(pair, torch.tensor([1., 3.]), torch.tensor([0., 1.]), None, None, True, 0.1, 1.)',
    four((value) => value).map((value, i) => (i % 8 < 4 ? value : 3 * value + 1)),
  ],
  [
    'torch.instance_norm(pair, None, None, torch.tensor([1., 2.]), torch.tensor([3., 8.]), False, 0.1, 1.)',
    VALUES.map((value, i) => (i % 8 < 4 ? (value - 1) / 2 : (value - 2) / 3)),
  ],
  [
    'torch.batch_norm(pair, None, None, torch.tensor([1., 2.]), torch.tensor([3., 8.]), False, 0.1, 1.)',
    VALUES.map((value, i) => (i % 8 < 4 ? (value - 1) / 2 : (value - 2) / 3)),
  ],
  [
    'torch.batch_norm(x, upward, ones, torch.mul(ones, 2.), torch.mul(ones, 3.), False, 0.1, 1.)',
    VALUES.map((value, i) => ((value - 2) / 2) * ((i % 4) + 1) + 1),
  ],
  ['torch.rms_norm(x, [4], None, 1.)', rms(4, 1)],
  ['torch.rms_norm(x, [4], upward)', rms(4, 2 ** -23).map((value, i) => value * ((i % 4) + 1))],
  ['torch.rms_norm(pair, [2, 4], None, 1.)', rms(8, 1)],
  [
    // Channel c is divided by the squares of c - 1 to c + 1.
    'torch.local_response_norm(channels, 3, 3., 1., 2.)',
    VALUES.map((value, i) => value / (2 + squares([VALUES[i - 4] ?? 0, value, VALUES[i + 4] ?? 0]))),
  ],
  ['torch.dropout(x, 0.5, False)', VALUES],
  ['torch.dropout(x, 0., True)', VALUES],
];

testRows({ normalization: NORMS }, X, BEFORE);

const REFUSED: readonly (readonly [forward: string, message: RegExp])[] = [
  ['torch.batch_norm(x, None, None, ones, ones, True)', /is in training mode/],
  ['torch.batch_norm(x, None, None, None, None, True)', /records would depend on each other/],
  ['torch.batch_norm(x, None, None, ones, None, False)', /has no running mean/],
  ['torch.batch_norm(pair, None, None, ones, ones)', /combines 2 and 4 as channels/],
  ['torch.instance_norm(pair, None, None, None, ones, False)', /has no running mean/],
  ['torch.instance_norm(rows, None, None, ones, ones, True)', /is in training mode/],
  ['torch.instance_norm(x)', /needs at least 3 dimensions, got 2/],
  ['torch.layer_norm(x, [3])', /combines 4 and 3 as the sizes of a layer norm/],
  ['torch.local_response_norm(channels, 2)', /a size of 2, expected an odd one/],
  ['torch.local_response_norm(rows, 3)', /needs 4 dimensions/],
  ['torch.scaled_dot_product_attention(x, x, x, None, 0.5)', /drops values at random/],
  ['torch.scaled_dot_product_attention(x, x, x, None, 0., False, enable_gqa=True)', /enable_gqa/],
];
for (const [call, message] of REFUSED)
  test(`refused: ${call}`, async (t) => {
    const forward = `${BEFORE}return ${call}`;
    await assert.rejects(runScript(t, { forward }, X), { code: 'bad_model', message });
  });

type Matrix = readonly (readonly number[])[];
const matrix = (rows: number, columns: number, compute: (i: number, j: number) => number) =>
  Array.from({ length: rows }, (_, i) => Array.from({ length: columns }, (__, j) => compute(i, j)));
const turned = (m: Matrix) => matrix(m[0]?.length ?? 0, m.length, (i, j) => m[j]?.[i] as number);
const times = (a: Matrix, b: Matrix) =>
  a.map((row) => turned(b).map((column) => row.reduce((sum, x, i) => sum + x * (column[i] as number), 0)));
const softmax = (row: readonly number[]) => {
  const all = row.map((x) => Math.exp(x - Math.max(...row)));
  return all.map((x) => x / all.reduce((a, b) => a + b, 0));
};
const weigh = (q: Matrix, k: Matrix, scale: number, mask: (i: number, j: number) => number = () => 0) =>
  times(q, turned(k)).map((row, i) => softmax(row.map((x, j) => x * scale + mask(i, j))));

/** Small numbers that differ. */
const some = (rows: number, columns: number, seed: number) =>
  matrix(rows, columns, (i, j) => ((i * 7 + j * 3 + seed * 5) % 11) / 10 - 0.5);
const Q = matrix(4, 4, (i, j) => (4 * i + j - 8) / 10);
const V = matrix(4, 4, (i, j) => 4 * i + j - 8);
const attend = (scale: number, mask?: (i: number, j: number) => number) =>
  times(weigh(Q, Q.toReversed(), scale, mask), V).flat();
const attention = (rest: string) =>
  `torch.scaled_dot_product_attention(torch.mul(x, 0.1), torch.flip(torch.mul(x, 0.1), [0]), x${rest})`;
const MASK = some(4, 4, 2);

const ATTENTION: readonly Row[] = [
  [attention(''), attend(0.5)],
  [attention(', None, 0., True'), attend(0.5, (i, j) => (j > i ? -Infinity : 0))],
  [attention(', None, 0., False, scale=2.'), attend(2)],
  [attention(`, ${tensorText(MASK)}`), attend(0.5, (i, j) => MASK[i]?.[j] as number)],
  // True keeps.
  [attention(', torch.ge(x, -6)'), attend(0.5, (i, j) => (4 * i + j < 2 ? -Infinity : 0))],
];

const [IN, OUT, UP, DOWN] = [some(12, 4, 0), some(4, 4, 1), some(3, 4, 2), some(4, 3, 3)];
const [IN_BIAS, OUT_BIAS, UP_BIAS, DOWN_BIAS] = [12, 4, 3, 4].map((n, i) => some(1, n, i)[0] as number[]);
const affine = (x: Matrix, weight: Matrix, bias: readonly number[] | undefined) =>
  times(x, turned(weight)).map((row) => row.map((value, i) => value + (bias?.[i] as number)));
const sum = (a: Matrix, b: Matrix) => a.map((row, i) => row.map((value, j) => value + (b[i]?.[j] as number)));
const norm = (x: Matrix) =>
  x.map((row) => {
    const mean = row.reduce((a, b) => a + b, 0) / row.length;
    const variance = squares(row.map((value) => value - mean)) / row.length;
    return row.map((value) => (value - mean) / Math.sqrt(variance + 0.5));
  });

/** Two heads of two features each. */
function heads(x: Matrix): { result: Matrix; weights: Matrix[] } {
  const all = affine(x, IN, IN_BIAS);
  const part = (which: number, head: number) =>
    all.map((row) => row.slice(4 * which + 2 * head, 4 * which + 2 * head + 2));
  const weights = [0, 1].map((head) => weigh(part(0, head), part(1, head), 1 / Math.SQRT2));
  const mixed = (head: number) => times(weights[head] as Matrix, part(2, head));
  const other = mixed(1);
  const joined = mixed(0).map((row, i) => [...row, ...(other[i] as number[])]);
  return { result: affine(joined, OUT, OUT_BIAS), weights };
}

const gelu = (x: number) => {
  // Abramowitz and Stegun 7.1.26 would be too coarse; the series converges fast for these small numbers.
  let [term, series] = [x / Math.SQRT2, x / Math.SQRT2];
  for (let n = 1; n < 40; n++) {
    term *= -(x * x) / 2 / n;
    series += term / (2 * n + 1);
  }
  return (x / 2) * (1 + (2 / Math.sqrt(Math.PI)) * series);
};
const feed = (x: Matrix, active: (value: number) => number) =>
  affine(
    affine(x, UP, UP_BIAS).map((row) => row.map(active)),
    DOWN,
    DOWN_BIAS,
  );
const relu = (value: number) => Math.max(0, value);

const WEIGHTS = `4, 2, ${[IN, IN_BIAS, OUT, OUT_BIAS].map(tensorText).join(', ')}`;
const NORM = '0.5, ones, zeros, ones, zeros';
const encoder = (isGelu: string, isFirst: string) =>
  `torch._transformer_encoder_layer_fwd(q, ${WEIGHTS}, ${isGelu}, ${isFirst}, ${NORM}, ${[UP, UP_BIAS, DOWN, DOWN_BIAS].map(tensorText).join(', ')})`;
const { result, weights } = heads(Q);
const [first, second] = weights as [Matrix, Matrix];
const after = norm(sum(Q, result));
const before = sum(Q, heads(norm(Q)).result);

const HEADS: readonly Row[] = [
  [`torch._native_multi_head_attention(q, q, q, ${WEIGHTS}, None, False)[0]`, result.flat()],
  [
    `torch._native_multi_head_attention(q, q, q, ${WEIGHTS})[1]`,
    sum(first, second)
      .flat()
      .map((value) => value / 2),
  ],
  [
    `torch._native_multi_head_attention(q, q, q, ${WEIGHTS}, None, True, False)[1]`,
    [...first.flat(), ...second.flat()],
  ],
  [encoder('False', 'False'), norm(sum(after, feed(after, relu))).flat()],
  [encoder('True', 'True'), sum(before, feed(norm(before), gelu)).flat()],
];

testRows(
  { attention: ATTENTION, heads: HEADS },
  X,
  `${BEFORE}q = torch.mul(rows, 0.1)\nzeros = torch.sub(ones, 1)\n`,
);
