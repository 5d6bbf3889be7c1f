/** Comparisons, logic and choices by masks. */
import { refuse } from '../run/values.ts';
import { pairs, s, within } from './elementwise.ts';
import type { Rule, Table } from './schema.ts';
import { computed, resultType } from './types.ts';

function comparison(op: string, negated = false): Rule {
  return (c, a) => {
    const pair = [a.raw('a'), a.raw('b')];
    const own = computed(resultType(pair));
    const made = c.one(
      op,
      pair.map((value) => c.number(value, own)),
    );
    return negated ? c.one('Not', [made]) : made;
  };
}

const where: Rule = (c, a) => {
  const pair = [a.raw('a'), a.raw('b')];
  const dtype = resultType(pair);
  const test = c.cast(a.v('test'), 'bool');
  return within(c, dtype, pair, (x, y) => c.one('Where', [test, x, y]));
};

const maskedFill: Rule = (c, a) => {
  const x = a.v('x');
  const value = a.raw('value');
  const own = computed(x.dtype);
  const mask = c.cast(a.v('mask'), 'bool');
  return c.cast(c.one('Where', [mask, c.number(value, own), c.cast(x, own)]), x.dtype);
};

function logical(op: string): Rule {
  return (c, a) => c.one(op, [c.number(a.raw('a'), 'bool'), c.number(a.raw('b'), 'bool')]);
}

/** Bitwise operators of bools are logical; ONNX's opset 17 has none for integers. */
function bitwise(op: string): Rule {
  return (c, a) => {
    const pair = [a.raw('a'), a.raw('b')];
    if (resultType(pair) !== 'bool') refuse('is supported for bools only');
    return logical(op)(c, a);
  };
}

const not: Rule = (c, a) => c.one('Not', [c.cast(a.v('x'), 'bool')]);

const bitwiseNot: Rule = (c, a) => {
  const x = a.v('x');
  if (x.dtype === 'bool') return c.one('Not', [x]);
  if (x.dtype !== 'int32' && x.dtype !== 'int64') refuse(`is not supported for ${x.dtype}`);
  return c.one('Sub', [c.one('Neg', [x]), s(c, x, 1)]);
};

const COMPARISONS =
  'lt:Less le:LessOrEqual gt:Greater ge:GreaterOrEqual eq:Equal less:Less less_equal:LessOrEqual greater:Greater ' +
  'greater_equal:GreaterOrEqual';

export const LOGIC: Table = {
  ...pairs(COMPARISONS, (name, op) => [`${name}(Operand a, Operand b)`, comparison(op)]),
  'ne(Operand a, Operand b) | not_equal(Operand a, Operand b)': comparison('Equal', true),
  'where(Tensor test, Operand a, Operand b)': where,
  'masked_fill(Tensor x, Tensor mask, Operand value)': maskedFill,
  'logical_and(Operand a, Operand b)': logical('And'),
  'logical_or(Operand a, Operand b)': logical('Or'),
  'logical_xor(Operand a, Operand b)': logical('Xor'),
  'logical_not(Tensor x)': not,
  'bitwise_and(Operand a, Operand b) | __and__(Operand a, Operand b)': bitwise('And'),
  'bitwise_or(Operand a, Operand b) | __or__(Operand a, Operand b)': bitwise('Or'),
  'bitwise_xor(Operand a, Operand b) | __xor__(Operand a, Operand b)': bitwise('Xor'),
  'bitwise_not(Tensor x)': bitwiseNot,
};
