/**
 * Shape arithmetic: tracks the elements of small integer tensors, each a number or the name of a free size ("N",
 * 784), so that a Reshape to (shape(x)[0], 784) is understood although N is free.
 */
import type { ElementRule } from './ops/operator.ts';
import type { Dim } from './value.ts';

export const first: ElementRule = ([x]) => x?.elements;

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

/** @param neutral the number next to which a free size stays what it is */
export function pairwise(compute: (a: number, b: number) => number, neutral?: number): ElementRule {
  const one = (a: Dim | undefined, b: Dim | undefined): Dim | undefined => {
    if (typeof a === 'number' && typeof b === 'number') {
      const result = compute(a, b);
      return Number.isSafeInteger(result) ? result : undefined;
    }
    if (a === neutral && neutral !== undefined) return b;
    if (b === neutral && neutral !== undefined) return a;
    return undefined;
  };
  return ([x, y, ...others]) => {
    const [a, b] = [x?.elements, y?.elements];
    if (others.length > 0 || !a || !b || (a.length !== b.length && a.length !== 1 && b.length !== 1))
      return undefined;
    const length = a.length === 1 ? b.length : a.length;
    return Array.from({ length }, (_, i) => one(a[a.length === 1 ? 0 : i], b[b.length === 1 ? 0 : i]));
  };
}
