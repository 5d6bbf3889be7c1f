/**
 * Converts elementwise operations with broadcasting: those that ONNX has under some name, and those that depend on
 * their values. Those that need several ONNX operations are in formulas.ts.
 */
import { namedRules } from '../../../emit/formula.ts';
import { tensorOf } from '../../../graph/numbers.ts';
import type { Value } from '../../../graph/value.ts';
import { listAttribute } from '../graph.ts';
import { type Arithmetic, agree, formula, isFloat } from './arithmetic.ts';
import { BINARY_FORMULAS, UNARY_FORMULAS } from './formulas.ts';
import { cast, emit } from './kernels.ts';
import { floorOfRange, moveRange, rangeIsAtLeast, scalarOf } from './random.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';
import { concatenated } from './texts.ts';

/** Operations that differ only in name. */
const UNARY =
  'Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Inv:Reciprocal IsInf IsNan:IsNaN Log ' +
  'LogicalNot:Not Neg Reciprocal Rint:Round Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh';
const BINARY =
  'Div Greater GreaterEqual:GreaterOrEqual Less LessEqual:LessOrEqual LogicalAnd:And LogicalOr:Or LogicalXor:Xor ' +
  'Maximum:Max Minimum:Min Pow RealDiv:Div TruncateDiv:Div';

const WHOLE_ONLY = new Set(['Ceil', 'Floor', 'Rint', 'Round']);

function unary(op: string): Rule {
  return formula((on, [x]) => (WHOLE_ONLY.has(op) && !isFloat(x) ? x : on.one(op, [x])));
}

/** The neutral second operand: x + 0, x * 1, x / 1. */
const NEUTRAL: Readonly<Record<string, number>> = { Add: 0, Sub: 0, Mul: 1, Div: 1 };

function binary(op: string): Rule {
  return formula((on, inputs) => {
    if (inputs[0].dtype === 'string') refuse('is not supported for texts');
    const [x, y] = agree(on, inputs);
    return scalarOf(y) === (NEUTRAL[op] ?? Number.NaN) ? x : on.one(op, [x, y]);
  });
}

/** Arithmetic tracks the range of random numbers, so that a dropout that keeps everything disappears. */
function tracked(op: 'Add' | 'Sub' | 'Mul'): Rule {
  const plain = binary(op);
  return (node, inputs, g, context) => {
    const made = plain(node, inputs, g, context) as Value;
    moveRange(op, inputs, made, context.facts);
    return made;
  };
}

const add = tracked('Add');
const addNumbers: Rule = (node, inputs, g, context) => {
  if (inputs[0]?.dtype === 'string') return concatenated(g, inputs, node.name);
  return add(node, inputs, g, context);
};

/** Clip needs its bounds as scalars of x's dtype. */
function clip(on: Arithmetic, x: Value, low: Value, high: Value): Value {
  const scalar = (value: Value) => value.shape?.length === 0;
  if (scalar(low) && scalar(high)) return on.one('Clip', [x, low, high]);
  return on.one('Min', [on.one('Max', [x, low]), high]);
}

const greaterEqual = binary('GreaterOrEqual');
const floor = unary('Floor');

const bucketize: Rule = (node, [x], g) => {
  // Boundaries are float32 in TensorFlow. A float64 input is compared as it is, any other as float32.
  const boundaries = listAttribute(node, 'boundaries').floats.map(Math.fround);
  const dtype = x.dtype === 'float64' ? 'float64' : 'float32';
  const shape = Array.from({ length: x.shape?.length ?? refuse('needs an input of known rank') }, () => 1);
  const column = g.one('Unsqueeze', [cast(g, x, dtype), g.ints([shape.length])]);
  const edges = g.constant(tensorOf(dtype, [...shape, boundaries.length], boundaries), 'boundaries');
  const above = cast(g, g.one('GreaterOrEqual', [column, edges]), 'int32');
  return g.one('ReduceSum', [above, g.ints([shape.length])], { keepdims: 0 }, node.name);
};

export const ELEMENTWISE: OpTable = {
  ...takes(1, {
    ...namedRules(UNARY, unary),
    ...UNARY_FORMULAS,
    Bucketize: bucketize,
    Floor: (node, inputs, g, context) =>
      floorOfRange(inputs[0], g, context.facts) ?? floor(node, inputs, g, context),
    // These work on the last axis, which is another one in a layout pair.
    LogSoftmax: (node, [x], g) => emit(g, 'LogSoftmax', [x], { axis: -1 }, node.name),
    Softmax: (node, [x], g) => emit(g, 'Softmax', [x], { axis: -1 }, node.name),
  }),
  ...takes(2, {
    ...namedRules(BINARY, binary),
    ...BINARY_FORMULAS,
    Add: addNumbers,
    AddV2: addNumbers,
    GreaterEqual: (node, inputs, g, context) =>
      rangeIsAtLeast(inputs, g, context.facts) ?? greaterEqual(node, inputs, g, context),
    Mul: tracked('Mul'),
    Sub: tracked('Sub'),
  }),
  ...takes(3, {
    ClipByValue: formula((on, [x, low, high]) => clip(on, x, low, high)),
  }),
};
