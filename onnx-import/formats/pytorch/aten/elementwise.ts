/** Operators that compute element by element, with torch's broadcasting and type promotion. */
import type { DType } from '../../../../lib/contract/tensor.ts';
import { compute, FORMULAS } from '../../../emit/formula.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import type { TensorRef } from '../run/tensor.ts';
import { Float, type Py, refuse } from '../run/values.ts';
import type { Args, Rule, Table } from './schema.ts';
import { computed, floating, isFloat, resultType } from './types.ts';

/** Computes in a type that onnxruntime has, and returns the result in `dtype`. */
export function within(
  c: Context,
  dtype: DType,
  operands: readonly Py[],
  make: (...values: Value[]) => Value,
): Value {
  const own = computed(dtype);
  return c.cast(make(...operands.map((value) => c.number(value, own))), dtype);
}

function binary(op: string): Rule {
  return (c, a) => {
    const pair = [a.raw('a'), a.raw('b')];
    return within(c, resultType(pair), pair, (x, y) => c.one(op, [x, y]));
  };
}

function isOne(value: Py): boolean {
  return value === 1 || (value instanceof Float && value.value === 1);
}

/** a + alpha * b. */
function scaled(op: string, swapped = false): Rule {
  return (c, a) => {
    const pair = [a.raw('a'), a.raw('b')];
    const alpha = a.raw('alpha');
    const dtype = resultType(pair);
    if (op === 'Sub' && dtype === 'bool') refuse('bools cannot be subtracted');
    return within(c, dtype, swapped ? pair.toReversed() : pair, (x, y) => {
      const right = isOne(alpha) ? y : c.one('Mul', [y, c.number(alpha, y.dtype)]);
      return c.one(op, [x, right]);
    });
  };
}

const trueDivide = (c: Context, pair: readonly Py[]): Value => {
  const type = resultType(pair);
  const dtype = isFloat(type) ? type : 'float32';
  return within(c, dtype, pair, (x, y) => c.one('Div', [x, y]));
};

export function floorDivide(c: Context, pair: readonly Py[]): Value {
  const dtype = resultType(pair);
  const text = isFloat(dtype) ? 'Floor(x / y)' : '(x - Mod(x, y)) / y';
  return within(c, dtype, pair, (x, y) => compute(c, text, { x, y }));
}

const divide: Rule = (c, a) => {
  const pair = [a.raw('a'), a.raw('b')];
  const mode = a.raw('rounding_mode');
  if (mode === null) return trueDivide(c, pair);
  if (mode === 'floor') return floorDivide(c, pair);
  if (mode !== 'trunc') refuse(`rounding mode ${a.text('rounding_mode')} is not supported`);
  const dtype = resultType(pair);
  return within(c, dtype, pair, (x, y) => truncated(c, c.one('Div', [x, y])));
};

function truncated(c: Context, value: Value): Value {
  return isFloat(value.dtype) ? compute(c, 'Sign(x) * Floor(Abs(x))', { x: value }) : value;
}

/** The remainder has the sign of the divisor. */
const remainder: Rule = (c, a) => {
  const pair = [a.raw('a'), a.raw('b')];
  const dtype = resultType(pair);
  const text = isFloat(dtype) ? FORMULAS.floorMod : 'Mod(x, y)';
  return within(c, dtype, pair, (x, y) => compute(c, text, { x, y }));
};

const fmod: Rule = (c, a) => {
  const pair = [a.raw('a'), a.raw('b')];
  return within(c, resultType(pair), pair, (x, y) => c.one('Mod', [x, y], { fmod: 1 }));
};

const power: Rule = (c, a) => {
  const pair = [a.raw('a'), a.raw('b')];
  const [base, exponent] = pair as [Py, Py];
  const dtype = resultType(pair);
  if (exponent === 2 || (exponent instanceof Float && exponent.value === 2 && isFloat(dtype)))
    return within(c, dtype, [base], (x) => c.one('Mul', [x, x]));
  if (exponent instanceof Float && exponent.value === 0.5 && isFloat(dtype))
    return within(c, dtype, [base], (x) => c.one('Sqrt', [x]));
  return within(c, dtype, pair, (x, y) => c.one('Pow', [x, y]));
};

/** A function of float: integers become float32. */
export function float(make: (c: Context, x: Value, a: Args) => Value): Rule {
  return (c, a) => make(c, floating(c, a.v('x')), a);
}

/** A formula of x and of torch's arguments. */
function formula(c: Context, text: string, x: Value, a: Args): Value {
  return compute(c, text, { x }, (name) => a.float(name));
}

export function floats(text: string): Rule {
  return float((c, x, a) => formula(c, text, x, a));
}

/** A function that keeps the type. */
export function same(make: (c: Context, x: Value, a: Args) => Value): Rule {
  return (c, a) => {
    const { dtype } = a.tensor('x');
    return within(c, dtype, [a.tensor('x')], (x) => make(c, x, a));
  };
}

export function numbers(text: string): Rule {
  return same((c, x, a) => formula(c, text, x, a));
}

function rounding(op: string): Rule {
  return same((c, x) => (isFloat(x.dtype) ? c.one(op, [x]) : x));
}

export const s = (c: Context, x: Value, value: number): Value => c.g.scalar(x.dtype, value);

export function clampValue(c: Context, x: Value, low: Value | undefined, high: Value | undefined): Value {
  const bounded = low ? c.one('Max', [x, low]) : x;
  return high ? c.one('Min', [bounded, high]) : bounded;
}

/** Torch takes the type of all; NaN passes, and where the bounds cross the upper one wins. */
const clamp: Rule = (c, a) => {
  const all = [a.raw('x'), a.raw('min'), a.raw('max')];
  const dtype = resultType(all.filter((value) => value !== null));
  const own = computed(dtype);
  const [x, low, high] = all.map((value) => (value === null ? undefined : c.number(value, own)));
  return c.cast(clampValue(c, x as Value, low, high), dtype);
};

const addcmul =
  (op: string): Rule =>
  (c, a) => {
    const all = [a.tensor('x'), a.tensor('a'), a.tensor('b')];
    const dtype = resultType(all);
    if (!isFloat(dtype)) refuse('is supported for floats only');
    const [x, one, other] = all.map((each) => c.number(each, dtype)) as [Value, Value, Value];
    const inner = c.one(op, [one, other]);
    const value = a.raw('value');
    return c.one('Add', [x, isOne(value) ? inner : c.one('Mul', [inner, c.number(value, dtype)])]);
  };

const lerp: Rule = (c, a) => {
  const x = a.v('x');
  const weight = c.number(a.raw('weight'), x.dtype);
  return compute(c, 'x + weight * (end - x)', { x, weight, end: a.v('end') });
};

/** round() of torch and of ONNX both round half to even. */
const round: Rule = (c, a) => {
  const decimals = a.n('decimals');
  const x = a.v('x');
  if (!isFloat(x.dtype)) return x;
  if (decimals === 0) return c.one('Round', [x]);
  return compute(c, 'Round(x * factor) / factor', { x, factor: 10 ** decimals });
};

const clone: Rule = (c, a) => {
  const x = a.tensor('x');
  const made = c.tensor(x.value);
  made.known = x.known;
  return made;
};

const log = (base: number) =>
  float((c, x) => compute(c, 'Log(x) * factor', { x, factor: 1 / Math.log(base) }));

const copied = (c: Context, x: TensorRef, value: Value): Value => {
  const cast = c.cast(value, x.dtype);
  return c.one('Expand', [cast, c.sizes.list(c.g, c.shapeOf(x.value))]);
};

const FLOAT_OPS =
  'exp:Exp sqrt:Sqrt sigmoid:Sigmoid tanh:Tanh erf:Erf sin:Sin cos:Cos tan:Tan asin:Asin acos:Acos atan:Atan ' +
  'sinh:Sinh cosh:Cosh asinh:Asinh acosh:Acosh atanh:Atanh log:Log reciprocal:Reciprocal softsign:Softsign ' +
  'arcsin:Asin arccos:Acos arctan:Atan special_expit:Sigmoid special_erf:Erf';

export function pairs(text: string, make: (name: string, op: string) => readonly [string, Rule]): Table {
  return Object.fromEntries(text.split(' ').map((part) => make(...(part.split(':') as [string, string]))));
}

export const ELEMENTWISE: Table = {
  ...pairs(FLOAT_OPS, (name, op) => [`${name}(Tensor x)`, floats(`${op}(x)`)]),
  'add(Operand a, Operand b, Scalar alpha=1)': scaled('Add'),
  'sub(Operand a, Operand b, Scalar alpha=1) | subtract(Operand a, Operand b, Scalar alpha=1)': scaled('Sub'),
  'rsub(Operand a, Operand b, Scalar alpha=1)': scaled('Sub', true),
  'mul(Operand a, Operand b) | multiply(Operand a, Operand b)': binary('Mul'),
  'div(Operand a, Operand b, str? rounding_mode=None) | divide(Operand a, Operand b, str? rounding_mode=None)':
    divide,
  'true_divide(Operand a, Operand b)': (c, a) => trueDivide(c, [a.raw('a'), a.raw('b')]),
  'floor_divide(Operand a, Operand b) | floordiv(Operand a, Operand b)': (c, a) =>
    floorDivide(c, [a.raw('a'), a.raw('b')]),
  'remainder(Operand a, Operand b)': remainder,
  'fmod(Operand a, Operand b)': fmod,
  'pow(Operand a, Operand b)': power,
  'maximum(Tensor a, Tensor b) | max(Tensor a, Tensor b)': binary('Max'),
  'minimum(Tensor a, Tensor b) | min(Tensor a, Tensor b)': binary('Min'),
  'square(Tensor x)': numbers(FORMULAS.square),
  'rsqrt(Tensor x)': floats(FORMULAS.rsqrt),
  'exp2(Tensor x)': float((c, x) => compute(c, 'Exp(x * ln2)', { x, ln2: Math.LN2 })),
  'expm1(Tensor x)': floats(FORMULAS.expm1),
  'log1p(Tensor x)': floats(FORMULAS.log1p),
  'log2(Tensor x)': log(2),
  'log10(Tensor x)': log(10),
  'erfc(Tensor x)': floats(FORMULAS.erfc),
  'logit(Tensor x, float? eps=None)': float((c, x, a) =>
    compute(c, 'Log(x / (1 - x))', { x: a.isSet('eps') ? formula(c, 'Min(Max(x, eps), 1 - eps)', x, a) : x }),
  ),
  'neg(Tensor x) | negative(Tensor x)': numbers('-x'),
  'abs(Tensor x) | absolute(Tensor x)': numbers('Abs(x)'),
  'sign(Tensor x) | sgn(Tensor x)': numbers('Sign(x)'),
  'floor(Tensor x)': rounding('Floor'),
  'ceil(Tensor x)': rounding('Ceil'),
  'round(Tensor x, int decimals=0)': round,
  'trunc(Tensor x) | fix(Tensor x)': same((c, x) => truncated(c, x)),
  'frac(Tensor x)': same((c, x) => c.one('Sub', [x, truncated(c, x)])),
  'isnan(Tensor x)': floats('IsNaN(x)'),
  'isinf(Tensor x)': (c, a) => c.one('IsInf', [c.cast(a.v('x'), 'float32')]),
  'isfinite(Tensor x)': floats('x - x == 0'),
  'clamp(Tensor x, Scalar? min=None, Scalar? max=None) | clip(Tensor x, Scalar? min=None, Scalar? max=None) | clamp(Tensor x, Tensor? min=None, Tensor? max=None)':
    clamp,
  'clamp_min(Tensor x, Operand min)': (c, a) => clampTo(c, a, 'min'),
  'clamp_max(Tensor x, Operand max)': (c, a) => clampTo(c, a, 'max'),
  'addcmul(Tensor x, Tensor a, Tensor b, Scalar value=1)': addcmul('Mul'),
  'addcdiv(Tensor x, Tensor a, Tensor b, Scalar value=1)': addcmul('Div'),
  'lerp(Tensor x, Tensor end, Operand weight)': lerp,
  'clone(Tensor x, any memory_format=None)': clone,
  'copy(Tensor x, Tensor other, bool non_blocking=False)': (c, a) => copied(c, a.tensor('x'), a.v('other')),
  'fill(Tensor x, Operand value)': (c, a) => {
    const x = a.tensor('x');
    return copied(c, x, c.number(a.raw('value'), x.dtype));
  },
  'zero(Tensor x)': (c, a) => copied(c, a.tensor('x'), c.g.scalar(a.tensor('x').dtype, 0)),
};

function clampTo(c: Context, a: Args, bound: 'min' | 'max'): Value {
  const all = [a.raw('x'), a.raw(bound)];
  return within(c, resultType(all), all, (x, y) => c.one(bound === 'min' ? 'Max' : 'Min', [x, y]));
}
