/** Modules that change the shape of a tensor, or take parts of it. Dimensions are counted from 1. */

import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { compute } from '../../../emit/formula.ts';
import { cutAlong, reversed } from '../../../emit/gather.ts';
import { fixed, known, product, quotient } from '../../../graph/shapes.ts';
import type { Dim, Shape, Value } from '../../../graph/value.ts';
import { type Call, type Rule, rows, rowsOf } from '../call.ts';

/** More repetitions are an error in the file. */
const MAX_COPIES = 65_536;

function sizeOf(dims: readonly number[]): number {
  const size = dims.reduce((all, dim) => all * dim, 1);
  if (dims.length > 0 && dims.every((dim) => Number.isInteger(dim) && dim >= 1)) return size;
  throw badModel(`has sizes [${dims.slice(0, 20).join(',')}]`);
}

/** The elements of a record. @throws bad_model when a size is free */
function recordSize(call: Call): number {
  const size = product(known(call.input).slice(1));
  if (typeof size === 'number') return size;
  throw badModel(`needs fixed sizes, got ${formatShape(known(call.input))}; give them with --input`);
}

/** The whole tensor takes new sizes, so its records mix unless it has none. */
function wholly(call: Call, sizes: readonly number[]): Value {
  call.bindAt(0);
  const total = product(known(call.input));
  if (total !== sizeOf(sizes))
    throw badModel(`cannot make [${sizes.join(',')}] of ${formatShape(known(call.input))}`);
  return call.reshape(call.input, sizes);
}

const WHOLE = 1;
const BATCHED = 2;

const reshapeRule: Rule = (call) => {
  const sizes = call.module.numbers('size');
  const mode = call.module.int('batchMode', 0);
  const [first, count] = [known(call.input)[0] as Dim, sizeOf(sizes)];
  const record = recordSize(call);
  // Without a mode, a first dimension of 1 is a batch.
  const isWhole =
    mode === WHOLE ||
    (mode !== BATCHED && typeof first === 'number' && first !== 1 && first * record === count);
  if (isWhole) return wholly(call, sizes);
  if (record === count) return call.reshape(call.input, [first, ...sizes]);
  return wholly(call, sizes);
};

const view: Rule = (call) => {
  const sizes = call.module.numbers('sizes');
  const [first, record, count] = [known(call.input)[0] as Dim, recordSize(call), sizeOf(sizes)];
  if (typeof first === 'number' && first * record === count) return wholly(call, sizes);
  if (record === count) return call.reshape(call.input, [first, ...sizes]);
  call.bindAt(0);
  const more = ((first as number) * record) / count;
  if (!Number.isInteger(more))
    throw badModel(`cannot view ${formatShape(known(call.input))} as [${sizes.join(',')}]`);
  return call.reshape(call.input, [more, ...sizes]);
};

/** 0 copies the dimension at its place, -1 is what is left. */
const inferReshape: Rule = (call) => {
  const own = known(call.input);
  const sizes = call.module.numbers('size');
  const isBatch = call.module.flag('batchMode');
  if (sizes.filter((dim) => dim === -1).length > 1 || sizes.some((dim) => dim < -1))
    throw badModel(`has sizes [${sizes.slice(0, 20).join(',')}]`);
  const copied = sizes.map((dim, i): Dim => {
    if (dim !== 0) return dim;
    if (own[i] !== undefined) return own[i];
    throw badModel(`copies dimension ${i + 1} of ${formatShape(own)}`);
  });
  const shape: Dim[] = isBatch ? [own[0] as Dim, ...copied] : copied;
  const inferred = shape.indexOf(-1);
  if (inferred >= 0) {
    const others = shape.toSpliced(inferred, 1);
    const rest = inferred === 0 ? restOf(own, others) : quotient(own, others);
    if (rest === undefined) throw badModel(`cannot make [${shape.join(',')}] of ${formatShape(own)}`);
    shape[inferred] = rest;
  }
  if (shape[0] !== own[0] && rowsOf(shape[0] as Dim) === undefined) call.bindAt(0);
  if (inferred < 0 && quotient(own, shape) !== 1)
    throw badModel(`cannot make [${shape.join(',')}] of ${formatShape(own)}`);
  return call.reshape(call.input, shape);
};

/** The first dimension, where records may become several rows each, or rows a record again. */
function restOf(own: Shape, others: Shape): Dim | undefined {
  const [count, record, size] = [rowsOf(own[0] as Dim), product(own.slice(1)), product(others)];
  if (count === undefined || typeof record !== 'number' || typeof size !== 'number')
    return quotient(own, others);
  const each = (count * record) / size;
  return Number.isInteger(each) && each >= 1 ? rows(each) : undefined;
}

const transpose: Rule = (call) => {
  const { module } = call;
  const perm = known(call.input).map((_, axis) => axis);
  const count = module.int('size');
  if (count < 0 || count > 1000) throw badModel(`has ${count} permutations`);
  for (let i = 0; i < count; i++) {
    const [a, b] = module.numbers(`permutation_${i}`, 2).map((dimension) => call.axis(dimension)) as [
      number,
      number,
    ];
    [perm[a], perm[b]] = [perm[b] as number, perm[a] as number];
  }
  return call.transpose(call.input, perm);
};

function cut(call: Call, value: Value, axis: number, start: number, length: number): Value {
  const size = fixed(value, axis);
  if (start < 0 || length < 1 || start + length > size)
    throw badModel(`takes ${length} from ${start + 1} on of ${size}`);
  return cutAlong(call, value, axis, start, start + length);
}

/** A part of an axis; a negative length counts from the end. */
const narrow: Rule = (call) => {
  const axis = call.axis(call.module.int('dimension'));
  call.bindAt(axis);
  const [offset, given] = [call.module.int('offset'), call.module.int('length', 1)];
  const length = given < 0 ? fixed(call.input, axis) - offset + given + 2 : given;
  return cut(call, call.input, axis, offset - 1, length);
};

const select: Rule = (call) => {
  const axis = call.axis(call.module.int('dimension'));
  call.bindAt(axis);
  const index = call.module.int('index');
  const shape = known(call.input);
  const last = index === -1 && typeof shape[axis] === 'string';
  const at = last ? -1 : index < 0 ? fixed(call.input, axis) + index : index - 1;
  const size = shape[axis] as Dim;
  if (index === 0 || (typeof size === 'number' && (at < 0 || at >= size)))
    throw badModel(`takes ${index} of ${size}`);
  return call.one('Gather', [call.input, call.g.scalar('int64', at)], { axis });
};

/** The first dimension of a free batch is never taken for a dimension of 1. */
const squeeze: Rule = (call) => {
  const shape = known(call.input);
  const dims = call.module.list('dims');
  const isBatch = call.module.flag('batchMode');
  const named = dims?.map((dimension) => call.axis(isBatch ? dimension + 1 : dimension));
  const axes = (named ?? shape.map((_, axis) => axis)).filter((axis) => shape[axis] === 1);
  const kept = axes.filter((axis) => !(isBatch && !dims && axis === 0));
  return kept.length === 0 ? call.input : call.one('Squeeze', [call.input, call.g.ints(kept)]);
};

/** With `numInputDims`, BigDL counts a batch once more at every call, so its answers differ from call to call. */
const unsqueeze: Rule = (call) => {
  const { rank } = call;
  if (call.module.int('numInputDims', -1) > 0 && rank !== call.module.int('numInputDims'))
    throw badModel(
      'has numInputDims and a batch, with which each of its answers differs from the one before',
    );
  const [position, ...others] = call.module.list('pos') ?? [call.module.int('pos')];
  if (position === undefined || others.length > 0) throw badModel('adds several dimensions, expected one');
  const axis = position < 0 ? rank + position + 1 : position - 1;
  if (axis < 0 || axis > rank) throw badModel(`position ${position} is outside of ${rank} dimensions`);
  return call.one('Unsqueeze', [call.input, call.g.ints([axis])]);
};

/** Inserts constant elements before an index, counted from the end when the padding is positive. */
const padding: Rule = (call) => {
  const { module, rank } = call;
  const dimension = module.int('dim');
  const axis = call.axis(rank === module.int('nInputDim') ? dimension : dimension + 1);
  call.bindAt(axis);
  const [pad, index] = [module.int('pad'), module.int('nIndex', 1)];
  const size = fixed(call.input, axis);
  const at = pad > 0 ? size - index + 1 : index - 1;
  if (pad === 0) return call.input;
  if (at < 0 || at > size || Math.abs(pad) > MAX_COPIES) throw badModel(`pads ${pad} at ${index} of ${size}`);
  const value = call.scalar(module.number('value', 0));
  const shape = known(call.input);
  const filled = (from: Value, before: number, after: number) => {
    const pads = (count: number) => shape.map((_, i) => (i === axis ? count : 0));
    return call.one('Pad', [from, call.g.ints([...pads(before), ...pads(after)]), value], {
      mode: 'constant',
    });
  };
  if (at === 0) return filled(call.input, Math.abs(pad), 0);
  if (at === size) return filled(call.input, 0, Math.abs(pad));
  const head = filled(cut(call, call.input, axis, 0, at), 0, Math.abs(pad));
  return call.one('Concat', [head, cut(call, call.input, axis, at, size - at)], { axis });
};

const replicate: Rule = (call) => {
  const { module, rank } = call;
  const count = module.int('nFeatures');
  const axis = module.int('dim', 1) - 1 + (rank > module.int('nDim', 2 ** 31 - 1) ? 1 : 0);
  if (axis < 0 || axis > rank || count < 1 || count > MAX_COPIES)
    throw badModel(`repeats ${count} times along ${axis + 1} of ${rank} dimensions`);
  const wide = call.one('Unsqueeze', [call.input, call.g.ints([axis])]);
  return tiled(call, wide, axis, count);
};

function tiled(call: Call, value: Value, axis: number, count: number): Value {
  return count === 1
    ? value
    : call.one('Tile', [value, call.g.ints(known(value).map((_, i) => (i === axis ? count : 1)))]);
}

const tile: Rule = (call) => {
  const [axis, copies] = [call.axis(call.module.int('dim')), call.module.int('copies', 2)];
  if (copies < 1 || copies > MAX_COPIES) throw badModel(`repeats ${copies} times`);
  call.bindAt(axis);
  return tiled(call, call.input, axis, copies);
};

const reverse: Rule = (call) => {
  const axis = call.axis(call.module.int('dim', 1));
  call.bindAt(axis);
  return reversed(call, call.input, [axis]);
};

/** -1 keeps a size; others repeat a dimension of 1. */
const expand: Rule = (call) => {
  const sizes = call.module.numbers('targetSizes', call.rank);
  const shape = known(call.input);
  const counts = sizes.map((size, axis) => {
    const own = shape[axis];
    if (size === -1 || size === own) return 1;
    if (own === 1 && size >= 1 && size <= MAX_COPIES) return size;
    throw badModel(`cannot expand ${formatShape(shape)} to [${sizes.join(',')}]`);
  });
  return counts.every((count) => count === 1)
    ? call.input
    : call.one('Tile', [call.input, call.g.ints(counts)]);
};

/** Takes entries of the first tensor by the numbers, counted from 1, in the second. */
const index: Rule = (call) => {
  const [value, at] = call.tensors(2) as [Value, Value];
  const axis = call.axis(call.module.int('dimension'), -1, value);
  call.bindAt(axis, value);
  call.bindAt(0, at);
  if (known(at).length !== 1) throw badModel(`needs a list of numbers, got ${formatShape(known(at))}`);
  return call.one('Gather', [value, indices(call, at, fixed(value, axis))], { axis });
};

/** Numbers counted from 1 as int64 from 0. A number below 1 becomes too large, so that the run refuses it. */
export function indices(call: Call, value: Value, size: number): Value {
  const number = call.one('Cast', [value], { to: 7 });
  return compute(call, 'at = number - 1; Where(at < 0, size, at)', { number, size });
}

/** Steps of which every element is the mask become zero. */
const masking: Rule = (call) => {
  call.expectRank(3);
  call.bindAt(2);
  const mask = call.module.number('maskValue');
  const isOther = compute(call, 'Not(x == mask)', { x: call.input, mask });
  const isKept = call.one('ReduceMax', [call.one('Cast', [isOther], { to: 1 })], { axes: [2], keepdims: 1 });
  return call.one('Mul', [call.input, isKept]);
};

export function expectChannels(value: Value, axis: number, channels: number): void {
  if (fixed(value, axis) !== channels)
    throw badModel(`needs ${channels} channels, got ${formatShape(known(value))}`);
}

export function plain(shape: Shape): number[] {
  if (shape.every((dim) => typeof dim === 'number')) return shape as number[];
  throw badModel(`needs fixed sizes, got ${formatShape(shape)}; give them with --input`);
}

export const SHAPES: Readonly<Record<string, Rule>> = {
  ExpandSize: expand,
  Index: index,
  InferReshape: inferReshape,
  Masking: masking,
  Narrow: narrow,
  Padding: padding,
  Replicate: replicate,
  Reshape: reshapeRule,
  Reverse: reverse,
  Select: select,
  Squeeze: squeeze,
  Tile: tile,
  Transpose: transpose,
  Unsqueeze: unsqueeze,
  View: view,
};
