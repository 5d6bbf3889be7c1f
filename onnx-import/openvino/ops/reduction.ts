/** Reductions, sorting, counting and matrix products. */
import { badModel } from '../../../lib/contract/errors.ts';
import { reduce } from '../../emit/reduce.ts';
import { BATCH } from '../../graph/batch.ts';
import { constantNumber, tensorOf } from '../../graph/numbers.ts';
import { axisOf, known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { cast, int64, type OpTable, type OvNode, type Rule } from '../node.ts';
import { dtypeNamed } from '../weights.ts';
import { isFloat, widened } from './elementwise.ts';
import { axesOf } from './shaping.ts';

const reduction =
  (op: string): Rule =>
  (node) => {
    const x = node.input(0);
    const axes = axesOf(node, 1, known(x).length);
    const isKept = node.flag('keep_dims', false);
    const wide = widened(node, x);
    if (axes.length === 0) {
      if (op !== 'ReduceL1' && op !== 'ReduceL2') return node.one('Identity', [x]);
      return cast(node, node.one('Abs', [wide]), x.dtype);
    }
    if (axes.some((axis) => known(x)[axis] === BATCH)) node.bindBatch();
    if (op === 'ReduceMean' && !isFloat(x))
      throw badModel(`has a mean of ${x.dtype}, which is not supported`);
    return cast(node, reduce(node, op, wide, axes, isKept), x.dtype);
  };

/** The least is a truth value when all are one, the greatest when any is. */
const reduceLogical =
  (op: string): Rule =>
  (node) => {
    const x = cast(node, cast(node, node.input(0), 'bool'), 'int32');
    const axes = axesOf(node, 1, known(x).length);
    if (axes.some((axis) => known(x)[axis] === BATCH)) node.bindBatch();
    return cast(node, reduce(node, op, x, axes, node.flag('keep_dims', false)), 'bool');
  };

const topK: Rule = (node) => {
  const x = node.input(0);
  const axis = axisOf(node.whole('axis'), known(x).length);
  const mode = node.choice('mode', ['max', 'min']);
  const sort = node.choice('sort', ['value', 'index', 'none'], 'value');
  node.ignore('stable');
  if (known(x)[axis] === BATCH) node.bindBatch();
  const count = node.g.one('Reshape', [int64(node, node.input(1)), node.g.ints([1])]);
  const largest = mode === 'max' ? 1 : 0;
  const pair = (op: 'TopK', inputs: readonly Value[], is: number) =>
    node.g.add(op, inputs, { axis, largest: is, sorted: 1 }, { outputs: 2, hint: node.hint }) as [
      Value,
      Value,
    ];
  let [values, places] = pair('TopK', [widened(node, x), count], largest);
  if (sort === 'index') {
    const [ordered] = pair('TopK', [places, count], 0);
    places = ordered;
    values = node.g.one('GatherElements', [widened(node, x), places], { axis });
  }
  const type = dtypeNamed(node.text('index_element_type', 'i32'));
  return [cast(node, values, x.dtype), cast(node, places, type)];
};

const oneHot: Rule = (node) => {
  const [indices, depth] = [node.input(0), node.input(1)];
  const [on, off] = [node.input(2), node.input(3)];
  node.choice('negative_indices_mode', ['ignore_negative'], 'ignore_negative');
  const size = constantNumber(depth, 'depth');
  const rank = known(indices).length + 1;
  const axis = axisOf(node.whole('axis'), rank);
  // ONNX counts negative indices from the end, OpenVINO has no place for them.
  const { g } = node;
  const wide = int64(node, indices);
  const places = g.constant(
    tensorOf(
      'int64',
      [size, ...new Array<number>(rank - 1 - axis).fill(1)],
      Array.from({ length: size }, (_, i) => i),
    ),
  );
  const same = g.one('Equal', [g.one('Unsqueeze', [wide, g.ints([axis])]), places]);
  return node.one('Where', [same, on, off]);
};

const nonZero: Rule = (node) => {
  const x = node.input();
  const made = node.one('NonZero', [x.dtype === 'bool' ? x : widened(node, x)]);
  return cast(node, made, dtypeNamed(node.text('output_type', 'i64')));
};

const cumSum: Rule = (node) => {
  const x = node.input(0);
  const axis = node.optional(1) ? constantNumber(node.input(1), 'axis') : 0;
  if (known(x)[axisOf(axis, known(x).length)] === BATCH) node.bindBatch();
  const attributes = {
    exclusive: node.flag('exclusive', false) ? 1 : 0,
    reverse: node.flag('reverse', false) ? 1 : 0,
  };
  return cast(
    node,
    node.one('CumSum', [widened(node, x), node.g.scalar('int64', axis)], attributes),
    x.dtype,
  );
};

const matMul: Rule = (node) => {
  const [a, b] = [node.input(0), node.input(1)];
  return matrixProduct(node, a, b, node.flag('transpose_a', false), node.flag('transpose_b', false));
};

/** Vectors are not transposed. */
export function matrixProduct(node: OvNode, a: Value, b: Value, turnsA: boolean, turnsB: boolean): Value {
  const turned = (x: Value, isTurned: boolean) => {
    const rank = known(x).length;
    if (!isTurned || rank < 2) return x;
    const axes = Array.from({ length: rank }, (_, i) => i);
    return node.g.one('Transpose', [x], { perm: [...axes.slice(0, -2), rank - 1, rank - 2] });
  };
  if (!isFloat(a) && a.dtype !== 'int32' && a.dtype !== 'int64')
    throw badModel(`multiplies matrices of ${a.dtype}`);
  // Gemm turns a matrix of weights without a copy of it.
  if (a.dtype === 'float32' && known(a).length === 2 && known(b).length === 2)
    return node.one('Gemm', [a, b], { transA: turnsA ? 1 : 0, transB: turnsB ? 1 : 0 });
  const [left, right] = [turned(a, turnsA), turned(b, turnsB)];
  if (known(left).length > 1 && known(right).length > 1) return node.one('MatMul', [left, right]);
  // The shape of a product with a vector is not inferred, so vectors are matrices on the way.
  const [isRow, isColumn] = [known(left).length === 1, known(right).length === 1];
  const { g } = node;
  const product = g.one('MatMul', [
    isRow ? g.one('Unsqueeze', [left, g.ints([0])]) : left,
    isColumn ? g.one('Unsqueeze', [right, g.ints([1])]) : right,
  ]);
  return node.one('Squeeze', [product, g.ints([...(isRow ? [-2] : []), ...(isColumn ? [-1] : [])])]);
}

const bucketize: Rule = (node) => {
  const [x, bounds] = [node.input(0), node.input(1)];
  const right = node.flag('with_right_bound', true);
  const type = dtypeNamed(node.text('output_type', 'i64'));
  const { g } = node;
  if (known(bounds)[0] === 0) return cast(node, g.one('Mul', [x, scalarLike(node, x, 0)]), type);
  const wide = g.one('Unsqueeze', [cast(node, x, 'float32'), g.ints([-1])]);
  const limits = cast(node, bounds, 'float32');
  const above = g.one(right ? 'Greater' : 'GreaterOrEqual', [wide, limits]);
  return cast(node, node.one('ReduceSum', [cast(node, above, 'int32'), g.ints([-1])], { keepdims: 0 }), type);
};

function scalarLike(node: OvNode, x: Value, value: number): Value {
  return node.g.constant(tensorOf(x.dtype, [], [value]));
}

export const REDUCTIONS: OpTable = {
  Bucketize: bucketize,
  CumSum: cumSum,
  Einsum: (node) => node.one('Einsum', node.all(), { equation: node.text('equation') }),
  MatMul: matMul,
  NonZero: nonZero,
  OneHot: oneHot,
  ReduceL1: reduction('ReduceL1'),
  ReduceL2: reduction('ReduceL2'),
  ReduceLogicalAnd: reduceLogical('ReduceMin'),
  ReduceLogicalOr: reduceLogical('ReduceMax'),
  ReduceMax: reduction('ReduceMax'),
  ReduceMean: reduction('ReduceMean'),
  ReduceMin: reduction('ReduceMin'),
  ReduceProd: reduction('ReduceProd'),
  ReduceSum: reduction('ReduceSum'),
  TopK: topK,
};
