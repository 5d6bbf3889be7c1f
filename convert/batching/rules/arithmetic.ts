/**
 * The arithmetic of shapes: small tensors whose elements are numbers and sizes, such as Shape's. What depends on the
 * number of rows stays known (N, N·4), or becomes an element that no rule may use.
 */
import type { Call } from '../call.ts';
import { dependsOnRows, mayBeNegative, numberOf, over, type Size, same, size, times } from '../size.ts';
import { type Counts, elementsOf, type Fixed, MAX_ELEMENTS, type Value } from '../value.ts';

type Element = Size | undefined;
/** Undefined where the result is no product of numbers and sizes. */
type Binary = (a: Size, b: Size, isInteger: boolean) => Element;

export interface Known {
  readonly shape: readonly Size[];
  readonly elements: readonly Element[];
  readonly type: number | undefined;
}

const FLOATS = new Set([1, 10, 11, 16]);
const BOOL = 9;
/** Casting to them cuts off what is too large. */
const NARROW = new Set([2, 3, 4, 5]);

/** Shape, elements and type where the elements are known. */
export function known(value: Value | undefined): Known | undefined {
  if (value?.kind === 'counts') return value;
  return value?.kind === 'fixed' && value.elements && value.shape
    ? { shape: value.shape, elements: value.elements, type: value.type }
    : undefined;
}

/** The elements at some places of each axis, with the axes in another order: what Slice and Transpose do. */
export function elementsAt(
  input: Known,
  places: readonly (readonly number[])[],
  order: readonly number[] = [...places.keys()],
): Fixed | Counts {
  const stride = (axis: number) => input.shape.slice(axis + 1).reduce((all, dim) => all * dim.factor, 1);
  const offsets = order.reduce<number[]>(
    (found, axis) => found.flatMap((at) => (places[axis] ?? []).map((place) => at + place * stride(axis))),
    [0],
  );
  const shape = order.map((axis) => size(places[axis]?.length ?? 0));
  return elementsOf(
    shape,
    offsets.map((at) => input.elements[at]),
    input.type,
  );
}

/** All places of an axis. */
export function allPlaces(dim: Size): number[] {
  return Array.from({ length: dim.factor }, (_, i) => i);
}

function onNumbers(compute: (a: number, b: number) => number | boolean): Binary {
  return (a, b) => {
    const [x, y] = [numberOf(a), numberOf(b)];
    return x === undefined || y === undefined ? undefined : size(Number(compute(x, y)));
  };
}

/** A comparison of numbers; a size is never below zero, so that it is above any negative number. */
function comparing(compute: (a: number, b: number) => boolean): Binary {
  const numbers = onNumbers(compute);
  return (a, b, isInteger) => {
    const [x, y] = [numberOf(a), numberOf(b)];
    if (x !== undefined && x < 0 && y === undefined && !mayBeNegative(b)) return size(Number(compute(x, 0)));
    if (y !== undefined && y < 0 && x === undefined && !mayBeNegative(a)) return size(Number(compute(0, y)));
    if (same(a, b) && x === undefined) return size(Number(compute(0, 0)));
    return numbers(a, b, isInteger);
  };
}

function add(a: Size, b: Size): Element {
  if (a.factor === 0) return b;
  if (b.factor === 0) return a;
  if (!same({ ...a, factor: 1 }, { ...b, factor: 1 })) return undefined;
  return times(size(a.factor + b.factor), { ...a, factor: 1 });
}

const divide: Binary = (a, b, isInteger) => {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined && y !== undefined && y !== 0) return size(isInteger ? Math.trunc(x / y) : x / y);
  return over(a, b, !isInteger);
};

const BINARY: Readonly<Record<string, Binary>> = {
  Add: add,
  Sub: (a, b) => add(a, times(size(-1), b)),
  Mul: times,
  Div: divide,
  // Below zero it depends on an attribute.
  Mod: (a, b) => {
    if (mayBeNegative(a) || mayBeNegative(b)) return undefined;
    return over(a, b) ? size(0) : onNumbers((x, y) => x % y)(a, b, true);
  },
  Pow: onNumbers((a, b) => a ** b),
  Max: (a, b) => (same(a, b) ? a : onNumbers(Math.max)(a, b, true)),
  Min: (a, b) => (same(a, b) ? a : onNumbers(Math.min)(a, b, true)),
  And: onNumbers((a, b) => a !== 0 && b !== 0),
  Or: onNumbers((a, b) => a !== 0 || b !== 0),
  Equal: comparing((a, b) => a === b),
  Greater: comparing((a, b) => a > b),
  GreaterOrEqual: comparing((a, b) => a >= b),
  Less: comparing((a, b) => a < b),
  LessOrEqual: comparing((a, b) => a <= b),
};
const COMPARISONS = new Set(['And', 'Or', 'Equal', 'Greater', 'GreaterOrEqual', 'Less', 'LessOrEqual']);

/** Of a binary operator or Where on known elements; undefined where the inputs are something else. */
export function sizeArithmetic(call: Call): Fixed | Counts | undefined {
  const inputs = Array.from({ length: call.count }, (_, i) => known(call.value(i)));
  if (!inputs.every((input) => input !== undefined)) return undefined;
  const shape = commonShape(inputs);
  const length = Math.max(...inputs.map(({ elements }) => elements.length));
  if (!shape || length > MAX_ELEMENTS) return undefined;
  const at = ({ elements }: Known, i: number) => elements[elements.length === 1 ? 0 : i];
  const rows = Array.from({ length }, (_, i) => inputs.map((input) => at(input, i)));
  const [first, second] = inputs as [Known, Known];
  if (call.operator === 'Where') {
    return elementsOf(
      shape,
      rows.map((row) => where(call, row)),
      second.type,
    );
  }
  const compute = BINARY[call.operator] as Binary;
  const isInteger = first.type !== undefined && !FLOATS.has(first.type);
  const elements = rows.map((row) =>
    row.reduce((a, b) => settle(call, [a, b], a && b && compute(a, b, isInteger))),
  );
  return elementsOf(shape, elements, COMPARISONS.has(call.operator) ? BOOL : first.type);
}

function where(call: Call, [condition, yes, no]: readonly Element[]): Element {
  const chosen = numberOf(condition);
  if (chosen !== undefined) return chosen === 0 ? no : yes;
  return settle(call, [condition, yes, no], yes && no && same(yes, no) ? yes : undefined);
}

/** A result that is not known: any integer, or, where N is in it, nothing that a rule may use. */
function settle(call: Call, from: readonly Element[], result: Element): Element {
  if (result !== undefined && Number.isFinite(result.factor)) return result;
  return from.some((item) => item === undefined || dependsOnRows(item)) ? undefined : call.names.integer();
}

/** The one shape of several elements among shapes of one element. */
function commonShape(inputs: readonly Known[]): readonly Size[] | undefined {
  const longest = inputs.reduce((a, b) => {
    const longer = b.elements.length - a.elements.length || b.shape.length - a.shape.length;
    return longer > 0 ? b : a;
  });
  const fits = inputs.every(
    ({ shape, elements }) =>
      shape.length <= longest.shape.length &&
      (elements.length === 1 ||
        (shape.length === longest.shape.length &&
          shape.every((dim, i) => same(dim, longest.shape[i] as Size)))),
  );
  return fits ? longest.shape : undefined;
}

/** Of Cast, Floor and the like on known elements; undefined where the input is something else. */
export function numberArithmetic(call: Call): Fixed | Counts | undefined {
  const input = known(call.value(0));
  if (!input || call.count > 1) return undefined;
  const type = call.operator === 'Cast' ? call.int('to', 0) : call.operator === 'Not' ? BOOL : input.type;
  const compute = (element: Size): Element => {
    const number = numberOf(element);
    if (call.operator === 'Cast' && NARROW.has(type ?? 0)) return undefined;
    if (number === undefined) return wholeOf(call.operator, element, type);
    return size(numberResult(call.operator, number, type));
  };
  const elements = input.elements.map((element) => settle(call, [element], element && compute(element)));
  return elementsOf(input.shape, elements, type);
}

function numberResult(operator: string, number: number, type: number | undefined): number {
  switch (operator) {
    case 'Cast':
      return type === BOOL ? Number(number !== 0) : FLOATS.has(type ?? 0) ? number : Math.trunc(number);
    case 'Ceil':
      return Math.ceil(number);
    case 'Floor':
      return Math.floor(number);
    case 'Neg':
      return -number;
    case 'Not':
      return Number(number === 0);
    case 'Sqrt':
      return Math.sqrt(number);
    default:
      return Number.NaN;
  }
}

/** A size with a whole number in front is a whole number. */
function wholeOf(operator: string, element: Size, type: number | undefined): Element {
  if (operator === 'Neg') return times(size(-1), element);
  if (!Number.isInteger(element.factor) || !['Cast', 'Ceil', 'Floor'].includes(operator)) return undefined;
  return operator === 'Cast' && type === BOOL ? undefined : element;
}
