/**
 * The arithmetic of shapes: small tensors whose elements are numbers and sizes, such as Shape's. What depends on the
 * number of rows stays known (N, N·4), or becomes an element that no rule may use.
 */
import type { Call } from './call.ts';
import { dependsOnRows, isUnknown, numberOf, over, type Size, same, size, times } from './size.ts';
import { type Counts, elementsOf, type Fixed, MAX_ELEMENTS, type Value } from './value.ts';

type Element = Size | undefined;
/** Undefined where the result is no product of numbers and sizes. */
type Binary = (a: Size, b: Size) => Element;

export interface Known {
  readonly shape: readonly Size[];
  readonly elements: readonly Element[];
  readonly type: number | undefined;
}

const FLOAT = 1;
const BOOL = 9;
/** Bits of the types that are computed with. Floats round, and smaller integers wrap: their results are not known. */
const BITS: Readonly<Record<number, number>> = { 6: 31, 7: 63, [BOOL]: 1 };
/** No tensor that is run has more elements. */
const LARGEST_SIZE = 2 ** 31 - 1;

/** Whether the type holds the element exactly, however large the sizes in it are in a run. */
export function fits({ factor, names }: Size, type: number | undefined): boolean {
  const bits = BITS[type ?? 0];
  if (bits === undefined || !Number.isSafeInteger(factor) || names.some(isUnknown)) return false;
  return Math.abs(factor) * LARGEST_SIZE ** names.length <= 2 ** bits - 1;
}

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
  return (a, b) => {
    const [x, y] = [numberOf(a), numberOf(b)];
    if (x !== undefined && x < 0 && y === undefined && b.factor > 0) return size(Number(compute(x, 0)));
    if (y !== undefined && y < 0 && x === undefined && a.factor > 0) return size(Number(compute(0, y)));
    if (same(a, b) && x === undefined) return size(Number(compute(0, 0)));
    return numbers(a, b);
  };
}

function add(a: Size, b: Size): Element {
  if (a.factor === 0) return b;
  if (b.factor === 0) return a;
  if (!same({ ...a, factor: 1 }, { ...b, factor: 1 })) return undefined;
  return times(size(a.factor + b.factor), { ...a, factor: 1 });
}

/** Toward zero. The quotient of two doubles may round up to the next whole number. */
const divide: Binary = (a, b) => {
  const [x, y] = [numberOf(a), numberOf(b)];
  return x !== undefined && y !== undefined ? size((x - (x % y)) / y) : over(a, b);
};

/**
 * Operators that are missing here are computed by onnxruntime alone. Its Max and Min of many int64 take 1 for the larger
 * of 1 and 2^31, but not of few.
 */
const BINARY: Readonly<Record<string, Binary>> = {
  Add: add,
  Sub: (a, b) => add(a, times(size(-1), b)),
  Mul: times,
  Div: divide,
  // Below zero it depends on an attribute.
  Mod: (a, b) => {
    if (a.factor < 0 || b.factor < 0) return undefined;
    return over(a, b) ? size(0) : onNumbers((x, y) => x % y)(a, b);
  },
  Max: (a, b) => (same(a, b) ? a : undefined),
  Min: (a, b) => (same(a, b) ? a : undefined),
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
  const compute = BINARY[call.operator];
  const type = COMPARISONS.has(call.operator) ? BOOL : first.type;
  const isExact = (item: Element): item is Size => item !== undefined && fits(item, first.type);
  const elements = rows.map((row) =>
    row.reduce((a, b) =>
      settle(call, [a, b], compute && isExact(a) && isExact(b) ? compute(a, b) : undefined, type),
    ),
  );
  return elementsOf(shape, elements, type);
}

function where(call: Call, [condition, yes, no]: readonly Element[]): Element {
  const chosen = numberOf(condition);
  if (chosen !== undefined) return chosen === 0 ? no : yes;
  return yes && no && same(yes, no) ? yes : unsettled(call, [condition, yes, no]);
}

/** A result that its type holds; else one that is not known. */
export function settle(
  call: Call,
  from: readonly Element[],
  result: Element,
  type: number | undefined,
): Element {
  return result && fits(result, type) ? result : unsettled(call, from);
}

/** Any integer, or, where N is in it, nothing that a rule may use. */
function unsettled(call: Call, from: readonly Element[]): Element {
  return from.some((item) => item === undefined || dependsOnRows(item)) ? undefined : call.names.integer();
}

/** The one shape of several elements among shapes of one element. */
function commonShape(inputs: readonly Known[]): readonly Size[] | undefined {
  const longest = inputs.reduce((a, b) => {
    const longer = b.elements.length - a.elements.length || b.shape.length - a.shape.length;
    return longer > 0 ? b : a;
  });
  const areAlike = inputs.every(
    ({ shape, elements }) =>
      shape.length <= longest.shape.length &&
      (elements.length === 1 ||
        (shape.length === longest.shape.length &&
          shape.every((dim, i) => same(dim, longest.shape[i] as Size)))),
  );
  return areAlike ? longest.shape : undefined;
}

/** Of Cast, Floor and the like on known elements; undefined where the input is something else. */
export function numberArithmetic(call: Call): Fixed | Counts | undefined {
  const input = known(call.value(0));
  if (!input || call.count > 1) return undefined;
  const { operator } = call;
  const type = operator === 'Cast' ? call.int('to', 0) : input.type;
  const elements = input.elements.map((element) => {
    if (operator === 'Cast') return element && (cast(element, type) ?? unsettled(call, [element]));
    const isExact = element !== undefined && fits(element, type);
    return settle(call, [element], isExact ? UNARY[operator]?.(element) : undefined, type);
  });
  return elementsOf(input.shape, elements, type);
}

const UNARY: Readonly<Record<string, (element: Size) => Element>> = {
  Neg: (element) => times(size(-1), element),
  Not: ({ factor }) => size(1 - factor),
};

/** Undefined where the type does not hold it, or where what it becomes is up to the processor. */
function cast(element: Size, type: number | undefined): Element {
  const number = numberOf(element);
  if (number === undefined || !Number.isFinite(number)) return fits(element, type) ? element : undefined;
  if (type === FLOAT) return Math.fround(number) === number ? element : undefined;
  const whole = size(type === BOOL ? Number(number !== 0) : Math.trunc(number));
  return fits(whole, type) ? whole : undefined;
}
