/**
 * Removes everything from the download folder that is neither used nor being downloaded. On Lambda /tmp outlives a
 * process that timed out or ran out of memory, and a partial download would take the room of the next one. The next
 * process may have the same id.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** The running downloads of this process, by name. */
const underWay = new Set<string>();
let downloads = 0;

/** Calls `download` with a new folder's path and removes the folder if anything is left of it. */
export async function inPartial<T>(folder: string, download: (partial: string) => Promise<T>): Promise<T> {
  const partial = `${folder}.partial-${process.pid}-${downloads++}`;
  const name = basename(partial);
  underWay.add(name);
  try {
    return await download(partial);
  } finally {
    await rm(partial, { recursive: true, force: true });
    underWay.delete(name);
  }
}

/** @throws the file system's error when something else is at this path */
export async function makeFolder(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
}

/** Removes all but `keep` and running downloads. An open session has read or mapped its file and is not affected. */
export async function removeOthers(directory: string, keep: ReadonlySet<string>): Promise<void> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  for (const name of names) {
    if (!keep.has(name) && !isUnderWay(name)) {
      await rm(join(directory, name), { recursive: true, force: true });
    }
  }
}

function isUnderWay(name: string): boolean {
  const pid = Number(/\.partial-(\d+)-\d+$/.exec(name)?.[1] ?? 0);
  if (pid === process.pid) return underWay.has(name);
  return pid > 0 && isAlive(pid);
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Another user's process may not be signalled.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
