/** Operators of onnxruntime itself (com.microsoft), and of operator set 23, that fuse what transformers are made of. */
import type { Call, Rule } from '../call.ts';
import { numberOf, ONE, type Size, same, size } from '../size.ts';
import { type Data, fixedOf, type Rows } from '../value.ts';
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

/** An input whose first axis is the batch; fixed ones must be the same for all rows. */
function batchFirst(call: Call, index: number, x: Rows): void {
  const value = call.optional(index);
  if (!value) return;
  if (value.kind === 'rows') {
    if (value.axis !== 0 || !same(value.outer, x.outer) || !same(value.inner, x.inner)) {
      call.end('its inputs have their rows on different axes');
    }
  } else if (numberOf(value.shape?.[0]) !== 1) {
    call.end('one of its inputs is a constant that may differ along the batch axis');
  }
}

/** @throws ProofEnd unless the rows lie on the first axis of a tensor of that rank */
function rowsFirst(call: Call, index: number, ranks: readonly number[]): Rows {
  const x = call.data(index);
  if (x.kind !== 'rows' || x.axis !== 0 || !ranks.includes(x.shape.length)) {
    return call.end('the batch axis is not its first');
  }
  return x;
}

/** Input, weights, bias, and a mask of one row for each; past states have no rule. */
const attention: Rule = (call) => {
  const x = rowsFirst(call, 0, [3]);
  for (const index of [1, 2]) call.fixed(index);
  const mask = call.optional(3);
  if (mask?.kind === 'rows') batchFirst(call, 3, x);
  else if (mask) call.end('its mask is a constant');
  if (call.has(4) || call.has(6)) call.end('it has past states');
  batchFirst(call, 5, x);
  const width = numberOf(call.fixed(1)?.shape?.[1]);
  const hidden = width === undefined || call.attribute('qkv_hidden_sizes') ? call.dim() : size(width / 3);
  return call.moved(x, [...x.shape.slice(0, 2), hidden]);
};

/** Query, key and value; packed ones, past states and a bias of its own have no rule. */
const multiHeadAttention: Rule = (call) => {
  const query = rowsFirst(call, 0, [3]);
  for (const index of [1, 2, 5]) batchFirst(call, index, query);
  const mask = call.optional(4);
  if (mask) rowsFirst(call, 4, [2, 3]);
  if (mask) batchFirst(call, 4, query);
  call.fixed(3);
  if (!call.has(1) || !call.has(2) || call.count > 6) call.end('it has packed inputs or past states');
  const width = call.shape(call.data(2)).at(2) ?? call.dim();
  return call.moved(query, [
    ...query.shape.slice(0, 2),
    call.shape(call.data(2)).length === 3 ? width : call.dim(),
  ]);
};

/** Ids to embeddings; the mask counts the words of each row. */
const embedNormalization: Rule = (call) => {
  const ids = rowsFirst(call, 0, [2]);
  for (const index of [1, 7, 8]) batchFirst(call, index, ids);
  for (const index of [2, 3, 4, 5, 6]) call.fixed(index);
  const hidden = call.fixed(2)?.shape?.[1] ?? call.dim();
  const embedded = call.moved(ids, [...ids.shape, hidden] as Size[]);
  return [embedded, call.moved(ids, ids.shape.slice(0, 1)), embedded];
};

/** Positions are one list for all rows, or one for each. */
const rotary: Rule = (call) => {
  const x = rowsFirst(call, 0, [3, 4]);
  const positions = call.optional(1);
  if (positions?.kind === 'rows') batchFirst(call, 1, x);
  else if (numberOf(positions?.shape?.[0]) !== 1) call.end('its positions differ along the batch axis');
  for (const index of [2, 3]) call.fixed(index);
  return call.moved(x, x.shape);
};

const simplified: Rule = (call) => {
  const x: Data = call.data(0);
  call.fixed(1);
  const shape = call.shape(x);
  const first = call.axis(call.int('axis', -1), shape.length);
  if (x.kind === 'rows' && x.axis >= first) call.end('it normalizes along the batch axis');
  return call.moved(x, shape);
};

const CONTRIB_RULES: Readonly<Record<string, Rule>> = {
  Attention: attention,
  BiasGelu: nary,
  EmbedLayerNormalization: embedNormalization,
  FastGelu: nary,
  FusedMatMul: fusedMatMul,
  Gelu: unary,
  MatMulNBits: matMulNBits,
  MultiHeadAttention: multiHeadAttention,
  QuickGelu: unary,
  RotaryEmbedding: rotary,
  SkipLayerNormalization: skipNormalization,
  SkipSimplifiedLayerNormalization: skipNormalization,
};

export const CONTRIB: Readonly<Record<string, Rule>> = {
  ...Object.fromEntries(Object.entries(CONTRIB_RULES).map(([name, rule]) => [`com.microsoft:${name}`, rule])),
  // onnxruntime has it in the standard domain.
  SimplifiedLayerNormalization: simplified,
};
