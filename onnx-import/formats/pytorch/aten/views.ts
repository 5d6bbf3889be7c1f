/** Operators whose result shares memory with their input, and how a write to the result reaches the input. */
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { add, type Int, multiply, product, subtract } from '../run/sizes.ts';
import type { TensorRef } from '../run/tensor.ts';
import type { List } from '../run/values.ts';
import { isInt, type Py, refuse } from '../run/values.ts';
import { type Args, axisIn, DTYPES, type Rule, type Table } from './schema.ts';
import { clamped, END, expand, permute, reshape, select, slice, squeezed } from './shaping.ts';

const MAX_PARTS = 10_000;

function reshaped(c: Context, x: TensorRef, sizes: (x: Value) => readonly Int[], name: string): TensorRef {
  return c.view(x, {
    name,
    read: (value) => reshape(c, value, sizes(value)),
    write: (parent, value) => reshape(c, value, c.shapeOf(parent)),
  });
}

/** Torch decides by strides whether it copies. */
function maybeReshaped(c: Context, x: TensorRef, sizes: readonly Int[]): TensorRef {
  const made = reshape(c, x.value, sizes);
  return made === x.value ? x : c.tensor(made).mayAlias(x);
}

function permuted(c: Context, x: TensorRef, order: readonly number[]): TensorRef {
  const back = order.map((_, i) => order.indexOf(i));
  if (back.includes(-1) || order.length !== x.shape.length)
    refuse(`[${order.join(',')}] is no order of axes`);
  return c.view(x, {
    name: 'permute',
    read: (value) => permute(c, value, order),
    write: (_, value) => permute(c, value, back),
  });
}

function swapped(c: Context, x: TensorRef, a: number, b: number): TensorRef {
  if (x.shape.length === 0) return x;
  const order = x.shape.map((_, i) => (i === a ? b : i === b ? a : i));
  return permuted(c, x, order);
}

function pieces(c: Context, x: TensorRef, axis: number, lengths: readonly Int[]): List {
  if (lengths.length > MAX_PARTS) refuse(`splits into over ${MAX_PARTS} parts`);
  let from: Int = 0;
  const parts = lengths.map((length) => {
    const start = from;
    from = add(from, length);
    return slice(c, x, axis, start, from);
  });
  if (subtract(from, c.sizeOf(x.value, axis)) !== 0) refuse('splits into parts that are not the whole');
  return c.list(parts);
}

/** Parts of `length`, the last of which may be smaller. */
function evenly(c: Context, x: TensorRef, axis: number, length: Int): List {
  const size = c.sizeOf(x.value, axis);
  const exact = c.sizes.divide(size, length);
  if (typeof exact === 'number' && subtract(multiply(exact, length), size) === 0)
    return pieces(
      c,
      x,
      axis,
      Array.from({ length: exact }, () => length),
    );
  const [all, one] = [c.fixed(size, 'size to split'), c.fixed(length, 'length of a part')];
  if (one < 1) refuse(`splits into parts of ${one}`);
  const count = Math.ceil(all / one);
  return pieces(
    c,
    x,
    axis,
    Array.from({ length: count }, (_, i) => Math.min(one, all - i * one)),
  );
}

const chunk: Rule = (c, a) => {
  const x = a.tensor('x');
  const axis = a.axis('dim', x);
  const chunks = a.n('chunks');
  const size = c.sizeOf(x.value, axis);
  const exact = c.sizes.divide(size, chunks);
  if (subtract(multiply(exact, chunks), size) === 0) return evenly(c, x, axis, exact);
  return evenly(c, x, axis, Math.ceil(c.fixed(size, 'size to split') / chunks));
};

const unbind: Rule = (c, a) => {
  const x = a.tensor('x');
  const axis = a.axis('dim', x);
  const count = c.fixed(c.sizeOf(x.value, axis), 'size to take apart');
  if (count > MAX_PARTS) refuse(`takes apart into over ${MAX_PARTS} parts`);
  return c.list(Array.from({ length: count }, (_, i) => select(c, x, axis, i)));
};

const tensorSplit: Rule = (c, a) => {
  const x = a.tensor('x');
  const axis = a.axis('dim', x);
  const size = c.fixed(c.sizeOf(x.value, axis), 'size to split');
  const count = a.n('sections');
  const [small, more] = [Math.floor(size / count), size % count];
  return pieces(
    c,
    x,
    axis,
    Array.from({ length: count }, (_, i) => small + (i < more ? 1 : 0)),
  );
};

const unsqueeze: Rule = (c, a) => {
  const x = a.tensor('x');
  const axis = axisIn(a.n('dim'), x.shape.length + 1);
  return c.view(x, {
    name: 'unsqueeze',
    read: (value) => c.one('Unsqueeze', [value, c.g.ints([axis])]),
    write: (parent, value) => reshape(c, value, c.shapeOf(parent)),
  });
};

const expandRule =
  (sizes: (c: Context, a: Args) => readonly Int[]): Rule =>
  (c, a) => {
    const wanted = sizes(c, a);
    return c.view(a.tensor('x'), { name: 'expand', read: (value) => expand(c, value, wanted) });
  };

const flatten: Rule = (c, a) => {
  const x = a.tensor('x');
  const [from, to] = [a.axis('start_dim', x), a.axis('end_dim', x)];
  const sizes = c.shapeOf(x.value);
  if (sizes.length === 0) return maybeReshaped(c, x, [1]);
  return maybeReshaped(c, x, [
    ...sizes.slice(0, from),
    product(sizes.slice(from, to + 1)),
    ...sizes.slice(to + 1),
  ]);
};

const unflatten: Rule = (c, a) => {
  const x = a.tensor('x');
  const axis = a.axis('dim', x);
  return reshaped(c, x, (value) => splice(c, value, axis, a.ints('sizes')), 'unflatten');
};

function splice(c: Context, x: Value, axis: number, parts: readonly Int[]): Int[] {
  const own = c.shapeOf(x);
  const known = product(parts.filter((size) => size !== -1));
  const full = parts.map((size) => (size === -1 ? c.sizes.divide(own[axis] as Int, known) : size));
  return own.toSpliced(axis, 1, ...full);
}

const movedim: Rule = (c, a) => {
  const x = a.tensor('x');
  const [from, to] = [a.axes('source', x), a.axes('destination', x)];
  const order: (number | undefined)[] = x.shape.map(() => undefined);
  for (const [i, axis] of to.entries()) order[axis] = from[i];
  const rest = x.shape.map((_, i) => i).filter((i) => !from.includes(i));
  return permuted(
    c,
    x,
    order.map((axis) => axis ?? (rest.shift() as number)),
  );
};

/** With the same type and device, torch returns the tensor itself. */
function converted(c: Context, x: TensorRef, dtype: ReturnType<Args['dtype']>, copy = false): Py {
  if (dtype === undefined || dtype === x.dtype) {
    if (!copy) return x;
    const made = c.tensor(x.value);
    made.known = x.known;
    return made;
  }
  const made = c.tensor(c.cast(x.value, dtype));
  // A whole number stays one: traced sizes are cast to and fro.
  if (dtype.startsWith('int')) made.known = x.known;
  return made;
}

const to: Rule = (c, a) => converted(c, a.tensor('x'), a.dtype('dtype'), a.bool('copy'));

const as =
  (number: number): Rule =>
  (c, a) =>
    converted(c, a.tensor('x'), DTYPES[number]);

const alias: Rule = (_, a) => a.tensor('x');

const transpose: Rule = (c, a) => {
  const x = a.tensor('x');
  return swapped(c, x, a.axis('a', x), a.axis('b', x));
};

export const VIEWS: Table = {
  'view(Tensor x, int[] size)': (c, a) => {
    const sizes = a.ints('size');
    return reshaped(c, a.tensor('x'), () => sizes, 'view');
  },
  'view_as(Tensor x, Tensor other)': (c, a) => {
    const sizes = c.shapeOf(a.v('other'));
    return reshaped(c, a.tensor('x'), () => sizes, 'view_as');
  },
  'reshape(Tensor x, int[] shape)': (c, a) => maybeReshaped(c, a.tensor('x'), a.ints('shape')),
  'reshape_as(Tensor x, Tensor other)': (c, a) => maybeReshaped(c, a.tensor('x'), c.shapeOf(a.v('other'))),
  'flatten(Tensor x, int start_dim=0, int end_dim=-1)': flatten,
  'ravel(Tensor x)': (c, a) => maybeReshaped(c, a.tensor('x'), [-1]),
  'unflatten(Tensor x, int dim, int[] sizes)': unflatten,
  'permute(Tensor x, int[] dims)': (c, a) => permuted(c, a.tensor('x'), a.axes('dims', a.tensor('x'))),
  'transpose(Tensor x, int a, int b) | swapaxes(Tensor x, int a, int b) | swapdims(Tensor x, int a, int b)':
    transpose,
  't(Tensor x) | numpy_T(Tensor x)': (c, a) => {
    const x = a.tensor('x');
    return permuted(
      c,
      x,
      x.shape.map((_, i) => x.shape.length - 1 - i),
    );
  },
  'mT(Tensor x)': (c, a) =>
    swapped(c, a.tensor('x'), a.tensor('x').shape.length - 2, a.tensor('x').shape.length - 1),
  'movedim(Tensor x, int[] source, int[] destination) | moveaxis(Tensor x, int[] source, int[] destination)':
    movedim,
  'unsqueeze(Tensor x, int dim)': unsqueeze,
  'squeeze(Tensor x)': (c, a) =>
    squeezed(
      c,
      a.tensor('x'),
      a.tensor('x').shape.map((_, i) => i),
    ),
  'squeeze(Tensor x, int[] dim)': (c, a) => squeezed(c, a.tensor('x'), a.axes('dim', a.tensor('x'))),
  'expand(Tensor x, int[] size, bool implicit=False)': expandRule((_, a) => a.ints('size')),
  'expand_as(Tensor x, Tensor other)': expandRule((c, a) => c.shapeOf(a.v('other'))),
  'broadcast_to(Tensor x, int[] size)': expandRule((_, a) => a.ints('size')),
  'select(Tensor x, int dim, int index)': (c, a) => {
    const x = a.tensor('x');
    return select(c, x, a.axis('dim', x), a.int('index'));
  },
  'slice(Tensor x, int dim=0, int? start=None, int? end=None, int step=1)': (c, a) => {
    const x = a.tensor('x');
    const [start, end] = [a.isSet('start') ? a.int('start') : 0, a.isSet('end') ? a.int('end') : END];
    return slice(c, x, a.axis('dim', x), start, end, a.n('step'));
  },
  'narrow(Tensor x, int dim, int start, int length)': (c, a) => {
    const x = a.tensor('x');
    const axis = a.axis('dim', x);
    const start = clamped(c, a.int('start'), c.sizeOf(x.value, axis));
    return slice(c, x, axis, start, add(start, a.int('length')));
  },
  'chunk(Tensor x, int chunks, int dim=0) | unsafe_chunk(Tensor x, int chunks, int dim=0)': chunk,
  'split(Tensor x, int split_size, int dim=0) | unsafe_split(Tensor x, int split_size, int dim=0)': (
    c,
    a,
  ) => {
    const x = a.tensor('x');
    const sizes = a.raw('split_size');
    return evenly(c, x, a.axis('dim', x), isInt(sizes) ? sizes : a.int('split_size'));
  },
  'split(Tensor x, int[] split_sizes, int dim=0) | split_with_sizes(Tensor x, int[] split_sizes, int dim=0)':
    (c, a) => pieces(c, a.tensor('x'), a.axis('dim', a.tensor('x')), a.ints('split_sizes')),
  'tensor_split(Tensor x, int sections, int dim=0)': tensorSplit,
  'unbind(Tensor x, int dim=0)': unbind,
  'contiguous(Tensor x, any memory_format=None)': (c, a) => {
    const x = a.tensor('x');
    const made = c.tensor(x.value).mayAlias(x);
    made.known = x.known;
    return made;
  },
  'detach(Tensor x) | alias(Tensor x) | cpu(Tensor x) | requires_grad_(Tensor x, bool requires_grad=True) | data(Tensor x)':
    alias,
  'to(Tensor x, int? dtype=None, bool non_blocking=False, bool copy=False, any memory_format=None) | to(Tensor x, device? device, int? dtype=None, bool non_blocking=False, bool copy=False, any memory_format=None) | to(Tensor x, *, int? dtype=None, any layout=None, any device=None, any pin_memory=None, bool non_blocking=False, bool copy=False, any memory_format=None)':
    to,
  '_to_copy(Tensor x, *, int? dtype=None, any layout=None, any device=None, any pin_memory=None, bool non_blocking=False, any memory_format=None)':
    (c, a) => converted(c, a.tensor('x'), a.dtype('dtype'), true),
  'to(Tensor x, Tensor other, bool non_blocking=False, bool copy=False, any memory_format=None) | type_as(Tensor x, Tensor other, bool copy=False)':
    (c, a) => converted(c, a.tensor('x'), a.tensor('other').dtype, a.bool('copy')),
  'float(Tensor x) | _cast_Float(Tensor x)': as(6),
  'double(Tensor x)': as(7),
  'long(Tensor x) | _cast_Long(Tensor x)': as(4),
  'int(Tensor x)': as(3),
  'bool(Tensor x)': as(11),
};
