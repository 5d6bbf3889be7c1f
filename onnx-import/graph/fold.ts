/**
 * Computes a node whose inputs are all constants; returns undefined when it is left to the run. Only what converters
 * need (weights in ONNX's layout, shapes, axes) is folded: onnxruntime folds the rest when it loads the model.
 */
import { type DType, elementCount, type Tensor } from '../../lib/contract/tensor.ts';
import { dtypeOf, int, ints } from './attributes.ts';
import { floorMod } from './elements.ts';
import {
  type Elements,
  FOLD_MOVES,
  type Fold,
  MAX_COMPUTED,
  made,
  pick,
  similar,
  spread,
} from './fold-moves.ts';
import { holds, isFloat, numbersOf, tensorOf } from './numbers.ts';
import { axisOf, broadcast } from './shapes.ts';
import type { Attributes, Value } from './value.ts';

function binary(compute: (a: number, b: number, dtype: DType) => number, dtype?: DType): Fold {
  return ([x, y]) => {
    const [a, b] = [x as Tensor, y as Tensor];
    const [left, right] = [numbersOf(a), numbersOf(b)];
    if (!left || !right) return undefined;
    const shape = broadcast(a.shape, b.shape, () => '') as readonly number[];
    const length = elementCount(shape);
    if (length > MAX_COMPUTED) return undefined;
    const [fromA, fromB] = [spread(a, shape), spread(b, shape)];
    const values = new Float64Array(length);
    for (let i = 0; i < length; i++) {
      values[i] = compute(left[fromA(i)] as number, right[fromB(i)] as number, a.dtype);
    }
    // A division such as 5 / 0 is left for the run to refuse.
    if (!isFloat(a.dtype) && !dtype && !values.every((value) => Number.isSafeInteger(value)))
      return undefined;
    return [tensorOf(dtype ?? a.dtype, shape, values)];
  };
}

function unary(compute: (a: number) => number, dtype?: DType): Fold {
  return ([x]) => {
    const tensor = x as Tensor;
    const numbers = tensor.data.length <= MAX_COMPUTED ? numbersOf(tensor) : undefined;
    if (!numbers) return undefined;
    return [tensorOf(dtype ?? tensor.dtype, tensor.shape, Float64Array.from(numbers, compute))];
  };
}

const float = (compute: (a: number) => number): Fold => {
  const fold = unary(compute);
  return (inputs, attributes) =>
    isFloat((inputs[0] as Tensor).dtype) ? fold(inputs, attributes) : undefined;
};

const cast: Fold = ([x], attributes) => {
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

/** A float32 holds each whole number up to here. */
const EXACT = 2 ** 24;

const range: Fold = (inputs) => {
  const [start, limit, step] = inputs.map((input) => numbersOf(input as Tensor)?.[0]);
  if (start === undefined || limit === undefined || !step) return undefined;
  const length = Math.max(0, Math.ceil((limit - start) / step));
  if (length > MAX_COMPUTED) return undefined;
  const values = Array.from({ length }, (_, i) => start + i * step);
  // Steps of a float are rounded, in an order that frameworks differ in.
  if (![start, limit, step].every((value) => Number.isInteger(value) && Math.abs(value) <= EXACT))
    return undefined;
  return [tensorOf((inputs[0] as Tensor).dtype, [length], values)];
};

const constantOfShape: Fold = ([shape], { value }) => {
  const dims = numbersOf(shape as Tensor);
  const fill = typeof value === 'object' && 'tensor' in value ? value.tensor : tensorOf('float32', [1], [0]);
  if (!dims || elementCount(Array.from(dims)) > MAX_COMPUTED) return undefined;
  return [pick(fill, Array.from(dims), () => 0)];
};

function reduce(start: number, step: (a: number, b: number) => number, mean = false): Fold {
  return ([x, axesInput], attributes) => {
    const tensor = x as Tensor;
    const numbers = tensor.data.length <= MAX_COMPUTED ? numbersOf(tensor) : undefined;
    const listed = axesInput ? numbersOf(axesInput) : (ints(attributes.axes) ?? []);
    if (!numbers || !listed || (listed.length === 0 && int(attributes.noop_with_empty_axes, 0) === 1))
      return undefined;
    const rank = tensor.shape.length;
    const gone = new Set(
      listed.length === 0 ? tensor.shape.keys() : Array.from(listed, (axis) => axisOf(axis, rank)),
    );
    const kept = tensor.shape.map((dim, i) => (gone.has(i) ? 1 : dim));
    const place = spread({ shape: kept }, tensor.shape);
    const values = new Float64Array(elementCount(kept)).fill(start);
    const isWhole = !isFloat(tensor.dtype);
    for (let i = 0; i < numbers.length; i++) {
      const at = place(i);
      const value = step(values[at] as number, numbers[i] as number);
      if (isWhole && !Number.isSafeInteger(value)) return undefined;
      values[at] = value;
    }
    // Runtimes differ in what a sum becomes that its type does not hold.
    if (isWhole && !values.every((value) => holds(tensor.dtype, value))) return undefined;
    const count = numbers.length / Math.max(1, values.length);
    const result = mean ? values.map((value) => value / count) : values;
    if (!result.every(Number.isFinite)) return undefined;
    const shape = int(attributes.keepdims, 1) === 1 ? kept : tensor.shape.filter((_, i) => !gone.has(i));
    return [tensorOf(tensor.dtype, shape, result)];
  };
}

const where: Fold = ([condition, x, y]) => {
  const [c, a, b] = [condition as Tensor, x as Tensor, y as Tensor];
  const shape = broadcast(
    c.shape,
    broadcast(a.shape, b.shape, () => ''),
    () => '',
  ) as readonly number[];
  const length = elementCount(shape);
  if (length > MAX_COMPUTED) return undefined;
  const [fromC, fromA, fromB] = [spread(c, shape), spread(a, shape), spread(b, shape)];
  const data = similar(a, length) as unknown[];
  for (let i = 0; i < length; i++) {
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

const bool = (value: boolean) => (value ? 1 : 0);

const FOLD: Readonly<Record<string, Fold>> = {
  ...FOLD_MOVES,
  Cast: cast,
  Range: range,
  Where: where,
  ConstantOfShape: constantOfShape,
  Shape: ([x], { start, end }) => {
    const dims = (x as Tensor).shape.slice(int(start, 0), typeof end === 'number' ? end : undefined);
    return [tensorOf('int64', [dims.length], dims)];
  },
  Size: ([x]) => [tensorOf('int64', [], [(x as Tensor).data.length])],
  Add: binary((a, b) => a + b),
  Sub: binary((a, b) => a - b),
  Mul: binary((a, b) => a * b),
  Div: binary((a, b, dtype) => (isFloat(dtype) ? a / b : (a - (a % b)) / b)),
  Pow: binary(power),
  Max: binary((a, b) => Math.max(a, b)),
  Min: binary((a, b) => Math.min(a, b)),
  Mod: (inputs, attributes) => {
    if (int(attributes.fmod, 0) === 1) return binary((a, b) => a % b)(inputs, attributes);
    return isFloat((inputs[0] as Tensor).dtype) ? undefined : binary(floorMod)(inputs, attributes);
  },
  Equal: binary((a, b) => bool(a === b), 'bool'),
  Less: binary((a, b) => bool(a < b), 'bool'),
  LessOrEqual: binary((a, b) => bool(a <= b), 'bool'),
  Greater: binary((a, b) => bool(a > b), 'bool'),
  GreaterOrEqual: binary((a, b) => bool(a >= b), 'bool'),
  And: binary((a, b) => bool(a !== 0 && b !== 0), 'bool'),
  Or: binary((a, b) => bool(a !== 0 || b !== 0), 'bool'),
  Not: unary((a) => bool(a === 0)),
  Neg: unary((a) => -a),
  Abs: unary(Math.abs),
  Sqrt: float(Math.sqrt),
  Reciprocal: float((a) => 1 / a),
  Exp: float(Math.exp),
  Log: float(Math.log),
  Floor: float(Math.floor),
  Ceil: float(Math.ceil),
  ReduceProd: reduce(1, (a, b) => a * b),
  ReduceSum: reduce(0, (a, b) => a + b),
  ReduceMean: reduce(0, (a, b) => a + b, true),
  ReduceMax: reduce(-Infinity, Math.max),
  ReduceMin: reduce(Infinity, Math.min),
};

/** Max and Min of three or more inputs, Sum and Mean are left to the run. */
const ARITY: Readonly<Record<string, number>> = { Max: 2, Min: 2 };

export function foldNode(
  op: string,
  inputs: readonly (Value | undefined)[],
  attributes: Attributes,
): readonly Tensor[] | undefined {
  const fold = Object.hasOwn(FOLD, op) ? FOLD[op] : undefined;
  if (!fold || inputs.length === 0) return undefined;
  if (Object.hasOwn(ARITY, op) && inputs.length !== ARITY[op]) return undefined;
  const tensors: (Tensor | undefined)[] = [];
  for (const input of inputs) {
    if (input && !input.constant) return undefined;
    tensors.push(input?.constant);
  }
  if (tensors[0] === undefined) return undefined;
  return fold(tensors, attributes);
}
