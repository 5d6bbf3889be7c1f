/** Parts of values, and their order. */
import type { Maker } from '../graph/layout.ts';
import type { Value } from '../graph/value.ts';

/** x[from:to] along an axis; a bound that is not a number is a list with one element. */
export function cutAlong(
  node: Maker,
  x: Value,
  axis: number,
  from: number | Value,
  to: number | Value,
): Value {
  if (from === 0 && axis >= 0 && to === x.shape?.[axis]) return x;
  const list = (at: number | Value) => (typeof at === 'number' ? node.g.ints([at]) : at);
  return node.one('Slice', [x, list(from), list(to), node.g.ints([axis])]);
}

/** An end for Slice beyond every index. */
export const TO_END = 2 ** 31 - 1;

/** From the last to the first. */
export function reversed(node: Maker, x: Value, axes: readonly number[]): Value {
  const list = (value: number) => node.g.ints(axes.map(() => value));
  const made = node.one('Slice', [x, list(-1), list(-TO_END), node.g.ints(axes), list(-1)]);
  return made.constant ? made : { ...made, shape: x.shape };
}

/** Selects one index of an axis and removes the axis. */
export function pick(node: Maker, x: Value, index: number, axis: number): Value {
  return node.one('Gather', [x, node.g.scalar('int64', index)], { axis });
}

export function joined(node: Maker, parts: readonly Value[], axis: number): Value {
  return parts.length === 1 ? (parts[0] as Value) : node.one('Concat', parts, { axis });
}

export function unsqueeze(node: Maker, x: Value, axes: readonly number[]): Value {
  return axes.length === 0 ? x : node.one('Unsqueeze', [x, node.g.ints(axes)]);
}

export function squeeze(node: Maker, x: Value, axes: readonly number[]): Value {
  return axes.length === 0 ? x : node.one('Squeeze', [x, node.g.ints(axes)]);
}
