/**
 * Builds the int64 shape lists of ONNX's Reshape and Expand from sizes that may be free. A single free size becomes
 * -1, which onnxruntime optimizes better than arithmetic on shapes.
 */
import type { GraphBuilder } from '../../graph/builder.ts';
import { rank } from '../../graph/shapes.ts';
import type { Dim, Shape, Value } from '../../graph/value.ts';

/** A size: a number, or an int64 list with one element. */
export type Size = number | Value;

export function sizeOf(g: GraphBuilder, x: Value, axis: number): Size {
  const dim = x.shape?.[axis];
  return typeof dim === 'number' ? dim : g.one('Shape', [x], { start: axis, end: axis + 1 });
}

/** All sizes of a value of known rank. */
export function sizesOf(g: GraphBuilder, x: Value): Size[] {
  return Array.from({ length: rank(x) }, (_, axis) => sizeOf(g, x, axis));
}

export function product(g: GraphBuilder, sizes: readonly Size[]): Size {
  const numbers = sizes.filter((size) => typeof size === 'number').reduce((a, b) => a * b, 1);
  return sizes
    .filter((size) => typeof size !== 'number')
    .reduce<Size>(
      (all, size) => (all === 1 ? size : g.one('Mul', [typeof all === 'number' ? g.ints([all]) : all, size])),
      numbers,
    );
}

/** Joins the sizes to one int64 list. */
export function shapeList(g: GraphBuilder, sizes: readonly Size[]): Value {
  if (sizes.every((size) => typeof size === 'number')) return g.ints(sizes);
  const parts = sizes.map((size) => (typeof size === 'number' ? g.ints([size]) : size));
  return parts.length === 1 ? (parts[0] as Value) : g.one('Concat', parts, { axis: 0 });
}

export function dimOf(size: Size, fresh: () => string): Dim {
  return typeof size === 'number' ? size : (size.elements?.[0] ?? fresh());
}

export function reshape(g: GraphBuilder, x: Value, sizes: readonly Size[], hint?: string): Value {
  const shape = sizes.map((size) => dimOf(size, g.fresh));
  return reshapeTo(g, x, shape, () => shapeList(g, sizes), hint);
}

/** Reshapes to a shape with named sizes. With several free sizes, `exact` computes the target. */
export function reshapeTo(
  g: GraphBuilder,
  x: Value,
  shape: Shape,
  exact: () => Value,
  hint = 'reshape',
): Value {
  const same = x.shape?.length === shape.length && shape.every((dim, i) => dim === x.shape?.[i]);
  if (same && !shape.includes(-1)) return x;
  const zero = shape.includes(0);
  const options = { hint, ...(shape.includes(-1) ? {} : { results: [{ dtype: x.dtype, shape }] }) };
  const open = shape.filter((dim) => typeof dim === 'string' || dim === -1).length;
  const target =
    open > 1 || (open === 1 && zero) ? undefined : shape.map((dim) => (typeof dim === 'string' ? -1 : dim));
  const attributes = zero ? { allowzero: 1 } : {};
  return g.add('Reshape', [x, target ? g.ints(target) : exact()], attributes, options)[0] as Value;
}

export function transpose(g: GraphBuilder, x: Value, perm: readonly number[], hint?: string): Value {
  return perm.every((axis, i) => axis === i) ? x : g.one('Transpose', [x], { perm }, hint);
}
