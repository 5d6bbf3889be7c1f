/**
 * Writes a record's outputs, filtered or complete, as the text that clients read: `[[4,5.0],[3,4.0]]`, with labels
 * `[[4,5.0,"cat"],[3,4.0,"dog"]]`, or
 * `{"data":..,"shape":..}`. It must be valid JSON (the old server forgot commas), with floats as Java prints them
 * (`4.0`, `1.0E7`). float16 values are bits, which cannot be printed or compared directly.
 */

import { badConfig, ServingError } from '../../contract/errors.ts';
import { elementAt } from '../../contract/present.ts';
import { elementCount, sliceTensor, type Tensor, type TypedArray } from '../../contract/tensor.ts';
import type { NamedTensor } from '../../contract/values.ts';
import { float16Bits, float16Value } from '../bind/cast.ts';

/** `topN(n)`: the n largest of the flattened output. `pickTopN(n)`: the first n rows. */
export interface Filter {
  readonly kind: 'topN' | 'pickTopN';
  readonly n: number;
  /** `topN(n, labels)`: each with the label of its class. */
  readonly labels?: true;
}

/** An output with the names of its classes, if it has them. */
type Labelled = Tensor & Pick<NamedTensor, 'labels'>;

/**
 * `""` means no filter.
 * @throws bad_config for an unknown filter or a count that is not a whole number >= 1
 */
export function parseFilter(text: string): Filter | undefined {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  const match = /^(topN|pickTopN)\((\d{1,9})(,labels)?\)$/.exec(trimmed.replaceAll(' ', ''));
  const [, kind, count, labels] = match ?? [];
  const n = Number(count);
  if (!match || n < 1 || (labels !== undefined && kind !== 'topN')) {
    throw badConfig(
      `filter ${JSON.stringify(text)}: expected "topN(n)" or "pickTopN(n)" with n a whole number >= 1, or "topN(n, labels)"`,
    );
  }
  return { kind: kind as Filter['kind'], n, ...(labels === undefined ? {} : { labels: true }) };
}

/** The error of a record whose worker returned what a filter cannot order. */
export function needsTensors({ kind }: Filter): ServingError {
  return new ServingError('model_failed', `${kind} needs arrays; the worker returned something else`);
}

/** The filter's text for one record: of the only output, or a JSON array with one entry per output. */
export function filterText(outputs: readonly Labelled[], filter: Filter): string {
  const { kind, n, labels = false } = filter;
  if (labels && !outputs.some((output) => output.labels)) {
    throw new ServingError(
      'model_failed',
      `topN(${n}, labels): the model's outputs have no labels; put labels.txt or names.json beside the model`,
    );
  }
  const texts = outputs.map((output) =>
    kind === 'topN' ? topN(output, n, labels ? output.labels : undefined) : pickTopN(output, n),
  );
  return texts.length === 1 ? elementAt(texts, 0, 'texts') : `[${texts.join(',')}]`;
}

/** `{"data":[...],"shape":[...]}` of the only output, or a JSON array of them. */
export function outputsText(outputs: readonly Tensor[]): string {
  const texts = outputs.map((output) => {
    return `{"data":[${elementTexts(output).join(',')}],"shape":[${output.shape.join(',')}]}`;
  });
  return texts.length === 1 ? elementAt(texts, 0, 'texts') : `[${texts.join(',')}]`;
}

function topN(output: Tensor, n: number, labels?: readonly string[]): string {
  if (output.dtype === 'string') throw new ServingError('model_failed', 'topN cannot order text outputs');
  const { data } = output;
  const pairs = rankingOf(output)(n).map((index) => {
    // The classes are the last axis, which is the index itself in an output of one.
    const label = labels === undefined ? '' : `,${JSON.stringify(labels[index % labels.length])}`;
    return `[${index},${numberText(elementAt<number | bigint>(data, index, 'data'), output.dtype)}${label}]`;
  });
  return `[${pairs.join(',')}]`;
}

/** The places, from `start` on, of the n largest of `length` values. Default: of all. */
type Ranking = (n: number, start?: number, length?: number) => number[];

/**
 * The one order in which values are ranked: the largest first, equal ones by their index, NaN last; 0 and -0 are equal.
 * bigints are compared as bigints, because a double would make neighbors beyond 2^53 equal.
 */
export function rankingOf({ dtype, data }: Pick<Tensor, 'dtype' | 'data'>): Ranking {
  const values =
    dtype === 'float16' ? Float32Array.from(data as Uint16Array, float16Value) : (data as TypedArray);
  return (n, start = 0, length = values.length) =>
    firstOf(length, n, (a, b) => {
      const [x, y] = [values[start + a] as number | bigint, values[start + b] as number | bigint];
      if (x > y) return -1;
      if (x < y) return 1;
      return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
    });
}

/** The first n of the indices below `length` in an order that has no ties. */
function firstOf(length: number, n: number, order: (a: number, b: number) => number): number[] {
  let first: number[] = [];
  let last: number | undefined;
  // Sorting 2n candidates whenever n of them are new takes log n per value, and no value is moved one by one.
  const cut = () => {
    first = first.sort(order).slice(0, n);
    if (first.length === n) last = first[n - 1];
  };
  for (let i = 0; i < length; i++) {
    if (last !== undefined && order(i, last) >= 0) continue;
    first.push(i);
    if (first.length === 2 * n) cut();
  }
  cut();
  return first;
}

/** The first n entries along the first dimension, nested as the output is. */
function pickTopN(output: Tensor, n: number): string {
  if (output.shape.length === 0)
    throw new ServingError('model_failed', 'pickTopN needs an output of rank >= 1');
  const first = elementAt(output.shape, 0, 'output.shape');
  const rows = Math.min(n, first);
  const rowLength = elementCount(output.shape.slice(1));
  const shape = [rows, ...output.shape.slice(1)];
  return nest(elementTexts(sliceTensor(output, shape, 0, rows * rowLength)), shape);
}

/** JSON texts of elements as nested JSON arrays of a shape. */
export function nest(texts: readonly string[], shape: readonly number[]): string {
  let level = texts;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const width = elementAt(shape, axis, 'shape');
    const rows = elementCount(shape.slice(0, axis));
    level = Array.from(
      { length: rows },
      (_, row) => `[${level.slice(row * width, (row + 1) * width).join(',')}]`,
    );
  }
  return elementAt(level, 0, 'level');
}

/** Each element as JSON: a text in quotes, an integer with all its digits, a float as short as its dtype allows. */
export function elementTexts(output: Tensor): string[] {
  if (output.dtype === 'string') return output.data.map((text) => JSON.stringify(text));
  const { data } = output;
  const texts = new Array<string>(data.length);
  for (let i = 0; i < data.length; i++) texts[i] = numberText(data[i] as number | bigint, output.dtype);
  return texts;
}

/** @param value of float16: its bits */
export function numberText(value: number | bigint, dtype: Tensor['dtype']): string {
  if (dtype === 'float32' || dtype === 'float64') return floatText(Number(value), dtype === 'float32');
  if (dtype === 'float16') return halfText(Number(value));
  return dtype === 'bool' ? (value ? 'true' : 'false') : String(value);
}

/**
 * A float as Java's Float.toString prints it: shortest digits that read back to the same float, always with a point,
 * an exponent outside [1e-3, 1e7). JSON has no NaN and no infinity: both become `null`.
 */
export function floatText(value: number, single: boolean): string {
  if (!Number.isFinite(value)) return 'null';
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const shortest = single ? shortestSingle(value) : value;
  const magnitude = Math.abs(shortest);
  if (magnitude >= 1e-3 && magnitude < 1e7) {
    return Number.isInteger(shortest) ? `${shortest}.0` : String(shortest);
  }
  const [digits, exponent] = shortest.toExponential().split('e') as [string, string];
  return `${digits.includes('.') ? digits : `${digits}.0`}E${exponent.replace('+', '')}`;
}

/** Texts by bits. There are at most 65,536, and computing one takes fifty times as long as a lookup. */
const HALF_TEXTS = new Map<number, string>();

/**
 * `floatText` of a float16, given as its bits, with the digits that distinguish it from other float16 values, at most
 * five. Integers have all digits: 8208, although 8210 would do.
 */
function halfText(bits: number): string {
  const known = HALF_TEXTS.get(bits);
  if (known !== undefined) return known;
  const text = floatText(shortestHalf(bits), false);
  HALF_TEXTS.set(bits, text);
  return text;
}

/** The double with the fewest digits that rounds to this float16. Integers, infinities and NaN are unchanged. */
export function shortestHalf(bits: number): number {
  const value = float16Value(bits);
  if (Number.isInteger(value) || !Number.isFinite(value)) return value;
  for (let digits = 1; ; digits++) {
    const candidate = Number(value.toPrecision(digits));
    // Five digits distinguish every value, so the loop ends.
    if (digits === 5 || float16Bits(candidate) === bits) return candidate;
  }
}

/** 10 ** n, exact up to 22. */
const TENS = Array.from({ length: 12 }, (_, n) => 10 ** n);

/**
 * For 1e-3 to 1e6, seven times as fast as by text. Exact: a float32 has 24 bits and 5 ** 11 has 26, so the product
 * fits a double, and the division rounds as parsing the digits would.
 */
function shortestByArithmetic(value: number): number {
  let places = value >= 0.1 ? 6 - wholeDigits(value) : value >= 0.01 ? 7 : 8;
  for (; ; places++) {
    const ten = TENS[places] as number;
    const candidate = Math.round(value * ten) / ten;
    if (Math.fround(candidate) === value) return candidate;
  }
}

/** Digits before the point, for 0.1 to 1e6. */
function wholeDigits(value: number): number {
  if (value < 1) return 0;
  if (value < 100) return value < 10 ? 1 : 2;
  if (value < 10_000) return value < 1000 ? 3 : 4;
  return value < 100_000 ? 5 : 6;
}

/** The double with the fewest digits that rounds to this float32. 6 to 9 digits always suffice. */
function shortestSingle(value: number): number {
  const magnitude = Math.abs(value);
  if (magnitude >= 1e-3 && magnitude < 1e6) return Math.sign(value) * shortestByArithmetic(magnitude);
  for (let digits = 6; digits < 9; digits++) {
    const candidate = Number(value.toPrecision(digits));
    if (Math.fround(candidate) === value) return candidate;
  }
  return Number(value.toPrecision(9));
}
