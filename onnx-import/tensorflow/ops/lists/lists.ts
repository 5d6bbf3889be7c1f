/**
 * Converts TensorLists and TensorFlow 1's TensorArrays to tensors: item i is row i. A list is reserved before the
 * shape of its items is known, so it has no tensor until an item is set. Writing past the end extends the list if the
 * TensorArray or the write itself allows that.
 */

import type { DType } from '../../../../lib/contract/tensor.ts';
import { cutAlong, TO_END, unsqueeze } from '../../../emit/gather.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, shapeAttribute, type TfNode, typeAttribute } from '../../graph.ts';
import { reshape, type Size, sizesOf } from '../dims.ts';
import { cast, int64, oneNumber } from '../kernels.ts';
import { refuse } from '../refuse.ts';
import {
  type Context,
  type Facts,
  listValue,
  type OpTable,
  type Reserved,
  type Rule,
  takes,
} from '../rule.ts';
import { appended, atLeast, countOf, fixedCount, materialize, rowsFor, shapeOfItem } from './rows.ts';
import { scatterItems } from './scatter.ts';

function itemDType(node: TfNode, name: string): DType {
  const dtype = typeAttribute(node, name, 'float32');
  return typeof dtype === 'string' ? dtype : refuse(`holds ${dtype.unsupported}, which is not supported`);
}

/** The shape in an int32 input. A scalar (-1) is an unknown rank; a named size is measured. */
function itemShape(g: GraphBuilder, shape: Value): Size[] | undefined {
  if (shape.shape?.length !== 1) return undefined;
  return shape.elements?.map((element, i): Size => {
    if (typeof element === 'number') return element;
    return element === undefined ? -1 : cutAlong(g, int64(g, shape), 0, i, i + 1);
  });
}

function reserve(context: Context, dtype: DType, reserved: Reserved): Value {
  const list = listValue(dtype);
  context.facts.reserved.set(list, reserved);
  return list;
}

function reserveItems(node: TfNode, shape: Value, count: Value, g: GraphBuilder, context: Context): Value {
  const dtype = itemDType(node, 'element_dtype');
  const list = reserve(context, dtype, { count, element: itemShape(g, shape) });
  context.facts.declared.set(list, shape);
  return list;
}

/** A changed list keeps the declared shape of its items. */
function stillDeclared(list: Value, changed: Value, facts: Facts): Value {
  const shape = facts.declared.get(list);
  if (shape && !facts.declared.has(changed)) facts.declared.set(changed, shape);
  return changed;
}

const fromTensor: Rule = (_node, inputs, g, { facts }) => {
  const [rows, shape] = inputs;
  if (inputs.length < 2) return rows;
  const known = facts.declared.get(rows);
  const list = known && known !== shape ? g.one('Identity', [rows]) : rows;
  facts.declared.set(list, shape);
  return list;
};

const elementShape: Rule = (node, [list], g, { facts }) => {
  const type = typeAttribute(node, 'shape_type', 'int32');
  const shape = facts.declared.get(list) ?? refuse('asks a list for its shape, which is not known here');
  return cast(g, shape, typeof type === 'string' ? type : 'int32');
};

function getItem(node: TfNode, list: Value, index: Value, g: GraphBuilder, context: Context): Value {
  return g.one('Gather', [materialize(g, list, context.facts), index], { axis: 0 }, node.name);
}

interface Writing {
  readonly list: Value;
  readonly index: Value;
  readonly item: Value;
  /** Whether a write past the end extends the list. */
  readonly grows: boolean;
}

function setItem(node: TfNode, writing: Writing, g: GraphBuilder, { facts }: Context): Value {
  const { list, index, item, grows } = writing;
  const collected = facts.collected.get(list);
  if (collected) {
    collected.item = item;
    return item;
  }
  const row = unsqueeze(g, item, [0]);
  const size = fixedCount(list, facts);
  const atFirst = index.elements?.[0] === 0;
  // The row replaces the whole list, so the shape of its items need not be known.
  if (atFirst && (size === 1 || (size === 0 && grows))) return stillDeclared(list, row, facts);
  const place = oneNumber(g, index, 'int64');
  const there = rowsFor(g, list, shapeOfItem(g, item), facts);
  const rows = grows ? atLeast(g, there, g.one('Add', [place, g.ints([1])])) : there;
  const set = g.one('ScatterND', [rows, g.one('Reshape', [place, g.ints([1, 1])]), row], {}, node.name);
  return stillDeclared(list, set, facts);
}

/** Whether writes past the end extend the TensorArray. */
function arrayGrows(handle: Value, { facts }: Context): boolean {
  return facts.arrays.get(handle)?.grows ?? refuse('uses a TensorArray that is not known here');
}

function pushBack(list: Value, item: Value, g: GraphBuilder, { facts }: Context): Value {
  const collected = facts.collected.get(list);
  if (collected) {
    collected.item = item;
    return item;
  }
  return stillDeclared(list, appended(g, list, unsqueeze(g, item, [0]), facts), facts);
}

function popBack(list: Value, g: GraphBuilder, { facts }: Context): Value[] {
  const rows = materialize(g, list, facts);
  const rest = stillDeclared(list, cutAlong(g, rows, 0, 0, -1), facts);
  return [rest, g.one('Squeeze', [cutAlong(g, rows, 0, -1, TO_END), g.ints([0])])];
}

function resize(list: Value, size: Value, g: GraphBuilder, context: Context): Value {
  const { facts } = context;
  const reserved = facts.reserved.get(list);
  if (reserved) return stillDeclared(list, reserve(context, list.dtype, { ...reserved, count: size }), facts);
  const count = oneNumber(g, size, 'int64');
  const resized = atLeast(g, cutAlong(g, list, 0, 0, count), count);
  if (facts.unsized.has(list)) facts.unsized.add(resized);
  return stillDeclared(list, resized, facts);
}

function length(node: TfNode, list: Value, g: GraphBuilder, { facts }: Context): Value {
  const reserved = facts.reserved.get(list);
  if (reserved) return cast(g, reserved.count, 'int32');
  return cast(g, g.one('Squeeze', [countOf(g, list, facts), g.ints([0])], {}, node.name), 'int32');
}

/** Concatenates the items, [items, rows, ...] -> [items * rows, ...], and returns the number of rows of each. */
function joined(list: Value, g: GraphBuilder, context: Context): Value[] {
  const rows = materialize(g, list, context.facts);
  const shape = g.one('Shape', [rows]);
  const lengths = g.one('Expand', [cutAlong(g, shape, 0, 1, 2), cutAlong(g, shape, 0, 0, 1)]);
  return [reshape(g, rows, [-1, ...sizesOf(g, rows).slice(2)]), lengths];
}

function gatherItems(node: TfNode, list: Value, indices: Value, g: GraphBuilder, context: Context): Value {
  return g.one('Gather', [materialize(g, list, context.facts), indices], { axis: 0 }, node.name);
}

/** Splits rows into items of equal height. */
function splitItems(rows: Value, lengths: Value, g: GraphBuilder): Value {
  const heights = constantNumbers(lengths, 'list of lengths');
  const [height = 0] = heights;
  if (heights.length === 0 || heights.some((each) => each !== height))
    refuse(`makes items of different sizes (${heights.slice(0, 8).join(', ')}), which is not supported`);
  const [all] = rows.shape ?? [];
  if (typeof all === 'number' && all !== height * heights.length)
    refuse(`splits ${all} rows into ${heights.length} times ${height}`);
  return reshape(g, rows, [heights.length, height, ...sizesOf(g, rows).slice(1)]);
}

const tensorArray: Rule = (node, [size], _g, context) => {
  const dtype = itemDType(node, 'dtype');
  const handle = listValue(dtype);
  context.facts.arrays.set(handle, { grows: flagAttribute(node, 'dynamic_size', false) });
  return [handle, reserve(context, dtype, { count: size, element: shapeAttribute(node, 'element_shape') })];
};

/** Scatters rows into a new list, which has `count` items or as many as the largest index requires. */
function scatterNew(
  node: TfNode,
  parts: readonly [Value, Value, Value],
  count: Value | undefined,
  g: GraphBuilder,
  context: Context,
): Value {
  const [rows, indices, shape] = parts;
  const told = count?.elements?.[0];
  if (count && typeof told !== 'number') refuse('makes a list of a computed length, which is not supported');
  const grows = !count || told === -1;
  const list = reserveItems(node, shape, count && !grows ? count : g.scalar('int32', 0), g, context);
  return stillDeclared(list, scatterItems({ list, indices, rows, grows }, g, context), context.facts);
}

export const LISTS: OpTable = {
  ...takes(1, {
    TensorArrayV3: tensorArray,
    TensorListElementShape: elementShape,
    TensorListFromTensor: fromTensor,
    TensorListLength: (node, [list], g, context) => length(node, list, g, context),
    TensorListStack: (_node, [list], g, context) => materialize(g, list, context.facts),
  }),
  ...takes(2, {
    EmptyTensorList: (node, [shape], g, context) =>
      reserveItems(node, shape, g.scalar('int32', 0), g, context),
    TensorArrayConcatV3: (_node, [, list], g, context) => joined(list, g, context),
    TensorArraySizeV3: (node, [, list], g, context) => length(node, list, g, context),
    TensorListConcat: (_node, [list], g, context) => joined(list, g, context),
    TensorListConcatV2: (_node, [list], g, context) => joined(list, g, context),
    TensorListGather: (node, [list, indices], g, context) => gatherItems(node, list, indices, g, context),
    TensorListGetItem: (node, [list, index], g, context) => getItem(node, list, index, g, context),
    TensorListPopBack: (_node, [list], g, context) => popBack(list, g, context),
    TensorListPushBack: (_node, [list, item], g, context) => pushBack(list, item, g, context),
    TensorListReserve: (node, [shape, count], g, context) => reserveItems(node, shape, count, g, context),
    TensorListResize: (_node, [list, size], g, context) => resize(list, size, g, context),
  }),
  ...takes(3, {
    TensorArrayGatherV3: (node, [, indices, list], g, context) =>
      gatherItems(node, list, indices, g, context),
    TensorArrayReadV3: (node, [, index, list], g, context) => getItem(node, list, index, g, context),
    TensorListScatter: (node, [rows, indices, shape], g, context) =>
      scatterNew(node, [rows, indices, shape], undefined, g, context),
    TensorListScatterIntoExistingList: (_node, [list, rows, indices], g, context) =>
      stillDeclared(list, scatterItems({ list, indices, rows, grows: true }, g, context), context.facts),
    TensorListSetItem: (node, [list, index, item], g, context) => {
      const grows = flagAttribute(node, 'resize_if_index_out_of_bounds', false);
      return setItem(node, { list, index, item, grows }, g, context);
    },
    TensorListSplit: (_node, [rows, , lengths], g) => splitItems(rows, lengths, g),
  }),
  ...takes(4, {
    TensorArrayScatterV3: (_node, [handle, indices, rows, list], g, context) =>
      scatterItems({ list, indices, rows, grows: arrayGrows(handle, context) }, g, context),
    TensorArraySplitV3: (_node, [, rows, lengths], g) => splitItems(rows, lengths, g),
    TensorArrayWriteV3: (node, [handle, index, item, list], g, context) =>
      setItem(node, { list, index, item, grows: arrayGrows(handle, context) }, g, context),
    TensorListScatterV2: (node, [rows, indices, shape, count], g, context) =>
      scatterNew(node, [rows, indices, shape], count, g, context),
  }),
};
