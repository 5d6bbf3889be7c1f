/**
 * Shape arithmetic: tracks the elements of small integer tensors, each a number or the name of a free size ("N",
 * 784), so that a Reshape to (shape(x)[0], 784) is understood although N is free.
 */
import { holds, numbersOf } from './numbers.ts';
import { product } from './shapes.ts';
import type { Attributes, Dim, Value } from './value.ts';

type Elements = readonly (Dim | undefined)[];
type Rule = (inputs: readonly (Value | undefined)[], attributes: Attributes) => Elements | undefined;

/** Limits the tracked elements; a shape has one per dimension. */
const MAX_ELEMENTS = 64;

const first: Rule = ([x]) => x?.elements;

const RULES: Readonly<Record<string, Rule>> = {
  Shape: ([x], { start, end }) => x?.shape?.slice(int(start) ?? 0, int(end)),
  Size: ([x]) => x?.shape && [product(x.shape)],
  Identity: first,
  Cast: first,
  Squeeze: first,
  Unsqueeze: first,
  Reshape: first,
  Concat: (inputs) => {
    const parts = inputs.map((input) => input?.elements);
    return parts.every((part) => part !== undefined) ? parts.flat() : undefined;
  },
  Gather: ([x, at]) => {
    const elements = x?.elements;
    if (!elements || !at?.elements) return undefined;
    return at.elements.map((i) =>
      typeof i === 'number' ? elements[i < 0 ? i + elements.length : i] : undefined,
    );
  },
  Slice: ([x, starts, ends, , steps]) => {
    const elements = x?.elements;
    const [start, end, step] = [starts?.elements?.[0], ends?.elements?.[0], steps ? steps.elements?.[0] : 1];
    if (!elements || typeof start !== 'number' || typeof end !== 'number') return undefined;
    if (step === 1) return elements.slice(start, end);
    if (step === -1) {
      const [from, to] = sliceBounds(start, end, -1, elements.length);
      return elements.slice(to + 1, from + 1).toReversed();
    }
    return undefined;
  },
  Add: pairwise((a, b) => a + b, 0),
  Sub: pairwise((a, b) => a - b),
  Mul: pairwise((a, b) => a * b, 1),
  Div: pairwise((a, b) => (a - (a % b)) / b),
  Mod: (inputs, { fmod }) => pairwise(fmod === 1 ? (a, b) => a % b : floorMod)(inputs, {}),
  Max: pairwise(Math.max),
  Min: pairwise(Math.min),
  ReduceProd: ([x]) => x?.elements && [product(x.elements)],
};

/** Says "to the end", which is the beginning where the step is negative. */
const TO_THE_END = 2 ** 31 - 1;

/** The bounds of ONNX's Slice on an axis of `size`, clamped: [from, to). `to` is -1 for "before the first". */
export function sliceBounds(start: number, end: number, step: number, size: number): [number, number] {
  const from = start < 0 ? start + size : start;
  const to = end < 0 ? end + size : end;
  if (step > 0) return [clamp(from, 0, size), clamp(to, 0, size)];
  return [clamp(from, 0, size - 1), end === TO_THE_END ? -1 : clamp(to, -1, size - 1)];
}

/** With the sign of the divisor. */
export function floorMod(a: number, b: number): number {
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

function int(attribute: Attributes[string]): number | undefined {
  return typeof attribute === 'number' ? attribute : undefined;
}

function pairwise(compute: (a: number, b: number) => number, neutral?: number): Rule {
  const one = (a: Dim | undefined, b: Dim | undefined): Dim | undefined => {
    if (typeof a === 'number' && typeof b === 'number') {
      const result = compute(a, b);
      return Number.isSafeInteger(result) ? result : undefined;
    }
    if (a === neutral && neutral !== undefined) return b;
    if (b === neutral && neutral !== undefined) return a;
    return undefined;
  };
  return ([x, y]) => {
    const [a, b] = [x?.elements, y?.elements];
    if (!a || !b || (a.length !== b.length && a.length !== 1 && b.length !== 1)) return undefined;
    const length = a.length === 1 ? b.length : a.length;
    return Array.from({ length }, (_, i) => one(a[a.length === 1 ? 0 : i], b[b.length === 1 ? 0 : i]));
  };
}

/** The elements of a constant, or of the result of `op`. */
export function elementsOf(
  value: Pick<Value, 'dtype' | 'shape' | 'constant'>,
  op?: string,
  inputs: readonly (Value | undefined)[] = [],
  attributes: Attributes = {},
): Elements | undefined {
  if (value.dtype !== 'int32' && value.dtype !== 'int64') return undefined;
  if (value.shape === undefined || value.shape.length > 1) return undefined;
  if (value.constant) {
    const numbers = value.constant.data.length <= MAX_ELEMENTS ? numbersOf(value.constant) : undefined;
    return numbers && Array.from(numbers);
  }
  const rule = op !== undefined && Object.hasOwn(RULES, op) ? RULES[op] : undefined;
  const elements = rule?.(inputs, attributes);
  const length = value.shape.length === 0 ? 1 : value.shape[0];
  if (!elements || elements.length !== length || elements.length > MAX_ELEMENTS) return undefined;
  const { dtype } = value;
  // A number that wraps in the run is not known.
  return elements.map((element) =>
    typeof element === 'number' && !(Number.isSafeInteger(element) && holds(dtype, element))
      ? undefined
      : element,
  );
}

/** The dimensions in a shape input, free ones by name; undefined when it is unknown. */
export function shapeFrom(value: Value | undefined, fresh: () => string): Dim[] | undefined {
  if (value?.elements) return value.elements.map((element) => element ?? fresh());
  const numbers = value?.constant && numbersOf(value.constant);
  if (numbers && numbers.length <= MAX_ELEMENTS) return Array.from(numbers);
  const length = value?.shape?.[0];
  if (value?.shape?.length !== 1 || typeof length !== 'number' || length > MAX_ELEMENTS) return undefined;
  return Array.from({ length }, fresh);
}
