/**
 * Turns nested JSON numbers, booleans or strings into a tensor of the model's dtype. The first elements define the
 * shape, and every other branch must match it.
 */
import { quoteValue } from '../codecs/quote.ts';
import { badInput, ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import { allocate, type DType, elementCount, type NumericDType, type Tensor } from '../contract/tensor.ts';
import { storeFor } from './cast.ts';

/**
 * @param value NaN, which JSON cannot hold, is a number of float32 and float64
 * @param mayMiss null is a missing value, NaN; only of float32 and float64
 * @throws bad_input for ragged arrays, a wrong element type, a number the dtype cannot hold; too_large over the limits
 */
export function nestedTensor(value: unknown, dtype: DType, mayMiss = false): Tensor {
  const shape = shapeOf(value);
  const count = elementCount(shape, LIMITS.tensorElements);
  if (count === 0) throw badInput(`is empty (shape [${shape.join(',')}]), expected at least one element`);
  if (dtype === 'string') {
    const strings: string[] = [];
    walk(value, shape, 0, (leaf) => {
      if (typeof leaf !== 'string') throw badInput(`expected text, got ${quoteValue(leaf)}`);
      strings.push(leaf);
    });
    return { dtype, shape, data: strings };
  }
  return { dtype, shape, data: fillNumbers(value, shape, count, dtype, mayMiss) };
}

function fillNumbers(
  value: unknown,
  shape: readonly number[],
  count: number,
  dtype: NumericDType,
  mayMiss: boolean,
) {
  const data = allocate(dtype, count);
  let index = 0;
  if (dtype === 'float32' || dtype === 'float64') {
    fillFloats(value, shape, 0, data as Float32Array | Float64Array, 0, mayMiss);
    return data;
  }
  const store = storeFor(dtype);
  walk(value, shape, 0, (leaf) => {
    const number = numberOf(leaf);
    if (!Number.isFinite(number)) throw outOfRange(number, dtype);
    if (
      !Number.isSafeInteger(number) &&
      Number.isInteger(number) &&
      (dtype === 'int64' || dtype === 'uint64')
    ) {
      // JSON.parse has rounded it already; passing on a neighbour would be silently wrong.
      throw badInput(`${number} is beyond 2^53, where JSON numbers lose digits`);
    }
    store(number, data, index++);
  });
  return data;
}

/**
 * `walk` for floats, without a call per element: 0.11 ms instead of 0.54 for 3x96x96.
 * @returns the index after the last element written
 */
function fillFloats(
  value: unknown,
  shape: readonly number[],
  axis: number,
  out: Float32Array | Float64Array,
  start: number,
  mayMiss: boolean,
): number {
  const elements = axis === shape.length ? [value] : branch(value, shape, axis);
  let at = start;
  if (axis < shape.length - 1) {
    for (const element of elements) at = fillFloats(element, shape, axis + 1, out, at, mayMiss);
    return at;
  }
  for (let i = 0; i < elements.length; i++, at++) {
    const element = elements[i];
    if ((mayMiss && element === null) || Number.isNaN(element)) {
      out[at] = Number.NaN;
      continue;
    }
    const number = typeof element === 'number' ? element : leafNumber(element, shape);
    out[at] = number;
    // One test for both cases: 1e309 parses to Infinity, and 1e39 becomes Infinity in a float32.
    if (!Number.isFinite(out[at]))
      throw outOfRange(number, out instanceof Float32Array ? 'float32' : 'float64');
  }
  return at;
}

function leafNumber(leaf: unknown, shape: readonly number[]): number {
  if (Array.isArray(leaf)) throw ragged(shape, shape.length, 'an array where the first element is none');
  if (leaf !== null) return numberOf(leaf);
  throw badInput(
    'expected a number, got null, a missing value, which only columns with names (names.json) have',
  );
}

/** The array at `axis`, of the length that `shape` says. */
function branch(value: unknown, shape: readonly number[], axis: number): readonly unknown[] {
  if (!Array.isArray(value))
    throw ragged(shape, axis, `${quoteValue(value)} where the first element is an array`);
  if (value.length === shape[axis]) return value;
  throw ragged(shape, axis, `${value.length} elements where the first has ${shape[axis]}`);
}

function outOfRange(number: number, dtype: DType): ServingError {
  return badInput(`a number is out of the range of ${dtype}: ${number}`);
}

function numberOf(leaf: unknown): number {
  if (typeof leaf === 'number') return leaf;
  if (typeof leaf === 'boolean') return leaf ? 1 : 0;
  throw badInput(`expected a number, got ${quoteValue(leaf)}`);
}

function shapeOf(value: unknown): number[] {
  const shape: number[] = [];
  let level = value;
  while (Array.isArray(level)) {
    if (shape.length === LIMITS.tensorRank) {
      throw new ServingError('too_large', `arrays are nested deeper than ${LIMITS.tensorRank} (tensorRank)`);
    }
    shape.push(level.length);
    level = level[0];
  }
  return shape;
}

/** Calls `leaf` for every element in row-major order, checking that all branches have `shape`. */
function walk(value: unknown, shape: readonly number[], axis: number, leaf: (leaf: unknown) => void): void {
  if (axis === shape.length) {
    if (Array.isArray(value)) throw ragged(shape, axis, 'an array where the first element is none');
    leaf(value);
    return;
  }
  for (const element of branch(value, shape, axis)) walk(element, shape, axis + 1, leaf);
}

function ragged(shape: readonly number[], axis: number, got: string): ServingError {
  return badInput(`arrays do not agree in shape: expected [${shape.join(',')}], got ${got} at depth ${axis}`);
}
