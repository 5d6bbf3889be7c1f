/**
 * Work that goes on when its caller has what it wanted. Lambda freezes a process at its answer, and its clocks and
 * connections are others when it goes on, so an answer waits until such work has ended. Each work has a limit of its own.
 */
const works = new Set<Promise<unknown>>();

/** Its failure is ignored. */
export function leave(work: Promise<unknown>): void {
  const forget = () => void works.delete(ended);
  const ended: Promise<unknown> = work.then(forget, forget);
  works.add(ended);
}

/** @returns what resolves when all that was left has ended; undefined when there is nothing */
export function underWay(): Promise<unknown> | undefined {
  return works.size === 0 ? undefined : Promise.all(works);
}

/** Like Promise.all, but nothing is in flight when it throws. */
export async function allEnded<T extends readonly Promise<unknown>[]>(
  promises: readonly [...T],
): Promise<{ -readonly [Place in keyof T]: Awaited<T[Place]> }> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}
