/** Linear layers, lookups and distances from weights. */
import { badModel } from '../../../lib/contract/errors.ts';
import type { Value } from '../../graph/value.ts';
import type { Call, Rule } from '../call.ts';
import { expectChannels, indices } from './shapes.ts';

/** BigDL's guard against dividing by a norm of zero. */
const TINY = 1e-12;

const linear: Rule = (call) => {
  const { module } = call;
  const [inputs, outputs] = [module.int('inputSize'), module.int('outputSize')];
  const bias = module.flag('withBias', true);
  return call.batched(2, (value) => {
    expectChannels(value, 1, inputs);
    const weights = [call.weight(0, [outputs, inputs]), ...(bias ? [call.weight(1, [outputs])] : [])];
    return call.one('Gemm', [value, ...weights], { transB: 1 });
  });
};

/** Rows by numbers counted from 1. A row longer than `maxNorm` is shortened. */
const lookup: Rule = (call) => {
  const { module } = call;
  const [count, size] = [module.int('nIndex'), module.int('nOutput')];
  call.expectRank(1, 2);
  const table = call.weight(0, [count, size]);
  const none = module.number('paddingValue', 0);
  if (module.flag('maskZero') && none !== 0)
    throw badModel('has maskZero and a padding value, which changes its weights');
  const limit = module.number('maxNorm', Number.MAX_VALUE);
  const norm = module.number('normType', 2);
  const rows =
    limit === Number.MAX_VALUE
      ? table
      : call.g.floats(shortened(table.constant?.data as Float32Array, size, limit, norm), [count, size]);
  return call.one('Gather', [rows, indices(call, call.input, count)], { axis: 0 });
};

function shortened(data: Float32Array, size: number, limit: number, power: number): Float32Array {
  if (!(power > 0)) throw badModel(`has a norm of ${power}`);
  const result = Float32Array.from(data);
  for (let row = 0; row < result.length; row += size) {
    const part = result.subarray(row, row + size);
    const norm = part.reduce((sum, x) => sum + Math.abs(x) ** power, 0) ** (1 / power);
    if (norm > limit) for (let i = 0; i < size; i++) (part[i] as number) *= limit / (norm + 1e-7);
  }
  return result;
}

function norms(call: Call, value: Value, axis: number): Value {
  return call.one('ReduceL2', [value], { axes: [axis], keepdims: 1 });
}

/** The cosine between the input and each row. */
const cosine: Rule = (call) => {
  const [inputs, outputs] = [call.module.int('inputSize'), call.module.int('outputSize')];
  call.expectRank(2);
  expectChannels(call.input, 1, inputs);
  const weight = call.weight(0, [outputs, inputs]);
  const length = call.one('Add', [norms(call, weight, 1), call.scalar(TINY)]);
  const rows = call.one('Div', [weight, length]);
  const made = call.one('Gemm', [call.input, rows], { transB: 1 });
  return call.one('Div', [made, norms(call, call.input, 1)]);
};

/** The distance of the input from each column. */
const euclidean: Rule = (call) => {
  const [inputs, outputs] = [call.module.int('inputSize'), call.module.int('outputSize')];
  call.expectRank(2);
  expectChannels(call.input, 1, inputs);
  const wide = call.one('Unsqueeze', [call.input, call.g.ints([2])]);
  const difference = call.one('Sub', [wide, call.weight(0, [1, inputs, outputs])]);
  return call.one('ReduceL2', [difference], { axes: [1], keepdims: 0 });
};

export const LINEARS: Readonly<Record<string, Rule>> = {
  Cosine: cosine,
  Euclidean: euclidean,
  Linear: linear,
  LookupTable: lookup,
};
