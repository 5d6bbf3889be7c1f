/**
 * TensorLists (and TensorFlow 1's TensorArrays) as tensors: item i is row i.
 * Trap: a list is reserved before the shape of its items is known; until an item is set it is only a promise.
 */
import type { DType } from '../../../lib/tensor.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber } from '../../graph/numbers.ts';
import type { Value } from '../../graph/value.ts';
import { shapeAttribute, type TfNode, typeAttribute } from '../graph.ts';
import { cut, reshape, type Size, shapeList, sizesOf, TO_END, unsqueeze } from './dims.ts';
import { cast, int64, oneNumber } from './kernels.ts';
import {
  type Context,
  type Facts,
  listValue,
  type OpTable,
  type Reserved,
  type Rule,
  refuse,
  takes,
} from './rule.ts';

function itemDType(node: TfNode, name: string): DType {
  const dtype = typeAttribute(node, name, 'float32');
  return typeof dtype === 'string' ? dtype : refuse(`holds ${dtype.unsupported}, which is not supported`);
}

/** The shape an int32 input says: a scalar -1 is an unknown rank. */
function itemShape(shape: Value): number[] | undefined {
  if (shape.shape?.length !== 1) return undefined;
  return shape.elements?.map((element) => (typeof element === 'number' ? element : -1));
}

function reserve(context: Context, dtype: DType, reserved: Reserved): Value {
  const list = listValue(dtype);
  context.facts.reserved.set(list, reserved);
  return list;
}

/** A free size by its name, measured at the graph's input that has it. */
function measured(g: GraphBuilder, dim: number | string | undefined, facts: Facts): Size | undefined {
  if (typeof dim === 'number') return dim;
  const source = dim === undefined ? undefined : facts.sizes.get(dim);
  return source && g.one('Shape', [source.value], { start: source.axis, end: source.axis + 1 });
}

/** The rows of a list that was only reserved: zeros. `like` is the shape of an item, where one is known. */
export function materialize(g: GraphBuilder, list: Value, facts: Facts, like?: Value): Value {
  const reserved = facts.reserved.get(list);
  if (!reserved) return list;
  const wanted = reserved.element ?? like?.shape?.map(() => -1);
  if (!wanted) return refuse('reads a list whose items have no known shape');
  const sizes = wanted.map((dim, i) => {
    if (dim >= 0) return dim;
    return measured(g, like?.shape?.[i], facts) ?? refuse('reads a list whose items have no known shape');
  });
  const shape = shapeList(g, [oneNumber(g, reserved.count, 'int64'), ...sizes]);
  return g.one('Expand', [g.scalar(list.dtype, 0), shape], {}, 'list');
}

const reserveRule: Rule = (node, [shape, count], _g, context) =>
  reserve(context, itemDType(node, 'element_dtype'), { count, element: itemShape(shape) });

const empty: Rule = (node, [shape], g, context) =>
  reserve(context, itemDType(node, 'element_dtype'), {
    count: g.scalar('int32', 0),
    element: itemShape(shape),
  });

function getItem(node: TfNode, list: Value, index: Value, g: GraphBuilder, context: Context): Value {
  return g.one('Gather', [materialize(g, list, context.facts), index], { axis: 0 }, node.name);
}

function setItem(
  node: TfNode,
  parts: { list: Value; index: Value; item: Value },
  g: GraphBuilder,
  context: Context,
): Value {
  const { list, index, item } = parts;
  const collected = context.facts.collected.get(list);
  if (collected) {
    collected.item = item;
    return item;
  }
  const reserved = context.facts.reserved.get(list);
  const row = unsqueeze(g, item, [0]);
  // The only item: nothing of the list is left, and its shape need not be known.
  if (reserved?.count.elements?.[0] === 1 || list.shape?.[0] === 1) return row;
  const rows = materialize(g, list, context.facts, item);
  const place = g.one('Reshape', [int64(g, index), g.ints([1, 1])]);
  return g.one('ScatterND', [rows, place, row], {}, node.name);
}

function pushBack(list: Value, item: Value, g: GraphBuilder, context: Context): Value {
  const collected = context.facts.collected.get(list);
  if (collected) {
    collected.item = item;
    return item;
  }
  const row = unsqueeze(g, item, [0]);
  if (context.facts.reserved.get(list)?.count.elements?.[0] === 0) return row;
  return g.one('Concat', [materialize(g, list, context.facts, item), row], { axis: 0 });
}

function length(node: TfNode, list: Value, g: GraphBuilder, context: Context): Value {
  const reserved = context.facts.reserved.get(list);
  if (reserved) return cast(g, reserved.count, 'int32');
  const size = g.one('Shape', [list], { start: 0, end: 1 });
  return cast(g, g.one('Squeeze', [size, g.ints([0])], {}, node.name), 'int32');
}

/** Items one behind the other: [items, rows, ...] -> [items * rows, ...]. */
function joined(list: Value, g: GraphBuilder, context: Context): Value {
  const rows = materialize(g, list, context.facts);
  const sizes = sizesOf(g, rows);
  return reshape(g, rows, [-1, ...sizes.slice(2)]);
}

function lengthsOf(list: Value, g: GraphBuilder): Value {
  const shape = g.one('Shape', [list]);
  return g.one('Expand', [cut(g, shape, 0, 1, 2), cut(g, shape, 0, 0, 1)]);
}

/** The places are 0, 1, 2, ... of all items in nearly every graph. */
function gatherItems(node: TfNode, list: Value, indices: Value, g: GraphBuilder, context: Context): Value {
  return g.one('Gather', [materialize(g, list, context.facts), indices], { axis: 0 }, node.name);
}

const tensorArray: Rule = (node, [size], _g, context) => {
  const element = shapeAttribute(node, 'element_shape');
  const list = reserve(context, itemDType(node, 'dtype'), { count: size, element });
  return [list, list];
};

const scatterItems: Rule = (node, [, indices, rows, list], _g, context) => {
  const numbers = indices.constant && indices.elements;
  const reserved = context.facts.reserved.get(list);
  const count = reserved && constantCount(reserved);
  const inOrder = numbers?.every((element, i) => element === i);
  if (inOrder && numbers?.length === count) return rows;
  // range(0, size) of a free size, as every RNN writes it.
  if (!numbers && (count === undefined || reserved)) return rows;
  return refuse(`writes items in another order than 0, 1, 2, ... (node "${node.name}")`);
};

function constantCount(reserved: Reserved): number | undefined {
  return reserved.count.constant ? constantNumber(reserved.count, 'size') : undefined;
}

export const LISTS: OpTable = {
  ...takes(1, {
    TensorArrayV3: tensorArray,
    TensorListElementShape: (_node, [list], g, context) => {
      const rows = materialize(g, list, context.facts);
      return cast(g, g.one('Shape', [rows], { start: 1 }), 'int32');
    },
    TensorListFromTensor: (_node, [rows]) => rows,
    TensorListLength: (node, [list], g, context) => length(node, list, g, context),
    TensorListStack: (_node, [list], g, context) => materialize(g, list, context.facts),
  }),
  ...takes(2, {
    EmptyTensorList: empty,
    TensorArrayConcatV3: (_node, [, list], g, context) => [joined(list, g, context), lengthsOf(list, g)],
    TensorArraySizeV3: (node, [, list], g, context) => length(node, list, g, context),
    TensorListConcat: (_node, [list], g, context) => [joined(list, g, context), lengthsOf(list, g)],
    TensorListConcatV2: (_node, [list], g, context) => [joined(list, g, context), lengthsOf(list, g)],
    TensorListGather: (node, [list, indices], g, context) => gatherItems(node, list, indices, g, context),
    TensorListGetItem: (node, [list, index], g, context) => getItem(node, list, index, g, context),
    TensorListPopBack: (_node, [list], g) => [
      cut(g, list, 0, 0, -1),
      g.one('Squeeze', [cut(g, list, 0, -1, TO_END), g.ints([0])]),
    ],
    TensorListPushBack: (_node, [list, item], g, context) => pushBack(list, item, g, context),
    TensorListReserve: reserveRule,
  }),
  ...takes(3, {
    TensorArrayGatherV3: (node, [, indices, list], g, context) =>
      gatherItems(node, list, indices, g, context),
    TensorArrayReadV3: (node, [, index, list], g, context) => getItem(node, list, index, g, context),
    TensorListSetItem: (node, [list, index, item], g, context) =>
      setItem(node, { list, index, item }, g, context),
  }),
  ...takes(4, {
    TensorArrayScatterV3: scatterItems,
    TensorArrayWriteV3: (node, [, index, item, list], g, context) =>
      setItem(node, { list, index, item }, g, context),
  }),
};
