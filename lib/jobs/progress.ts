/** How far a job is, by the names of its objects: true at any moment, also while its watch waits behind the rows in the queue. */
import { elementAt } from '../contract/present.ts';
import type { Begun } from './begin.ts';
import { covered, readPart, type StoredPart } from './cover.ts';
import type { JobKeys, Progress } from './request.ts';
import type { JobStore } from './store.ts';

interface Counted {
  readonly progress: Progress;
  /** In the order of their names. */
  readonly parts: readonly StoredPart[];
  /** The rows of each unit that is counted. */
  readonly ends: ReadonlyMap<number, number>;
}

export async function countProgress(
  keys: JobKeys,
  { known, units, files }: Begun,
  { store, bucket }: { readonly store: Pick<JobStore, 'pages'>; readonly bucket: string },
): Promise<Counted> {
  const ends = new Map(Object.entries(known).map(([unit, rows]) => [Number(unit), rows]));
  for await (const [name] of namesBelow(store, bucket, keys.ends)) {
    const [unit = 0, rows = 0] = name.split('-').map(Number);
    ends.set(unit, rows);
  }
  const parts: StoredPart[] = [];
  for await (const [name, bytes] of namesBelow(store, bucket, keys.parts)) {
    const part = readPart(name, bytes);
    if (part) parts.push(part);
  }
  const isCounted = ends.size >= units;
  const total = isCounted ? [...ends.values()].reduce((sum, rows) => sum + rows, 0) : undefined;
  return { progress: { ...covered(parts), files, total, parts: parts.length }, parts, ends };
}

async function* namesBelow(
  store: Pick<JobStore, 'pages'>,
  bucket: string,
  prefix: string,
): AsyncGenerator<readonly [string, number]> {
  for await (const page of store.pages({ bucket, key: prefix }))
    for (const { key, bytes } of page) yield [elementAt(key.split(prefix), 1, key), bytes];
}
