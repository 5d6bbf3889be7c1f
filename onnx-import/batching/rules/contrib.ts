/** Operators of onnxruntime itself (com.microsoft) that optimized transformers are made of. Fused attention has no rule. */
import type { Rule } from '../call.ts';
import { ONE } from '../size.ts';
import { type Data, fixedOf } from '../value.ts';
import { broadcast, nary, unary } from './elementwise.ts';
import { matMul, transposed } from './matmul.ts';

/** X · Y with factors transposed. Transposed batch axes are left out. */
const fusedMatMul: Rule = (call) => {
  if (call.int('transBatchA', 0) === 1 || call.int('transBatchB', 0) === 1)
    call.end('it moves the axes before the matrices');
  const a = transposed(call, call.data(0), call.int('transA', 0) === 1);
  const b = transposed(call, call.data(1), call.int('transB', 0) === 1);
  return matMul(call, a, b);
};

/** The weights are packed, so that their shape is in the attributes. */
const matMulNBits: Rule = (call) => {
  for (let i = 1; i < call.count; i++) call.fixed(i);
  const weights = fixedOf([call.dimOr(call.attribute('K')?.int), call.dimOr(call.attribute('N')?.int)]);
  return matMul(call, call.data(0), weights);
};

/** The last axis is normalized, of the sum of what is skipped; the fourth output is that sum. */
const skipNormalization: Rule = (call) => {
  const isSimple = call.operator.startsWith('SkipSimplified');
  for (const index of isSimple ? [2, 3] : [2, 3, 4]) call.fixed(index);
  const sum = broadcast(call, [call.data(0), call.data(1)]);
  const shape = call.shape(sum);
  if (sum.kind === 'rows' && sum.axis === shape.length - 1) call.end('it normalizes along the batch axis');
  const reduced = call.moved(sum, [...shape.slice(0, -1), ONE]);
  return [sum, reduced, reduced, sum];
};

const simplified: Rule = (call) => {
  const x: Data = call.data(0);
  call.fixed(1);
  const shape = call.shape(x);
  const first = call.axis(call.int('axis', -1), shape.length);
  if (x.kind === 'rows' && x.axis >= first) call.end('it normalizes along the batch axis');
  return call.moved(x, shape);
};

/** The parts of each text, in rows as long as the longest of them. */
const tokenizer: Rule = (call) => {
  const x = call.data(0);
  if (x.kind === 'rows') call.end('its rows are as long as the longest text of the run');
  return fixedOf(x.shape && [...x.shape, call.dim()]);
};

const CONTRIB_RULES: Readonly<Record<string, Rule>> = {
  BiasGelu: nary,
  FastGelu: nary,
  FusedMatMul: fusedMatMul,
  Gelu: unary,
  MatMulNBits: matMulNBits,
  QuickGelu: unary,
  SkipLayerNormalization: skipNormalization,
  SkipSimplifiedLayerNormalization: skipNormalization,
  Tokenizer: tokenizer,
};

export const CONTRIB: Readonly<Record<string, Rule>> = {
  ...Object.fromEntries(Object.entries(CONTRIB_RULES).map(([name, rule]) => [`com.microsoft:${name}`, rule])),
  // onnxruntime has it in the standard domain.
  SimplifiedLayerNormalization: simplified,
};
