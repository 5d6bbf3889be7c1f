/**
 * Products of matrices. Rows may lie on an axis that is kept; where both factors have rows, these must be the same ones
 * on an axis that is not multiplied.
 */
import type { Call, RowRule } from '../rows/call.ts';
import { broadcast } from '../rows/combine.ts';
import { broadcastShapes, type ShapeNode, type ShapeRule, sameShape } from '../rows/shape-node.ts';
import { numberOf, ONE, type Shape, type Size } from '../rows/size.ts';
import { type Data, fixedOf, isSamePlace } from '../rows/value.ts';
import { all, type Operators, UNSIGNED, WIDE } from './operator.ts';

/** NumPy's matmul. */
function productShape(node: Pick<ShapeNode, 'dim' | 'mismatch'>, a: Shape, b: Shape): Shape {
  const [m, n] = [a.slice(-2, -1), b.length > 1 ? b.slice(-1) : []];
  return [...(broadcastShapes(node, [a.slice(0, -2), b.slice(0, -2)]) ?? []), ...m, ...n];
}

/** @param second the input with the second factor */
const multiplied =
  (second = 1): ShapeRule =>
  (node) => {
    const [a, b] = [node.shapeAt(0), node.shapeAt(second)];
    return [a && b && productShape(node, a, b)];
  };

const gemmShape: ShapeRule = (node) => {
  const [a, b] = [node.shapeAt(0), node.shapeAt(1)];
  const m = a?.[node.int('transA', 0)];
  const n = b?.[1 - node.int('transB', 0)];
  return [m && n && [m, n]];
};

/** The terms of an equation that is written out. */
function termsOf(node: ShapeNode): { terms: readonly string[]; result: string } | undefined {
  const equation = node.text('equation', '').replaceAll(' ', '');
  const [left = '', result] = equation.split('->');
  return result === undefined || equation.includes('.') ? undefined : { terms: left.split(','), result };
}

const einsumShape: ShapeRule = (node) => {
  const equation = termsOf(node);
  if (!equation) return [undefined];
  const dims = new Map<string, Size>();
  for (const [i, term] of equation.terms.entries())
    for (const [axis, letter] of Array.from(term).entries()) {
      const dim = node.shapeAt(i)?.[axis];
      if (dim && numberOf(dims.get(letter) ?? ONE) === 1) dims.set(letter, dim);
    }
  return [Array.from(equation.result, (letter) => dims.get(letter) ?? node.dim())];
};

/** The axis of the rows of a factor within the product, counted from the end; undefined when it is fixed. */
function axisFromEnd(data: Data, isLeft: boolean): number | undefined {
  if (data.kind !== 'rows') return undefined;
  // A vector is a row of the left factor, or a column of the right one.
  return data.axis - data.shape.length - (data.shape.length === 1 && !isLeft ? 1 : 0);
}

/** Of NumPy's matmul. */
export function matMulRows(call: Call, a: Data, b: Data): Data {
  const [x, y] = [call.shape(a), call.shape(b)];
  if (x.length === 0 || y.length === 0) call.end('a factor is a scalar');
  const [left, right] = [axisFromEnd(a, true), axisFromEnd(b, false)];
  if (left === -1 || right === -2) call.end('it adds up along the batch axis');
  const shape = productShape(call, x, y);
  const [one, other, axis] = left === undefined ? [b, a, right] : [a, b, left];
  if (one.kind !== 'rows' || axis === undefined) return fixedOf(shape);
  const isBatch = axis < -2;
  if (other.kind === 'rows') {
    const otherAxis = left === undefined ? left : right;
    const isSame = isBatch && otherAxis === axis && isSamePlace({ ...one, axis: 0 }, { ...other, axis: 0 });
    if (!isSame) call.end('it multiplies rows with other rows');
  } else if (isBatch && numberOf(call.shape(other).at(axis) ?? ONE) !== 1) {
    call.end('it multiplies the rows with a constant that differs along the batch axis');
  }
  // A vector has no axis of its own in the product.
  const gone = (x.length === 1 && axis < -2 ? 1 : 0) + (y.length === 1 && axis < -1 ? 1 : 0);
  return call.moved(one, shape, shape.length + axis + gone);
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

const factors = (call: Call): [Data, Data] => [
  transposed(call, call.data(0), call.int('transA', 0) === 1),
  transposed(call, call.data(1), call.int('transB', 0) === 1),
];

const gemm: RowRule = (call) => {
  const product = matMulRows(call, ...factors(call));
  const c = call.optional(2);
  return c ? broadcast(call, [product, c]) : product;
};

/** Transposed batch axes are left out. */
const fusedMatMul: RowRule = (call) => {
  if (call.int('transBatchA', 0) === 1 || call.int('transBatchB', 0) === 1)
    call.end('it moves the axes before the matrices');
  return matMulRows(call, ...factors(call));
};

/** Zero points and scales must be one number for all rows. */
export function oneForAll(call: Call, index: number): void {
  const value = call.fixed(index);
  if (!value || value.uniform === true) return;
  if (value.shape?.some((dim) => numberOf(dim) !== 1) ?? true)
    call.end('a scale or zero point differs from place to place');
}

const matMulInteger: RowRule = (call) => {
  oneForAll(call, 2);
  call.fixed(3);
  return matMulRows(call, call.data(0), call.data(1));
};

const qLinearMatMul: RowRule = (call) => {
  for (const index of [1, 2, 4, 5, 6, 7]) oneForAll(call, index);
  return matMulRows(call, call.data(0), call.data(3));
};

/** The weights are packed, so that their shape is in the attributes. */
const matMulNBits: RowRule = (call) => {
  for (let i = 1; i < call.count; i++) call.fixed(i);
  const weights = fixedOf([call.dimOr(call.attribute('K')?.int), call.dimOr(call.attribute('N')?.int)]);
  return matMulRows(call, call.data(0), weights);
};

const einsum: RowRule = (call) => {
  const values = call.all();
  const { terms, result } = termsOf(call) ?? call.end('its equation is not written out');
  if (terms.some((term) => new Set(term).size < term.length)) call.end('it takes a diagonal');
  if (values.some((value, i) => call.shape(value).length !== terms[i]?.length))
    call.end('its equation does not fit its inputs');
  const letterOf = (value: Data, i: number) => (value.kind === 'rows' ? terms[i]?.[value.axis] : undefined);
  const at = values.findIndex(({ kind }) => kind === 'rows');
  const first = values[at];
  if (first?.kind !== 'rows') return fixedOf(call.result());
  const letter = letterOf(first, at) ?? '';
  for (const [i, value] of values.entries()) {
    const isAlike =
      value.kind === 'rows' &&
      letterOf(value, i) === letter &&
      isSamePlace({ ...first, axis: 0 }, { ...value, axis: 0 });
    if (!isAlike && (value.kind === 'rows' || terms[i]?.includes(letter))) {
      call.end('its inputs have their rows on different axes');
    }
  }
  if (!result.includes(letter)) call.end('it adds up along the batch axis');
  return call.rows(call.result(), { ...first, axis: result.indexOf(letter) });
};

/** One scale for all, or one for each place of an axis that is not the batch. */
const scaled: RowRule = (call) => {
  const x = call.data(0);
  for (const index of [1, 2]) {
    const scale = call.fixed(index);
    if (!scale || x.kind !== 'rows' || scale.uniform === true) continue;
    const dims = scale.shape ?? call.end('the shape of its scale is not known');
    if (dims.every((dim) => numberOf(dim) === 1)) continue;
    if (dims.length !== 1) call.end('it has a scale for each block');
    if (call.axis(call.int('axis', 1), x.shape.length) === x.axis)
      call.end('its scale differs along the batch axis');
  }
  return call.moved(x, call.shape(x));
};

/** A scale that is computed from all rows mixes them. */
const dynamic: RowRule = (call) => call.end('it computes one scale for all rows');

export const MATMUL: Operators = {
  MatMul: {
    shapes: multiplied(),
    dtypes: [...WIDE, ...UNSIGNED],
    rows: (call) => matMulRows(call, call.data(0), call.data(1)),
  },
  MatMulInteger: { shapes: multiplied(), results: ['int32'], rows: matMulInteger },
  QLinearMatMul: { rows: qLinearMatMul },
  Gemm: { shapes: gemmShape, rows: gemm },
  Einsum: { shapes: einsumShape, dtypes: WIDE, rows: einsum },
  'com.microsoft:FusedMatMul': { rows: fusedMatMul },
  'com.microsoft:FusedGemm': { shapes: gemmShape, rows: gemm },
  ...all('com.microsoft:MatMulNBits com.microsoft:MatMulBnb4', { rows: matMulNBits }),
  QuantizeLinear: {
    shapes: sameShape,
    results: [(_, [, , zero]) => zero?.dtype ?? 'uint8'],
    rows: scaled,
  },
  DequantizeLinear: { shapes: sameShape, results: ['float32'], rows: scaled },
  ...all('com.microsoft:QuantizeLinear com.microsoft:DequantizeLinear', { rows: scaled }),
  ...all('DynamicQuantizeLinear com.microsoft:DynamicQuantizeMatMul com.microsoft:DynamicQuantizeLSTM', {
    rows: dynamic,
  }),
};
