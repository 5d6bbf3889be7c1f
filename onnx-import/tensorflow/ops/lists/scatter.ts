/**
 * Scatters rows into a list. When an index occurs twice TensorFlow keeps the last row, which ONNX's ScatterND does
 * not guarantee, so the row of each index is found first and then gathered.
 */
import { unsqueeze } from '../../../emit/gather.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { numbersOf } from '../../../graph/numbers.ts';
import { sameDim } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { int64 } from '../kernels.ts';
import type { Context, Facts } from '../rule.ts';
import { atLeast, fixedCount, rowsFor, shapeOfRow, withRest } from './rows.ts';

/** Whether the indices are certainly 0, 1, 2 and so on. */
function countsUp(indices: Value, facts: Facts): boolean {
  const numbers = indices.constant && numbersOf(indices.constant);
  if (numbers) return Array.prototype.every.call(numbers, (number, i) => number === i);
  return facts.counting.has(indices);
}

interface Scattering {
  readonly list: Value;
  readonly indices: Value;
  readonly rows: Value;
  readonly grows: boolean;
}

export function scatterItems(scattering: Scattering, g: GraphBuilder, { facts }: Context): Value {
  const { list, indices, rows, grows } = scattering;
  const size = fixedCount(list, facts);
  if (countsUp(indices, facts)) {
    const count = facts.reserved.get(list)?.count;
    const dim = count ? count.elements?.[0] : list.shape?.[0];
    const all = sameDim(dim, rows.shape?.[0]) || (count && facts.counting.get(indices) === count);
    return all || (size === 0 && grows) ? rows : withRest(g, list, rows, facts);
  }
  const places = int64(g, indices);
  const there = rowsFor(g, list, shapeOfRow(g, rows), facts);
  // The -1 is there because ReduceMax of an empty list fails.
  const last = () =>
    g.one('ReduceMax', [g.one('Concat', [places, g.ints([-1])], { axis: 0 })], { axes: [0], keepdims: 1 });
  const old = grows ? atLeast(g, there, g.one('Add', [last(), g.ints([1])])) : there;
  return latest(g, old, places, rows);
}

/** Keeps the last of the rows for one index, which ScatterND does not guarantee. */
function latest(g: GraphBuilder, old: Value, places: Value, rows: Value): Value {
  const scalar = (size: Value) => g.one('Squeeze', [size, g.ints([0])]);
  const numbers = (size: Value) => g.one('Range', [g.scalar('int64', 0), scalar(size), g.scalar('int64', 1)]);
  const count = g.one('Shape', [old], { start: 0, end: 1 });
  const own = unsqueeze(g, numbers(count), [1]);
  const added = g.one('Add', [numbers(g.one('Shape', [places])), count]);
  const hit = g.one('Where', [g.one('Equal', [own, places]), added, g.ints([-1])]);
  const from = g.one('ReduceMax', [g.one('Concat', [own, hit], { axis: 1 })], { axes: [1], keepdims: 0 });
  const made = g.one('Gather', [g.one('Concat', [old, rows], { axis: 0 }), from], { axis: 0 });
  if (!old.shape) return made;
  return g.add(
    'Identity',
    [made],
    {},
    { results: [{ dtype: old.dtype, shape: old.shape }], hint: 'list' },
  )[0] as Value;
}
