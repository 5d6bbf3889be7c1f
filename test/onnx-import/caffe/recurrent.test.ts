/** Caffe's recurrent layers against plain loops: [T, N, D] with a second input that says which sequence goes on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import {
  assertClose,
  convertNet,
  inputText,
  noise,
  noiseTensor,
  runNet,
  tensor,
} from '../support/caffe/net.ts';

const [T, N, D, H] = [4, 2, 3, 5];
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
/** The second stream begins anew at the third step. */
const CONT = tensor([T, N], [0, 0, 1, 1, 1, 0, 1, 1]);
const DATA = noiseTensor([T, N, D], 1);

/** W x for one row. */
function times(weights: Float32Array, x: readonly number[]): number[] {
  const rows = weights.length / x.length;
  return Array.from({ length: rows }, (_, i) =>
    x.reduce((sum, value, k) => sum + value * (weights[i * x.length + k] as number), 0),
  );
}

const sum = (...lists: readonly (readonly number[] | Float32Array)[]) =>
  Array.from(lists[0] as readonly number[], (_, i) =>
    lists.reduce((total, list) => total + (list[i] as number), 0),
  );

const rowOf = ({ data, shape }: Tensor, row: number) => {
  const size = shape.at(-1) as number;
  return Array.from(data.slice(row * size, (row + 1) * size) as Float32Array);
};

interface LstmWeights {
  readonly x: Float32Array;
  readonly bias: Float32Array;
  readonly h: Float32Array;
  readonly still?: Float32Array;
}

function naiveLstm(weights: LstmWeights, still?: Tensor, start?: { h: Tensor; c: Tensor }) {
  const h = Array.from({ length: N }, (_, n) => (start ? rowOf(start.h, n) : new Array<number>(H).fill(0)));
  const c = Array.from({ length: N }, (_, n) => (start ? rowOf(start.c, n) : new Array<number>(H).fill(0)));
  const all: number[] = [];
  for (let t = 0; t < T; t++)
    for (let n = 0; n < N; n++) {
      const cont = Number(CONT.data[t * N + n]);
      const gates = sum(
        times(weights.x, rowOf(DATA, t * N + n)),
        weights.bias,
        times(
          weights.h,
          (h[n] as number[]).map((value) => value * cont),
        ),
        ...(still && weights.still ? [times(weights.still, rowOf(still, n))] : []),
      );
      c[n] = (c[n] as number[]).map((old, k) => {
        const [i, f, g] = [gates[k], gates[H + k], gates[3 * H + k]] as [number, number, number];
        return cont * sigmoid(f) * old + sigmoid(i) * Math.tanh(g);
      });
      h[n] = (c[n] as number[]).map((cell, k) => sigmoid(gates[2 * H + k] as number) * Math.tanh(cell));
      all.push(...(h[n] as number[]));
    }
  return { all, h: h.flat(), c: c.flat() };
}

const WEIGHTS: LstmWeights = { x: noise(4 * H * D, 2), bias: noise(4 * H, 3), h: noise(4 * H * H, 4) };
const INPUTS = inputText('x', [T, N, D]) + inputText('cont', [T, N]);

function blobs({ x, bias, h, still }: LstmWeights, width = 0) {
  return [
    { shape: [4 * H, D], data: x },
    { shape: [4 * H], data: bias },
    ...(still ? [{ shape: [4 * H, width], data: still }] : []),
    { shape: [4 * H, H], data: h },
  ];
}

test('LSTM forgets where a sequence begins', async () => {
  const text = `${INPUTS} layer { name: "l" type: "LSTM" bottom: "x" bottom: "cont" top: "out" recurrent_param { num_output: ${H} } }`;
  const { out } = await runNet(text, { l: blobs(WEIGHTS) }, { x: DATA, cont: CONT });
  assertClose(out, tensor([T, N, H], naiveLstm(WEIGHTS).all));
});

test('LSTM takes a still input, and puts its states in and out', async () => {
  const weights = { ...WEIGHTS, still: noise(4 * H * 2, 5) };
  const [still, h, c] = [noiseTensor([N, 2], 6), noiseTensor([1, N, H], 7), noiseTensor([1, N, H], 8)];
  const text = `${INPUTS} ${inputText('still', [N, 2])} ${inputText('h0', [1, N, H])} ${inputText('c0', [1, N, H])}
    layer { name: "l" type: "LSTM" bottom: "x" bottom: "cont" bottom: "still" bottom: "h0" bottom: "c0" top: "out" top: "h" top: "c"
      recurrent_param { num_output: ${H} expose_hidden: true } }`;
  const cont: Tensor = {
    dtype: 'float32',
    shape: CONT.shape,
    data: Float32Array.from(CONT.data as Float32Array),
  };
  const results = await runNet(text, { l: blobs(weights, 2) }, { x: DATA, cont, still, h0: h, c0: c });
  const expected = naiveLstm(weights, still, { h, c });
  assertClose(results.out, tensor([T, N, H], expected.all));
  assertClose(results.h, tensor([1, N, H], expected.h));
  assertClose(results.c, tensor([1, N, H], expected.c));
});

test('RNN gives the output of its hidden state', async () => {
  const [wx, bh, wh, wo, bo] = [
    noise(H * D, 2),
    noise(H, 3),
    noise(H * H, 4),
    noise(H * H, 5),
    noise(H, 6),
  ] as const;
  const text = `${INPUTS} layer { name: "r" type: "RNN" bottom: "x" bottom: "cont" top: "out" recurrent_param { num_output: ${H} } }`;
  const weights = [
    { shape: [H, D], data: wx },
    { shape: [H], data: bh },
    { shape: [H, H], data: wh },
    { shape: [H, H], data: wo },
    { shape: [H], data: bo },
  ];
  const { out } = await runNet(text, { r: weights }, { x: DATA, cont: CONT });
  const state = Array.from({ length: N }, () => new Array<number>(H).fill(0));
  const expected: number[] = [];
  for (let t = 0; t < T; t++)
    for (let n = 0; n < N; n++) {
      const old = (state[n] as number[]).map((value) => value * Number(CONT.data[t * N + n]));
      state[n] = sum(times(wx, rowOf(DATA, t * N + n)), bh, times(wh, old)).map(Math.tanh);
      expected.push(...sum(times(wo, state[n] as number[]), bo).map(Math.tanh));
    }
  assertClose(out, tensor([T, N, H], expected));
});

test('LSTM refuses a second input of another shape', async () => {
  const text = `${inputText('x', [T, N, D])} ${inputText('cont', [N, T])} layer { name: "l" type: "LSTM" bottom: "x" bottom: "cont" top: "out" recurrent_param { num_output: ${H} } }`;
  await assert.rejects(convertNet(text, { l: blobs(WEIGHTS) }), {
    code: 'bad_model',
    message: /LSTM \(node "l"\): the second input must be \[4,2\], got \[2,4\]/,
  });
});
