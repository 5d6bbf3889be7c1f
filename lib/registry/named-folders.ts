/**
 * The folders of downloads of a job's further models: one each, so that two models with the same files do not remove each other's.
 * What was downloaded stays, to be opened again without S3, until the disk has no room for another model.
 */
import { readdir, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { ModelPointer } from './download.ts';
import { makeFolder } from './download-folder.ts';

/** Room for other files. */
const RESERVE_BYTES = 32 * 1024 * 1024;

interface FolderOptions {
  /** The room of the disk. Default: the file system says. */
  readonly freeBytes?: (folder: string) => Promise<number>;
  /** True for a model that is open, or being opened. */
  readonly isUsed: (name: string) => boolean;
}

export class NamedFolders {
  readonly #root: string;
  readonly #options: FolderOptions;
  /** Names in the order of their last opening. */
  readonly #used = new Set<string>();

  constructor(root: string, options: FolderOptions) {
    this.#root = root;
    this.#options = options;
  }

  of(name: string): string {
    return join(this.#root, name);
  }

  /** Removes downloads of closed models, the least recently opened first, until a version that is not here fits. */
  async makeRoom(name: string, { version, files }: ModelPointer): Promise<void> {
    this.#used.delete(name);
    this.#used.add(name);
    if (await isFolder(join(this.of(name), version))) return;
    await makeFolder(this.#root);
    const { freeBytes = freeOnDisk } = this.#options;
    const needed = files.reduce((sum, { bytes }) => sum + bytes, RESERVE_BYTES);
    if ((await freeBytes(this.#root)) >= needed) return;
    for (const other of await this.#closed(name)) {
      await rm(this.of(other), { recursive: true, force: true });
      this.#used.delete(other);
      if ((await freeBytes(this.#root)) >= needed) return;
    }
  }

  /** Those of an earlier process, whose order is not known, come first. */
  async #closed(name: string): Promise<string[]> {
    const here = await readdir(this.#root);
    const order = [...this.#used];
    return here
      .filter((other) => other !== name && !this.#options.isUsed(other))
      .sort((a, b) => order.indexOf(a) - order.indexOf(b));
  }
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}

async function freeOnDisk(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}
