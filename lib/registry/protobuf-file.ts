/** Reads the fields of a protobuf file where they lie, and writes pieces of it, so that a model of 2 GB takes no memory. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { FileWindow } from './file-window.ts';

/** The limit of one message. A graph has tens of thousands. */
const MOST_FIELDS = 1_000_000;
const MOST_PACKED_BYTES = 1024;
const COPY_BYTES = 4 * 1024 * 1024;

/** A piece of the file, from `start` to before `end`, in bytes. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Field extends Span {
  readonly number: number;
  /** Undefined of a field that has a length: a message, a text, bytes, packed numbers. NaN of a fixed number, which is not read. */
  readonly value: number | undefined;
  /** The first byte after tag and length. What is in a field ends with it. */
  readonly content: number;
}

/** A piece of the file, or new bytes. */
export type Piece = Span | Uint8Array;

export class ProtobufFile extends FileWindow {
  /** The fields of a message; undefined when it is damaged, has very many, or groups, which ONNX does not use. */
  fields({ start, end }: Span): Field[] | undefined {
    const fields: Field[] = [];
    for (let at = start; at < end; ) {
      const field = fields.length < MOST_FIELDS ? this.#field(at, end) : undefined;
      if (!field) return undefined;
      fields.push(field);
      at = field.end;
    }
    return fields;
  }

  /** The numbers of a short packed field; undefined when it is long or damaged. */
  numbers({ start, end }: Span): number[] | undefined {
    if (end - start > MOST_PACKED_BYTES) return undefined;
    const numbers: number[] = [];
    for (let at = start; at < end; ) {
      const number = this.#number(at, end);
      if (!number) return undefined;
      numbers.push(number.value);
      at = number.end;
    }
    return numbers;
  }

  /** Writes a new file. @throws the file system's error, also when the source becomes shorter meanwhile */
  write(path: string, pieces: Iterable<Piece>): void {
    const fd = openSync(path, 'wx');
    const buffer = Buffer.alloc(COPY_BYTES);
    try {
      for (const piece of pieces) {
        if (!('start' in piece)) {
          writeWhole(fd, piece);
          continue;
        }
        for (let at = piece.start; at < piece.end; ) {
          const read = this.read(buffer.subarray(0, Math.min(COPY_BYTES, piece.end - at)), at);
          if (read === 0) throw new Error(`${path}: the source became shorter while it was read`);
          writeWhole(fd, buffer.subarray(0, read));
          at += read;
        }
      }
    } finally {
      closeSync(fd);
    }
  }

  #field(start: number, most: number): Field | undefined {
    const tag = this.#number(start, most);
    if (!tag) return undefined;
    const [number, wire] = [Math.floor(tag.value / 8), tag.value % 8];
    const fixed = wire === 1 ? 8 : wire === 5 ? 4 : undefined;
    if (fixed !== undefined) {
      const end = tag.end + fixed;
      return end > most ? undefined : { number, start, end, content: tag.end, value: Number.NaN };
    }
    const next = wire === 0 || wire === 2 ? this.#number(tag.end, most) : undefined;
    if (!next) return undefined;
    if (wire === 0) return { number, start, end: next.end, content: tag.end, value: next.value };
    const end = next.end + next.value;
    return end > most ? undefined : { number, start, end, content: next.end, value: undefined };
  }

  /** Exact up to 2^53, and a larger one is the size of nothing. */
  #number(at: number, most: number): { readonly value: number; readonly end: number } | undefined {
    let value = 0;
    for (let i = 0, scale = 1; i < 10 && at + i < most; i++, scale *= 128) {
      const byte = this.byte(at + i) ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return { value, end: at + i + 1 };
    }
    return undefined;
  }
}

export function lengthOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, piece) => sum + ('start' in piece ? piece.end - piece.start : piece.length), 0);
}

/** Tag and length of a field whose content follows. */
export function header(number: number, length: number): Uint8Array {
  const bytes = [(number << 3) | 2];
  let rest = length;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest & 0x7f) | 0x80);
  return Uint8Array.from([...bytes, rest]);
}

export function message(number: number, content: Uint8Array): Uint8Array {
  return Buffer.concat([header(number, content.length), content]);
}

function writeWhole(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done);
}
