/**
 * Reads files of a model's directory and records which were read. Some file names come from the model itself (a
 * checkpoint names its own files), so no path may leave the directory.
 */
import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join, sep } from 'node:path';
import { badModel } from '../../../../lib/contract/errors.ts';

/** Protobuf's limit for one message. */
const MAX_FILE_BYTES = 2 ** 31 - 1;
const MAX_NAMES = 10_000;

export class ModelFolder {
  readonly directory: string;
  private readonly opened = new Set<string>();

  constructor(directory: string) {
    this.directory = directory;
  }

  /** The files that were read, relative to the directory, sorted. */
  get files(): string[] {
    return [...this.opened].toSorted();
  }

  /** The names in the directory, sorted; empty when it is not a directory. */
  names(): string[] {
    let names: string[];
    try {
      names = readdirSync(this.directory);
    } catch {
      throw badModel(`${this.directory} is not a readable directory`);
    }
    if (names.length > MAX_NAMES) throw badModel(`the directory has ${names.length} files`);
    return names.toSorted();
  }

  has(file: string): boolean {
    const path = this.path(file);
    try {
      return statSync(path).isFile();
    } catch {
      return false;
    }
  }

  /**
   * Reads a whole file.
   * @param most bytes; default 2 GB
   * @throws bad_model when it is missing, not a file, or larger
   */
  read(file: string, most = MAX_FILE_BYTES): Uint8Array {
    return this.open(file, (descriptor, size) => {
      if (size > most) throw badModel(`${file} is larger than ${Math.round(most / 2 ** 20)} MB`);
      return readBytes(descriptor, file, 0, size);
    });
  }

  /**
   * Reads `size` bytes from `offset`.
   * @throws bad_model when the file is too short
   */
  readPart(file: string, offset: number, size: number): Uint8Array {
    return this.open(file, (descriptor, fileSize) => {
      const inside = Number.isSafeInteger(offset) && Number.isSafeInteger(size) && offset >= 0 && size >= 0;
      if (!inside || offset + size > fileSize) {
        throw badModel(
          `${file} has ${fileSize} bytes, ${size} bytes at ${offset} were expected; is it cut off?`,
        );
      }
      if (size > MAX_FILE_BYTES) throw badModel(`${file}: one part is larger than 2 GB`);
      return readBytes(descriptor, file, offset, size);
    });
  }

  private open<T>(file: string, use: (descriptor: number, size: number) => T): T {
    const path = this.path(file);
    // Check first: opening a named pipe would wait forever.
    if (!this.has(file)) throw badModel(`${file} is missing`);
    let descriptor: number;
    try {
      descriptor = openSync(path, 'r');
    } catch (error) {
      throw badModel(`${file} cannot be opened`, { cause: error });
    }
    try {
      this.opened.add(file);
      return use(descriptor, fstatSync(descriptor).size);
    } finally {
      closeSync(descriptor);
    }
  }

  private path(file: string): string {
    const parts = file.split('/');
    if (
      parts.includes('..') ||
      file.startsWith('/') ||
      file.includes('\0') ||
      (sep === '\\' && file.includes('\\'))
    ) {
      throw badModel(`"${file}" is outside of the model's directory`);
    }
    return join(this.directory, ...parts);
  }
}

function readBytes(descriptor: number, file: string, offset: number, size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let done = 0;
  while (done < size) {
    const count = readSync(descriptor, bytes, done, size - done, offset + done);
    if (count === 0) throw badModel(`${file} became shorter while it was read`);
    done += count;
  }
  return bytes;
}
