/** Looks for the commit that moved a row, by measuring some of those in between. */
import { elementAt } from '../../lib/contract/present.ts';
import type { Moved } from './moved.ts';

/** @returns the median of the row at this commit; undefined when it cannot be measured there */
export type MedianAt = (commit: string) => Promise<number | undefined>;

/**
 * Halves the commits until one is left. A commit has moved when its median is nearer to that of the new run.
 * @param commits those after the earlier run up to that of the new one, the oldest first
 * @returns the commits one of which moved the row, the oldest first: one, or several where those between cannot be measured
 */
export async function findCommit(
  commits: readonly string[],
  { before, now }: Pick<Moved, 'before' | 'now'>,
  medianAt: MedianAt,
): Promise<string[]> {
  const isMoved = (median: number) => Math.abs(median - now.median) < Math.abs(median - before.median);
  // The row has not moved before `first`, and has with `last`.
  let first = 0;
  let last = commits.length - 1;
  const unmeasured = new Set<number>();
  for (;;) {
    const at = nearestTo(Math.floor((first + last - 1) / 2), first, last, unmeasured);
    if (at === undefined) return commits.slice(first, last + 1);
    const median = await medianAt(elementAt(commits, at, 'commits'));
    if (median === undefined) unmeasured.add(at);
    else if (isMoved(median)) last = at;
    else first = at + 1;
  }
}

/** @returns the place nearest to the middle that may be measured, from `first` to before `last` */
function nearestTo(
  middle: number,
  first: number,
  last: number,
  without: ReadonlySet<number>,
): number | undefined {
  const places = Array.from({ length: last - first }, (_, i) => first + i).filter(
    (place) => !without.has(place),
  );
  return places.toSorted((a, b) => Math.abs(a - middle) - Math.abs(b - middle))[0];
}
