/** The size against which a difference of an output is judged. */

/** Largest minus smallest finite value; of values that are all the same, their size; of none, 0. */
export function spreadOf(values: Iterable<number>): number {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (most === -Infinity) return 0;
  return most === least ? Math.abs(most) : most - least;
}
