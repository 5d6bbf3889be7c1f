/**
 * Operators that exporters and onnxruntime's optimizer write: what is proven answers alone as in 200 random batches, and what
 * lies next to it stays refused.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { allocate, type NumericDType, type Tensor } from '../../../lib/contract/tensor.ts';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { type Proof, proofOf } from '../../../onnx-import/batching/proof.ts';
import { type AttributeSpec, type NodeSpec, onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { compareRows } from './compare-rows.ts';
import { random } from './random-graphs.ts';

const MS = 'com.microsoft';
const ROWS = 8;
const BATCHES = 200;

/** A dtype, the shape, and the lowest and the highest number. The first size of an input is free. */
type Values = readonly [dtype: NumericDType, shape: readonly number[], low?: number, high?: number];

interface Exported {
  readonly op: string;
  readonly domain?: string;
  readonly opset?: number;
  readonly inputs: Readonly<Record<string, Values>>;
  readonly weights?: Readonly<Record<string, Values>>;
  /** Names of inputs and weights, in the operator's order; a dash is one that is left out. Default: x. */
  readonly call?: string;
  readonly attributes?: Readonly<Record<string, AttributeSpec>>;
  /** Dtypes of the outputs; an empty one is left out. Default: one of float32. */
  readonly outputs?: readonly (NumericDType | '')[];
  /** The order of the axes of an output that has its rows on another than the first. */
  readonly turned?: Readonly<Record<number, readonly number[]>>;
  /** Nodes in front of it. */
  readonly before?: readonly NodeSpec[];
}

function tensorOf([dtype, shape, low = -1, high = 1]: Values, next: () => number): Tensor {
  const data = allocate(
    dtype,
    shape.reduce((a, b) => a * b, 1),
  );
  const isFloat = dtype.startsWith('float');
  for (let i = 0; i < data.length; i++) {
    const value = low + next() * (high - low + (isFloat ? 0 : 0.999));
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) data[i] = BigInt(Math.floor(value));
    else data[i] = isFloat ? value : Math.floor(value);
  }
  return { dtype, shape, data };
}

function bytesOf({
  op,
  domain,
  opset = 17,
  inputs,
  weights = {},
  call = 'x',
  attributes = {},
  outputs = ['float32'],
  turned = {},
  before = [],
}: Exported) {
  const next = random(7);
  const made = outputs.map((dtype, i) => (dtype === '' ? '' : turned[i] ? `o${i}` : `y${i}`));
  const turns = Object.entries(turned).map(
    ([i, perm]): NodeSpec => ({
      op: 'Transpose',
      inputs: [`o${i}`],
      outputs: [`y${i}`],
      attributes: { perm },
    }),
  );
  const names = call.split(' ').map((name) => (name === '-' ? '' : name));
  return onnxModel({
    inputs: Object.entries(inputs).map(([name, [dtype, shape]]) => ({
      name,
      dtype,
      shape: ['N', ...shape.slice(1)],
    })),
    outputs: outputs.flatMap((dtype, i) =>
      dtype === '' ? [] : [{ name: `y${i}`, dtype, shape: undefined }],
    ),
    nodes: [
      ...before,
      { op, inputs: names, outputs: made, attributes, ...(domain === undefined ? {} : { domain }) },
      ...turns,
    ],
    weights: Object.entries(weights).map(([name, values]) => {
      const { dtype, shape, data } = tensorOf(values, next);
      assert.ok(dtype !== 'string' && ArrayBuffer.isView(data));
      return { name, dtype, shape, data };
    }),
    opset,
    domains: { [MS]: 1 },
  });
}

async function proofIn(t: TestContext, exported: Exported): Promise<{ file: string; proof: Proof }> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  writeFileSync(file, bytesOf(exported));
  return { file, proof: proofOf(readModel(file), new Map()) };
}

function rowsOf(title: string, { inputs }: Exported): Tensor[][] {
  const next = random(title.length);
  return Array.from({ length: ROWS }, () => Object.values(inputs).map((values) => tensorOf(values, next)));
}

const FLOAT3 = (length: number, width: number): Values => ['float32', [1, length, width]];
const MASK = (length: number): Values => ['int32', [1, length], 0, 1];
const SCALE: Values = ['float32', [], 0.01, 0.02];
const ZERO: Values = ['uint8', [], 100, 140];
const NUMBERS: Values = ['uint8', [1, 3, 4], 0, 255];
/** Cosines and sines of the first positions. */
const ANGLES: Values = ['float32', [16, 4]];
const QKV = { q: FLOAT3(5, 16), k: FLOAT3(5, 16), v: FLOAT3(5, 16) };
const HEADS = { num_heads: 2 };
const ONNX_HEADS = { q_num_heads: 2, kv_num_heads: 2 };
const PAST: Values = ['float32', [1, 2, 3, 8]];
const SCALES = { s: SCALE, z: ZERO };

const PROVEN: Readonly<Record<string, Exported>> = {
  'Attention of three axes': {
    op: 'Attention',
    opset: 23,
    inputs: QKV,
    call: 'q k v',
    attributes: ONNX_HEADS,
  },
  'Attention of four axes, causal, with a mask for each row': {
    op: 'Attention',
    opset: 23,
    inputs: {
      q: ['float32', [1, 2, 5, 8]],
      k: ['float32', [1, 2, 5, 8]],
      v: ['float32', [1, 2, 5, 6]],
      m: ['float32', [1, 1, 5, 5]],
    },
    call: 'q k v m',
    attributes: { is_causal: 1 },
  },
  'Attention with fewer heads of keys and a mask for all rows': {
    op: 'Attention',
    opset: 23,
    inputs: { q: FLOAT3(5, 32), k: FLOAT3(5, 16), v: FLOAT3(5, 16) },
    weights: { m: ['float32', [5, 5]] },
    call: 'q k v m',
    attributes: { q_num_heads: 4, kv_num_heads: 2 },
  },
  'Attention with a mask of four axes for all rows': {
    op: 'Attention',
    opset: 23,
    inputs: QKV,
    weights: { m: ['float32', [1, 2, 5, 5]] },
    call: 'q k v m',
    attributes: ONNX_HEADS,
  },
  'Attention with a mask of three axes for all rows and heads': {
    op: 'Attention',
    opset: 23,
    inputs: QKV,
    weights: { m: ['float32', [1, 5, 5]] },
    call: 'q k v m',
    attributes: ONNX_HEADS,
  },
  'com.microsoft Attention with a bias for all rows': {
    op: 'Attention',
    domain: MS,
    inputs: { x: FLOAT3(5, 16) },
    weights: { w: ['float32', [16, 48]], b: ['float32', [48]], r: ['float32', [1, 2, 5, 5]] },
    call: 'x w b - - r',
    attributes: HEADS,
  },
  'Attention with a state': {
    op: 'Attention',
    opset: 23,
    inputs: { ...QKV, p: PAST, r: PAST },
    call: 'q k v - p r',
    attributes: ONNX_HEADS,
    outputs: ['float32', 'float32', 'float32', 'float32'],
  },
  'Attention of operator set 24 with a length for each row': {
    op: 'Attention',
    opset: 24,
    inputs: { ...QKV, n: ['int64', [1], 1, 5] },
    call: 'q k v - - - n',
    attributes: ONNX_HEADS,
  },
  'com.microsoft Attention with a mask': {
    op: 'Attention',
    domain: MS,
    inputs: { x: FLOAT3(5, 16), m: MASK(5) },
    weights: { w: ['float32', [16, 48]], b: ['float32', [48]] },
    call: 'x w b m',
    attributes: HEADS,
  },
  'com.microsoft Attention with a length for each row': {
    op: 'Attention',
    domain: MS,
    inputs: { x: FLOAT3(5, 16), m: ['int32', [1], 1, 5] },
    weights: { w: ['float32', [16, 48]], b: ['float32', [48]] },
    call: 'x w b m',
    attributes: HEADS,
  },
  'com.microsoft Attention, causal, with a bias for each row': {
    op: 'Attention',
    domain: MS,
    inputs: { x: FLOAT3(5, 16), r: ['float32', [1, 2, 5, 5]] },
    weights: { w: ['float32', [16, 48]], b: ['float32', [48]] },
    call: 'x w b - - r',
    attributes: { ...HEADS, unidirectional: 1 },
  },
  'com.microsoft Attention with a state, whose second axis has the rows': {
    op: 'Attention',
    domain: MS,
    inputs: { x: FLOAT3(5, 16), p: ['float32', [1, 2, 2, 3, 8]] },
    weights: { w: ['float32', [16, 48]], b: ['float32', [48]] },
    before: [{ op: 'Transpose', inputs: ['p'], outputs: ['q'], attributes: { perm: [1, 0, 2, 3, 4] } }],
    call: 'x w b - q',
    attributes: HEADS,
    outputs: ['float32', 'float32'],
    turned: { 1: [1, 0, 2, 3, 4] },
  },
  'QAttention with a mask': {
    op: 'QAttention',
    domain: MS,
    inputs: { x: ['uint8', [1, 5, 16], 0, 255], m: MASK(5) },
    weights: { w: ['uint8', [16, 48], 0, 255], b: ['float32', [48]], s: SCALE, z: ZERO },
    call: 'x w b s s m z z',
    attributes: HEADS,
  },
  'MultiHeadAttention with a mask': {
    op: 'MultiHeadAttention',
    domain: MS,
    inputs: { ...QKV, m: MASK(5) },
    weights: { b: ['float32', [48]] },
    call: 'q k v b m',
    attributes: HEADS,
  },
  'MultiHeadAttention with a bias for all rows and a state': {
    op: 'MultiHeadAttention',
    domain: MS,
    inputs: { ...QKV, p: PAST, r: PAST },
    weights: { a: ['float32', [1, 2, 5, 8]] },
    call: 'q k v - - a p r',
    attributes: HEADS,
    outputs: ['float32', 'float32', 'float32'],
  },
  'MultiHeadAttention to keys with the heads second': {
    op: 'MultiHeadAttention',
    domain: MS,
    inputs: { q: FLOAT3(5, 16), k: ['float32', [1, 2, 7, 8]], v: ['float32', [1, 2, 7, 8]] },
    call: 'q k v',
    attributes: HEADS,
  },
  'RotaryEmbedding with positions of each row': {
    op: 'RotaryEmbedding',
    opset: 23,
    inputs: { x: ['float32', [1, 2, 5, 8]], p: ['int64', [1, 5], 0, 15] },
    weights: { c: ANGLES, s: ANGLES },
    call: 'x c s p',
  },
  'RotaryEmbedding with angles of each row': {
    op: 'RotaryEmbedding',
    opset: 23,
    inputs: { x: ['float32', [1, 2, 5, 8]], c: FLOAT3(5, 4), s: FLOAT3(5, 4) },
    call: 'x c s',
  },
  'com.microsoft RotaryEmbedding with positions of each row': {
    op: 'RotaryEmbedding',
    domain: MS,
    inputs: { x: FLOAT3(5, 8), p: ['int64', [1, 5], 0, 15] },
    weights: { c: ANGLES, s: ANGLES },
    call: 'x p c s',
  },
  'com.microsoft RotaryEmbedding with one offset': {
    op: 'RotaryEmbedding',
    domain: MS,
    inputs: { x: ['float32', [1, 2, 5, 8]] },
    weights: { p: ['int64', [1], 0, 9], c: ANGLES, s: ANGLES },
    call: 'x p c s',
  },
  'EmbedLayerNormalization with segments and a mask': {
    op: 'EmbedLayerNormalization',
    domain: MS,
    inputs: { i: ['int32', [1, 5], 0, 9], s: ['int32', [1, 5], 0, 1], m: MASK(5) },
    weights: {
      w: ['float32', [10, 8]],
      p: ['float32', [16, 8]],
      e: ['float32', [2, 8]],
      g: ['float32', [8]],
      b: ['float32', [8]],
    },
    call: 'i s w p e g b m',
    outputs: ['float32', 'int32', 'float32'],
  },
  'EmbedLayerNormalization with positions for all rows': {
    op: 'EmbedLayerNormalization',
    domain: MS,
    inputs: { i: ['int32', [1, 5], 0, 9] },
    weights: {
      w: ['float32', [10, 8]],
      p: ['float32', [16, 8]],
      g: ['float32', [8]],
      n: ['int32', [1, 5], 0, 15],
    },
    call: 'i - w p - g g - n',
    outputs: ['float32', 'int32'],
  },
  'SkipLayerNormalization and its sum': {
    op: 'SkipLayerNormalization',
    domain: MS,
    inputs: { x: FLOAT3(5, 8), y: FLOAT3(5, 8) },
    weights: { g: ['float32', [8]], b: ['float32', [8]] },
    call: 'x y g b b',
    outputs: ['float32', '', '', 'float32'],
  },
  SkipSimplifiedLayerNormalization: {
    op: 'SkipSimplifiedLayerNormalization',
    domain: MS,
    inputs: { x: FLOAT3(5, 8), y: FLOAT3(5, 8) },
    weights: { g: ['float32', [8]] },
    call: 'x y g',
  },
  'LayerNormalization with its mean': {
    op: 'LayerNormalization',
    inputs: { x: FLOAT3(5, 8) },
    weights: { g: ['float32', [8]], b: ['float32', [8]] },
    call: 'x g b',
    outputs: ['float32', 'float32', 'float32'],
  },
  SimplifiedLayerNormalization: {
    op: 'SimplifiedLayerNormalization',
    inputs: { x: FLOAT3(5, 8) },
    weights: { g: ['float32', [8]] },
    call: 'x g',
    attributes: { axis: -1 },
  },
  'FusedMatMul of two inputs': {
    op: 'FusedMatMul',
    domain: MS,
    inputs: { x: FLOAT3(5, 8), y: FLOAT3(3, 8) },
    call: 'x y',
    attributes: { transB: 1, alpha: { float: 0.5 } },
  },
  FusedGemm: {
    op: 'FusedGemm',
    domain: MS,
    inputs: { x: ['float32', [1, 8]] },
    weights: { w: ['float32', [8, 3]], b: ['float32', [3]] },
    call: 'x w b',
    attributes: { activation: 'Relu' },
  },
  'FusedConv with what is added to it': {
    op: 'FusedConv',
    domain: MS,
    inputs: { x: ['float32', [1, 2, 6, 6]], a: ['float32', [1, 3, 4, 4]] },
    weights: { w: ['float32', [3, 2, 3, 3]], b: ['float32', [3]] },
    call: 'x w b a',
    attributes: { activation: 'Relu', kernel_shape: [3, 3] },
  },
  BiasGelu: {
    op: 'BiasGelu',
    domain: MS,
    inputs: { x: FLOAT3(5, 8) },
    weights: { b: ['float32', [8]] },
    call: 'x b',
  },
  FastGelu: {
    op: 'FastGelu',
    domain: MS,
    inputs: { x: FLOAT3(5, 8) },
    weights: { b: ['float32', [8]] },
    call: 'x b',
  },
  QuickGelu: { op: 'QuickGelu', domain: MS, inputs: { x: FLOAT3(5, 8) } },
  'MatMulNBits of 4 bits': {
    op: 'MatMulNBits',
    domain: MS,
    inputs: { x: FLOAT3(5, 32) },
    weights: { w: ['uint8', [6, 2, 8], 0, 255], s: ['float32', [12], 0.01, 0.1] },
    call: 'x w s',
    attributes: { K: 32, N: 6, bits: 4, block_size: 16, accuracy_level: 4 },
  },
  MatMulBnb4: {
    op: 'MatMulBnb4',
    domain: MS,
    inputs: { x: FLOAT3(5, 32) },
    weights: { w: ['uint8', [96], 0, 255], s: ['float32', [12], 0.01, 0.1] },
    call: 'x w s',
    attributes: { K: 32, N: 6, block_size: 16, quant_type: 1 },
  },
  MatMulIntegerToFloat: {
    op: 'MatMulIntegerToFloat',
    domain: MS,
    inputs: { x: NUMBERS },
    weights: { w: ['uint8', [4, 6], 0, 255], b: ['float32', [6]], ...SCALES },
    call: 'x w s s z z b',
  },
  QLinearAdd: {
    op: 'QLinearAdd',
    domain: MS,
    inputs: { x: NUMBERS, y: NUMBERS },
    weights: SCALES,
    call: 'x s z y s z s z',
    outputs: ['uint8'],
  },
  'QLinearMul with a constant': {
    op: 'QLinearMul',
    domain: MS,
    inputs: { x: NUMBERS },
    weights: { ...SCALES, y: ['uint8', [3, 4], 0, 255] },
    call: 'x s z y s z s z',
    outputs: ['uint8'],
  },
  QLinearSigmoid: {
    op: 'QLinearSigmoid',
    domain: MS,
    inputs: { x: NUMBERS },
    weights: SCALES,
    call: 'x s z s z',
    outputs: ['uint8'],
  },
  QLinearLeakyRelu: {
    op: 'QLinearLeakyRelu',
    domain: MS,
    inputs: { x: NUMBERS },
    weights: SCALES,
    call: 'x s z s z',
    outputs: ['uint8'],
  },
  QLinearSoftmax: {
    op: 'QLinearSoftmax',
    domain: MS,
    inputs: { x: NUMBERS },
    weights: SCALES,
    call: 'x s z s z',
    attributes: { axis: -1, opset: 13 },
    outputs: ['uint8'],
  },
  QLinearWhere: {
    op: 'QLinearWhere',
    domain: MS,
    inputs: { c: ['bool', [1, 3, 4], 0, 1], x: NUMBERS, y: NUMBERS },
    weights: SCALES,
    call: 'c x s z y s z s z',
    outputs: ['uint8'],
  },
  'QLinearConcat of features': {
    op: 'QLinearConcat',
    domain: MS,
    inputs: { x: NUMBERS, y: NUMBERS },
    weights: SCALES,
    call: 's z x s z y s z',
    attributes: { axis: 2 },
    outputs: ['uint8'],
  },
  'QLinearGlobalAveragePool with channels last': {
    op: 'QLinearGlobalAveragePool',
    domain: MS,
    inputs: { x: ['uint8', [1, 4, 4, 3], 0, 255] },
    weights: SCALES,
    call: 'x s z s z',
    attributes: { channels_last: 1 },
    outputs: ['uint8'],
  },
  QLinearAveragePool: {
    op: 'QLinearAveragePool',
    domain: MS,
    inputs: { x: ['uint8', [1, 3, 4, 4], 0, 255] },
    weights: SCALES,
    call: 'x s z s z',
    attributes: { kernel_shape: [2, 2] },
    outputs: ['uint8'],
  },
  'com.microsoft QLinearConv with channels last': {
    op: 'QLinearConv',
    domain: MS,
    inputs: { x: ['uint8', [1, 5, 5, 2], 0, 255] },
    weights: { ...SCALES, w: ['uint8', [3, 2, 3, 3], 0, 255] },
    call: 'x s z w s z s z',
    attributes: { channels_last: 1, kernel_shape: [3, 3] },
    outputs: ['uint8'],
  },
  QGemm: {
    op: 'QGemm',
    domain: MS,
    inputs: { x: ['uint8', [1, 8], 0, 255] },
    weights: { ...SCALES, w: ['uint8', [8, 3], 0, 255], b: ['int32', [3], -50, 50] },
    call: 'x s z w s z b',
    outputs: ['float32'],
  },
  GatherBlockQuantized: {
    op: 'GatherBlockQuantized',
    domain: MS,
    inputs: { i: ['int64', [1, 5], 0, 9] },
    weights: { w: ['uint8', [10, 32], 0, 255], s: ['float32', [10, 2], 0.01, 0.1] },
    call: 'w i s',
    attributes: { gather_axis: 0, quantize_axis: 1, block_size: 16, bits: 8 },
  },
};

for (const [title, exported] of Object.entries(PROVEN)) {
  test(`${title} is proven, and rows answer alone as in ${BATCHES} random batches`, async (t) => {
    const { file, proof } = await proofIn(t, exported);
    assert.equal(proof.end?.message, undefined);
    const company = await compareRows(file, rowsOf(title, exported), BATCHES);
    assert.deepEqual(company, { kind: 'same' });
  });
}

interface Refused extends Exported {
  /** The operator that ends the proof. Default: the model's. */
  readonly end?: string;
  /** onnxruntime answers other numbers in company. */
  readonly mixes?: true;
}

const REFUSED: Readonly<Record<string, Refused>> = {
  'Attention to a constant': {
    op: 'Attention',
    opset: 23,
    inputs: { q: FLOAT3(5, 16) },
    weights: { k: ['float32', [2, 5, 16]] },
    call: 'q k k',
    attributes: ONNX_HEADS,
  },
  'Attention with a mask of three axes that differs from row to row': {
    op: 'Attention',
    opset: 23,
    inputs: { ...QKV, m: FLOAT3(5, 5) },
    call: 'q k v m',
    attributes: ONNX_HEADS,
  },
  'Attention with a constant mask for each of two rows': {
    op: 'Attention',
    opset: 23,
    inputs: QKV,
    weights: { m: ['float32', [2, 1, 5, 5]] },
    call: 'q k v m',
    attributes: ONNX_HEADS,
  },
  'Attention along the batch': {
    op: 'Attention',
    opset: 23,
    inputs: { x: FLOAT3(5, 16) },
    before: [{ op: 'Transpose', inputs: ['x'], outputs: ['t'], attributes: { perm: [1, 0, 2] } }],
    call: 't t t',
    attributes: ONNX_HEADS,
    turned: { 0: [1, 0, 2] },
    mixes: true,
  },
  'com.microsoft Attention along the batch': {
    op: 'Attention',
    domain: MS,
    inputs: { x: FLOAT3(5, 16) },
    weights: { w: ['float32', [16, 48]], b: ['float32', [48]] },
    before: [{ op: 'Transpose', inputs: ['x'], outputs: ['t'], attributes: { perm: [1, 0, 2] } }],
    call: 't w b',
    attributes: HEADS,
    turned: { 0: [1, 0, 2] },
    mixes: true,
  },
  'com.microsoft Attention with ends and beginnings packed into one mask': {
    op: 'Attention',
    domain: MS,
    inputs: { x: FLOAT3(5, 16), m: ['int32', [1, 2], 0, 5] },
    weights: { w: ['float32', [16, 48]], b: ['float32', [48]], flat: ['int64', [1], -1, -1] },
    before: [
      { op: 'Transpose', inputs: ['m'], outputs: ['t'] },
      { op: 'Reshape', inputs: ['t', 'flat'], outputs: ['f'] },
    ],
    call: 'x w b f',
    attributes: HEADS,
  },
  'com.microsoft Attention with a state that turns share': {
    op: 'Attention',
    domain: MS,
    inputs: { x: FLOAT3(5, 16) },
    weights: { w: ['float32', [16, 48]], b: ['float32', [48]] },
    call: 'x w b',
    attributes: { ...HEADS, past_present_share_buffer: 1 },
  },
  'MultiHeadAttention with packed inputs': {
    op: 'MultiHeadAttention',
    domain: MS,
    inputs: { q: ['float32', [1, 5, 2, 3, 8]] },
    call: 'q',
    attributes: HEADS,
  },
  'MultiHeadAttention with a state that turns share': {
    op: 'MultiHeadAttention',
    domain: MS,
    inputs: { ...QKV, p: PAST, r: PAST },
    weights: { n: ['int32', [1], 3, 3] },
    call: 'q k v - - - p r n',
    attributes: HEADS,
  },
  'MultiHeadAttention to keys of other rows': {
    op: 'MultiHeadAttention',
    domain: MS,
    inputs: { q: FLOAT3(5, 16), k: FLOAT3(5, 16) },
    before: [{ op: 'Transpose', inputs: ['k'], outputs: ['t'], attributes: { perm: [1, 0, 2] } }],
    call: 'q t t',
    attributes: HEADS,
  },
  'GroupQueryAttention, which leaves undefined what is behind a length': {
    op: 'GroupQueryAttention',
    domain: MS,
    inputs: { ...QKV, n: ['int32', [1, 1], 1, 4] },
    weights: { total: ['int32', [1], 5, 5] },
    call: 'q k v - - n total',
    attributes: { num_heads: 2, kv_num_heads: 2 },
    outputs: ['float32', 'float32', 'float32'],
  },
  'com.microsoft RotaryEmbedding of packed rows': {
    op: 'RotaryEmbedding',
    domain: MS,
    inputs: { x: FLOAT3(5, 8), p: ['int64', [1, 5], 0, 15] },
    weights: { c: ANGLES, s: ANGLES },
    call: 'x p c s',
    attributes: { is_packed_batching: 1 },
  },
  'com.microsoft RotaryEmbedding with constant positions of two rows': {
    op: 'RotaryEmbedding',
    domain: MS,
    inputs: { x: FLOAT3(5, 8) },
    weights: { p: ['int64', [2, 5], 0, 15], c: ANGLES, s: ANGLES },
    call: 'x p c s',
  },
  'RotaryEmbedding with constant angles of two rows': {
    op: 'RotaryEmbedding',
    opset: 23,
    inputs: { x: ['float32', [1, 2, 5, 8]] },
    weights: { c: ['float32', [2, 5, 4]], s: ['float32', [2, 5, 4]] },
    call: 'x c s',
  },
  'RotaryEmbedding with constant angles of one row': {
    op: 'RotaryEmbedding',
    opset: 23,
    inputs: { x: ['float32', [1, 2, 5, 8]] },
    weights: { c: ['float32', [1, 5, 4]], s: ['float32', [1, 5, 4]] },
    call: 'x c s',
    mixes: true,
  },
  'EmbedLayerNormalization with constant positions of two rows': {
    op: 'EmbedLayerNormalization',
    domain: MS,
    inputs: { i: ['int32', [1, 5], 0, 9] },
    weights: {
      w: ['float32', [10, 8]],
      p: ['float32', [16, 8]],
      g: ['float32', [8]],
      n: ['int32', [2, 5], 0, 15],
    },
    call: 'i - w p - g g - n',
  },
  'DynamicQuantizeMatMul, with one scale for all rows': {
    op: 'DynamicQuantizeMatMul',
    domain: MS,
    inputs: { x: FLOAT3(5, 8) },
    weights: { w: ['uint8', [8, 3], 0, 255], s: SCALE, z: ZERO },
    call: 'x w s z',
    mixes: true,
  },
  'MatMulIntegerToFloat with a scale of all rows': {
    op: 'MatMulIntegerToFloat',
    domain: MS,
    inputs: { x: FLOAT3(5, 8) },
    weights: { w: ['uint8', [8, 3], 0, 255], s: SCALE, z: ZERO },
    before: [{ op: 'DynamicQuantizeLinear', inputs: ['x'], outputs: ['q', 'a', 'b'] }],
    call: 'q w a s b z',
    end: 'DynamicQuantizeLinear',
    mixes: true,
  },
  'QLinearSoftmax along the batch': {
    op: 'QLinearSoftmax',
    domain: MS,
    inputs: { x: NUMBERS },
    weights: SCALES,
    call: 'x s z s z',
    attributes: { axis: 0, opset: 13 },
    outputs: ['uint8'],
    mixes: true,
  },
  'QLinearSoftmax from the batch on, as before operator set 13': {
    op: 'QLinearSoftmax',
    domain: MS,
    inputs: { x: NUMBERS },
    weights: SCALES,
    call: 'x s z s z',
    attributes: { axis: 0, opset: 11 },
    outputs: ['uint8'],
  },
  'QLinearConcat along the batch': {
    op: 'QLinearConcat',
    domain: MS,
    inputs: { x: NUMBERS, y: NUMBERS },
    weights: SCALES,
    call: 's z x s z y s z',
    attributes: { axis: 0 },
    outputs: ['uint8'],
    mixes: true,
  },
  'QLinearAdd with a constant for each of two rows': {
    op: 'QLinearAdd',
    domain: MS,
    inputs: { x: NUMBERS },
    weights: { ...SCALES, y: ['uint8', [2, 3, 4], 0, 255] },
    call: 'x s z y s z s z',
    outputs: ['uint8'],
  },
  'FusedMatMul that moves the batch': {
    op: 'FusedMatMul',
    domain: MS,
    inputs: { x: ['float32', [1, 2, 5, 8]], y: ['float32', [1, 2, 8, 5]] },
    call: 'x y',
    attributes: { transBatchA: 1, transBatchB: 1 },
  },
  'FusedConv to which other rows are added': {
    op: 'FusedConv',
    domain: MS,
    inputs: { x: ['float32', [1, 2, 6, 6]] },
    weights: { w: ['float32', [3, 2, 3, 3]], b: ['float32', [3]], a: ['float32', [2, 3, 4, 4]] },
    call: 'x w b a',
    attributes: { activation: 'Relu', kernel_shape: [3, 3] },
  },
};

for (const [title, exported] of Object.entries(REFUSED)) {
  test(`${title} is not proven`, async (t) => {
    const { file, proof } = await proofIn(t, exported);
    assert.equal(proof.end?.operator, exported.end ?? exported.op);
    if (exported.mixes !== true) return;
    const { kind } = await compareRows(file, rowsOf(title, exported), BATCHES);
    assert.equal(kind, 'differs');
  });
}
