/** What the code around it knows to be there, and the compiler does not. Where it is wrong, the error says which part. */

/** @param name of the list, for the error */
export function at<T>(list: ArrayLike<T>, index: number, name: string): T {
  if (index >= 0 && index < list.length) return list[index] as T;
  throw new RangeError(`no element ${index} in ${name}, which has ${list.length}`);
}

/** @param name of the value, for the error */
export function present<T>(value: T | undefined, name: string): T {
  if (value !== undefined) return value;
  throw new RangeError(`no ${name}`);
}
