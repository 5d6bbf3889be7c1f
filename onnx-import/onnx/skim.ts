/**
 * Reads a protobuf file without what is large in it: long fields are stepped over on disk, so that the graph of a model
 * of 500 MB is read in milliseconds and little memory.
 */
import { badModel, DAMAGED, ServingError } from '../../lib/contract/errors.ts';
import { FileWindow } from '../../lib/registry/file-window.ts';
import { MOST_TEXTS } from '../graph/rows/node.ts';
import { bytes, type Chunk, message } from '../wire/chunk.ts';
import type { Table } from '../wire/table.ts';

/** A longer field that is no message is left out. */
const LONG_BYTES = 64 * 1024;
/** From so many bytes on, only short ones are kept: ten thousand small weights are as large as one large one. */
const ENOUGH_BYTES = 16 * 1024 * 1024;
const SHORT_BYTES = 1024;
const MAX_BYTES = 48 * 1024 * 1024;
/** Where a protobuf ends. */
const MAX_FILE_BYTES = 2 ** 31;
const MAX_DEPTH = 100;

/** The message in the file, encoded again without its long fields and without what the table does not name. @throws bad_model */
export function skimMessage(path: string, table: Table): Uint8Array {
  let file: FileWindow | undefined;
  try {
    file = new FileWindow(path);
    if (file.size >= MAX_FILE_BYTES) throw new Error('it is over 2 GB, which no ONNX file can be');
    return Buffer.concat(new Skimmer(file, path).message(0, file.size, table, 1).parts);
  } catch (error) {
    throw error instanceof ServingError ? error : unreadable(path, error);
  } finally {
    file?.close();
  }
}

function unreadable(path: string, error: unknown): ServingError {
  return badModel(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
}

class Skimmer {
  private readonly file: FileWindow;
  private readonly path: string;
  private at = 0;
  private kept = 0;

  constructor(file: FileWindow, path: string) {
    this.file = file;
    this.path = path;
  }

  message(start: number, end: number, table: Table, depth: number): Chunk {
    if (depth > MAX_DEPTH) this.fail(`messages are nested deeper than ${MAX_DEPTH}`);
    const parts: Chunk[] = [];
    // Neighbours that are kept are copied together.
    let keepFrom = start;
    let texts = 0;
    this.at = start;
    while (this.at < end) {
      const from = this.at;
      const tag = this.varint(end);
      const field = table[Math.floor(tag / 8)];
      const stop = this.endOf(tag % 8, end);
      const most = this.kept < ENOUGH_BYTES ? LONG_BYTES : SHORT_BYTES;
      const isLong = stop - this.at > Math.min(field?.most ?? most, most);
      const isText = field?.type === 'bytes' && field.repeated === true;
      const isSurplus = isText && ++texts > MOST_TEXTS;
      if (field !== undefined && !isLong && !isSurplus) {
        this.at = stop;
        continue;
      }
      if (from > keepFrom) parts.push(this.copy(keepFrom, from));
      if (field !== undefined && typeof field.type === 'function' && tag % 8 === 2) {
        parts.push(bytes(Math.floor(tag / 8), this.message(this.at, stop, field.type(), depth + 1)));
      }
      this.at = stop;
      keepFrom = stop;
    }
    parts.push(this.copy(keepFrom, end));
    return message(parts);
  }

  /** Where the field ends whose value begins here. */
  private endOf(wire: number, end: number): number {
    if (wire === 0) {
      const start = this.at;
      this.varint(end);
      const stop = this.at;
      this.at = start;
      return stop;
    }
    const length =
      wire === 1 ? 8 : wire === 5 ? 4 : wire === 2 ? this.varint(end) : this.fail('an unknown type');
    if (length > end - this.at) this.fail(`a length says ${length} bytes and ${end - this.at} are left`);
    return this.at + length;
  }

  private copy(from: number, to: number): Chunk {
    const length = to - from;
    this.kept += length;
    if (this.kept > MAX_BYTES) this.fail(`its graph is over ${MAX_BYTES >> 20} MB without the weights`);
    const part = Buffer.alloc(length);
    let done = 0;
    while (done < length) {
      const read = this.file.read(part.subarray(done), from + done);
      if (read === 0) this.fail('the file ends early');
      done += read;
    }
    return { parts: length === 0 ? [] : [part], length };
  }

  private varint(end: number): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      if (this.at >= end) this.fail('a number is cut off');
      const byte = this.file.byte(this.at) ?? this.fail('the file ends early');
      this.at += 1;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      if (scale > 2 ** 63) this.fail('a number is longer than ten bytes');
    }
  }

  private fail(problem: string): never {
    throw badModel(`${this.path}: ${DAMAGED} (${problem}, at byte ${this.at})`);
  }
}
