/** Operators that pick or place elements by indices. */
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { type Int, product, subtract } from '../run/sizes.ts';
import { TensorRef } from '../run/tensor.ts';
import { itemsOf, type Py, refuse } from '../run/values.ts';
import type { Args, Rule, Table } from './schema.ts';
import { expand, permute, reshape } from './shaping.ts';
import { isFloat } from './types.ts';

/** Indices must be whole numbers: an input that is used as one was declared with the wrong type. */
export class NeedsIndex extends Error {
  readonly input: string;
  constructor(input: string) {
    super(input);
    this.input = input;
  }
}

export function indices(c: Context, value: Value): Value {
  if (value.dtype === 'int64' || value.dtype === 'int32') return value;
  if (isFloat(value.dtype)) throw new NeedsIndex(value.name);
  return c.cast(value, 'int64');
}

interface Advanced {
  readonly axes: readonly number[];
  readonly values: readonly Value[];
}

/** The tensors of x[a, :, b]; a mask is refused, because its result has a size that the data decide. */
function advanced(c: Context, a: Args, x: Value): Advanced {
  const list = itemsOf(a.raw('indices')) ?? refuse('needs a list of indices');
  const found = [...list.entries()].filter(
    (pair): pair is [number, TensorRef] => pair[1] instanceof TensorRef,
  );
  if (list.length > (x.shape?.length ?? 0)) refuse('has more indices than dimensions');
  const values = found.map(([, tensor]) => {
    if (tensor.dtype === 'bool' || tensor.dtype === 'uint8') refuse('a mask as an index is not supported');
    return indices(c, tensor.value);
  });
  return { axes: found.map(([axis]) => axis), values };
}

/** ONNX's GatherND accepts negative indices, as torch does. */
const indexed: Rule = (c, a) => {
  const x = a.v('x');
  const { axes, values } = advanced(c, a, x);
  const [only] = values;
  if (!only) return a.tensor('x');
  if (values.length === 1) return c.one('Gather', [x, only], { axis: axes[0] as number });
  const places = together(c, values);
  const rank = x.shape?.length ?? 0;
  const rest = Array.from({ length: rank }, (_, i) => i).filter((i) => !axes.includes(i));
  const made = c.one('GatherND', [permute(c, x, [...axes, ...rest]), places]);
  const wide = (places.shape?.length ?? 1) - 1;
  // Indices side by side leave their axes in place; else they come first.
  const first = axes[0] as number;
  const isSideBySide = axes.every((axis, i) => axis === first + i);
  if (!isSideBySide || first === 0) return made;
  const all = Array.from({ length: wide + rest.length }, (_, i) => i);
  return permute(c, made, [
    ...all.slice(wide, wide + first),
    ...all.slice(0, wide),
    ...all.slice(wide + first),
  ]);
};

/** Broadcast index tensors, with their numbers side by side on a new last axis. */
function together(c: Context, values: readonly Value[]): Value {
  const shape = values.map((value) => c.shapeOf(value)).reduce((one, other) => broadcastSizes(c, one, other));
  const parts = values.map((value) =>
    c.one('Unsqueeze', [expand(c, c.cast(value, 'int64'), shape), c.g.ints([shape.length])]),
  );
  return parts.length === 1 ? (parts[0] as Value) : c.one('Concat', parts, { axis: shape.length });
}

export function broadcastSizes(c: Context, a: readonly Int[], b: readonly Int[]): Int[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const one = a[a.length - rank + i] ?? 1;
    const other = b[b.length - rank + i] ?? 1;
    if (subtract(one, other) === 0 || other === 1) return one;
    if (one === 1) return other;
    return c.sizes.equal(one, other) ? one : refuse('shapes do not broadcast');
  });
}

/** x[:, a, b] = value; equal places with accumulate add up. */
const indexPut: Rule = (c, a) => {
  const x = a.v('x');
  const list = itemsOf(a.raw('indices')) ?? [];
  const [only] = list;
  if (list.length === 1 && only instanceof TensorRef && only.dtype === 'bool')
    return maskPut(c, a, x, only.value);
  const { axes, values } = advanced(c, a, x);
  if (values.length === 0) refuse('has no indices');
  const rank = x.shape?.length ?? 0;
  const rest = Array.from({ length: rank }, (_, i) => i).filter((i) => !axes.includes(i));
  const first = axes[0] as number;
  const isSideBySide = axes.every((axis, i) => axis === first + i);
  const places = together(c, values);
  const wide = c.shapeOf(places).slice(0, -1);
  // The order of the axes that torch gives the value: the indices' where they were, or in front.
  const lead = isSideBySide ? rest.filter((axis) => axis < first) : [];
  const sizes = [
    ...lead.map((axis) => c.sizeOf(x, axis)),
    ...wide,
    ...rest.slice(lead.length).map((axis) => c.sizeOf(x, axis)),
  ];
  const given = expand(c, c.cast(a.v('value'), x.dtype), sizes);
  const all = sizes.map((_, i) => i);
  const front = all.slice(lead.length, lead.length + wide.length);
  const updates = permute(c, given, [...front, ...all.filter((i) => !front.includes(i))]);
  const order = [...axes, ...rest];
  const reduction = a.bool('accumulate') ? { reduction: 'add' } : {};
  const made = c.one('ScatterND', [permute(c, x, order), places, updates], reduction);
  return permute(
    c,
    made,
    order.map((_, i) => order.indexOf(i)),
  );
};

function maskPut(c: Context, a: Args, x: Value, mask: Value): Value {
  const value = a.v('value');
  if (a.bool('accumulate') || (value.shape ?? [1]).some((dim) => dim !== 1))
    refuse('a mask takes one number only; what the data decide the place of is not supported');
  const rest = (x.shape?.length ?? 0) - (mask.shape?.length ?? 0);
  const wide = reshape(c, mask, [...c.shapeOf(mask), ...new Array<number>(rest).fill(1)]);
  const own = x.dtype === 'bool' ? c.cast(x, 'int32') : x;
  const one = c.cast(reshape(c, value, []), own.dtype);
  return c.cast(c.one('Where', [wide, one, own]), x.dtype);
}

const gather: Rule = (c, a) => {
  const x = a.v('x');
  const index = indices(c, a.v('index'));
  const axis = a.axis('dim', x);
  const rank = x.shape?.length ?? 0;
  if (rank === 0) return x;
  // ONNX wants the other axes equal; torch lets the indices be smaller.
  const own = c.shapeOf(index).reduce<Value>((value, size, i) => {
    if (i === axis || c.sizes.equal(size, c.sizeOf(value, i))) return value;
    return c.one('Slice', [value, c.g.ints([0]), c.sizes.list(c.g, [size]), c.g.ints([i])]);
  }, x);
  return c.one('GatherElements', [own, index], { axis });
};

const scatter =
  (reduction?: string): Rule =>
  (c, a) => {
    const x = a.v('x');
    const index = indices(c, a.v('index'));
    const axis = a.axis('dim', x);
    const source = a.raw('src');
    const updates =
      source instanceof TensorRef && source.shape.length > 0
        ? prefix(c, c.cast(source.value, x.dtype), c.shapeOf(index))
        : expand(c, c.number(source, x.dtype), c.shapeOf(index));
    return c.one('ScatterElements', [x, index, updates], { axis, ...(reduction ? { reduction } : {}) });
  };

/** The first elements of each axis. */
function prefix(c: Context, x: Value, sizes: readonly Int[]): Value {
  return sizes.reduce<Value>((value, size, i) => {
    if (subtract(size, c.sizeOf(value, i)) === 0) return value;
    return c.one('Slice', [value, c.g.ints([0]), c.sizes.list(c.g, [size]), c.g.ints([i])]);
  }, x);
}

export const embedding: Rule = (c, a) =>
  c.one('Gather', [a.v('weight'), indices(c, a.v('indices'))], { axis: 0 });

/** Bags as rows of a matrix: (sum, mean, max) over the second axis, or of a list cut by constant offsets. */
const embeddingBag: Rule = (c, a) => {
  const mode = a.n('mode');
  const index = indices(c, a.v('indices'));
  if (a.isSet('padding_idx') && a.n('padding_idx') >= 0) refuse('padding_idx is not supported');
  const rows = bags(c, a, index);
  const size = c.sizeOf(rows, 1);
  if (size === 0) refuse('empty bags are not supported');
  let picked = c.one('Gather', [a.v('weight'), rows], { axis: 0 });
  if (a.isSet('per_sample_weights')) {
    const weights = reshape(c, a.v('per_sample_weights'), [...c.shapeOf(rows), 1]);
    picked = c.one('Mul', [picked, weights]);
  }
  if (mode === 0) return result(c, c.one('ReduceSum', [picked, c.g.ints([1])], { keepdims: 0 }));
  const op = mode === 1 ? 'ReduceMean' : mode === 2 ? 'ReduceMax' : refuse(`mode ${mode} is not supported`);
  return result(c, c.one(op, [picked], { axes: [1], keepdims: 0 }));
};

function result(c: Context, value: Value): Py {
  return c.list([c.tensor(value), null, null, null]);
}

/** Bags of equal length, as a matrix. Two-dimensional bags come as a list with offsets that step evenly. */
function bags(c: Context, a: Args, index: Value): Value {
  if (index.shape?.length === 2) return index;
  const offsets = a.v('offsets');
  const own = offsets.elements?.every((each) => typeof each === 'number')
    ? (offsets.elements as number[])
    : undefined;
  const { even } = a.tensor('offsets');
  if (a.bool('include_last_offset')) refuse('include_last_offset is not supported');
  const count = own?.length;
  if (even !== undefined) return reshape(c, index, [-1, even]);
  if (own === undefined || count === undefined || count === 0)
    return refuse('bags whose offsets the data decide are not supported');
  const total = c.fixed(c.sizeOf(index, 0), 'number of indices');
  const length = total / count;
  if (!own.every((offset, i) => offset === i * length))
    return refuse('bags of different lengths are not supported');
  return reshape(c, index, [count, length]);
}

const oneHot: Rule = (c, a) => {
  const x = indices(c, a.v('x'));
  const count = a.n('num_classes');
  if (count < 1) refuse('needs a known number of classes');
  const values = c.g.constant({ dtype: 'int64', shape: [2], data: BigInt64Array.from([0n, 1n]) });
  return c.one('OneHot', [x, c.g.scalar('int64', count), values], { axis: -1 });
};

const maskedSelect: Rule = () => refuse('gives as many elements as the data decide, which is not supported');

const take: Rule = (c, a) =>
  c.one('Gather', [reshape(c, a.v('x'), [-1]), indices(c, a.v('index'))], { axis: 0 });

/** Puts a slice of rows in place. */
const indexCopy =
  (reduction?: string): Rule =>
  (c, a) => {
    const x = a.v('x');
    const axis = a.axis('dim', x);
    const source = c.cast(a.v('source'), x.dtype);
    const index = indices(c, a.v('index'));
    const sizes = c.shapeOf(source);
    const wide = reshape(
      c,
      index,
      sizes.map((_, i) => (i === axis ? c.sizeOf(index, 0) : 1)),
    );
    return c.one('ScatterElements', [x, expand(c, wide, sizes), source], {
      axis,
      ...(reduction ? { reduction } : {}),
    });
  };

const indexFill: Rule = (c, a) => {
  const x = a.v('x');
  const axis = a.axis('dim', x);
  const index = indices(c, a.v('index'));
  const sizes = c.shapeOf(x).with(axis, product(c.shapeOf(index)));
  const wide = reshape(
    c,
    index,
    sizes.map((_, i) => (i === axis ? (sizes[axis] as Int) : 1)),
  );
  const updates = expand(c, c.number(a.raw('value'), x.dtype), sizes);
  return c.one('ScatterElements', [x, expand(c, wide, sizes), updates], { axis });
};

export const INDEXING: Table = {
  'index(Tensor x, any indices)': indexed,
  'index_put(Tensor x, any indices, Tensor value, bool accumulate=False)': indexPut,
  'index_select(Tensor x, int dim, Tensor index)': (c, a) => {
    const index = indices(c, a.v('index'));
    const list = index.shape?.length === 0 ? reshape(c, index, [1]) : index;
    return c.one('Gather', [a.v('x'), list], { axis: a.axis('dim', a.v('x')) });
  },
  'index_copy(Tensor x, int dim, Tensor index, Tensor source)': indexCopy(),
  'index_add(Tensor x, int dim, Tensor index, Tensor source)': indexCopy('add'),
  'index_fill(Tensor x, int dim, Tensor index, Operand value)': indexFill,
  'gather(Tensor x, int dim, Tensor index, bool sparse_grad=False)': gather,
  'take_along_dim(Tensor x, Tensor index, int dim)': gather,
  'take(Tensor x, Tensor index)': take,
  'scatter(Tensor x, int dim, Tensor index, Operand src)': scatter(),
  'scatter_add(Tensor x, int dim, Tensor index, Tensor src)': scatter('add'),
  'masked_select(Tensor x, Tensor mask) | nonzero(Tensor x) | nonzero_numpy(Tensor x) | unique(Tensor x) | argwhere(Tensor x)':
    maskedSelect,
  'embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)':
    embedding,
  'embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None)':
    embeddingBag,
  'one_hot(Tensor x, int num_classes=-1)': oneHot,
};
