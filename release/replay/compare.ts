/** Compares the answers of captured records with those of a replay, record by record, in memory that does not grow with them. */
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { distance, largestAt, numbersOf } from '../diff/answers.ts';
import { spreadOf } from '../spread.ts';

/** An output of one record, before and after. */
export interface Compared {
  readonly output: string;
  /** True: the same bits. */
  readonly isSame: boolean;
  /** The largest difference as a share of the spread; undefined where a form or a text differs. */
  readonly distance: number | undefined;
  /** True: the largest value is at another place, or a single label is another. Undefined for a single float. */
  readonly flips: boolean | undefined;
  /** The first class, or the label, before and after. */
  readonly classes?: readonly [was: string, is: string];
}

/** The smallest and the largest value of outputs that have a single one: one record does not say how far they spread. */
export class Spreads {
  readonly #bounds = new Map<string, { least: number; most: number }>();

  add(outputs: readonly NamedTensor[]): void {
    for (const { name, ...tensor } of outputs) {
      const [value] = numbersOf(tensor);
      if (tensor.data.length !== 1 || value === undefined || !Number.isFinite(value)) continue;
      const { least, most } = this.#bounds.get(name) ?? { least: value, most: value };
      this.#bounds.set(name, { least: Math.min(least, value), most: Math.max(most, value) });
    }
  }

  /** 0 for an output of several values. */
  of(name: string): number {
    const bounds = this.#bounds.get(name);
    return spreadOf(bounds ? [bounds.least, bounds.most] : []);
  }
}

/** @param before as captured. Outputs that were not captured are not compared. @returns one for each */
export function compareRecord(
  before: readonly NamedTensor[],
  after: readonly NamedTensor[],
  spreads: Spreads,
): Compared[] {
  return before.map(({ name, ...was }) => {
    const is = after.find((output) => output.name === name);
    if (!is) return { output: name, isSame: false, distance: undefined, flips: undefined };
    const [first, second] = [numbersOf(was), numbersOf(is)];
    const same = isSame(was, is);
    const isLabel = was.data.length === 1 && !was.dtype.startsWith('float');
    const hasClasses = first.length > 1 && first.length === second.length;
    const classes = isLabel ? labelsOf(was, is) : hasClasses ? placesOf(first, second) : undefined;
    return {
      output: name,
      isSame: same,
      distance: distance(was, is, spreads.of(name)),
      flips: isLabel ? !same : classes && classes[0] !== classes[1],
      ...(classes && { classes }),
    };
  });
}

function labelsOf(was: Tensor, is: Tensor): readonly [string, string] {
  return [String(was.data[0]), String(is.data[0])];
}

function placesOf(was: readonly number[], is: readonly number[]): readonly [string, string] {
  return [String(largestAt(was)), String(largestAt(is))];
}

function isSame(was: Tensor, is: Tensor): boolean {
  if (was.dtype !== is.dtype || was.shape.join() !== is.shape.join()) return false;
  return Array.from<unknown>(was.data).every((value, i) => Object.is(value, is.data[i]));
}
