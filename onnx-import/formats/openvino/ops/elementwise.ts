/**
 * Operations on single elements. onnxruntime computes with few kinds of whole numbers, so small ones are widened.
 * Those of 8 bits stay at the ends of their range in OpenVINO, they do not wrap around.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { type DType, formatShape } from '../../../../lib/contract/tensor.ts';
import { compute, FORMULAS, namedRules } from '../../../emit/formula.ts';
import { tensorOf } from '../../../graph/numbers.ts';
import { known } from '../../../graph/shapes.ts';
import type { Attributes, Value } from '../../../graph/value.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { dtypeNamed } from '../weights.ts';

const WIDER: Readonly<Partial<Record<DType, 'int32' | 'int64'>>> = {
  bool: 'int32',
  int8: 'int32',
  int16: 'int32',
  uint8: 'int32',
  uint16: 'int32',
  uint32: 'int64',
};

export function widened(node: OvNode, value: Value): Value {
  if (value.dtype === 'uint64') throw badModel('computes with uint64, which is not supported');
  const wider = WIDER[value.dtype];
  return wider === undefined ? value : cast(node, value, wider);
}

export function isFloat(value: Value): boolean {
  return value.dtype === 'float32' || value.dtype === 'float64';
}

/** A constant of the dtype of `like`. */
export function scalar(node: OvNode, like: Value, value: number): Value {
  return node.g.constant(tensorOf(like.dtype, [], [value]), 'scalar');
}

/** Operands that broadcast by NumPy's rule. */
export function aligned(node: OvNode, a: Value, b: Value): readonly [Value, Value] {
  const mode = node.choice('auto_broadcast', ['numpy', 'none', 'explicit', 'pdpd'], 'numpy');
  if (mode !== 'pdpd') return [a, b];
  const axis = node.whole('axis', -1);
  const missing = known(a).length - known(b).length;
  if (missing < 0)
    throw badModel(`broadcasts ${formatShape(known(a))} to ${formatShape(known(b))}, which pdpd does not`);
  const start = axis < 0 ? missing : axis;
  const trailing = missing - start;
  if (trailing < 0) throw badModel(`axis ${axis} leaves no room for ${formatShape(known(b))}`);
  if (trailing === 0) return [a, b];
  const size = known(b).length;
  return [a, node.g.one('Unsqueeze', [b, node.g.ints(Array.from({ length: trailing }, (_, i) => size + i))])];
}

function operands(node: OvNode): readonly [Value, Value] {
  const [a, b] = [node.input(0), node.input(1)];
  if (a.dtype !== b.dtype && node.net.version >= 10)
    throw badModel(`has inputs of ${a.dtype} and ${b.dtype}`);
  return aligned(node, a, b.dtype === a.dtype || a.dtype === 'string' ? b : cast(node, b, a.dtype));
}

type Make = (node: OvNode, a: Value, b: Value) => Value;

const RANGES: Readonly<Partial<Record<DType, readonly [number, number]>>> = {
  int8: [-128, 127],
  uint8: [0, 255],
};

/** The result has the operands' dtype. */
export function arithmetic(make: Make): Rule {
  return (node) => {
    const [a, b] = operands(node);
    const made = make(node, widened(node, a), widened(node, b));
    const range = RANGES[a.dtype]?.map((bound) => scalar(node, made, bound));
    return cast(node, range ? node.g.one('Clip', [made, ...range]) : made, a.dtype);
  };
}

const binary = (op: string, attributes: Attributes = {}) =>
  arithmetic((node, a, b) => node.one(op, [a, b], attributes));

/** A formula of both inputs, which makes truth values. */
const compared =
  (text: string): Rule =>
  (node) => {
    const [x, y] = operands(node);
    return compute(node, text, { x: widened(node, x), y: widened(node, y) });
  };

const logical =
  (op: string): Rule =>
  (node) => {
    const [a, b] = operands(node);
    return node.one(op, [cast(node, a, 'bool'), cast(node, b, 'bool')]);
  };

/** Only on truth values: on numbers ONNX has it since opset 18. */
const bitwise =
  (op: string): Rule =>
  (node) => {
    if (node.inputs.some((input) => input?.dtype !== 'bool'))
      throw badModel('is only supported for truth values');
    return op === 'Not' ? node.one(op, [node.input()]) : logical(op)(node);
  };

/** Whole numbers are divided toward zero; OpenVINO's runtime does so whatever `m_pythondiv` says. */
const divide = arithmetic((node, a, b) => {
  node.ignore('m_pythondiv');
  return node.one('Div', [a, b]);
});

const floorMod = arithmetic((node, x, y) =>
  compute(node, isFloat(x) ? FORMULAS.floorMod : 'Mod(x, y)', { x, y }),
);

const squaredDifference = arithmetic((node, x, y) => {
  if (node.input().dtype.endsWith('int8'))
    throw badModel('of 8 bits is not supported: runtimes differ in it');
  return compute(node, FORMULAS.squaredDifference, { x, y });
});

const select: Rule = (node) => {
  const [condition, yes, no] = [cast(node, node.input(0), 'bool'), node.input(1), node.input(2)];
  if (node.text('auto_broadcast', 'numpy').toLowerCase() !== 'pdpd')
    return node.one('Where', [condition, yes, no]);
  return node.one('Where', [aligned(node, yes, condition)[1], yes, aligned(node, yes, no)[1]]);
};

/** With `anyNumber` whole numbers are computed as they are, else only fractions are. */
export const unary =
  (op: string, attributes: Attributes = {}): Rule =>
  (node) => {
    const x = node.input();
    return cast(node, node.one(op, [isFloat(x) ? x : cast(node, x, 'float32')], attributes), x.dtype);
  };

const onNumbers =
  (op: string): Rule =>
  (node) => {
    const x = node.input();
    return cast(node, node.one(op, [widened(node, x)]), x.dtype);
  };

const same: Rule = (node) => node.one('Identity', [node.input()]);
/** Whole numbers have no fraction to round. */
const rounding =
  (op: string): Rule =>
  (node) =>
    isFloat(node.input()) ? node.one(op, [node.input()]) : same(node);

const round: Rule = (node) => {
  const x = node.input();
  const mode = node.choice('mode', ['half_to_even', 'half_away_from_zero'], 'half_to_even');
  if (!isFloat(x)) return same(node);
  if (mode === 'half_to_even') return node.one('Round', [x]);
  return compute(node, 'Sign(x) * Floor(Abs(x) + 0.5)', { x });
};

export const clamp: Rule = (node) => {
  const x = node.input();
  const [low, high] = [node.number('min'), node.number('max')];
  if (low > high) throw badModel(`min ${low} is above max ${high}`);
  if (isFloat(x)) return node.one('Clip', [x, scalar(node, x, low), scalar(node, x, high)]);
  const wide = widened(node, x);
  const limit = wide.dtype === 'int64' ? Number.MAX_SAFE_INTEGER : 2 ** 31 - 1;
  const bounds = [Math.max(Math.ceil(low), -limit), Math.min(Math.floor(high), limit)];
  return cast(node, node.one('Clip', [wide, ...bounds.map((bound) => scalar(node, wide, bound))]), x.dtype);
};

const isInf: Rule = (node) =>
  node.one('IsInf', [node.input()], {
    detect_negative: node.flag('detect_negative', true) ? 1 : 0,
    detect_positive: node.flag('detect_positive', true) ? 1 : 0,
  });

const convert: Rule = (node) => {
  const x = node.input();
  const to = dtypeNamed(node.text('destination_type'));
  return to === 'string' || x.dtype === 'string' ? refuseTexts() : converted(node, x, to);
};

function refuseTexts(): never {
  throw badModel('converts texts, which is not supported');
}

/** The least weights that stay whole numbers in the file, because as float32 they would be four times as large. */
const MANY = 1024 * 1024;

export function converted(node: OvNode, x: Value, to: DType): Value {
  const isSmall = x.dtype === 'int8' || x.dtype === 'uint8';
  if (to === 'float32' && isSmall && (x.constant?.data.length ?? 0) >= MANY)
    return node.one('DequantizeLinear', [x, node.g.constant(tensorOf('float32', [], [1]))]);
  return x.dtype === to ? node.one('Identity', [x]) : cast(node, x, to);
}

export const ELEMENTWISE: OpTable = {
  ...namedRules(
    'Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Log Sigmoid Sin Sinh Sqrt Tan Tanh',
    unary,
  ),
  ...namedRules('Abs Negative:Neg Sign', onNumbers),
  ...namedRules('Ceiling:Ceil Floor', rounding),
  ...namedRules('Add Maximum:Max Minimum:Min Multiply:Mul Power:Pow Subtract:Sub', binary),
  ...namedRules('LogicalAnd:And LogicalOr:Or LogicalXor:Xor', logical),
  ...namedRules('BitwiseAnd:And BitwiseNot:Not BitwiseOr:Or BitwiseXor:Xor', bitwise),
  Clamp: clamp,
  Convert: convert,
  ConvertLike: (node) => converted(node, node.input(0), node.input(1).dtype),
  Divide: divide,
  Equal: compared('x == y'),
  FloorMod: floorMod,
  Greater: compared('x > y'),
  GreaterEqual: compared('x >= y'),
  IsFinite: (node) => compute(node, FORMULAS.isFinite, { x: node.input() }),
  IsInf: isInf,
  IsNaN: (node) => node.one('IsNaN', [node.input()]),
  Less: compared('x < y'),
  LessEqual: compared('x <= y'),
  LogicalNot: (node) => node.one('Not', [cast(node, node.input(), 'bool')]),
  Mod: binary('Mod', { fmod: 1 }),
  NotEqual: compared('Not(x == y)'),
  Round: round,
  Select: select,
  SquaredDifference: squaredDifference,
};
