/**
 * Asserts facts that the code knows and the compiler does not: that an element is there, or what a value that was read is. Where
 * something is not there, the error says what.
 */

/** True if a value that was read is a whole number from 0 on. */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

/** @param name of the list, for the error */
export function elementAt<T>(list: ArrayLike<T>, index: number, name: string): T {
  if (index >= 0 && index < list.length) return list[index] as T;
  throw new RangeError(`no element ${index} in ${name}, which has ${list.length}`);
}

/** @param name what is missing, for the error */
export function present<T>(value: T | undefined | null, name: string): T {
  if (value !== undefined && value !== null) return value;
  throw new RangeError(`no ${name}`);
}
