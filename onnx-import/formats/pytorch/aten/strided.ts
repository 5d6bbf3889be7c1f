/** Views with strides of their own: diagonals and windows. They are read only. Writes to a slice of a copy. */
import { elementCount } from '../../../../lib/contract/tensor.ts';

import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { add, type Int } from '../run/sizes.ts';
import type { TensorRef } from '../run/tensor.ts';
import { refuse } from '../run/values.ts';
import type { Rule, Table } from './schema.ts';
import { END, expand, permute, reshape, slice } from './shaping.ts';

const diagonal: Rule = (c, a) => {
  const x = a.tensor('x');
  const [one, other] = [a.axis('dim1', x), a.axis('dim2', x)];
  const offset = a.n('offset');
  const rest = x.shape.map((_, i) => i).filter((i) => i !== one && i !== other);
  const [rows, columns] = [one, other].map((axis) => c.fixed(c.sizeOf(x.value, axis), 'size of a diagonal'));
  const count = Math.max(
    0,
    Math.min((rows as number) + Math.min(0, offset), (columns as number) - Math.max(0, offset)),
  );
  const places = Array.from({ length: count }, (_, i) => [
    i + Math.max(0, -offset),
    i + Math.max(0, offset),
  ]).flat();
  const ints = c.one('Reshape', [c.g.ints(places), c.g.ints([count, 2])]);
  return c.view(x, {
    name: 'diagonal',
    read: (value) => {
      const front = c.one('GatherND', [permute(c, value, [one, other, ...rest]), ints]);
      return permute(c, front, [...rest.map((_, i) => i + 1), 0]);
    },
  });
};

/** Windows of an axis: torch puts their elements on a new last axis. */
const unfold: Rule = (c, a) => {
  const x = a.tensor('x');
  const axis = a.axis('dim', x);
  const size = c.fixed(c.sizeOf(x.value, axis), 'size of the windows');
  const [length, step] = [a.n('size'), a.n('step')];
  const count = Math.floor((size - length) / step) + 1;
  if (!(length > 0 && step > 0 && count > 0) || count * length > 2 ** 24) refuse('has impossible windows');
  const places = Array.from(
    { length: count * length },
    (_, i) => Math.floor(i / length) * step + (i % length),
  );
  return c.view(x, {
    name: 'unfold',
    read: (value) => {
      const indices = c.g.constant({
        dtype: 'int64',
        shape: [count, length],
        data: BigInt64Array.from(places, BigInt),
      });
      const made = c.one('Gather', [value, indices], { axis });
      const order = (made.shape as readonly unknown[]).map((_, i) => i).filter((i) => i !== axis + 1);
      return permute(c, made, [...order, axis + 1]);
    },
  });
};

const asStrided: Rule = (c, a) => {
  const x = a.tensor('x');
  const [sizes, strides] = [a.ns('size'), a.ns('stride')];
  const own = x.shape.map((dim) => (typeof dim === 'number' ? dim : refuse('needs fixed sizes')));
  const offset = a.isSet('storage_offset') ? a.n('storage_offset') : 0;
  if (!x.value.constant || elementCount(sizes, 2 ** 24) === 0) refuse('is supported for constants only');
  const places = new BigInt64Array(elementCount(sizes));
  const count = elementCount(own);
  for (let i = 0; i < places.length; i++) {
    let [rest, at] = [i, offset];
    for (let axis = sizes.length - 1; axis >= 0; axis--) {
      at += (rest % (sizes[axis] as number)) * (strides[axis] as number);
      rest = Math.floor(rest / (sizes[axis] as number));
    }
    if (at >= count) refuse('lies outside of its storage');
    places[i] = BigInt(at);
  }
  const flat = reshape(c, x.value, [-1]);
  return c
    .tensor(c.one('Gather', [flat, c.g.constant({ dtype: 'int64', shape: sizes, data: places })]))
    .mayAlias(x);
};

/** A copy of which a slice is written. */
function written(c: Context, x: TensorRef, source: Value, { axis, start, end, step = 1 }: Range): TensorRef {
  const made = c.tensor(x.value);
  const part = slice(c, made, axis, start, end, step);
  part.assign(expand(c, c.cast(source, x.dtype), c.shapeOf(part.value)), 'slice_scatter');
  return made;
}

interface Range {
  readonly axis: number;
  readonly start: Int;
  readonly end: Int;
  readonly step?: number;
}

const sliceScatter: Rule = (c, a) => {
  const x = a.tensor('x');
  const [start, end] = [a.isSet('start') ? a.int('start') : 0, a.isSet('end') ? a.int('end') : END];
  return written(c, x, a.v('source'), { axis: a.axis('dim', x), start, end, step: a.n('step') });
};

const selectScatter: Rule = (c, a) => {
  const x = a.tensor('x');
  const [axis, index] = [a.axis('dim', x), a.n('index')];
  const start = index < 0 ? add(c.sizeOf(x.value, axis), index) : index;
  const source = c.one('Unsqueeze', [a.v('source'), c.g.ints([axis])]);
  return written(c, x, source, { axis, start, end: add(start, 1) });
};

export const STRIDED: Table = {
  'slice_scatter(Tensor x, Tensor source, int dim=0, int? start=None, int? end=None, int step=1)':
    sliceScatter,
  'select_scatter(Tensor x, Tensor source, int dim, int index)': selectScatter,
  'diagonal(Tensor x, int offset=0, int dim1=0, int dim2=1)': diagonal,
  'unfold(Tensor x, int dim, int size, int step)': unfold,
  'as_strided(Tensor x, int[] size, int[] stride, int? storage_offset=None)': asStrided,
};
