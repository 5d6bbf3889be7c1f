/**
 * The folder of downloads: continues what an earlier attempt has left of a version, and removes what is neither used nor
 * being downloaded. On Lambda /tmp outlives a process that timed out or ran out of memory, and what is left of another
 * version would take the room of the next one. The next process may have the same id.
 */

import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { asError } from '../contract/errors.ts';
import { Partial } from './partial.ts';

/** The running downloads of this process, by name. */
const underWay = new Set<string>();
/** Files that this process has left for its next attempt. */
const left = new Set<string>();
let downloads = 0;

/**
 * Calls `download` with a folder for this version, which is that of an earlier attempt if there is one, and removes the folder
 * afterwards unless another attempt may continue it.
 */
export async function inPartial<T>(
  folder: string,
  download: (partial: Partial, isOwn: boolean) => Promise<T>,
): Promise<T> {
  const path = `${folder}.partial-${process.pid}-${downloads++}`;
  const name = basename(path);
  underWay.add(name);
  let partial: Partial | undefined;
  try {
    const isOwn = await takeOver(folder, path);
    partial = new Partial(path);
    return await download(partial, isOwn);
  } finally {
    partial?.close();
    if (partial?.keeps) left.add(name);
    else await rm(path, { recursive: true, force: true });
    underWay.delete(name);
  }
}

/** @returns whether what is there now is from this process */
async function takeOver(folder: string, path: string): Promise<boolean> {
  let isOwn = true;
  for (const name of await namesIn(dirname(folder))) {
    if (!name.startsWith(`${basename(folder)}.partial-`) || isUnderWay(name)) continue;
    // Another process may be faster.
    const isTaken = await rename(join(dirname(folder), name), path).then(
      () => true,
      () => false,
    );
    if (!isTaken) continue;
    isOwn = left.delete(name);
    break;
  }
  return isOwn;
}

/** @throws the file system's error when something else is at this path */
export async function makeFolder(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
}

/**
 * Removes all but `keep`, with what earlier attempts have left of its versions, and running downloads. An open session has
 * read or mapped its file and is not affected.
 */
export async function removeOthers(directory: string, keep: ReadonlySet<string>): Promise<void> {
  for (const name of await namesIn(directory)) {
    if (!keep.has(name.replace(/\.partial-\d+-\d+$/, '')) && !isUnderWay(name)) {
      await rm(join(directory, name), { recursive: true, force: true });
    }
  }
}

/** None where there is no such directory. @throws the file system's error */
export async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
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
    return asError(error).code === 'EPERM';
  }
}
