/** Operators that compute each element from the elements at the same place. */
import type { DType, Tensor } from '../../../lib/contract/tensor.ts';
import { elementCount } from '../../../lib/contract/tensor.ts';
import { dtypeOf, int } from '../attributes.ts';
import { first, floorMod, pairwise } from '../elements.ts';
import { type Elements, MAX_COMPUTED, made, similar, spread } from '../moves.ts';
import { holds, isFloat, numbersOf, tensorOf } from '../numbers.ts';
import { numberArithmetic, sizeArithmetic } from '../rows/arithmetic.ts';
import type { RowRule } from '../rows/call.ts';
import { broadcast } from '../rows/combine.ts';
import { casting, flattening } from '../rows/row-numbers.ts';
import { broadcasting, sameShape } from '../rows/shape-node.ts';
import { fixedOf } from '../rows/value.ts';
import {
  all,
  FLOATS,
  type Fold,
  NUMBERS,
  type Operator,
  type Operators,
  SMALL,
  UNSIGNED,
  WIDE,
} from './operator.ts';

/** One input, and others that only say how. */
export const unaryRows: RowRule = (call) => {
  const x = call.data(0);
  for (let i = 1; i < call.count; i++) call.fixed(i);
  return x.kind === 'rows' ? x : { ...fixedOf(x.shape), uniform: x.uniform };
};

export const naryRows: RowRule = (call) => broadcast(call, call.all());

/** Shapes and counts are computed with; anything else is broadcast. */
const arithmetic: RowRule = (call) => sizeArithmetic(call) ?? naryRows(call);
const unaryArithmetic: RowRule = (call) => numberArithmetic(call) ?? unaryRows(call);

/** The type of the second input, not its content. */
const castLike: RowRule = (call) => {
  call.value(1);
  return call.moved(call.data(0), call.shape(call.data(0)));
};

const dropout: RowRule = (call) => {
  const training = call.opset >= 12 ? call.numbers(2, 'training mode') : undefined;
  if (training?.[0] === 1) call.end('it drops values at random');
  const x = call.data(0);
  call.fixed(1);
  const shape = call.shape(x);
  return [call.moved(x, shape), call.moved(x, shape)];
};

function computePairs(compute: (a: number, b: number, dtype: DType) => number, dtype?: DType): Fold {
  return ([x, y], _, shapeOf) => {
    const [a, b] = [x as Tensor, y as Tensor];
    const [left, right] = [numbersOf(a), numbersOf(b)];
    const shape = left && right && shapeOf();
    if (!left || !right || !shape || elementCount(shape) > MAX_COMPUTED) return undefined;
    const [fromA, fromB] = [spread(a, shape), spread(b, shape)];
    const values = Float64Array.from({ length: elementCount(shape) }, (__, i) =>
      compute(left[fromA(i)] as number, right[fromB(i)] as number, a.dtype),
    );
    // A division such as 5 / 0 is left for the run to refuse.
    if (!isFloat(a.dtype) && !dtype && !values.every((value) => Number.isSafeInteger(value)))
      return undefined;
    return [tensorOf(dtype ?? a.dtype, shape, values)];
  };
}

function computeEach(compute: (a: number) => number, dtype?: DType): Fold {
  return ([x]) => {
    const tensor = x as Tensor;
    const numbers = tensor.data.length <= MAX_COMPUTED ? numbersOf(tensor) : undefined;
    return numbers && [tensorOf(dtype ?? tensor.dtype, tensor.shape, Float64Array.from(numbers, compute))];
  };
}

const computeFloats = (compute: (a: number) => number): Fold => {
  const fold = computeEach(compute);
  return (inputs, attributes, shape) =>
    isFloat((inputs[0] as Tensor).dtype) ? fold(inputs, attributes, shape) : undefined;
};

/** Three or more inputs, which only Max and Min have of those that are folded, are left to the run. */
const computeTwo =
  (fold: Fold): Fold =>
  (inputs, ...rest) =>
    inputs.length === 2 ? fold(inputs, ...rest) : undefined;

const foldMod: Fold = (inputs, attributes, shape) => {
  if (int(attributes.fmod, 0) === 1) return computePairs((a, b) => a % b)(inputs, attributes, shape);
  return isFloat((inputs[0] as Tensor).dtype) ? undefined : computePairs(floorMod)(inputs, attributes, shape);
};

const foldCast: Fold = ([x], attributes) => {
  const tensor = x as Tensor;
  const to = dtypeOf(attributes.to, tensor.dtype);
  if (to === tensor.dtype) return [tensor];
  if (to === 'string' || to === 'float16') return undefined;
  const numbers = numbersOf(tensor);
  if (!numbers) return undefined;
  if (isFloat(to) || to === 'bool') return [tensorOf(to, tensor.shape, numbers)];
  const whole = Float64Array.from(numbers, Math.trunc);
  // What a float becomes that the type does not hold is up to the processor; whole numbers wrap.
  if (isFloat(tensor.dtype) && !whole.every((value) => holds(to, value))) return undefined;
  return [tensorOf(to, tensor.shape, whole)];
};

const foldWhere: Fold = ([condition, x, y], _, shapeOf) => {
  const [c, a, b] = [condition as Tensor, x as Tensor, y as Tensor];
  const shape = shapeOf();
  if (!shape || elementCount(shape) > MAX_COMPUTED) return undefined;
  const [fromC, fromA, fromB] = [spread(c, shape), spread(a, shape), spread(b, shape)];
  const data = similar(a, elementCount(shape)) as unknown[];
  for (let i = 0; i < data.length; i++) {
    const [one, other] = [fromA(i), fromB(i)];
    data[i] = c.data[fromC(i)] ? a.data[one] : b.data[other];
  }
  return [made(a, shape, data as unknown as Elements)];
};

/** As C has it; a whole number that its type does not hold is left to the run, where it does not wrap. */
function power(a: number, b: number, dtype: DType): number {
  if (a === 1 || (a === -1 && Math.abs(b) === Infinity)) return 1;
  const result = a ** b;
  return isFloat(dtype) || holds(dtype, result) ? result : Number.NaN;
}

const invert = (a: number) => 1 / a;
const negate = (a: number) => -a;
const isZero = (a: number) => Number(a === 0);

const unary = (dtypes?: readonly DType[], fold?: Fold): Operator => ({
  shapes: sameShape,
  rows: unaryRows,
  ...(dtypes && { dtypes }),
  ...(fold && { fold }),
});

/** Of two inputs, on shapes and counts too. */
const binary = (dtypes: readonly DType[] | undefined, fold: Fold, rest: Operator = {}): Operator => ({
  shapes: broadcasting,
  rows: arithmetic,
  ...(dtypes && { dtypes }),
  fold,
  ...rest,
});

/** @param neutral the number next to which a free size stays what it is */
function numeric(compute: (a: number, b: number, dtype: DType) => number, neutral?: number): Operator {
  const elements = pairwise((a, b) => compute(a, b, 'int64'), neutral);
  return binary(NUMBERS, computePairs(compute), { elements });
}

function comparison(dtypes: readonly DType[] | undefined, compute: (a: number, b: number) => boolean) {
  const fold = computePairs((a, b) => Number(compute(a, b)), 'bool');
  return binary(dtypes, fold, { results: ['bool'] });
}

const FLOAT32: readonly DType[] = ['float32'];
const MOST: readonly DType[] = [...WIDE, ...SMALL, ...UNSIGNED];

export const ELEMENTWISE: Operators = {
  ...all('Celu HardSwish ThresholdedRelu', unary()),
  ...all('Round Sigmoid Tanh Sin Cos LeakyRelu Relu', unary(FLOATS)),
  ...all(
    'Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Erf Softplus Softsign Elu Selu HardSigmoid',
    unary(FLOAT32),
  ),
  ...all('BitwiseNot Gelu Mish RegexFullMatch Shrink Swish', { rows: unaryRows }),
  ...all('com.microsoft:Gelu com.microsoft:QuickGelu', { rows: unaryRows }),
  ...all('com.microsoft:BiasGelu com.microsoft:FastGelu', { rows: naryRows }),
  ...all('IsNaN IsInf', { ...unary(FLOATS), results: ['bool'] }),
  Sign: unary(NUMBERS),
  Abs: unary(NUMBERS, computeEach(Math.abs)),
  Reciprocal: unary(FLOATS, computeFloats(invert)),
  Exp: unary(FLOATS, computeFloats(Math.exp)),
  Log: unary(FLOATS, computeFloats(Math.log)),
  Sqrt: { ...unary(FLOATS, computeFloats(Math.sqrt)), rows: unaryArithmetic },
  Floor: { ...unary(FLOATS, computeFloats(Math.floor)), rows: unaryArithmetic },
  Ceil: { ...unary(FLOATS, computeFloats(Math.ceil)), rows: unaryArithmetic },
  Neg: { ...unary([...WIDE, 'int8', 'int16'], computeEach(negate)), rows: unaryArithmetic },
  Not: { ...unary(undefined, computeEach(isZero, 'bool')), rows: unaryArithmetic },

  Add: { ...numeric((a, b) => a + b, 0), rows: flattening(arithmetic) },
  Sub: numeric((a, b) => a - b),
  Mul: { ...numeric((a, b) => a * b, 1), rows: flattening(arithmetic) },
  Div: numeric((a, b, dtype) => (isFloat(dtype) ? a / b : (a - (a % b)) / b)),
  Mod: binary(NUMBERS, foldMod, {
    elements: (inputs, { fmod }) => pairwise(fmod === 1 ? (a, b) => a % b : floorMod)(inputs, {}),
  }),
  Max: binary(MOST, computeTwo(computePairs((a, b) => Math.max(a, b))), { elements: pairwise(Math.max) }),
  Min: binary(MOST, computeTwo(computePairs((a, b) => Math.min(a, b))), { elements: pairwise(Math.min) }),
  Pow: binary(WIDE, computePairs(power)),
  Equal: comparison([...NUMBERS, 'bool', 'string'], (a, b) => a === b),
  Less: comparison(NUMBERS, (a, b) => a < b),
  LessOrEqual: comparison(NUMBERS, (a, b) => a <= b),
  Greater: comparison(NUMBERS, (a, b) => a > b),
  GreaterOrEqual: comparison(NUMBERS, (a, b) => a >= b),
  And: comparison(undefined, (a, b) => a !== 0 && b !== 0),
  Or: comparison(undefined, (a, b) => a !== 0 || b !== 0),
  Xor: { shapes: broadcasting, results: ['bool'], rows: naryRows },
  Where: binary([...WIDE, 'uint8', 'string'], foldWhere, { results: [1], typed: [1, 2] }),
  Sum: { shapes: broadcasting, dtypes: FLOATS, rows: naryRows },
  Mean: { shapes: broadcasting, dtypes: FLOAT32, rows: naryRows },
  PRelu: { shapes: sameShape, dtypes: WIDE, rows: naryRows },
  Clip: { shapes: sameShape, dtypes: MOST, rows: naryRows },
  BitShift: { shapes: sameShape, rows: naryRows },
  ...all('BitwiseAnd BitwiseOr BitwiseXor StringConcat', { rows: naryRows }),

  Cast: {
    shapes: sameShape,
    results: [({ to }, [x]) => dtypeOf(to, x?.dtype ?? 'float32')],
    elements: first,
    fold: foldCast,
    rows: casting(unaryArithmetic),
  },
  CastLike: { rows: castLike },
  Dropout: { shapes: sameShape, rows: dropout },
  Identity: {
    shapes: sameShape,
    elements: first,
    fold: ([x]) => x && [x],
    rows: (call) => call.value(0) ?? call.end('it has no input'),
  },
};
