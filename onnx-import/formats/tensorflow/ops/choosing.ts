/**
 * Converts selection by conditions, set operations and cumulative products. The old Select takes one condition per
 * row of a larger tensor, which is not broadcasting.
 */
import { unsqueeze } from '../../../emit/gather.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumber, constantNumbers } from '../../../graph/numbers.ts';
import { axisOf, rank } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, type TfNode, typeAttribute } from '../graph.ts';
import { Arithmetic } from './arithmetic.ts';
import { sizeOf, transpose } from './dims.ts';
import { cast, emit, emitAll } from './kernels.ts';
import { countTo } from './matrix.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

const select: Rule = (node, [condition, x, y], g, context) => {
  const rows = rank(condition) === 1 && rank(x) > 1;
  const tail = Array.from({ length: (x.shape?.length ?? 1) - 1 }, (_, i) => i + 1);
  const lifted = rows ? unsqueeze(g, condition, tail) : condition;
  return new Arithmetic(g, context, node.name).one('Where', [lifted, x, cast(g, y, x.dtype)]);
};

const selectV2: Rule = (node, [condition, x, y], g, context) =>
  new Arithmetic(g, context, node.name).one('Where', [condition, x, cast(g, y, x.dtype)]);

/** The indices of nonzero elements: [count, rank], int64. */
const where: Rule = (node, [x], g) => {
  const flags = cast(g, x, 'bool');
  return transpose(g, g.one('NonZero', [flags]), [1, 0], node.name);
};

function unique(node: TfNode, x: Value, g: GraphBuilder, counted: boolean): Value[] {
  const index = typeAttribute(node, 'out_idx', 'int32') === 'int64' ? 'int64' : 'int32';
  const [values, , inverse, counts] = emitAll(
    g,
    'Unique',
    [x],
    { sorted: 0 },
    { outputs: 4, hint: node.name },
  ) as [Value, Value, Value, Value];
  const places = cast(g, inverse, index);
  return counted ? [values, places, cast(g, counts, index)] : [values, places];
}

const uniqueV2: Rule = (node, [x, axes], g) => {
  const listed = constantNumbers(axes, 'axis');
  if (rank(x) !== 1 || listed.some((axis) => axis !== 0)) refuse('is supported for lists only');
  return unique(node, x, g, false);
};

/** The elements of the first list that are not in the second, and their positions. */
const setDifference: Rule = (node, [x, y], g) => {
  const index = typeAttribute(node, 'out_idx', 'int32') === 'int64' ? 'int64' : 'int32';
  if (x.constant && y.constant) {
    const [own, other] = [constantNumbers(x, 'list'), new Set(constantNumbers(y, 'list'))];
    const places = own.flatMap((value, i) => (other.has(value) ? [] : [i]));
    const kept = g.ints(places.map((i) => own[i] as number));
    return [cast(g, kept, x.dtype), cast(g, g.ints(places), index)];
  }
  const same = cast(g, emit(g, 'Equal', [unsqueeze(g, x, [1]), unsqueeze(g, y, [0])]), 'int32');
  const found = g.one('ReduceSum', [same, g.ints([1])], { keepdims: 0 });
  const missing = g.one('Equal', [found, g.scalar('int32', 0)]);
  const places = g.one('Squeeze', [g.one('NonZero', [missing]), g.ints([0])]);
  return [g.one('Compress', [x, missing], { axis: 0 }, node.name), cast(g, places, index)];
};

/** ONNX has no cumulative product: row i of a square matrix takes the factors 0..i and 1 for the others. */
const cumulativeProduct: Rule = (node, [x, axisValue], g) => {
  const size = rank(x);
  const axis = axisOf(constantNumber(axisValue, 'axis'), size);
  const numbers = countTo(g, sizeOf(g, x, axis));
  const [result, factor] = [unsqueeze(g, numbers, [1]), unsqueeze(g, numbers, [0])];
  const exclusive = flagAttribute(node, 'exclusive', false);
  const reverse = flagAttribute(node, 'reverse', false);
  const [a, b] = reverse ? [result, factor] : [factor, result];
  const taken = g.one(exclusive ? 'Less' : 'LessOrEqual', [a, b]);
  // [..., result, factor, ...]
  const mask = unsqueeze(
    g,
    taken,
    Array.from({ length: size - axis - 1 }, (_, i) => i + 2),
  );
  const factors = emit(g, 'Where', [mask, unsqueeze(g, x, [axis]), g.scalar(x.dtype, 1)]);
  return emit(g, 'ReduceProd', [factors], { axes: [axis + 1], keepdims: 0 }, node.name);
};

/** Counts the elements of each sorted row that come before a value. */
function search(op: 'Less' | 'LessOrEqual'): Rule {
  return (node, [sorted, values], g) => {
    const before = emit(g, op, [unsqueeze(g, sorted, [1]), unsqueeze(g, values, [2])]);
    const count = g.one('ReduceSum', [cast(g, before, 'int64'), g.ints([2])], { keepdims: 0 }, node.name);
    return cast(g, count, typeAttribute(node, 'out_type', 'int32') === 'int64' ? 'int64' : 'int32');
  };
}

export const CHOOSING: OpTable = {
  ...takes(1, {
    Unique: (node, [x], g) => unique(node, x, g, false),
    UniqueWithCounts: (node, [x], g) => unique(node, x, g, true),
    Where: where,
  }),
  ...takes(2, {
    Cumprod: cumulativeProduct,
    ListDiff: setDifference,
    LowerBound: search('Less'),
    UniqueV2: uniqueV2,
    UpperBound: search('LessOrEqual'),
  }),
  ...takes(3, { Select: select, SelectV2: selectV2 }),
};
