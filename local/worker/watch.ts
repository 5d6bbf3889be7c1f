/**
 * Notices changes of a worker's files: its code, and its model. Files that a worker or its tools write beside the code
 * are not watched: logs, temporary and hidden folders, packages, virtual environments, and files that are not code.
 */
import { createHash } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { asError, badConfig } from '../../lib/contract/errors.ts';

export interface WatchedFolders {
  /** The folder of the code. */
  readonly directory: string;
  /** Every file in it counts, unless the code is in it too; then only the file or folder `modelName`. */
  readonly modelDir: string;
  readonly modelName: string;
  /** Folders of logs, temporary files and data. */
  readonly ignored: readonly string[];
}

const CODE = /\.(py|[cm]?[jt]s)$/;
const NEVER = /^(\.|(node_modules|__pycache__)$)/;
/** The mark of a virtual environment of Python. */
const VENV = 'pyvenv.cfg';

/** An editor or a copy saves several files: they count once nothing has changed for this time. */
const SETTLED_MS = 200;
/** A file that changes all the time counts after this time. */
const UNSETTLED_MS = 10_000;
const MAX_FILES = 10_000;
const MAX_DEPTH = 32;

export interface WatchOptions {
  /** Gets another fingerprint after each change. */
  readonly changed: (fingerprint: string) => void;
  /** Gets the reason why a change could not be looked at. */
  readonly failed: (error: Error) => void;
}

export class FileWatch {
  readonly #folders: WatchedFolders;
  readonly #options: WatchOptions;
  #fingerprint = '';
  #watchers: FSWatcher[] = [];
  #looking = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  /** Since when files have been changing. */
  #sinceMs: number | undefined;
  #isClosed = false;

  private constructor(folders: WatchedFolders, options: WatchOptions) {
    this.#folders = folders;
    this.#options = options;
  }

  /** @throws bad_config for more files or folders than can be watched */
  static async open(folders: WatchedFolders, options: WatchOptions): Promise<FileWatch> {
    const opened = new FileWatch(folders, options);
    opened.#looking = opened.#lookFirst();
    try {
      await opened.#looking;
      return opened;
    } catch (error) {
      opened.close();
      throw error;
    }
  }

  /** The files that count, as they were at the last look. */
  get fingerprint(): string {
    return this.#fingerprint;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers) watcher.close();
  }

  #noticed(): void {
    if (this.#isClosed) return;
    const nowMs = performance.now();
    this.#sinceMs ??= nowMs;
    const waitMs = Math.max(0, Math.min(SETTLED_MS, this.#sinceMs + UNSETTLED_MS - nowMs));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#sinceMs = undefined;
      this.#looking = this.#looking.then(() => this.#compare()).catch(this.#options.failed);
    }, waitMs);
  }

  async #lookFirst(): Promise<void> {
    this.#fingerprint = await this.#look();
  }

  async #compare(): Promise<void> {
    if (this.#isClosed) return;
    const seen = await this.#look();
    if (this.#isClosed || seen === this.#fingerprint) return;
    this.#fingerprint = seen;
    this.#options.changed(seen);
  }

  /** Folders are watched before they are read, so that no change is between the two. */
  async #look(): Promise<string> {
    const before = this.#watchers;
    this.#watchers = [];
    try {
      return await fingerprintOf(this.#folders, (folder, matters) => {
        const watcher = watchFolder(folder, matters, () => this.#noticed());
        if (watcher) this.#watchers.push(watcher);
        if (this.#isClosed) watcher?.close();
      });
    } finally {
      for (const watcher of before) watcher.close();
    }
  }
}

/** True if an event in a folder may have changed a file that counts. */
type Matters = (name: string, event: string) => boolean;

function watchFolder(folder: string, matters: Matters, noticed: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, (event, name) => {
      if (name === null || (!NEVER.test(name) && matters(name, event))) noticed();
    });
    // It was removed, which the folder above notices.
    return watcher.on('error', () => undefined);
  } catch (error) {
    const { code, message } = asError(error);
    if (code === 'ENOENT') return undefined;
    throw badConfig(`--watch: ${folder} cannot be watched: ${message}`);
  }
}

/**
 * Hashes the paths, sizes and times of the files.
 * @param found is called for each folder before it is read
 */
async function fingerprintOf(
  { directory, modelDir, modelName, ignored }: WatchedFolders,
  found: (folder: string, matters: Matters) => void,
): Promise<string> {
  const files = new Map<string, string>();

  async function visit(path: string, counts: (name: string) => boolean, depth = 0): Promise<void> {
    // A new name may be that of a folder.
    found(path, (name, event) => event === 'rename' || counts(name));
    const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
    if (depth > 0 && entries.some(({ name }) => name === VENV)) return;
    for (const entry of entries) {
      const inner = join(path, entry.name);
      if (NEVER.test(entry.name) || ignored.includes(inner)) continue;
      if (!entry.isDirectory()) {
        if (counts(entry.name)) await add(inner);
      } else if (depth < MAX_DEPTH) await visit(inner, counts, depth + 1);
    }
  }

  async function add(path: string): Promise<void> {
    const facts = await stat(path).catch(() => undefined);
    if (facts?.isFile()) files.set(path, `${path} ${facts.size} ${facts.mtimeMs} ${facts.ino}`);
    if (files.size <= MAX_FILES) return;
    throw badConfig(
      `--watch: over ${MAX_FILES} files in ${directory} and ${modelDir}; give the model a folder`,
    );
  }

  await visit(directory, (name) => CODE.test(name));
  const isApart = relative(modelDir, directory).startsWith('..');
  const model = isApart ? modelDir : join(modelDir, modelName);
  if (isApart || modelName !== '') {
    // It may be replaced by another one of its name.
    found(dirname(model), (name) => name === basename(model));
    await add(model);
    await visit(model, () => true);
  }
  const text = [...files.values()].toSorted().join('\n');
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}
