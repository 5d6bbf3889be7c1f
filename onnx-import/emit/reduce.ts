/** Reductions along axes. */
import type { Maker } from '../graph/layout.ts';
import type { Value } from '../graph/value.ts';

/** Of no axes: the value itself. ReduceSum takes its axes as an input since opset 13, the others since 18. */
export function reduce(node: Maker, op: string, x: Value, axes: readonly number[], isKept = false): Value {
  if (axes.length === 0) return x;
  const keepdims = isKept ? 1 : 0;
  if (op === 'ReduceSum') return node.one(op, [x, node.g.ints(axes)], { keepdims });
  return node.one(op, [x], { axes, keepdims });
}
