/** Parts of values along an axis. */
import type { Maker } from '../graph/layout.ts';
import type { Value } from '../graph/value.ts';

/** x[from:to] along an axis that counts from the front; a bound that is not a number is a list with one element. */
export function part(node: Maker, x: Value, axis: number, from: number | Value, to: number | Value): Value {
  if (from === 0 && to === x.shape?.[axis]) return x;
  const list = (at: number | Value) => (typeof at === 'number' ? node.g.ints([at]) : at);
  return node.one('Slice', [x, list(from), list(to), node.g.ints([axis])]);
}

/** One index of an axis, which is gone then. */
export function pick(node: Maker, x: Value, axis: number, index: number): Value {
  return node.one('Gather', [x, node.g.scalar('int64', index)], { axis });
}

export function joined(node: Maker, parts: readonly Value[], axis: number): Value {
  return parts.length === 1 ? (parts[0] as Value) : node.one('Concat', parts, { axis });
}
