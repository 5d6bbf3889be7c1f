/**
 * The rows of a list as a tensor: item i is row i. Unset items are zeros, whose shape may be unknown until the first
 * item is set. A loop cannot wait for that: its list starts with sizes of 0 (`unsized`), which the first item
 * replaces.
 */
import { cutAlong, TO_END } from '../../../emit/gather.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { sameDim } from '../../../graph/shapes.ts';
import type { Shape, Value } from '../../../graph/value.ts';
import { dimOf, type Size, shapeList } from '../dims.ts';
import { emitAll, oneNumber } from '../kernels.ts';
import { refuse } from '../refuse.ts';
import type { Facts } from '../rule.ts';

/** The shape of an item, both static and as an int64 list. */
interface ItemShape {
  readonly shape: Shape | undefined;
  readonly sizes: Value;
}

export function shapeOfItem(g: GraphBuilder, item: Value): ItemShape {
  return { shape: item.shape, sizes: g.one('Shape', [item]) };
}

export function shapeOfRow(g: GraphBuilder, rows: Value): ItemShape {
  return { shape: rows.shape?.slice(1), sizes: g.one('Shape', [rows], { start: 1 }) };
}

/** The number of items, as an int64 list with one element. */
export function countOf(g: GraphBuilder, list: Value, facts: Facts): Value {
  const reserved = facts.reserved.get(list);
  return reserved ? oneNumber(g, reserved.count, 'int64') : g.one('Shape', [list], { start: 0, end: 1 });
}

/** The number of items, if it is known at conversion. */
export function fixedCount(list: Value, facts: Facts): number | undefined {
  const reserved = facts.reserved.get(list);
  const dim = reserved ? reserved.count.elements?.[0] : list.shape?.[0];
  return typeof dim === 'number' ? dim : undefined;
}

function zeros(g: GraphBuilder, list: Value, sizes: readonly Size[], like?: Value): Value {
  const shape = like ? g.one('Concat', [shapeList(g, sizes), like], { axis: 0 }) : shapeList(g, sizes);
  return g.one('Expand', [g.scalar(list.dtype, 0), shape], {}, 'list');
}

/** @throws bad_model when the shape of unset items is unknown */
export function materialize(g: GraphBuilder, list: Value, facts: Facts): Value {
  if (list.name !== '') return list;
  const reserved = facts.reserved.get(list) ?? refuse('uses a list that is not known here');
  const element = reserved.element;
  if (!element || element.includes(-1)) return refuse('reads a list whose items have no known shape');
  return zeros(g, list, [countOf(g, list, facts), ...element]);
}

/** The rows of a list that can hold items of this shape. */
export function rowsFor(g: GraphBuilder, list: Value, item: ItemShape, facts: Facts): Value {
  if (list.name !== '') return facts.unsized.has(list) ? sized(g, list, item) : list;
  const reserved = facts.reserved.get(list) ?? refuse('uses a list that is not known here');
  const count = countOf(g, list, facts);
  const { element } = reserved;
  if (element && !element.includes(-1)) return zeros(g, list, [count, ...element]);
  if (element && item.shape && element.length !== item.shape.length)
    return refuse(`takes items of rank ${element.length}, gets one of rank ${item.shape.length}`);
  const made = zeros(g, list, [count], item.sizes);
  if (!item.shape) return made;
  const shape = [dimOf(count, g.fresh), ...item.shape];
  return g.add('Identity', [made], {}, { results: [{ dtype: made.dtype, shape }], hint: 'list' })[0] as Value;
}

/** The rows before an item is known: unknown sizes are 0. */
export function unsizedRows(g: GraphBuilder, list: Value, facts: Facts): Value {
  if (list.name !== '') return list;
  const reserved = facts.reserved.get(list) ?? refuse('uses a list that is not known here');
  const element = reserved.element ?? refuse('passes on a list whose items have no known rank');
  const made = zeros(g, list, [countOf(g, list, facts), ...element.map((size) => (size === -1 ? 0 : size))]);
  if (!element.includes(-1)) return made;
  // The Identity keeps this list apart from other values with the same constant.
  const own = g.add(
    'Identity',
    [made],
    {},
    { results: [{ dtype: made.dtype, shape: made.shape }], hint: 'list' },
  )[0] as Value;
  facts.unsized.add(own);
  return own;
}

/** Replaces sizes of 0 by those of the item. If another size differs, the run fails. */
function sized(g: GraphBuilder, rows: Value, item: ItemShape): Value {
  const size = rows.shape?.length ?? refuse('fills a list of unknown rank');
  if (item.shape && item.shape.length !== size - 1)
    return refuse(`takes items of rank ${size - 1}, gets one of rank ${item.shape.length}`);
  const have = g.one('Shape', [rows], { start: 1 });
  const none = g.ints(Array.from({ length: size - 1 }, () => 0));
  const missing = g.one('Where', [g.one('Equal', [have, none]), item.sizes, none]);
  const pads = g.one('Concat', [g.ints(Array.from({ length: size + 1 }, () => 0)), missing], { axis: 0 });
  const shape = item.shape && [rows.shape?.[0] ?? g.fresh(), ...item.shape];
  return padded(g, rows, pads, shape);
}

function padded(g: GraphBuilder, rows: Value, pads: Value, shape: Shape | undefined): Value {
  return emitAll(
    g,
    'Pad',
    [rows, pads],
    {},
    { results: [{ dtype: rows.dtype, shape }], hint: 'list' },
  )[0] as Value;
}

/** Pads the rows with zeros to at least `count`. */
export function atLeast(g: GraphBuilder, rows: Value, count: Value): Value {
  const have = g.one('Shape', [rows], { start: 0, end: 1 });
  if (sameDim(have.elements?.[0], count.elements?.[0])) return rows;
  const missing = g.one('Max', [g.one('Sub', [count, have]), g.ints([0])]);
  if (missing.elements?.[0] === 0) return rows;
  const size = rows.shape?.length ?? refuse('extends a list whose items have no known rank');
  const none = Array.from({ length: size - 1 }, () => 0);
  const pads = shapeList(g, [0, ...none, missing, ...none]);
  const dim = dimOf(g.one('Max', [have, count]), g.fresh);
  return padded(g, rows, pads, [dim, ...(rows.shape?.slice(1) ?? [])]);
}

/** The rows that were set from the start, followed by the rest of the old list. */
export function withRest(g: GraphBuilder, list: Value, rows: Value, facts: Facts): Value {
  if (facts.reserved.has(list)) return atLeast(g, rows, countOf(g, list, facts));
  const old = rowsFor(g, list, shapeOfRow(g, rows), facts);
  const rest = cutAlong(g, old, 0, g.one('Shape', [rows], { start: 0, end: 1 }), TO_END);
  return g.one('Concat', [rows, rest], { axis: 0 });
}

/** Rows that a loop collected. Without iterations onnxruntime returns size 0 for every unknown dimension. */
export function collectedRows(g: GraphBuilder, list: Value, rows: Value, facts: Facts): Value {
  if (rows.shape?.slice(1).every((dim) => typeof dim === 'number')) return rows;
  const element = facts.reserved.get(list)?.element;
  if (facts.unsized.has(list) || (list.name === '' && (!element || element.includes(-1)))) return rows;
  const sizes = element ? shapeList(g, element) : g.one('Shape', [list], { start: 1 });
  const count = g.one('Shape', [rows], { start: 0, end: 1 });
  const shape = g.one('Concat', [count, sizes], { axis: 0 });
  const results = [{ dtype: rows.dtype, shape: rows.shape }];
  return g.add('Reshape', [rows, shape], { allowzero: 1 }, { results, hint: 'list' })[0] as Value;
}

/** Appends rows to the list. */
export function appended(g: GraphBuilder, list: Value, rows: Value, facts: Facts): Value {
  if (facts.reserved.get(list)?.count.elements?.[0] === 0) return rows;
  return g.one('Concat', [rowsFor(g, list, shapeOfRow(g, rows), facts), rows], { axis: 0 });
}
