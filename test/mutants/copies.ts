/** Gives work to copies of the repository, each of which has one bug at a time. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { copyRepository, linkShared } from './copy.ts';

export interface Worker {
  readonly copy: string;
  readonly signal: AbortSignal;
}

interface Copies {
  /** The checkout. */
  readonly root: string;
  readonly jobs: number;
  readonly signal: AbortSignal;
}

export async function withCopies(
  { root, jobs, signal }: Copies,
  use: (workers: readonly Worker[]) => Promise<void>,
): Promise<void> {
  const parent = await mkdtemp(join(tmpdir(), 'mutants-'));
  try {
    await linkShared(root, parent);
    const copies = Array.from({ length: jobs }, (_, i) => copyRepository(root, parent, `${i + 1}`));
    await use((await Promise.all(copies)).map((copy) => ({ copy, signal })));
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
}

/** Gives each item to the next free worker, until there are no more or enough is done. The first error ends all. */
export async function forEach<T>(
  items: Iterable<T>,
  workers: readonly Worker[],
  work: (item: T, worker: Worker, place: number) => Promise<void>,
  isDone: () => boolean = () => false,
): Promise<void> {
  const left = items[Symbol.iterator]();
  let begun = 0;
  const run = async (worker: Worker) => {
    while (!isDone()) {
      const { value, done } = left.next();
      if (done === true) return;
      await work(value, worker, begun++);
    }
  };
  await Promise.all(workers.map(run));
}
