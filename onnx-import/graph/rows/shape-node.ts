/** A node as the rule of its shape sees it: in a graph under construction, and where the proof of batching follows it. */
import { ONE, type Shape, type Size, same } from './size.ts';

export interface ShapeNode {
  /** Of inputs, those that are left out included. */
  readonly count: number;
  readonly outputs: number;
  readonly opset: number;
  has(index: number): boolean;
  /** Undefined where the rank is not known. */
  shapeAt(index: number): Shape | undefined;
  /** The elements of a small list of integers; undefined ones are not known. */
  listAt(index: number): readonly (Size | undefined)[] | undefined;
  /** The elements of a constant. */
  constantAt(index: number): readonly number[] | undefined;
  int(name: string, fallback: number): number;
  ints(name: string): readonly number[] | undefined;
  text(name: string, fallback: string): string;
  /** An axis as 0..rank-1; anything else is refused. */
  axis(axis: number, rank: number): number;
  /** A size that is not known. */
  dim(): Size;
  /** Called with shapes that no run could broadcast. */
  mismatch(a: Shape, b: Shape): void;
}

/** The shape of each output, as far as it can be known. */
export type ShapeRule = (node: ShapeNode) => readonly (Shape | undefined)[];

/** A list of numbers that newer operator sets take as an input; `undefined` where it is missing or not known. */
export function listOf(node: ShapeNode, name: string, index: number): readonly number[] | undefined {
  const listed = node.ints(name);
  if (listed || !node.has(index)) return listed;
  const elements = node.listAt(index);
  const numbers = elements?.flatMap((element) => (element?.names.length === 0 ? [element.factor] : []));
  return numbers?.length === elements?.length ? numbers : undefined;
}

type Broadcasting = Pick<ShapeNode, 'dim' | 'mismatch'>;

/** NumPy's rule for two sizes of an axis. */
export function broadcastSize(
  node: Broadcasting,
  a: Size,
  b: Size,
  mismatch: () => void = () => undefined,
): Size {
  if (same(a, b) || same(b, ONE)) return a;
  if (same(a, ONE)) return b;
  if (a.names.length === 0 && b.names.length === 0) mismatch();
  // A free size that meets a number above 1 is that number, or 1, which becomes it.
  if (a.names.length === 0) return a;
  if (b.names.length === 0) return b;
  return node.dim();
}

/** NumPy's rule for whole shapes. */
export function broadcastShapes(
  node: Broadcasting,
  shapes: readonly (Shape | undefined)[],
): Shape | undefined {
  return shapes.slice(1).reduce((a, b) => {
    if (!a || !b) return undefined;
    const rank = Math.max(a.length, b.length);
    const at = (shape: Shape, i: number) => shape[shape.length - rank + i] ?? ONE;
    return Array.from({ length: rank }, (_, i) =>
      broadcastSize(node, at(a, i), at(b, i), () => node.mismatch(a, b)),
    );
  }, shapes[0]);
}

/** All outputs have the shape of the first input. */
export const sameShape: ShapeRule = (node) => Array.from({ length: node.outputs }, () => node.shapeAt(0));

export const broadcasting: ShapeRule = (node) => [
  broadcastShapes(
    node,
    Array.from({ length: node.count }, (_, i) => node.shapeAt(i)),
  ),
];
