/** Operators of onnxruntime (com.microsoft) on quantized numbers: scales and zero points are constants, the same for all rows. */
import type { Call, RowRule } from '../rows/call.ts';
import { broadcast, samePlace } from '../rows/combine.ts';
import { ONE, type Size } from '../rows/size.ts';
import { type Data, fixedOf } from '../rows/value.ts';
import { matMulRows, oneForAll, transposed } from './matmul.ts';
import { all, type Operators } from './operator.ts';
import { apart, softmaxAxes } from './reduce.ts';

/** @param data the inputs that have numbers; all others are scales and zero points */
function scaledInputs(call: Call, data: readonly number[]): Data[] {
  for (let i = 0; i < call.count; i++) if (!data.includes(i)) oneForAll(call, i);
  return data.map((index) => call.data(index));
}

const together =
  (...data: readonly number[]): RowRule =>
  (call) =>
    broadcast(call, scaledInputs(call, data));

const softmax: RowRule = (call) => {
  const [x] = scaledInputs(call, [0]);
  if (!x) return call.end('it has no input');
  const shape = call.shape(x);
  apart(call, x, softmaxAxes(call, shape.length, call.int('opset', 0)), 'normalizes');
  return call.moved(x, shape);
};

/** Each image alone, with channels as its second or its last axis. Sizes of the result are not followed. */
const images =
  (isConvolution: boolean): RowRule =>
  (call) => {
    if (isConvolution) for (const index of [3, 4, 5, 8]) call.fixed(index);
    for (const index of isConvolution ? [1, 2, 6, 7] : [1, 2, 3, 4]) oneForAll(call, index);
    const x = call.data(0);
    if (x.kind === 'rows' && x.axis !== 0) call.end('the batch axis is not its first');
    const [first = ONE, ...others] = call.shape(x);
    return call.moved(x, [first, ...others.map(() => call.dim())]);
  };

/** Behind the scale of the result come numbers, a scale and a zero point of each part. */
const concat: RowRule = (call) => {
  const data = Array.from({ length: call.count }, (_, i) => i).filter((i) => i % 3 === 2);
  const values = scaledInputs(call, data);
  const shape = values.map((value) => call.shape(value))[0] ?? call.end('it has no input');
  const axis = call.axis(call.int('axis', 0), shape.length);
  const place = samePlace(call, values);
  const result = shape.map((dim, i): Size => (i === axis ? call.dim() : dim));
  if (place?.axis === axis) call.end('it joins tensors along the batch axis');
  return place ? call.rows(result, place) : fixedOf(result);
};

/** @param scales those of X and of the result */
function product(call: Call, scales: readonly number[], second: number, bias: number): Data {
  for (const index of scales) oneForAll(call, index);
  const [a, b] = [call.data(0), call.data(second)];
  const result = matMulRows(
    call,
    transposed(call, a, call.int('transA', 0) === 1),
    transposed(call, b, call.int('transB', 0) === 1),
  );
  const c = call.optional(bias);
  return c ? broadcast(call, [result, c]) : result;
}

const gemm: RowRule = (call) => {
  for (const index of [4, 5]) call.fixed(index);
  return product(call, [1, 2, 7, 8], 3, 6);
};

const integerProduct: RowRule = (call) => {
  for (const index of [3, 5]) call.fixed(index);
  return product(call, [2, 4], 1, 6);
};

/** Rows of a table in blocks; its last axis may be packed. */
const gatherBlocks: RowRule = (call) => {
  const table = call.shape(call.fixed(0) ?? call.end('it has no table'));
  for (const index of [2, 3]) call.fixed(index);
  const places = call.data(1);
  if (call.int('gather_axis', 0) !== 0) call.end('it takes others than rows of its table');
  return call.moved(places, [...call.shape(places), ...table.slice(1).map(() => call.dim())]);
};

export const QUANTIZED: Operators = {
  ...all('com.microsoft:QLinearAdd com.microsoft:QLinearMul', { rows: together(0, 3) }),
  ...all('com.microsoft:QLinearLeakyRelu com.microsoft:QLinearSigmoid', { rows: together(0) }),
  'com.microsoft:QLinearWhere': { rows: together(0, 1, 4) },
  'com.microsoft:QLinearSoftmax': { rows: softmax },
  'com.microsoft:QLinearConcat': { rows: concat },
  'com.microsoft:QLinearConv': { rows: images(true) },
  ...all('com.microsoft:QLinearAveragePool com.microsoft:QLinearGlobalAveragePool', { rows: images(false) }),
  'com.microsoft:QGemm': { rows: gemm },
  'com.microsoft:MatMulIntegerToFloat': { rows: integerProduct },
  'com.microsoft:GatherBlockQuantized': { rows: gatherBlocks },
};
