/**
 * Converts matrix products, bands and diagonals. `adj_x` of a constant is folded into it; for a computed matrix it is
 * a Transpose, which onnxruntime fuses.
 */
import { unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber } from '../../graph/numbers.ts';
import { fixed, rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, type TfNode, textAttribute, typeAttribute } from '../graph.ts';
import { reshape, shapeList, sizeOf, sizesOf, transpose } from './dims.ts';
import { cast, emit, int64 } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

function turned(g: GraphBuilder, x: Value, flag: boolean, plain: boolean): Value {
  if (!flag) return x;
  const size = plain ? 2 : rank(x);
  const perm = [...Array.from({ length: size - 2 }, (_, i) => i), size - 1, size - 2];
  return transpose(g, x, perm, x.name);
}

function matMul(first: string, second: string): Rule {
  return (node, [x, y], g) => {
    const wide = x.dtype === y.dtype ? y : cast(g, y, x.dtype);
    const out = node.attributes.Tout ? typeAttribute(node, 'Tout') : x.dtype;
    if (typeof out !== 'string') refuse(`gives ${out.unsupported}, which is not supported`);
    // Integer inputs are multiplied in the requested output type.
    const [a, b] = [cast(g, x, out), cast(g, wide, out)];
    const inputs = [
      turned(g, a, flagAttribute(node, first, false), first === 'transpose_a'),
      turned(g, b, flagAttribute(node, second, false), first === 'transpose_a'),
    ];
    return emit(g, 'MatMul', inputs, {}, node.name);
  };
}

export const plainMatMul = matMul('transpose_a', 'transpose_b');
const batched = matMul('adj_x', 'adj_y');

/** The first matrix is sparse (indices, values and shape), the second dense. */
const sparseMatMul: Rule = (node, [indices, values, shape, dense], g) => {
  const zeros = g.one('Expand', [g.scalar(values.dtype, 0), int64(g, shape)]);
  const first = g.one('ScatterND', [zeros, int64(g, indices), values], { reduction: 'add' });
  const a = flagAttribute(node, 'adjoint_a', false) ? transpose(g, first, [1, 0]) : first;
  const b = flagAttribute(node, 'adjoint_b', false) ? transpose(g, dense, [1, 0]) : dense;
  return emit(g, 'MatMul', [a, b], {}, node.name);
};

const einsum: Rule = (node, inputs, g) => {
  const equation = textAttribute(node, 'equation').replaceAll(' ', '');
  return emit(g, 'Einsum', [...inputs], { equation }, node.name);
};

/** The int64 numbers 0 to size - 1; the size may be free. */
export function countTo(g: GraphBuilder, size: number | Value): Value {
  const end = typeof size === 'number' ? g.scalar('int64', size) : g.one('Squeeze', [size, g.ints([0])]);
  return g.one('Range', [g.scalar('int64', 0), end, g.scalar('int64', 1)]);
}

/** A [rows, columns] mask that is true on the diagonal. */
function diagonal(g: GraphBuilder, rows: number | Value, columns: number | Value): Value {
  return g.one('Equal', [unsqueeze(g, countTo(g, rows), [1]), countTo(g, columns)]);
}

function plainDiagonal(node: TfNode, k: Value | undefined): void {
  if (k && constantNumber(k, 'diagonal') !== 0) refuse(`needs the main diagonal (node "${node.name}")`);
}

const matrixDiag: Rule = (node, inputs, g) => {
  const [x] = inputs;
  // Newer versions add the diagonal's offset, the numbers of rows and columns (-1: as many as elements) and the
  // padding value.
  const more: readonly (Value | undefined)[] = inputs;
  const [, k, rows, columns, beside] = more;
  plainDiagonal(node, k);
  const size = sizeOf(g, x, rank(x) - 1);
  for (const wanted of [rows, columns]) {
    const number = wanted ? constantNumber(wanted, 'number of rows and columns') : -1;
    if (number !== -1 && number !== size) refuse(`needs square matrices, asks for a side of ${number}`);
  }
  return emit(
    g,
    'Where',
    [diagonal(g, size, size), unsqueeze(g, x, [-1]), beside ?? g.scalar(x.dtype, 0)],
    {},
    node.name,
  );
};

const matrixSetDiag: Rule = (node, inputs, g) => {
  const [x, values] = inputs;
  plainDiagonal(node, inputs.length > 2 ? inputs[2] : undefined);
  const size = rank(x);
  const [rows, columns] = [fixed(x, size - 2), fixed(x, size - 1)];
  if (rows !== columns) refuse(`needs square matrices, got ${rows} x ${columns}`);
  return emit(g, 'Where', [diagonal(g, rows, columns), unsqueeze(g, values, [-1]), x], {}, node.name);
};

const matrixDiagPart: Rule = (node, inputs, g) => {
  const [x] = inputs;
  plainDiagonal(node, inputs.length > 1 ? inputs[1] : undefined);
  const size = rank(x);
  const [rows, columns] = [fixed(x, size - 2), fixed(x, size - 1)];
  const flat = reshape(g, x, [...sizesOf(g, x).slice(0, -2), rows * columns]);
  const places = Array.from({ length: Math.min(rows, columns) }, (_, i) => i * (columns + 1));
  return g.one('Gather', [flat, g.ints(places)], { axis: size - 2 }, node.name);
};

/** A square matrix with these elements on its diagonal. */
const diag: Rule = (node, [x], g) => {
  if (rank(x) !== 1) refuse(`needs a list, got ${rank(x)} dimensions`);
  const size = sizeOf(g, x, 0);
  return emit(
    g,
    'Where',
    [diagonal(g, size, size), unsqueeze(g, x, [1]), g.scalar(x.dtype, 0)],
    {},
    node.name,
  );
};

const bandPart: Rule = (node, [x, lower, upper], g) => {
  const [below, above] = [constantNumber(lower, 'lower band'), constantNumber(upper, 'upper band')];
  const up = above < 0 ? x : emit(g, 'Trilu', [x, g.scalar('int64', above)], { upper: 0 }, node.name);
  return below < 0 ? up : emit(g, 'Trilu', [up, g.scalar('int64', -below)], { upper: 1 }, node.name);
};

const broadcastTo: Rule = (node, [x, shape], g) =>
  g.one('Expand', [x, cast(g, shape, 'int64')], {}, node.name);

/** The larger size of each axis. A shorter list is filled up with 1. */
const broadcastArgs: Rule = (_node, [a, b], g) => {
  const [m, n] = [fixed(a, 0), fixed(b, 0)];
  const filled = (list: Value, own: number, size: number) =>
    own === size ? list : g.one('Concat', [ones(g, list, size - own), list], { axis: 0 });
  const size = Math.max(m, n);
  return emit(g, 'Max', [filled(a, m, size), filled(b, n, size)]);
};

function ones(g: GraphBuilder, like: Value, count: number): Value {
  return cast(g, g.ints(Array.from({ length: count }, () => 1)), like.dtype);
}

/** Scalar shapes are handled separately so that they stay scalar. */
const fill: Rule = (node, [dims, value], g) => {
  const known = dims.elements?.every((dim) => typeof dim === 'number');
  if (known && dims.elements?.length === 0) return value;
  const shape = known ? shapeList(g, dims.elements) : cast(g, dims, 'int64');
  return g.one('Expand', [value, shape], {}, node.name);
};

export const MATRIX: OpTable = {
  ...takes(1, {
    Diag: diag,
    Einsum: einsum,
    MatrixDiag: matrixDiag,
    MatrixDiagPart: matrixDiagPart,
    MatrixDiagPartV2: matrixDiagPart,
    MatrixDiagPartV3: matrixDiagPart,
    MatrixDiagV2: matrixDiag,
    MatrixDiagV3: matrixDiag,
  }),
  ...takes(2, {
    BatchMatMul: batched,
    BatchMatMulV2: batched,
    BatchMatMulV3: batched,
    BroadcastArgs: broadcastArgs,
    BroadcastTo: broadcastTo,
    Fill: fill,
    MatMul: plainMatMul,
    SparseMatMul: matMul('transpose_a', 'transpose_b'),
    MatrixSetDiag: matrixSetDiag,
    MatrixSetDiagV2: matrixSetDiag,
    MatrixSetDiagV3: matrixSetDiag,
  }),
  ...takes(3, { MatrixBandPart: bandPart }),
  ...takes(4, { SparseTensorDenseMatMul: sparseMatMul }),
};
