/**
 * Operations on elements. In: tensors that broadcast. Out: the same shape.
 * Trap: whole numbers: TensorFlow's FloorDiv and FloorMod round down, its Mod, TruncateDiv and Div cut toward zero, and
 * ONNX's Div cuts too.
 */
import type { DType } from '../../../lib/contract/tensor.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { tensorOf } from '../../graph/numbers.ts';
import type { Attributes, Value } from '../../graph/value.ts';
import { flagAttribute, floatAttribute, listAttribute, type TfNode, typeAttribute } from '../graph.ts';
import { cast, emit } from './kernels.ts';
import { floorOfRange, moveRange, rangeIsAtLeast, scalarOf } from './random.ts';
import { type Context, type Operands, type OpTable, type Rule, refuse, takes } from './rule.ts';

/** The same operation under another name. */
const UNARY: Readonly<Record<string, string>> = {
  Abs: 'Abs',
  Acos: 'Acos',
  Acosh: 'Acosh',
  Asin: 'Asin',
  Asinh: 'Asinh',
  Atan: 'Atan',
  Atanh: 'Atanh',
  Ceil: 'Ceil',
  Cos: 'Cos',
  Cosh: 'Cosh',
  Elu: 'Elu',
  Erf: 'Erf',
  Exp: 'Exp',
  Inv: 'Reciprocal',
  IsInf: 'IsInf',
  IsNan: 'IsNaN',
  Log: 'Log',
  LogicalNot: 'Not',
  Neg: 'Neg',
  Reciprocal: 'Reciprocal',
  Rint: 'Round',
  Round: 'Round',
  Selu: 'Selu',
  Sigmoid: 'Sigmoid',
  Sign: 'Sign',
  Sin: 'Sin',
  Sinh: 'Sinh',
  Softplus: 'Softplus',
  Softsign: 'Softsign',
  Sqrt: 'Sqrt',
  Tan: 'Tan',
  Tanh: 'Tanh',
};

const BINARY: Readonly<Record<string, string>> = {
  Div: 'Div',
  Greater: 'Greater',
  GreaterEqual: 'GreaterOrEqual',
  Less: 'Less',
  LessEqual: 'LessOrEqual',
  LogicalAnd: 'And',
  LogicalOr: 'Or',
  LogicalXor: 'Xor',
  Maximum: 'Max',
  Minimum: 'Min',
  Pow: 'Pow',
  RealDiv: 'Div',
  TruncateDiv: 'Div',
};

const WHOLE_ONLY = new Set(['Ceil', 'Floor', 'Rint', 'Round']);

function isFloat(value: Value): boolean {
  return value.dtype.startsWith('float');
}

/** The operations of one rule, applied on the twins where there are some. */
export class Arithmetic {
  readonly builder: GraphBuilder;
  readonly #context: Context;
  readonly #hint: string;

  constructor(g: GraphBuilder, context: Context, hint: string) {
    this.builder = g;
    this.#context = context;
    this.#hint = hint;
  }

  do(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes = {}): Value {
    return this.#context.layouts.elementwise(this.builder, op, inputs, attributes, this.#hint);
  }

  /** A number of the dtype of `like`. */
  number(like: Value, value: number): Value {
    return this.builder.scalar(like.dtype, value);
  }

  /** Cast is no operation of one dtype, so it goes through the twins by hand. */
  cast(value: Value, dtype: DType): Value {
    const { layouts } = this.#context;
    const twin = layouts.twin(value);
    return twin && value.dtype !== dtype
      ? layouts.last(this.builder, cast(this.builder, twin, dtype), this.#hint)
      : cast(this.builder, value, dtype);
  }
}

type Compute = (on: Arithmetic, inputs: Operands, node: TfNode) => Value;

/** A rule made of several operations. */
function formula(compute: Compute): Rule {
  return (node, inputs, g, context) => compute(new Arithmetic(g, context, node.name), inputs, node);
}

function unary(op: string): Rule {
  return formula((on, [x]) => (WHOLE_ONLY.has(op) && !isFloat(x) ? x : on.do(op, [x])));
}

export function agree(on: Arithmetic, [x, y]: Operands): [Value, Value] {
  if (x.dtype === y.dtype) return [x, y];
  // half and float32 meet in files that were made smaller; both are float32 here, and float64 would have won.
  return x.dtype === 'float64' || y.dtype === 'float64'
    ? [on.cast(x, 'float64'), on.cast(y, 'float64')]
    : [x, on.cast(y, x.dtype)];
}

/** x + 0, x * 1, x / 1. */
const NEUTRAL: Readonly<Record<string, number>> = { Add: 0, Sub: 0, Mul: 1, Div: 1 };

function binary(op: string): Rule {
  return formula((on, inputs) => {
    if (inputs[0].dtype === 'string') refuse('is not supported for texts');
    const [x, y] = agree(on, inputs);
    return scalarOf(y) === (NEUTRAL[op] ?? Number.NaN) ? x : on.do(op, [x, y]);
  });
}

/** Arithmetic keeps track of random numbers, so that a dropout that keeps everything disappears. */
function tracked(op: 'Add' | 'Sub' | 'Mul'): Rule {
  const plain = binary(op);
  return (node, inputs, g, context) => {
    const made = plain(node, inputs, g, context) as Value;
    moveRange(op, inputs, made, context.facts);
    return made;
  };
}

function where(on: Arithmetic, condition: Value, x: Value, y: Value): Value {
  return on.do('Where', [condition, x, y]);
}

const floorDiv: Compute = (on, inputs) => {
  const [x, y] = agree(on, inputs);
  if (isFloat(x)) return on.do('Floor', [on.do('Div', [x, y])]);
  return on.do('Div', exactly(on, x, y));
};

/** Without its FloorMod, x divides without a rest, and cutting and rounding down are one. */
function exactly(on: Arithmetic, x: Value, y: Value): [Value, Value] {
  if (x.dtype.startsWith('u') || areNatural(x, y)) return [x, y];
  return [on.do('Sub', [x, on.do('Mod', [x, y])]), y];
}

/** Sizes are never negative: a shape divided by a positive constant needs no care. */
function areNatural(x: Value, y: Value): boolean {
  const natural = (value: Value) =>
    value.elements?.every((element) => typeof element === 'string' || (element !== undefined && element > 0));
  return natural(x) === true && natural(y) === true;
}

const floorMod: Compute = (on, inputs) => {
  const [x, y] = agree(on, inputs);
  if (!isFloat(x)) return on.do('Mod', [x, y]);
  const rest = on.do('Mod', [x, y], { fmod: 1 });
  const zero = on.number(x, 0);
  const sameSign = on.do('Equal', [on.do('Less', [x, zero]), on.do('Less', [y, zero])]);
  return where(on, sameSign, rest, on.do('Mod', [on.do('Add', [rest, y]), y], { fmod: 1 }));
};

/** f(x, y), but 0 where `guard` is 0. */
function unlessZero(guard: 0 | 1, compute: (on: Arithmetic, x: Value, y: Value) => Value): Compute {
  return (on, inputs) => {
    const [x, y] = agree(on, inputs);
    const zero = on.number(x, 0);
    const made = compute(on, x, y);
    return where(on, on.do('Equal', [guard === 0 ? x : y, zero]), zero, made);
  };
}

const equal: Compute = (on, inputs) => {
  if (inputs[0].dtype === 'string') refuse('is not supported for texts');
  return on.do('Equal', agree(on, inputs));
};

const add = tracked('Add');
const addNumbers: Rule = (node, inputs, g, context) => {
  if (inputs[0]?.dtype === 'string') refuse('joins texts, which ONNX cannot before opset 20');
  return add(node, inputs, g, context);
};

const relu: Compute = (on, [x]) => (isFloat(x) ? on.do('Relu', [x]) : on.do('Max', [x, on.number(x, 0)]));

/** Clip takes its bounds as scalars of x's dtype. */
export function clip(on: Arithmetic, x: Value, low: Value, high: Value): Value {
  const scalar = (value: Value) => value.shape?.length === 0;
  if (scalar(low) && scalar(high)) return on.do('Clip', [x, low, high]);
  return on.do('Min', [on.do('Max', [x, low]), high]);
}

const greaterEqual = binary('GreaterOrEqual');
const floor = unary('Floor');

const castRule: Compute = (on, [x], node) => {
  const to = typeAttribute(node, 'DstT');
  if (typeof to !== 'string') refuse(`to ${to.unsupported} is not supported`);
  if (x.dtype === 'string' || to === 'string') refuse(`from ${x.dtype} to ${to} is not supported`);
  return on.cast(x, to);
};

const addN: Compute = (on, inputs) =>
  inputs.slice(1).reduce<Value>((sum, next) => on.do('Add', [sum, next]), inputs[0]);

const bucketize: Rule = (node, [x], g) => {
  // They are 32 bits wide in TensorFlow; a number of 64 bits is compared as it is, any other as one of 32.
  const boundaries = listAttribute(node, 'boundaries').floats.map(Math.fround);
  const dtype = x.dtype === 'float64' ? 'float64' : 'float32';
  const shape = Array.from({ length: x.shape?.length ?? refuse('needs an input of known rank') }, () => 1);
  const column = g.one('Unsqueeze', [cast(g, x, dtype), g.ints([shape.length])]);
  const edges = g.constant(tensorOf(dtype, [...shape, boundaries.length], boundaries), 'boundaries');
  const above = cast(g, g.one('GreaterOrEqual', [column, edges]), 'int32');
  return g.one('ReduceSum', [above, g.ints([shape.length])], { keepdims: 0 }, node.name);
};

/** log(1 + x). The sum loses what x has behind the digits of 1; x / (sum - 1) says how much that was. */
function log1p(on: Arithmetic, x: Value): Value {
  const one = on.number(x, 1);
  const sum = on.do('Add', [x, one]);
  const log = on.do('Log', [sum]);
  const near = on.do('Mul', [log, on.do('Div', [x, on.do('Sub', [sum, one])])]);
  const small = where(on, on.do('Equal', [sum, one]), x, near);
  return where(on, on.do('Greater', [x, one]), log, small);
}

/** exp(x) - 1, in the same way. */
const expm1: Compute = (on, [x]) => {
  const one = on.number(x, 1);
  const power = on.do('Exp', [x]);
  const rest = on.do('Sub', [power, one]);
  const near = on.do('Mul', [rest, on.do('Div', [x, on.do('Log', [power])])]);
  const small = where(on, on.do('Equal', [power, one]), x, near);
  return where(on, on.do('Greater', [on.do('Abs', [x]), one]), rest, small);
};

/** Names of one table as rules. */
function named(names: Readonly<Record<string, string>>, rule: (op: string) => Rule): OpTable {
  return Object.fromEntries(Object.entries(names).map(([op, onnx]) => [op, rule(onnx)]));
}

function formulas(table: Readonly<Record<string, Compute>>): OpTable {
  return Object.fromEntries(Object.entries(table).map(([op, compute]) => [op, formula(compute)]));
}

const ONE_INPUT = formulas({
  Cast: castRule,
  Erfc: (on, [x]) => on.do('Sub', [on.number(x, 1), on.do('Erf', [x])]),
  Expm1: expm1,
  IsFinite: (on, [x]) => on.do('Not', [on.do('Or', [on.do('IsNaN', [x]), on.do('IsInf', [x])])]),
  LeakyRelu: (on, [x], node) =>
    on.do('LeakyRelu', [x], { alpha: { float: floatAttribute(node, 'alpha', 0.2) } }),
  Log1p: (on, [x]) => log1p(on, x),
  Relu: relu,
  Relu6: (on, [x]) => on.do('Clip', [x, on.number(x, 0), on.number(x, 6)]),
  Rsqrt: (on, [x]) => on.do('Reciprocal', [on.do('Sqrt', [x])]),
  Square: (on, [x]) => on.do('Mul', [x, x]),
  Gelu: (on, [x], node) => gelu(on, x, flagAttribute(node, 'approximate', true)),
  Swish: (on, [x]) => on.do('Mul', [x, on.do('Sigmoid', [x])]),
  AddN: addN,
  AccumulateNV2: addN,
});

function gelu(on: Arithmetic, x: Value, approximate: boolean): Value {
  const number = (value: number) => on.number(x, value);
  const half = on.do('Mul', [x, number(0.5)]);
  if (!approximate) {
    const erf = on.do('Erf', [on.do('Mul', [x, number(Math.SQRT1_2)])]);
    return on.do('Mul', [half, on.do('Add', [erf, number(1)])]);
  }
  const cubed = on.do('Mul', [on.do('Mul', [x, x]), x]);
  const inner = on.do('Mul', [
    on.do('Add', [x, on.do('Mul', [cubed, number(0.044715)])]),
    number(Math.sqrt(2 / Math.PI)),
  ]);
  return on.do('Mul', [half, on.do('Add', [on.do('Tanh', [inner]), number(1)])]);
}

const TWO_INPUTS = formulas({
  ApproximateEqual: (on, inputs, node) => {
    const apart = on.do('Abs', [on.do('Sub', agree(on, inputs))]);
    return on.do('Less', [apart, on.number(apart, floatAttribute(node, 'tolerance', 1e-5))]);
  },
  Atan2: (on, inputs) => atan2(on, inputs),
  DivNoNan: unlessZero(1, (on, x, y) => on.do('Div', [x, y])),
  Equal: equal,
  FloorDiv: floorDiv,
  FloorMod: floorMod,
  Mod: (on, inputs) => on.do('Mod', agree(on, inputs), { fmod: 1 }),
  MulNoNan: unlessZero(1, (on, x, y) => on.do('Mul', [x, y])),
  NotEqual: (on, inputs, node) => on.do('Not', [equal(on, inputs, node)]),
  SquaredDifference: (on, inputs) => {
    const apart = on.do('Sub', agree(on, inputs));
    return on.do('Mul', [apart, apart]);
  },
  TruncateMod: (on, inputs) => on.do('Mod', agree(on, inputs), { fmod: 1 }),
  Xdivy: unlessZero(0, (on, x, y) => on.do('Div', [x, y])),
  Xlogy: unlessZero(0, (on, x, y) => on.do('Mul', [x, on.do('Log', [y])])),
  Xlog1py: unlessZero(0, (on, x, y) => on.do('Mul', [x, log1p(on, y)])),
});

/** The quadrant by the signs; on the axes the quotient is infinite or 0 and atan is still right. */
function atan2(on: Arithmetic, inputs: Operands): Value {
  const [y, x] = agree(on, inputs);
  const zero = on.number(x, 0);
  const turn = where(on, on.do('Less', [y, zero]), on.number(x, -Math.PI), on.number(x, Math.PI));
  const plain = on.do('Atan', [on.do('Div', [y, x])]);
  const both = on.do('And', [on.do('Equal', [x, zero]), on.do('Equal', [y, zero])]);
  const angle = where(on, on.do('Less', [x, zero]), on.do('Add', [plain, turn]), plain);
  return where(on, both, zero, angle);
}

export const ELEMENTWISE: OpTable = {
  ...takes(1, {
    ...named(UNARY, unary),
    ...ONE_INPUT,
    Bucketize: bucketize,
    Floor: (node, inputs, g, context) =>
      floorOfRange(inputs[0], g, context.facts) ?? floor(node, inputs, g, context),
    // Over the last axis, which is another one in a twin.
    LogSoftmax: (node, [x], g) => emit(g, 'LogSoftmax', [x], { axis: -1 }, node.name),
    Softmax: (node, [x], g) => emit(g, 'Softmax', [x], { axis: -1 }, node.name),
  }),
  ...takes(2, {
    ...named(BINARY, binary),
    ...TWO_INPUTS,
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
