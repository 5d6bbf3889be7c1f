/**
 * Counting and places: how often each number occurs, which row and column a flat place is.
 * Trap: what is outside of the counted range is not counted.
 */
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, type TfNode } from '../graph.ts';
import { unsqueeze } from './dims.ts';
import { cast, emit, int64 } from './kernels.ts';
import { type OpTable, type Rule, refuse, takes } from './rule.ts';

/** [n] or [rows, n] numbers -> how often each of 0..size-1 is among them, or the sum of its weights. */
function count(node: TfNode, x: Value, size: Value, weights: Value, g: GraphBuilder): Value {
  const end = size.shape?.length === 1 ? g.one('Squeeze', [size, g.ints([0])]) : size;
  const numbers = g.one('Range', [g.scalar('int64', 0), int64(g, end), g.scalar('int64', 1)]);
  const axis = rank(x) - 1;
  const hit = cast(g, g.one('Equal', [unsqueeze(g, int64(g, x), [axis + 1]), numbers]), weights.dtype);
  if (flagAttribute(node, 'binary_output', false))
    return emit(g, 'ReduceMax', [hit], { axes: [axis], keepdims: 0 }, node.name);
  const weighted = weights.shape?.[0] === 0 ? hit : emit(g, 'Mul', [hit, unsqueeze(g, weights, [axis + 1])]);
  return emit(g, 'ReduceSum', [weighted, g.ints([axis])], { keepdims: 0 }, node.name);
}

const bincount: Rule = (node, [x, size, weights], g) => count(node, x, size, weights, g);

/** Flat places -> one row per dimension. */
const unravelIndex: Rule = (node, [places, dims], g) => {
  const sizes = constantNumbers(dims, 'shape');
  if (sizes.length === 0 || sizes.some((size) => size < 1)) refuse(`needs a shape, got [${sizes.join(',')}]`);
  const wide = int64(g, places);
  let stride = sizes.reduce((a, b) => a * b, 1);
  const rows = sizes.map((size) => {
    stride /= size;
    const whole = g.one('Div', [wide, g.scalar('int64', stride)]);
    return unsqueeze(g, g.one('Mod', [whole, g.scalar('int64', size)]), [0]);
  });
  const joined = g.one('Concat', rows, { axis: 0 }, node.name);
  return cast(
    g,
    places.shape?.length === 0 ? g.one('Reshape', [joined, g.ints([-1])]) : joined,
    places.dtype,
  );
};

export const COUNTING: OpTable = {
  ...takes(2, { UnravelIndex: unravelIndex }),
  ...takes(3, { Bincount: bincount, DenseBincount: bincount }),
};
