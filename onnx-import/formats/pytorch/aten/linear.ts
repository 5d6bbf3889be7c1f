/** Matrix products, attention and other operators made of them. */

import { compute, FORMULAS } from '../../../emit/formula.ts';
import { reduce } from '../../../emit/reduce.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { type Int, product } from '../run/sizes.ts';
import { refuse, Tuple } from '../run/values.ts';
import { layerNorm } from './normalization.ts';
import type { Args, Rule, Table } from './schema.ts';
import { permute, reshape } from './shaping.ts';
import { promote } from './types.ts';

function swapLast(c: Context, x: Value): Value {
  const rank = x.shape?.length ?? refuse('needs a known rank');
  return permute(
    c,
    x,
    Array.from({ length: rank }, (_, i) => (i < rank - 2 ? i : 2 * rank - 3 - i)),
  );
}

export function matmul(c: Context, x: Value, y: Value): Value {
  if (x.shape?.length === 0 || y.shape?.length === 0) refuse('needs at least one dimension');
  const dtype = promote(x.dtype, y.dtype);
  if (dtype === 'bool' || dtype === 'uint8' || dtype === 'int8' || dtype === 'int16')
    refuse(`of ${dtype} is not supported`);
  c.match(c.sizeOf(x, -1), c.sizeOf(y, y.shape?.length === 1 ? 0 : -2), 'the summed size of a product');
  return c.one('MatMul', [c.cast(x, dtype), c.cast(y, dtype)]);
}

export function linear(c: Context, x: Value, weight: Value, bias: Value | undefined): Value {
  if (x.dtype !== weight.dtype) refuse(`of ${x.dtype} with weights of ${weight.dtype} is not supported`);
  c.match(c.sizeOf(x, -1), c.sizeOf(weight, -1), 'the features of a linear layer');
  if (x.shape?.length === 2 && weight.shape?.length === 2)
    return c.one('Gemm', [x, weight, bias], { transB: 1 });
  const made = c.one('MatMul', [x, weight.shape?.length === 1 ? weight : permute(c, weight, [1, 0])]);
  return bias ? c.one('Add', [made, bias]) : made;
}

/** beta * x + alpha * (a @ b). */
const addmm: Rule = (c, a) => {
  const x = a.v('x');
  const factor = (name: string, value: Value) =>
    a.float(name) === 1 ? value : c.one('Mul', [value, c.number(a.raw(name), value.dtype)]);
  const made = factor('alpha', matmul(c, a.v('a'), a.v('b')));
  return a.float('beta') === 0 ? made : c.one('Add', [factor('beta', c.cast(x, made.dtype)), made]);
};

const einsum: Rule = (c, a) => {
  const values = a.values('tensors');
  let equation = a.text('equation').replaceAll(' ', '');
  if (equation.includes('...')) refuse('an ellipsis is not supported');
  if (!equation.includes('->')) {
    const letters = Array.from(equation.replaceAll(',', '')).sort();
    equation += `->${letters.filter((letter) => letters.filter((each) => each === letter).length === 1).join('')}`;
  }
  if (!/^[A-Za-z,]*->[A-Za-z]*$/.test(equation)) refuse(`equation ${equation} is not understood`);
  // onnxruntime does not take the capitals that torch does.
  const [left = '', right = ''] = lowered(equation).split('->');
  const terms = left.split(',');
  if (terms.length !== values.length) refuse('has as many terms as tensors');
  const sizes = new Map<string, Int>();
  for (const [i, term] of terms.entries())
    for (const [j, letter] of Array.from(term).entries()) {
      const size = c.sizeOf(values[i] as Value, j);
      const known = sizes.get(letter);
      if (known !== undefined && known !== 1 && size !== 1) c.match(known, size, `"${letter}"`);
      if (!sizes.has(letter) || sizes.get(letter) === 1) sizes.set(letter, size);
    }
  const made = c.one('Einsum', values, { equation: `${left}->${right}` });
  return c.shaped(
    made,
    Array.from(right).map((letter) => sizes.get(letter) ?? refuse(`has no ${letter}`)),
  );
};

function lowered(equation: string): string {
  const used = new Set(equation);
  const free = Array.from('abcdefghijklmnopqrstuvwxyz').filter((letter) => !used.has(letter));
  const names = new Map<string, string>();
  for (const letter of used)
    if (/[A-Z]/.test(letter)) names.set(letter, free.shift() ?? refuse('has over 26 letters'));
  return Array.from(equation)
    .map((letter) => names.get(letter) ?? letter)
    .join('');
}

/** softmax(q kᵀ / sqrt(d) + mask) v */
function attend(c: Context, q: Value, k: Value, v: Value, mask: Value | undefined, scale: number): Value {
  return matmul(c, weightsOf(c, q, k, mask, scale), v);
}

function weightsOf(c: Context, q: Value, k: Value, mask: Value | undefined, scale: number): Value {
  const scaled = c.one('Mul', [q, c.g.scalar(q.dtype, scale)]);
  const scores = matmul(c, scaled, swapLast(c, k));
  const own = mask ? c.one('Add', [scores, mask]) : scores;
  return c.one('Softmax', [own], { axis: -1 });
}

function additive(c: Context, mask: Value, dtype: Value['dtype'], keepsTrue: boolean): Value {
  if (mask.dtype !== 'bool') return c.cast(mask, dtype);
  const [zero, low] = [c.g.scalar(dtype, 0), c.g.scalar(dtype, -Infinity)];
  return c.one('Where', keepsTrue ? [mask, zero, low] : [mask, low, zero]);
}

const attention: Rule = (c, a) => {
  const [q, k, v] = [a.v('q'), a.v('k'), a.v('v')];
  if (a.float('dropout_p') !== 0) refuse('drops values at random; call model.eval() before saving');
  if (a.bool('enable_gqa')) refuse('enable_gqa is not supported');
  const size = c.fixed(c.sizeOf(q, -1), 'size of a head');
  const scale = a.isSet('scale') ? a.float('scale') : 1 / Math.sqrt(size);
  let mask = a.isSet('mask') ? additive(c, a.v('mask'), q.dtype, true) : undefined;
  if (a.bool('is_causal')) {
    const [rows, columns] = [c.sizeOf(q, -2), c.sizeOf(k, -2)];
    const ones = c.one('Expand', [c.g.scalar('bool', 1), c.sizes.list(c.g, [rows, columns])]);
    mask = additive(c, c.one('Trilu', [ones], { upper: 0 }), q.dtype, true);
  }
  return attend(c, q, k, v, mask, scale);
};

interface Heads {
  readonly embed: number;
  readonly heads: number;
  readonly inWeight: Value;
  readonly inBias: Value;
  readonly outWeight: Value;
  readonly outBias: Value;
}

/** Self-attention with the batch first, as torch's fused operators for inference compute it, and its weights. */
function selfAttention(c: Context, x: Value, own: Heads): { result: Value; weights: Value } {
  const { embed, heads } = own;
  const [n, length] = c.shapeOf(x) as [Int, Int, Int];
  const all = linear(c, x, own.inWeight, own.inBias);
  const size = embed / heads;
  const parts = c.g.add('Split', [all, c.g.ints([embed, embed, embed])], { axis: 2 }, { outputs: 3 });
  const [q, k, v] = parts.map((part) => permute(c, reshape(c, part, [n, length, heads, size]), [0, 2, 1, 3]));
  const weights = weightsOf(c, q as Value, k as Value, undefined, 1 / Math.sqrt(size));
  const joined = reshape(c, permute(c, matmul(c, weights, v as Value), [0, 2, 1, 3]), [n, length, embed]);
  return { result: linear(c, joined, own.outWeight, own.outBias), weights };
}

function headsOf(a: Args): Heads {
  return {
    embed: a.n('embed_dim'),
    heads: a.n('num_heads'),
    inWeight: a.v('qkv_weight'),
    inBias: a.v('qkv_bias'),
    outWeight: a.v('proj_weight'),
    outBias: a.v('proj_bias'),
  };
}

const encoderLayer: Rule = (c, a) => {
  if (a.isSet('mask'))
    refuse('a mask is not supported; trace the model with torch.backends.mha.set_fastpath_enabled(False)');
  const x = a.v('src');
  const eps = a.float('eps');
  const norm = (value: Value, i: 1 | 2) =>
    layerNorm(c, value, [a.n('embed_dim')], a.v(`norm_weight_${i}`), a.v(`norm_bias_${i}`), eps);
  const feed = (value: Value) => {
    const inner = linear(c, value, a.v('ffn_weight_1'), a.v('ffn_bias_1'));
    const active = a.bool('use_gelu') ? compute(c, FORMULAS.gelu, { x: inner }) : c.one('Relu', [inner]);
    return linear(c, active, a.v('ffn_weight_2'), a.v('ffn_bias_2'));
  };
  if (a.bool('norm_first')) {
    const mixed = c.one('Add', [x, selfAttention(c, norm(x, 1), headsOf(a)).result]);
    return c.one('Add', [mixed, feed(norm(mixed, 2))]);
  }
  const mixed = norm(c.one('Add', [x, selfAttention(c, x, headsOf(a)).result]), 1);
  return norm(c.one('Add', [mixed, feed(mixed)]), 2);
};

const multiHead: Rule = (c, a) => {
  const [q, k, v] = [a.tensor('query'), a.tensor('key'), a.tensor('value')];
  if (a.isSet('mask') || q !== k || q !== v)
    refuse(
      'is supported for self-attention without a mask only; trace the model with torch.backends.mha.set_fastpath_enabled(False)',
    );
  const { result, weights } = selfAttention(c, q.value, headsOf(a));
  if (!a.bool('need_weights')) return new Tuple([c.tensor(result), null]);
  const shown = a.bool('average_attn_weights') ? reduce(c, 'ReduceMean', weights, [1], false) : weights;
  return c.tuple([result, shown]);
};

const bilinear: Rule = (c, a) => {
  const [x, y, weight] = [a.v('x'), a.v('y'), a.v('weight')];
  const [out, left, right] = c.shapeOf(weight) as [Int, Int, Int];
  const lead = c.shapeOf(x).slice(0, -1);
  const rows = reshape(c, x, [product(lead), left]);
  const others = reshape(c, y, [product(lead), right]);
  const made = c.one('Einsum', [rows, weight, others], { equation: 'ni,oij,nj->no' });
  const shaped = reshape(c, c.shaped(made, [product(lead), out]), [...lead, out]);
  return a.isSet('bias') ? c.one('Add', [shaped, a.v('bias')]) : shaped;
};

const dot: Rule = (c, a) => matmul(c, a.v('a'), a.v('b'));

const tensordot: Rule = (c, a) => {
  const [x, y] = [a.v('a'), a.v('b')];
  const [left, right] = [a.axes('dims_self', x), a.axes('dims_other', y)];
  const rest = (value: Value, axes: readonly number[]) =>
    (value.shape ?? []).map((_, i) => i).filter((i) => !axes.includes(i));
  const [keepX, keepY] = [rest(x, left), rest(y, right)];
  const sizes = (value: Value, axes: readonly number[]) => axes.map((axis) => c.sizeOf(value, axis));
  const one = reshape(c, permute(c, x, [...keepX, ...left]), [
    product(sizes(x, keepX)),
    product(sizes(x, left)),
  ]);
  const other = reshape(c, permute(c, y, [...right, ...keepY]), [
    product(sizes(y, right)),
    product(sizes(y, keepY)),
  ]);
  return reshape(c, matmul(c, one, other), [...sizes(x, keepX), ...sizes(y, keepY)]);
};

/** A chain of products, innermost sum over all. */
const outer: Rule = (c, a) => {
  const [x, y] = [a.v('a'), a.v('b')];
  return c.one('Mul', [c.one('Unsqueeze', [x, c.g.ints([1])]), c.one('Unsqueeze', [y, c.g.ints([0])])]);
};

const vecdot: Rule = (c, a) => {
  const made = c.one('Mul', [a.v('a'), a.v('b')]);
  const rank = made.shape?.length ?? refuse('needs a known rank');
  return reduce(c, 'ReduceSum', made, [rank - 1], false);
};

const FUSED =
  'int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias';

export const LINEAR: Table = {
  'linear(Tensor x, Tensor weight, Tensor? bias=None)': (c, a) =>
    linear(c, a.v('x'), a.v('weight'), a.opt('bias')),
  'matmul(Tensor a, Tensor b) | mm(Tensor a, Tensor b) | bmm(Tensor a, Tensor b) | mv(Tensor a, Tensor b) | __matmul__(Tensor a, Tensor b)':
    dot,
  'dot(Tensor a, Tensor b)': dot,
  'linalg_vecdot(Tensor a, Tensor b)': vecdot,
  'outer(Tensor a, Tensor b) | ger(Tensor a, Tensor b)': outer,
  'addmm(Tensor x, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1) | baddbmm(Tensor x, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1) | addmv(Tensor x, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1)':
    addmm,
  'einsum(str equation, Tensor[] tensors, any path=None)': einsum,
  'tensordot(Tensor a, Tensor b, int[] dims_self, int[] dims_other)': tensordot,
  'bilinear(Tensor x, Tensor y, Tensor weight, Tensor? bias=None)': bilinear,
  'scaled_dot_product_attention(Tensor q, Tensor k, Tensor v, Tensor? mask=None, float dropout_p=0.0, bool is_causal=False, float? scale=None, bool enable_gqa=False)':
    attention,
  [`_transformer_encoder_layer_fwd(Tensor src, ${FUSED}, bool use_gelu, bool norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None)`]:
    encoderLayer,
  [`_native_multi_head_attention(Tensor query, Tensor key, Tensor value, ${FUSED}, Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? mask_type=None)`]:
    multiHead,
};
