/**
 * What the analysis knows of a tensor when N rows share a run. Of `Rows`, the slice that belongs to a row is what it is
 * when the row runs alone; every other size, and everything about `Fixed`, is the same for every N and for all rows of
 * equal shapes. Nothing else can be part of a proof: an `Ended` value says where it ended.
 */

import { dependsOnRows, type Names, product, type Shape, type Size, same } from './size.ts';

/** The same in every run: a weight, and what is computed from weights and from the sizes of a row. */
export interface Fixed {
  readonly kind: 'fixed';
  /** Undefined where not even the rank is known. */
  readonly shape?: Shape | undefined;
  /**
   * Of a small tensor, in row-major order; booleans are 0 and 1. Beyond 2^53 several integers share one; rules compute
   * only with what `fits` (rules/arithmetic.ts).
   */
  readonly elements?: readonly Size[] | undefined;
  /** ONNX's number of the element type, where the elements are known. */
  readonly type?: number | undefined;
  /** All elements are equal. */
  readonly uniform?: boolean | undefined;
  /** All elements are integers from 0 on, below this size. */
  readonly below?: Size | undefined;
}

/** A small tensor that is computed from N alone, such as a shape. An undefined element depends on N in a way that is not known. */
export interface Counts {
  readonly kind: 'counts';
  readonly shape: Shape;
  readonly elements: readonly (Size | undefined)[];
  readonly type: number | undefined;
}

/** Where the rows lie: on one axis of size outer · N · inner, the rows in the middle. */
export interface Place {
  readonly axis: number;
  readonly outer: Size;
  readonly inner: Size;
}

export interface Rows extends Place {
  readonly kind: 'rows';
  readonly shape: Shape;
}

/**
 * Every element is the number of the row that it belongs to, as Range makes them from 0 to N. They are an index of the
 * rows and nothing else: their values depend on the place of a row in its run.
 */
export interface RowNumbers extends Omit<Rows, 'kind'> {
  readonly kind: 'row numbers';
  /**
   * Where they are joined with other indices: their place on the last axis. The other places hold what belongs to the
   * row. Undefined: all elements are row numbers.
   */
  readonly column: number | undefined;
  /** Where they count places instead, with so many for each row: the number of the first one, or of any one of the row. */
  readonly places?: { readonly count: Size; readonly isFirst: boolean } | undefined;
  /** Why any other use ends the proof. */
  readonly end: ProofEnd;
}

export interface Ended {
  readonly kind: 'ended';
  readonly end: ProofEnd;
}

export type Value = Fixed | Counts | Rows | RowNumbers | Ended;
/** What a rule may compute with. */
export type Data = Fixed | Rows;

/** Thrown by a rule: the rows may depend on each other here. */
export class ProofEnd extends Error {
  readonly operator: string;
  readonly node: string;

  constructor(reason: string, operator: string, node: string) {
    super(reason);
    this.operator = operator;
    this.node = node;
  }
}

/** @param n the number of rows */
export function rowsOf(shape: Shape, { axis, outer, inner }: Place, n: Size): Rows {
  return {
    kind: 'rows',
    shape: shape.with(axis, product([outer, n, inner])),
    axis,
    outer,
    inner,
  };
}

export function isSamePlace(a: Place, b: Place): boolean {
  return a.axis === b.axis && same(a.outer, b.outer) && same(a.inner, b.inner);
}

export function fixedOf(shape?: Shape): Fixed {
  return { kind: 'fixed', shape };
}

/** Most elements that are followed: a shape has as many as its tensor has dimensions. */
export const MAX_ELEMENTS = 64;

/** A small tensor by its elements; undefined ones depend on N. */
export function elementsOf(
  shape: Shape,
  elements: readonly (Size | undefined)[],
  type: number | undefined,
): Fixed | Counts {
  if (elements.every((element): element is Size => element !== undefined && !dependsOnRows(element))) {
    const [first] = elements;
    const isExact = first !== undefined && Math.abs(first.factor) < 2 ** 53;
    const uniform = isExact && elements.every((element) => same(element, first));
    return { kind: 'fixed', shape, elements, type, uniform };
  }
  return { kind: 'counts', shape, elements, type };
}

/** What holds for both, as the result of one of two branches or of any turn of a loop; undefined where too little does. */
export function join(a: Value, b: Value, names: Names): Value | undefined {
  if (a.kind === 'ended') return a;
  if (b.kind === 'ended') return b;
  if (a.kind === 'counts' || b.kind === 'counts') {
    const equal =
      a.kind === 'counts' &&
      b.kind === 'counts' &&
      a.elements.length === b.elements.length &&
      a.elements.every((element, i) => {
        const other = b.elements[i];
        return element !== undefined && other !== undefined && same(element, other);
      });
    return equal ? a : undefined;
  }
  const shape = joinShapes(a.shape, b.shape, names);
  if (a.kind === 'fixed' && b.kind === 'fixed') return isEqual(a, b) ? a : fixedOf(shape);
  if (a.kind !== 'rows' || b.kind !== 'rows' || !shape || !isSamePlace(a, b)) return undefined;
  return { ...a, shape: shape.with(a.axis, a.shape[a.axis] as Size) };
}

function isEqual(a: Fixed, b: Fixed): boolean {
  const [x, y] = [a.elements, b.elements];
  return (
    x !== undefined &&
    y !== undefined &&
    isSameShape(a.shape, b.shape) &&
    x.length === y.length &&
    x.every((element, i) => same(element, y[i] as Size))
  );
}

export function isSameShape(a: Shape | undefined, b: Shape | undefined): boolean {
  return a !== undefined && a.length === b?.length && a.every((dim, i) => same(dim, b[i] as Size));
}

function joinShapes(a: Shape | undefined, b: Shape | undefined, names: Names): Shape | undefined {
  if (!a || a.length !== b?.length) return undefined;
  return a.map((dim, i) => (same(dim, b[i] as Size) ? dim : names.dim()));
}
