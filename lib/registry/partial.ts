/**
 * A folder into which a version is downloaded, with a journal of the bytes that are there: another attempt, of this process
 * or of the next one in the same environment, continues at that byte. The journal is not trusted beyond that, because the
 * digest of the whole file decides. It is hidden, as no file of a model may be.
 */

import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { isCount } from '../contract/present.ts';

const JOURNAL = '.parts';
/** A process that is killed loses less than this of each part. */
const NOTE_BYTES = 512 * 1024;

/** The place of a file in its version, then the ETag of its object, or the bytes of a part, or nothing when they are void. */
type Line =
  | readonly [file: number]
  | readonly [file: number, etag: string]
  | readonly [number, number, number];

interface FileProgress {
  etag: string | undefined;
  /** Bytes that are there, by part. */
  readonly parts: number[];
}

export class Partial {
  readonly folder: string;
  /** True if another attempt may continue it. */
  keeps = false;
  readonly #path: string;
  readonly #fd: number;
  readonly #files = new Map<number, FileProgress>();

  constructor(folder: string) {
    this.folder = folder;
    this.#path = join(folder, JOURNAL);
    mkdirSync(folder, { recursive: true });
    for (const line of readLines(this.#path)) this.#apply(line);
    this.#fd = openSync(this.#path, 'a');
  }

  /** Bytes of a part that are there. */
  bytes(file: number, part: number): number {
    return this.#files.get(file)?.parts[part] ?? 0;
  }

  /** Bytes that are there. */
  get total(): number {
    return [...this.#files.values()].flatMap(({ parts }) => parts).reduce((sum, bytes) => sum + bytes, 0);
  }

  /** @param isLast of this attempt: it is written however few bytes it has more */
  note(file: number, part: number, bytes: number, isLast = false): void {
    const more = bytes - this.bytes(file, part);
    if (more === 0 || (more > 0 && more < NOTE_BYTES && !isLast)) return;
    this.#write([file, part, bytes]);
  }

  /** The ETag of the object that the bytes are of. */
  etag(file: number): string | undefined {
    return this.#files.get(file)?.etag;
  }

  noteEtag(file: number, etag: string): void {
    this.#write([file, etag]);
  }

  /** The object has changed: what is there of it is void. */
  forget(file: number): void {
    if (this.#files.has(file)) this.#write([file]);
  }

  close(): void {
    closeSync(this.#fd);
  }

  /** The folder is whole, and becomes the version's. */
  end(): void {
    rmSync(this.#path, { force: true });
  }

  #write(line: Line): void {
    this.#apply(line);
    writeSync(this.#fd, `${JSON.stringify(line)}\n`);
  }

  #apply([file, first, second]: Line): void {
    const progress = this.#files.get(file) ?? { etag: undefined, parts: [] };
    if (typeof first === 'string') progress.etag = first;
    else if (first !== undefined) progress.parts[first] = second as number;
    if (first === undefined) this.#files.delete(file);
    else this.#files.set(file, progress);
  }
}

function readLines(path: string): Line[] {
  let text = '';
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return [];
  }
  return text.split('\n').flatMap((line) => readLine(line) ?? []);
}

/** @returns undefined for what a process that was killed has left of a line */
function readLine(line: string): [Line] | undefined {
  try {
    const values: unknown = JSON.parse(line);
    return isLine(values) ? [values] : undefined;
  } catch {
    return undefined;
  }
}

function isLine(values: unknown): values is Line {
  if (!Array.isArray(values)) return false;
  const [file, first, second] = values;
  if (!isCount(file)) return false;
  if (values.length === 3) return isCount(first) && isCount(second);
  return values.length === 1 || (values.length === 2 && typeof first === 'string');
}
