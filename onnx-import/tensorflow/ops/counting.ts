/** Converts Bincount and UnravelIndex. Numbers outside the counted range are ignored, unless range-checks.ts gives a bound. */
import { unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { rank, sameDim } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, type TfNode } from '../graph.ts';
import { reshape } from './dims.ts';
import { cast, emit, int64 } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

/** An empty tensor of weights means no weights. */
function isWeighted(x: Value, weights: Value): boolean {
  if (weights.shape?.includes(0)) return false;
  const sizes = weights.shape ?? refuse('needs weights of known rank');
  if (sizes.every((dim, i) => typeof dim === 'number' || sameDim(dim, x.shape?.[i]))) return true;
  return refuse('needs to know whether there are weights; give sizes with --input');
}

/** The same numbers. onnxruntime fails for an index that is out of range, of which a negative one would count from the end. */
function checked(x: Value, bound: Value, g: GraphBuilder): Value {
  const [index, end, zero] = [int64(g, x), int64(g, bound), g.scalar('int64', 0)];
  const numbers = g.one('Range', [zero, end, g.scalar('int64', 1)]);
  return g.one('Gather', [numbers, g.one('Where', [g.one('Less', [index, zero]), end, index])]);
}

/** Counts how often each of 0..size-1 occurs in [n] or [rows, n] numbers, or sums up its weights. */
function count(node: TfNode, x: Value, size: Value, weights: Value, g: GraphBuilder): Value {
  const end = size.shape?.length === 1 ? g.one('Squeeze', [size, g.ints([0])]) : size;
  const numbers = g.one('Range', [g.scalar('int64', 0), int64(g, end), g.scalar('int64', 1)]);
  const axis = rank(x) - 1;
  const found = g.one('Equal', [unsqueeze(g, int64(g, x), [axis + 1]), numbers]);
  if (flagAttribute(node, 'binary_output', false)) {
    // A maximum would fail without numbers.
    const times = g.one('ReduceSum', [cast(g, found, 'int64'), g.ints([axis])], { keepdims: 0 });
    return cast(g, g.one('Greater', [times, g.scalar('int64', 0)]), weights.dtype);
  }
  const hit = cast(g, found, weights.dtype);
  const weighted = isWeighted(x, weights) ? emit(g, 'Mul', [hit, unsqueeze(g, weights, [axis + 1])]) : hit;
  return emit(g, 'ReduceSum', [weighted, g.ints([axis])], { keepdims: 0 }, node.name);
}

/** Counts all numbers together, or those of each row. */
function bincount(rows: boolean): Rule {
  return (node, [given, size, weights, bound], g) => {
    const x = bound ? checked(given, bound, g) : given;
    const dimensions = rank(x);
    if (rows && dimensions > 2) refuse(`counts in ${dimensions} dimensions, at most 2 are possible`);
    if (dimensions === 1 || (rows && dimensions === 2)) return count(node, x, size, weights, g);
    const flat = reshape(g, x, [-1]);
    return count(node, flat, size, isWeighted(x, weights) ? reshape(g, weights, [-1]) : weights, g);
  };
}

/** Turns flat indices into one row per dimension. */
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
  ...takes(3, { Bincount: bincount(false), DenseBincount: bincount(true) }),
};
