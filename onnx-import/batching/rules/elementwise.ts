/**
 * Operators that compute each element from the elements at the same place. With broadcasting, what meets the batch axis
 * must have the same rows or be the same for all rows.
 */
import type { Call, Rule } from '../call.ts';
import { ONE, type Size, same } from '../size.ts';
import { broadcastSize, type Data, type Fixed, fixedOf, isSamePlace, type Rows } from '../value.ts';
import { numberArithmetic, sizeArithmetic } from './arithmetic.ts';
import { casting } from './row-numbers.ts';

/** NumPy's broadcasting. @throws ProofEnd where an element of the result would belong to two rows, or to none */
export function broadcast(call: Call, values: readonly Data[]): Data {
  const first = values.find((value): value is Rows => value.kind === 'rows');
  if (!first && values.some(({ shape }) => !shape)) return fixedOf();
  const shapes = values.map((value) => call.shape(value));
  const rank = Math.max(0, ...shapes.map(({ length }) => length));
  const aligned = shapes.map((shape) => [...new Array<Size>(rank - shape.length).fill(ONE), ...shape]);
  const shape = Array.from({ length: rank }, (_, i) =>
    aligned.map((dims) => dims[i] as Size).reduce((a, b) => broadcastSize(a, b, call.names)),
  );
  if (!first)
    return { ...fixedOf(shape), uniform: values.every((value) => (value as Fixed).uniform === true) };
  const place = { ...first, axis: first.axis + rank - first.shape.length };
  const result = call.rows(shape, place);
  for (const [i, value] of values.entries()) {
    if (value.kind === 'rows') {
      const axis = value.axis + rank - value.shape.length;
      if (!isSamePlace({ ...value, axis }, place)) call.end('its inputs have their rows on different axes');
      continue;
    }
    const dim = aligned[i]?.[place.axis] as Size;
    const isAlike = value.uniform === true && same(dim, result.shape[place.axis] as Size);
    if (!same(dim, ONE) && !isAlike)
      call.end('it combines the rows with a constant that differs along the batch axis');
  }
  return result;
}

/** One input, and others that only say how. */
const unary: Rule = (call) => {
  const x = call.data(0);
  for (let i = 1; i < call.count; i++) call.fixed(i);
  return x.kind === 'rows' ? x : { ...fixedOf(x.shape), uniform: x.uniform };
};

const nary: Rule = (call) => broadcast(call, call.all());

/** Shapes and counts are computed with; anything else is broadcast. */
const arithmetic: Rule = (call) => sizeArithmetic(call) ?? nary(call);
const unaryArithmetic: Rule = (call) => numberArithmetic(call) ?? unary(call);

/** The type of the second input, not its content. */
const castLike: Rule = (call) => {
  call.value(1);
  return call.moved(call.data(0), call.shape(call.data(0)));
};

const dropout: Rule = (call) => {
  const training = call.opset >= 12 ? call.numbers(2, 'training mode') : undefined;
  if (training?.[0] === 1) call.end('it drops values at random');
  const x = call.data(0);
  call.fixed(1);
  const shape = call.shape(x);
  return [call.moved(x, shape), call.moved(x, shape)];
};

const identity: Rule = (call) => call.value(0) ?? call.end('it has no input');

const UNARY =
  'Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Celu Cos Cosh Elu Erf Exp Gelu HardSigmoid HardSwish IsInf IsNaN LeakyRelu Log Mish Reciprocal RegexFullMatch Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Swish Tan Tanh ThresholdedRelu';
const NARY = 'BitShift BitwiseAnd BitwiseOr BitwiseXor Clip Mean PRelu StringConcat Sum Xor';
const ARITHMETIC =
  'Add Sub Mul Div Mod Pow Max Min And Or Equal Greater GreaterOrEqual Less LessOrEqual Where';
const UNARY_ARITHMETIC = 'Ceil Floor Neg Not Sqrt';

const all = (names: string, rule: Rule) => Object.fromEntries(names.split(' ').map((name) => [name, rule]));

export const ELEMENTWISE: Readonly<Record<string, Rule>> = {
  ...all(UNARY, unary),
  ...all(NARY, nary),
  ...all(ARITHMETIC, arithmetic),
  ...all(UNARY_ARITHMETIC, unaryArithmetic),
  Cast: casting(unaryArithmetic),
  CastLike: castLike,
  Dropout: dropout,
  Identity: identity,
};
export { nary, unary };
