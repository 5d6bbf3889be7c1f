/**
 * Products of matrices. Rows may lie on an axis that is kept; where both factors have rows, these must be the same ones
 * on an axis that is not multiplied.
 */
import type { Call, Rule } from '../call.ts';
import { numberOf, ONE, type Size, size } from '../size.ts';
import { broadcastSize, type Data, fixedOf, isSamePlace, type Shape } from '../value.ts';
import { broadcast } from './elementwise.ts';

/** The axes of a factor within the product: at least two, with 1 for one that is missing. */
interface Factor {
  readonly data: Data;
  readonly shape: Shape;
  /** Of its rows; undefined when it is fixed. */
  readonly axis: number | undefined;
}

function factor(call: Call, data: Data, rank: number, isLeft: boolean): Factor {
  const own = call.shape(data);
  const full = own.length === 1 ? (isLeft ? [ONE, ...own] : [...own, ONE]) : own;
  const axis = data.kind === 'rows' ? data.axis + (own.length === 1 && isLeft ? 1 : 0) : undefined;
  const missing = rank - full.length;
  return {
    data,
    shape: [...new Array<Size>(missing).fill(ONE), ...full],
    axis: axis === undefined ? undefined : axis + missing,
  };
}

/** NumPy's matmul. */
export function matMul(call: Call, a: Data, b: Data): Data {
  const [x, y] = [call.shape(a), call.shape(b)];
  if (x.length === 0 || y.length === 0) call.end('a factor is a scalar');
  const rank = Math.max(2, x.length, y.length);
  const [left, right] = [factor(call, a, rank, true), factor(call, b, rank, false)];
  if (left.axis === rank - 1 || right.axis === rank - 2) call.end('it adds up along the batch axis');
  const batch = left.shape
    .slice(0, -2)
    .map((dim, i) => broadcastSize(dim, right.shape[i] as Size, call.names));
  const shape = [...batch, left.shape[rank - 2] as Size, right.shape[rank - 1] as Size];
  const place = placeOf(call, left, right, rank);
  const result = place ? call.rows(shape, place) : fixedOf(shape);
  // A vector has no axis of its own in the product.
  const gone = [...(x.length === 1 ? [rank - 2] : []), ...(y.length === 1 ? [rank - 1] : [])];
  const kept = result.shape?.filter((_, axis) => !gone.includes(axis)) ?? [];
  return result.kind === 'rows'
    ? call.moved(result, kept, result.axis - gone.filter((axis) => axis < result.axis).length)
    : fixedOf(kept);
}

function placeOf(call: Call, left: Factor, right: Factor, rank: number) {
  const [one, other] = left.axis === undefined ? [right, left] : [left, right];
  if (one.data.kind !== 'rows' || one.axis === undefined) return undefined;
  const place = { ...one.data, axis: one.axis };
  const isBatch = one.axis < rank - 2;
  if (other.data.kind === 'rows') {
    const same =
      isBatch && other.axis !== undefined && isSamePlace({ ...other.data, axis: other.axis }, place);
    if (!same) call.end('it multiplies rows with other rows');
  } else if (isBatch && numberOf(other.shape[one.axis]) !== 1) {
    call.end('it multiplies the rows with a constant that differs along the batch axis');
  }
  return place;
}

/** The last two axes in the other order. */
export function transposed(call: Call, data: Data, isTransposed: boolean): Data {
  const shape = call.shape(data);
  const rank = shape.length;
  if (!isTransposed || rank < 2) return data;
  const swap = (axis: number) => (axis < rank - 2 ? axis : 2 * rank - 3 - axis);
  const moved = shape.map((_, axis) => shape[swap(axis)] as Size);
  return data.kind === 'rows' ? call.moved(data, moved, swap(data.axis)) : fixedOf(moved);
}

const gemm: Rule = (call) => {
  const a = transposed(call, call.data(0), call.int('transA', 0) === 1);
  const b = transposed(call, call.data(1), call.int('transB', 0) === 1);
  const product = matMul(call, a, b);
  const c = call.optional(2);
  return c ? broadcast(call, [product, c]) : product;
};

/** Zero points and scales must be one number for all rows. */
export function oneForAll(call: Call, index: number): void {
  const value = call.fixed(index);
  if (!value || value.uniform === true) return;
  if (value.shape?.some((dim) => numberOf(dim) !== 1) ?? true)
    call.end('a scale or zero point differs from place to place');
}

const matMulInteger: Rule = (call) => {
  oneForAll(call, 2);
  call.fixed(3);
  return matMul(call, call.data(0), call.data(1));
};

const qLinearMatMul: Rule = (call) => {
  for (const index of [1, 2, 4, 5, 6, 7]) oneForAll(call, index);
  return matMul(call, call.data(0), call.data(3));
};

const einsum: Rule = (call) => {
  const values = call.all();
  const equation = call.text('equation', '').replaceAll(' ', '');
  const [left = '', right] = equation.split('->');
  const terms = left.split(',');
  if (right === undefined || equation.includes('.')) return call.end('its equation is not written out');
  if (new Set(terms.map((term) => new Set(term).size === term.length)).has(false))
    call.end('it takes a diagonal');
  const letterOf = (value: Data, i: number) => (value.kind === 'rows' ? terms[i]?.[value.axis] : undefined);
  const sizes = new Map<string, Size>();
  for (const [i, value] of values.entries()) {
    const shape = call.shape(value);
    if (shape.length !== terms[i]?.length) call.end('its equation does not fit its inputs');
    for (const [axis, letter] of Array.from(terms[i] as string).entries()) {
      if (numberOf(sizes.get(letter) ?? size(1)) === 1) sizes.set(letter, shape[axis] as Size);
    }
  }
  const at = values.findIndex(({ kind }) => kind === 'rows');
  const shape = Array.from(right, (letter) => sizes.get(letter) ?? call.dim());
  const first = values[at];
  if (first?.kind !== 'rows') return fixedOf(shape);
  const letter = letterOf(first, at) as string;
  for (const [i, value] of values.entries()) {
    const isAlike = value.kind === 'rows' && letterOf(value, i) === letter && sameBlock(first, value);
    if (!isAlike && (value.kind === 'rows' || terms[i]?.includes(letter))) {
      call.end('its inputs have their rows on different axes');
    }
  }
  if (!right.includes(letter)) call.end('it adds up along the batch axis');
  return call.rows(shape, { ...first, axis: right.indexOf(letter) });
};

function sameBlock(a: Data, b: Data): boolean {
  return a.kind === 'rows' && b.kind === 'rows' && isSamePlace({ ...a, axis: 0 }, { ...b, axis: 0 });
}

export const MATMUL: Readonly<Record<string, Rule>> = {
  MatMul: (call) => matMul(call, call.data(0), call.data(1)),
  Gemm: gemm,
  MatMulInteger: matMulInteger,
  QLinearMatMul: qLinearMatMul,
  Einsum: einsum,
};
