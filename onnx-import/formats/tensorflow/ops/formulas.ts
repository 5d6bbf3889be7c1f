/**
 * Converts elementwise operations that need several ONNX operations. TensorFlow's FloorDiv and FloorMod round down;
 * Mod, TruncateMod and Div round toward zero, and so does ONNX's Div.
 */
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, floatAttribute, typeAttribute } from '../graph.ts';
import { type Arithmetic, agree, type Compute, formula, isFloat, where } from './arithmetic.ts';
import { refuse } from './refuse.ts';
import type { Operands, OpTable } from './rule.ts';

const floorDiv: Compute = (on, inputs) => {
  const [x, y] = agree(on, inputs);
  if (isFloat(x)) return on.do('Floor', [on.do('Div', [x, y])]);
  return on.do('Div', exactly(on, x, y));
};

/** Minus its FloorMod, x divides without remainder, so rounding down and toward zero are the same. */
function exactly(on: Arithmetic, x: Value, y: Value): [Value, Value] {
  if (x.dtype.startsWith('u') || areNatural(x, y)) return [x, y];
  return [on.do('Sub', [x, on.do('Mod', [x, y])]), y];
}

/** Sizes are never negative, so a shape divided by a positive constant needs no correction. */
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

/** Computes f(x, y), but 0 where `guard` is 0. */
function unlessZero(guard: 0 | 1, compute: (on: Arithmetic, x: Value, y: Value) => Value): Compute {
  return (on, inputs) => {
    const [x, y] = agree(on, inputs);
    const zero = on.number(x, 0);
    const made = compute(on, x, y);
    return where(on, on.do('Equal', [guard === 0 ? x : y, zero]), zero, made);
  };
}

const equal: Compute = (on, inputs) => on.do('Equal', agree(on, inputs));

const relu: Compute = (on, [x]) => (isFloat(x) ? on.do('Relu', [x]) : on.do('Max', [x, on.number(x, 0)]));

const castRule: Compute = (on, [x], node) => {
  const to = typeAttribute(node, 'DstT');
  if (typeof to !== 'string') refuse(`to ${to.unsupported} is not supported`);
  if (x.dtype === 'string' || to === 'string') refuse(`from ${x.dtype} to ${to} is not supported`);
  return on.cast(x, to);
};

const addN: Compute = (on, inputs) =>
  inputs.slice(1).reduce<Value>((sum, next) => on.do('Add', [sum, next]), inputs[0]);

/** log(1 + x). The sum loses the low digits of x; x / (sum - 1) corrects for that. */
function log1p(on: Arithmetic, x: Value): Value {
  const one = on.number(x, 1);
  const sum = on.do('Add', [x, one]);
  const log = on.do('Log', [sum]);
  const near = on.do('Mul', [log, on.do('Div', [x, on.do('Sub', [sum, one])])]);
  const small = where(on, on.do('Equal', [sum, one]), x, near);
  return where(on, on.do('Greater', [x, one]), log, small);
}

/** exp(x) - 1, corrected in the same way. */
const expm1: Compute = (on, [x]) => {
  const one = on.number(x, 1);
  const power = on.do('Exp', [x]);
  const rest = on.do('Sub', [power, one]);
  const near = on.do('Mul', [rest, on.do('Div', [x, on.do('Log', [power])])]);
  const small = where(on, on.do('Equal', [power, one]), x, near);
  return where(on, on.do('Greater', [on.do('Abs', [x]), one]), rest, small);
};

function formulas(table: Readonly<Record<string, Compute>>): OpTable {
  return Object.fromEntries(Object.entries(table).map(([op, compute]) => [op, formula(compute)]));
}

export const UNARY_FORMULAS = formulas({
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

export const BINARY_FORMULAS = formulas({
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

/** The signs select the quadrant. On the axes the quotient is infinite or 0, where atan is still right. */
function atan2(on: Arithmetic, inputs: Operands): Value {
  const [y, x] = agree(on, inputs);
  const zero = on.number(x, 0);
  const turn = where(on, on.do('Less', [y, zero]), on.number(x, -Math.PI), on.number(x, Math.PI));
  const plain = on.do('Atan', [on.do('Div', [y, x])]);
  const both = on.do('And', [on.do('Equal', [x, zero]), on.do('Equal', [y, zero])]);
  const angle = where(on, on.do('Less', [x, zero]), on.do('Add', [plain, turn]), plain);
  return where(on, both, zero, angle);
}
