/**
 * Sizes as products of a number and names: 12, N, N·4·seq. The names stand for sizes that the file leaves free; two sizes
 * of the same names are equal. Shape arithmetic works on the same products, so an element may also be negative.
 */

export interface Size {
  readonly factor: number;
  /** Sorted; a name may occur more than once. */
  readonly names: readonly string[];
}

export type Shape = readonly Size[];

/** The name of the number of rows of a run. */
const ROWS = 'N';
/** Begins the name of an integer that is not known at all; it may be negative or zero. */
const UNKNOWN = '?';

export const ONE: Size = { factor: 1, names: [] };
/** The number of rows, where the model leaves it free. */
export const FREE_ROWS: Size = { factor: 1, names: [ROWS] };

export function size(factor: number): Size {
  return { factor, names: [] };
}

/** Makes names that no other size has. */
export class Names {
  private count = 0;

  /** A size that no run of equal row shapes changes: zero or more. */
  dim(): Size {
    this.count += 1;
    return { factor: 1, names: [`d${this.count}`] };
  }

  /** Any integer. */
  integer(): Size {
    this.count += 1;
    return { factor: 1, names: [`${UNKNOWN}${this.count}`] };
  }
}

export function same(a: Size, b: Size): boolean {
  return (
    a.factor === b.factor &&
    a.names.length === b.names.length &&
    a.names.every((name, i) => name === b.names[i])
  );
}

/** The number, unless a name is left. */
export function numberOf(value: Size | undefined): number | undefined {
  return value?.names.length === 0 ? value.factor : undefined;
}

export function times(a: Size, b: Size): Size {
  const factor = a.factor * b.factor;
  return factor === 0 ? size(0) : { factor, names: [...a.names, ...b.names].toSorted() };
}

export function product(sizes: readonly Size[]): Size {
  return sizes.reduce(times, ONE);
}

/** a / b where it is again a product, with a whole number in front. */
export function over(a: Size, b: Size): Size | undefined {
  const factor = a.factor / b.factor;
  if (!Number.isInteger(factor)) return undefined;
  const names = [...a.names];
  for (const name of b.names) {
    const at = names.indexOf(name);
    if (at < 0) return undefined;
    names.splice(at, 1);
  }
  return { factor, names };
}

/** Whether it changes with the number of rows. */
export function dependsOnRows(value: Size): boolean {
  return value.names.includes(ROWS);
}

/** Whether the name is that of an integer that is not known at all. */
export function isUnknown(name: string): boolean {
  return name.startsWith(UNKNOWN);
}
