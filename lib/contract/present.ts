/** What the code around it knows to be there, and the compiler does not. Where it is not, the error says of what. */

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
