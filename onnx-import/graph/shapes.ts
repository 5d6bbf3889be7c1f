/**
 * Shape helpers that return numbers when sizes are known and throw a clear error otherwise. A product of free
 * dimensions has no name and becomes a new free dimension.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import type { Dim, Shape, Value } from './value.ts';

/** Makes a new free dimension. */
export type Fresh = () => string;

export function rank(value: Value): number {
  return known(value).length;
}

export function known(value: Value): Shape {
  if (value.shape) return value.shape;
  throw badModel(`needs an input of known rank, "${value.name}" has none; give shapes with --input`);
}

/** The size of one axis; negative axes count from the end. @throws bad_model when it is free */
export function fixed(value: Value, axis: number): number {
  const shape = known(value);
  const dim = shape[axis < 0 ? axis + shape.length : axis];
  if (typeof dim === 'number') return dim;
  throw badModel(
    `needs a fixed size at axis ${axis} of "${value.name}", which is ${formatShape(shape)}; give it with --input`,
  );
}

/** An axis as 0..rank-1. */
export function axisOf(axis: number, count: number): number {
  const at = axis < 0 ? axis + count : axis;
  if (Number.isInteger(at) && at >= 0 && at < count) return at;
  throw badModel(`axis ${axis} is outside of ${count} dimensions`);
}

/** The product of dimensions: a number, the one free name when all others are 1, else undefined. */
export function product(dims: readonly (Dim | undefined)[]): Dim | undefined {
  let number = 1;
  let free: string | undefined;
  for (const dim of dims) {
    if (dim === undefined) return undefined;
    if (typeof dim === 'number') number *= dim;
    else if (free === undefined) free = dim;
    else return undefined;
  }
  if (number === 0) return 0;
  if (free === undefined) return number;
  return number === 1 ? free : undefined;
}

/** Divides the product of `from` by `others`. Returns undefined when the result is unknown. */
export function quotient(from: Shape, others: readonly Dim[]): Dim | undefined {
  const rest = [...from];
  const numbers: number[] = [];
  for (const dim of others) {
    const at = typeof dim === 'string' ? rest.indexOf(dim) : -1;
    if (at >= 0) rest.splice(at, 1);
    else if (typeof dim === 'number') numbers.push(dim);
    else return undefined;
  }
  const free = rest.filter((dim) => typeof dim === 'string');
  const whole = rest.reduce<number>((all, dim) => (typeof dim === 'number' ? all * dim : all), 1);
  const part = numbers.reduce((all, dim) => all * dim, 1);
  if (part === 0 || whole % part !== 0) return undefined;
  // (N, 7, 7, 64) as (-1, 3136): the numbers cancel out and N remains.
  if (free.length === 0 || whole === 0) return whole / part;
  return free.length === 1 && whole === part ? free[0] : undefined;
}

/** Whether two dimensions are certainly equal. */
export function sameDim(a: Dim | undefined, b: Dim | undefined): boolean {
  return a !== undefined && a === b;
}
