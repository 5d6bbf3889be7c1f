/**
 * Compares the answers of two versions to the same rows, output by output. Made-up rows differ much in their scale, so a difference
 * is a share of the spread of its own row, or of all rows where a row is a single value.
 */
import { elementAt } from '../../lib/contract/present.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { valuesOf } from '../../lib/contract/tensor-values.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { spreadOf } from '../spread.ts';

export interface OutputDifference {
  readonly output: string;
  /** Rows that were compared. */
  readonly rows: number;
  /** Rows with another shape, dtype or text, or a number where there was none. */
  readonly otherForm: number;
  /** The largest difference of each row, as a share of the spread of its numbers before: the median, and the largest. */
  readonly median: number;
  readonly largest: number;
  /** The row of the largest, from 0. */
  readonly worstRow: number;
  /** Rows whose largest value is at another place; undefined for an output that has one value a row. */
  readonly flips?: number;
  /** Where each value of before is now, if all are there in another order. */
  readonly order?: readonly number[];
}

/** @param before the answers of the first version, by row. Outputs that the second does not have are left out */
export function differencesOf(
  before: readonly (readonly NamedTensor[])[],
  after: readonly (readonly NamedTensor[])[],
): OutputDifference[] {
  const names = before[0]?.map(({ name }) => name) ?? [];
  return names.flatMap((name) => {
    const pairs = before.flatMap((row, i): [Tensor, Tensor][] => {
      const was = row.find((output) => output.name === name);
      const is = elementAt(after, i, 'after').find((output) => output.name === name);
      return was && is ? [[was, is]] : [];
    });
    return pairs.length === 0 ? [] : [differenceOf(name, pairs)];
  });
}

function differenceOf(output: string, pairs: readonly (readonly [Tensor, Tensor])[]): OutputDifference {
  const whole = spreadOf(pairs.flatMap(([was]) => numbersOf(was)));
  const distances = pairs.map(([was, is]) => distance(was, is, whole));
  const numbers = distances.filter((one) => one !== undefined);
  const sorted = numbers.toSorted((a, b) => a - b);
  const largest = sorted.at(-1) ?? 0;
  const rows = pairs.map(([was, is]) => [numbersOf(was), numbersOf(is)] as const);
  const hasClasses = rows.every(([was, is]) => was.length > 1 && was.length === is.length);
  const order = hasClasses ? orderOf(rows) : undefined;
  return {
    output,
    rows: pairs.length,
    otherForm: pairs.length - numbers.length,
    median: sorted[Math.floor(sorted.length / 2)] ?? 0,
    largest,
    worstRow: distances.findIndex((one) => one === undefined || one === largest),
    ...(hasClasses && { flips: rows.filter(([was, is]) => largestAt(was) !== largestAt(is)).length }),
    ...(order && { order }),
  };
}

/** @returns undefined for tensors that differ in form */
export function distance(was: Tensor, is: Tensor, whole: number): number | undefined {
  if (was.dtype !== is.dtype || was.shape.join() !== is.shape.join()) return undefined;
  if (was.dtype === 'string') return was.data.every((text, i) => text === is.data[i]) ? 0 : undefined;
  let most = 0;
  const [first, second] = [numbersOf(was), numbersOf(is)];
  const spread = (first.length > 1 ? spreadOf(first) : whole) || 1;
  for (const [i, value] of first.entries()) {
    const other = elementAt(second, i, 'numbers');
    if (Object.is(value, other) || value === other) continue;
    const difference = Math.abs(value - other);
    if (Number.isNaN(difference)) return undefined;
    most = Math.max(most, difference / spread);
  }
  return most;
}

/** None for texts. */
export function numbersOf(tensor: Tensor): number[] {
  if (tensor.dtype === 'string') return [];
  return Array.from<number | bigint | string, number>(valuesOf(tensor), Number);
}

export function largestAt(values: readonly number[]): number {
  return values.reduce((best, value, i) => (value > elementAt(values, best, 'values') ? i : best), 0);
}

/** Rows with fewer values that differ prove no order. */
const LEAST_ROWS = 3;
/** Each is compared with each, once. */
const MOST_CLASSES = 4_096;

/** A share of the spread: a kernel may round a sum otherwise at another place. */
const SAME = 1e-5;

/** @returns undefined where the values differ, stand where they stood, or cannot be told apart in any row */
function orderOf(rows: readonly (readonly [readonly number[], readonly number[]])[]): number[] | undefined {
  const order = rows.map(([was, is]) => placesOf(was, is)).find((places) => places !== undefined);
  if (!order || rows.length < LEAST_ROWS || order.every((to, from) => to === from)) return undefined;
  const holds = rows.every(([was, is]) => {
    const allowed = SAME * spreadOf(was);
    return was.every((value, i) => {
      const other = elementAt(is, elementAt(order, i, 'order'), 'values');
      return Object.is(value, other) || Math.abs(value - other) <= allowed;
    });
  });
  return holds ? order : undefined;
}

/** Where each value of a row is in the other; undefined where two are alike, or one is not there. */
function placesOf(was: readonly number[], is: readonly number[]): number[] | undefined {
  if (was.length > MOST_CLASSES) return undefined;
  const allowed = SAME * spreadOf(was);
  const sorted = was.toSorted((a, b) => a - b);
  const isApart = sorted.every(
    (value, i) => i === 0 || value - elementAt(sorted, i - 1, 'sorted') > 2 * allowed,
  );
  if (!isApart) return undefined;
  const places = was.map((value) => is.findIndex((other) => Math.abs(value - other) <= allowed));
  return places.includes(-1) ? undefined : places;
}
