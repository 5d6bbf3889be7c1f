/**
 * Finds the progress of a replay that was stopped: a file named after the question. Its first line says which captures were asked, by the
 * time at which they were written and by the digest of their copy, so what was captured or deleted meanwhile does not change the answer.
 */
import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { digestFile } from '../../lib/registry/digest.ts';

export interface ProgressOptions {
  /** Where the file is. */
  readonly folder: string;
  /** All that decides the answer but the captures themselves. */
  readonly question: object;
  /** True: what is known of this question is dropped. */
  readonly isFresh: boolean;
  /** Told that this replay goes on, or why it does not. */
  readonly onNote: (note: string) => void;
}

/** In ms since 1970: captures of this time are asked. The end is when the replay was started. */
export interface Window {
  readonly since: number;
  readonly until: number;
}

interface Head extends Window {
  /** The digest of their copy. */
  readonly captures: string;
}

/** An older one is not the same question any more. */
const LONGEST_MS = 86_400_000;
const MOST_HEAD_BYTES = 4_096;

export class Progress {
  readonly file: string;
  readonly #options: ProgressOptions;
  #head: Head | undefined;

  private constructor(options: ProgressOptions) {
    const name = createHash('sha256').update(JSON.stringify(options.question)).digest('hex').slice(0, 16);
    this.file = join(options.folder, `${name}.ndjson`);
    this.#options = options;
  }

  /** @param now in ms since 1970 */
  static async find(options: ProgressOptions, now: number): Promise<Progress> {
    const progress = new Progress(options);
    const head = options.isFresh ? undefined : await headOf(progress.file);
    if (head && now - head.until < LONGEST_MS) progress.#head = head;
    return progress;
  }

  /** The captures that were asked before; undefined where none were. */
  get window(): Window | undefined {
    return this.#head;
  }

  /** @returns false where other captures are there now: the replay starts again then */
  async begin(captures: string, window: Window): Promise<boolean> {
    const { folder, onNote } = this.#options;
    if (this.#head?.captures === captures) {
      const time = new Date(this.#head.until).toISOString().slice(0, 19).replace('T', ' ');
      onNote(`the replay that was started at ${time} goes on; --fresh starts again`);
      return true;
    }
    const isOther = this.#head !== undefined;
    this.#head = undefined;
    if (isOther) {
      onNote('the captures are others than those of the replay that was stopped, so this one starts again');
      return false;
    }
    await mkdir(folder, { recursive: true });
    await writeFile(this.file, JSON.stringify({ ...window, captures }), { mode: 0o600 });
    return true;
  }

  /** The replay has ended. */
  async end(): Promise<void> {
    await rm(this.file, { force: true });
  }
}

async function headOf(path: string): Promise<Head | undefined> {
  try {
    const file = await open(path);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(MOST_HEAD_BYTES), 0, MOST_HEAD_BYTES, 0);
      const [line = ''] = buffer.subarray(0, bytesRead).toString().split('\n');
      const { since, until, captures }: Partial<Head> = JSON.parse(line);
      if (since === undefined || until === undefined || captures === undefined) return undefined;
      return { since, until, captures };
    } finally {
      await file.close();
    }
  } catch {
    return undefined;
  }
}

/** A digest of the model in a folder: the names and contents of all files beside it. */
export async function folderDigest(file: string): Promise<string> {
  const folder = dirname(file);
  const hash = createHash('sha256');
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  for (const path of paths.sort())
    hash.update(`${path.slice(folder.length)} ${await digestFile(path, 'sha256')}\n`);
  return hash.digest('hex');
}
