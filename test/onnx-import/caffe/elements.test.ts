/** Layers that compute element by element or along axes, against the formula of each. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  assertClose,
  convertNet,
  inputText,
  noise,
  noiseTensor,
  runNet,
  type TestBlob,
  tensor,
} from '../support/caffe/net.ts';

const SHAPE = [2, 3, 2, 2] as const;
const INPUT = noiseTensor(SHAPE);
const X = INPUT.data as Float32Array;
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

function layerText(type: string, parameters = '', bottoms = ['data']): string {
  const taken = bottoms.map((bottom) => `bottom: "${bottom}"`).join(' ');
  return `layer { name: "l" type: "${type}" ${taken} top: "out" ${parameters} }`;
}

async function run(type: string, parameters = '', blobs?: readonly TestBlob[]) {
  const text = inputText('data', SHAPE) + layerText(type, parameters);
  return (await runNet(text, blobs ? { l: blobs } : {}, { data: INPUT })).out;
}

const FORMULAS: readonly [string, string, (x: number) => number][] = [
  ['AbsVal', '', Math.abs],
  ['BNLL', '', (x) => Math.log(1 + Math.exp(x))],
  ['Clip', 'clip_param { min: -0.5 max: 0.25 }', (x) => Math.min(0.25, Math.max(-0.5, x))],
  ['ELU', 'elu_param { alpha: 0.5 }', (x) => (x > 0 ? x : 0.5 * (Math.exp(x) - 1))],
  ['Exp', '', Math.exp],
  ['Exp', 'exp_param { base: 2 scale: 3 shift: 1 }', (x) => 2 ** (1 + 3 * x)],
  ['Log', 'log_param { shift: 2 }', (x) => Math.log(2 + x)],
  ['Log', 'log_param { base: 10 scale: 0.5 shift: 2 }', (x) => Math.log10(2 + 0.5 * x)],
  ['Mish', '', (x) => x * Math.tanh(Math.log(1 + Math.exp(x)))],
  ['Power', 'power_param { power: 3 scale: 2 shift: 0.5 }', (x) => (0.5 + 2 * x) ** 3],
  ['Power', 'power_param { power: 2 }', (x) => x * x],
  ['Power', 'power_param { scale: -1 shift: 1 }', (x) => 1 - x],
  ['ReLU', '', (x) => Math.max(0, x)],
  ['ReLU', 'relu_param { negative_slope: 0.2 }', (x) => (x > 0 ? x : 0.2 * x)],
  ['ReLU6', '', (x) => Math.min(6, Math.max(0, x))],
  ['Sigmoid', '', sigmoid],
  ['Swish', 'swish_param { beta: 2 }', (x) => x * sigmoid(2 * x)],
  ['TanH', '', Math.tanh],
  ['Threshold', 'threshold_param { threshold: 0.1 }', (x) => (x > 0.1 ? 1 : 0)],
  ['Dropout', 'dropout_param { dropout_ratio: 0.9 }', (x) => x],
];

for (const [type, parameters, formula] of FORMULAS)
  test(`${type} ${parameters} changes each element by its formula`, async () => {
    assertClose(await run(type, parameters), tensor(SHAPE, X.map(formula)));
  });

test('ReLU6 cuts at 6', async () => {
  const text = inputText('data', [1, 3]) + layerText('ReLU6');
  const { out } = await runNet(text, {}, { data: tensor([1, 3], [-1, 5, 7]) });
  assert.deepEqual([...(out?.data ?? [])], [0, 5, 6]);
});

test('CReLU joins both signs', async () => {
  const text = inputText('data', [1, 2]) + layerText('CReLU');
  const { out } = await runNet(text, {}, { data: tensor([1, 2], [-1, 2]) });
  assert.deepEqual([...(out?.data ?? [])], [0, 2, 1, 0]);
});

test('PReLU has a slope for each channel, or one for all', async () => {
  const channel = (i: number) => Math.floor(i / 4) % 3;
  const slopes = [0.1, 0.2, 0.3];
  assertClose(
    await run('PReLU', '', [{ shape: [3], data: slopes }]),
    tensor(
      SHAPE,
      X.map((x, i) => (x > 0 ? x : x * (slopes[channel(i)] as number))),
    ),
  );
  assertClose(
    await run('PReLU', 'prelu_param { channel_shared: true }', [{ shape: [], data: [0.5] }]),
    tensor(
      SHAPE,
      X.map((x) => (x > 0 ? x : 0.5 * x)),
    ),
  );
});

test('Softmax is over its axis alone', async () => {
  const out = await run('Softmax', 'softmax_param { axis: -1 }');
  const expected = X.map((x, i) => Math.exp(x) / (Math.exp(x) + Math.exp(X[i ^ 1] as number)));
  assertClose(out, tensor(SHAPE, expected));
});

const Y = noiseTensor(SHAPE, 2);
const ELTWISE: readonly [string, (x: number, y: number) => number][] = [
  ['', (x, y) => x + y],
  ['operation: SUM coeff: 1 coeff: -2', (x, y) => x - 2 * y],
  ['operation: PROD', (x, y) => x * y],
  ['operation: MAX', Math.max],
];

for (const [parameters, formula] of ELTWISE)
  test(`Eltwise ${parameters} joins two inputs`, async () => {
    const text = `${inputText('data', SHAPE)} ${inputText('other', SHAPE)} ${layerText('Eltwise', `eltwise_param { ${parameters} }`, ['data', 'other'])}`;
    const { out } = await runNet(text, {}, { data: INPUT, other: Y });
    assertClose(
      out,
      tensor(
        SHAPE,
        X.map((x, i) => formula(x, Y.data[i] as number)),
      ),
    );
  });

test('Eltwise of three inputs sums all of them with their coefficients', async () => {
  const text =
    inputText('data', SHAPE) +
    layerText('Eltwise', 'eltwise_param { coeff: 1 coeff: 2 coeff: 3 }', ['data', 'data', 'data']);
  assertClose(
    (await runNet(text, {}, { data: INPUT })).out,
    tensor(
      SHAPE,
      X.map((x) => 6 * x),
    ),
  );
});

test('Eltwise refuses inputs of different shapes', async () => {
  const text = `${inputText('data', SHAPE)} ${inputText('other', [2, 3, 2, 1])} ${layerText('Eltwise', '', ['data', 'other'])}`;
  await assert.rejects(convertNet(text), {
    code: 'bad_model',
    message: /Eltwise \(node "l"\): needs inputs of one shape/,
  });
});

test('Axpy scales each channel of one input and adds another', async () => {
  const factor = noiseTensor([2, 3, 1, 1], 5);
  const text = `${inputText('a', [2, 3, 1, 1])} ${inputText('x', SHAPE)} ${inputText('y', SHAPE)} ${layerText('Axpy', '', ['a', 'x', 'y'])}`;
  const { out } = await runNet(text, {}, { a: factor, x: INPUT, y: Y });
  assertClose(
    out,
    tensor(
      SHAPE,
      X.map((x, i) => (factor.data[Math.floor(i / 4)] as number) * x + (Y.data[i] as number)),
    ),
  );
});

const REDUCTIONS: readonly [string, (values: readonly number[]) => number][] = [
  ['SUM', (values) => values.reduce((a, b) => a + b)],
  ['ASUM', (values) => values.reduce((a, b) => a + Math.abs(b), 0)],
  ['SUMSQ', (values) => values.reduce((a, b) => a + b * b, 0)],
  ['MEAN', (values) => values.reduce((a, b) => a + b) / values.length],
];

for (const [operation, formula] of REDUCTIONS)
  test(`Reduction ${operation} takes everything from its axis on`, async () => {
    const expected = [0, 1].map((n) => 2 * formula(Array.from(X.slice(n * 12, n * 12 + 12))));
    const out = await run('Reduction', `reduction_param { operation: ${operation} axis: 1 coeff: 2 }`);
    assertClose(out, tensor([2], expected));
  });

test('Reduction of everything gives a number without dimensions', async () => {
  assertClose(await run('Reduction'), tensor([], [X.reduce((a, b) => a + b)]));
});

test('ArgMax names the largest of a record as floats, the last of equal ones', async () => {
  const text = inputText('data', [2, 4]) + layerText('ArgMax');
  const { out } = await runNet(text, {}, { data: tensor([2, 4], [1, 5, 5, 0, 9, 1, 2, 3]) });
  assertClose(out, tensor([2, 1, 1], [2, 0]));
});

test('ArgMax gives the best k, their values too, and keeps the rank of its input', async () => {
  const data = tensor([1, 2, 2, 1], [1, 4, 3, 2]);
  const text = (parameters: string) =>
    inputText('data', [1, 2, 2, 1]) + layerText('ArgMax', `argmax_param { ${parameters} }`);
  const { out } = await runNet(text('top_k: 3 out_max_val: true'), {}, { data });
  assertClose(out, tensor([1, 2, 3, 1], [1, 2, 3, 4, 3, 2]));
  const { out: places } = await runNet(text('axis: 1'), {}, { data });
  assertClose(places, tensor([1, 1, 2, 1], [1, 0]));
  const { out: values } = await runNet(text('axis: 1 out_max_val: true'), {}, { data });
  assertClose(values, tensor([1, 1, 2, 1], [3, 4]));
});

test('InnerProduct sums from its axis on, with either layout of the weights', async () => {
  const weights = noise(5 * 4, 3);
  const bias = noise(5, 4);
  const expected = Array.from({ length: 6 * 5 }, (_, i) => {
    const [row, column] = [Math.floor(i / 5), i % 5];
    let sum = bias[column] as number;
    for (let k = 0; k < 4; k++) sum += (X[row * 4 + k] as number) * (weights[column * 4 + k] as number);
    return sum;
  });
  const turned = Float32Array.from(
    { length: 20 },
    (_, i) => weights[(i % 5) * 4 + Math.floor(i / 5)] as number,
  );
  for (const [parameters, shape, data] of [
    ['', [5, 4], weights],
    ['transpose: true', [4, 5], turned],
  ] as const) {
    const blobs = [
      { shape, data },
      { shape: [5], data: bias },
    ];
    const out = await run(
      'InnerProduct',
      `inner_product_param { num_output: 5 axis: 2 ${parameters} }`,
      blobs,
    );
    assertClose(out, tensor([2, 3, 5], expected));
  }
});

test('Embed looks words up', async () => {
  const text = inputText('data', [2, 2]) + layerText('Embed', 'embed_param { num_output: 2 input_dim: 3 }');
  const blobs = [
    { shape: [3, 2], data: [0, 1, 2, 3, 4, 5] },
    { shape: [2], data: [10, 20] },
  ];
  const { out } = await runNet(text, { l: blobs }, { data: tensor([2, 2], [2, 0, 1, 2]) });
  assertClose(out, tensor([2, 2, 2], [14, 25, 10, 21, 12, 23, 14, 25]));
});
