/**
 * Reads and writes the part of flatbuffers that Arrow's metadata uses: tables, vectors of tables and of 16-byte
 * structs, strings. Offsets come from untrusted callers, so each read is checked against the end of the metadata, and
 * offsets to tables only point forward, so nothing loops. Callers limit depth and fan-out.
 */
import { badRequest } from '../../contract/errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();
/** Longer names go through TextDecoder, which costs about 200 ns a call. */
const SHORT_NAME_LENGTH = 64;

export class FlatReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  #check(at: number, size: number): void {
    if (at < 0 || at + size > this.#bytes.length) {
      throw badRequest(
        `Arrow metadata is corrupt: a read of ${size} bytes at ${at} is outside its ${this.#bytes.length} bytes`,
      );
    }
  }

  u8(at: number): number {
    this.#check(at, 1);
    return this.#view.getUint8(at);
  }

  i16(at: number): number {
    this.#check(at, 2);
    return this.#view.getInt16(at, true);
  }

  i32(at: number): number {
    this.#check(at, 4);
    return this.#view.getInt32(at, true);
  }

  u32(at: number): number {
    this.#check(at, 4);
    return this.#view.getUint32(at, true);
  }

  /** A length or offset: negative and beyond 2^53 are corrupt. */
  size64(at: number): number {
    const high = this.i32(at + 4);
    if (high < 0 || high > 0x1f_ffff) {
      throw badRequest(`Arrow metadata is corrupt: a 64-bit length at ${at} is out of range`);
    }
    return high * 2 ** 32 + this.u32(at);
  }

  root(): number {
    return this.u32(0);
  }

  /** Where the value of a table's slot is; 0 when it has its default. */
  slot(table: number, index: number): number {
    const vtable = table - this.i32(table);
    const entry = 4 + 2 * index;
    this.#check(vtable, 4);
    if (entry + 2 > this.#view.getUint16(vtable, true)) return 0;
    this.#check(vtable + entry, 2);
    const offset = this.#view.getUint16(vtable + entry, true);
    return offset === 0 ? 0 : table + offset;
  }

  /** The table, vector or string that the offset at `at` points to. */
  follow(at: number): number {
    return at + this.u32(at);
  }

  /** The first item of the vector at `at` (its count stands 4 bytes before), all items within the metadata. */
  items(at: number, itemBytes: number): { readonly start: number; readonly count: number } {
    const vector = this.follow(at);
    const count = this.u32(vector);
    this.#check(vector + 4, count * itemBytes);
    return { start: vector + 4, count };
  }

  string(at: number): string {
    const { start, count } = this.items(at, 1);
    if (count <= SHORT_NAME_LENGTH) {
      let text = '';
      let i = start;
      for (; i < start + count; i++) {
        const unit = this.#bytes[i] as number;
        if (unit >= 0x80) break;
        text += String.fromCharCode(unit);
      }
      if (i === start + count) return text;
    }
    try {
      return utf8.decode(this.#bytes.subarray(start, start + count));
    } catch {
      throw badRequest('Arrow metadata is corrupt: a name is not valid UTF-8');
    }
  }
}

/** A table by slot number; an absent slot has its default. */
export interface FlatTable {
  readonly kind: 'table';
  readonly slots: readonly (FlatScalar | FlatTable | FlatVector | FlatStructs | FlatText | undefined)[];
}

export interface FlatScalar {
  readonly kind: 'scalar';
  readonly bytes: 1 | 2 | 4 | 8;
  readonly value: number;
  /** Where it was written: for templates whose numbers are patched. */
  at: number;
}

interface FlatVector {
  readonly kind: 'vector';
  readonly items: readonly FlatTable[];
}

/** A vector of structs of two 64-bit numbers: Arrow's FieldNode and Buffer. */
export interface FlatStructs {
  readonly kind: 'structs';
  readonly numbers: readonly number[];
  at: number;
}

interface FlatText {
  readonly kind: 'text';
  readonly text: string;
}

export const table = (...slots: FlatTable['slots']): FlatTable => ({ kind: 'table', slots });
export const vector = (items: readonly FlatTable[]): FlatVector => ({ kind: 'vector', items });
export const scalar = (bytes: FlatScalar['bytes'], value: number): FlatScalar => ({
  kind: 'scalar',
  bytes,
  value,
  at: 0,
});
export const structs = (numbers: readonly number[]): FlatStructs => ({ kind: 'structs', numbers, at: 0 });
export const text = (value: string): FlatText => ({ kind: 'text', text: value });

/** The tables as flatbuffers bytes, a parent always before its children; the length is a multiple of 8. */
export function writeFlat(root: FlatTable): Uint8Array {
  const writer = new FlatWriter();
  return writer.write(root);
}

class FlatWriter {
  #bytes = new Uint8Array(1024);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  write(root: FlatTable): Uint8Array {
    const at = this.#claim(4, 4);
    // A call that claims room may replace the view, so targets are written before their offsets, in two steps.
    const target = this.#table(root);
    this.#view.setUint32(at, target, true);
    this.#claim(0, 8);
    return this.#bytes.slice(0, this.#length);
  }

  /** Room for `size` zero bytes at the next multiple of `alignment`. */
  #claim(size: number, alignment: number): number {
    const at = Math.ceil(this.#length / alignment) * alignment;
    this.#length = at + size;
    if (this.#length > this.#bytes.length) {
      const grown = new Uint8Array(this.#length * 2);
      grown.set(this.#bytes);
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    return at;
  }

  #table({ slots }: FlatTable): number {
    const vtable = this.#claim(4 + 2 * slots.length, 2);
    const start = this.#claim(4, 4);
    this.#view.setInt32(start, start - vtable, true);
    const places = slots.map((slot) => {
      if (slot === undefined) return 0;
      const bytes = slot.kind === 'scalar' ? slot.bytes : 4;
      return this.#claim(bytes, bytes);
    });
    this.#view.setUint16(vtable, 4 + 2 * slots.length, true);
    this.#view.setUint16(vtable + 2, this.#length - start, true);
    for (const [i, slot] of slots.entries()) {
      if (slot === undefined) continue;
      const at = places[i] as number;
      this.#view.setUint16(vtable + 4 + 2 * i, at - start, true);
      if (slot.kind === 'scalar') this.#scalar(slot, at);
      else {
        const target = this.#target(slot);
        this.#view.setUint32(at, target - at, true);
      }
    }
    return start;
  }

  #scalar(slot: FlatScalar, at: number): void {
    slot.at = at;
    if (slot.bytes === 1) this.#view.setUint8(at, slot.value);
    else if (slot.bytes === 2) this.#view.setInt16(at, slot.value, true);
    else if (slot.bytes === 4) this.#view.setInt32(at, slot.value, true);
    else writeSize64(this.#view, at, slot.value);
  }

  #target(node: FlatTable | FlatVector | FlatStructs | FlatText): number {
    switch (node.kind) {
      case 'table':
        return this.#table(node);
      case 'vector':
        return this.#vector(node);
      case 'structs':
        return this.#structs(node);
      default:
        return this.#text(node);
    }
  }

  #vector({ items }: FlatVector): number {
    const at = this.#claim(4 + 4 * items.length, 4);
    this.#view.setUint32(at, items.length, true);
    for (const [i, item] of items.entries()) {
      const target = this.#table(item);
      const slot = at + 4 + 4 * i;
      this.#view.setUint32(slot, target - slot, true);
    }
    return at;
  }

  #structs(node: FlatStructs): number {
    // The numbers are 8-aligned, so their count stands 4 bytes after a multiple of 8.
    const at = this.#claim(8 + 8 * node.numbers.length, 8) + 4;
    this.#view.setUint32(at, node.numbers.length / 2, true);
    node.at = at + 4;
    for (const [i, number] of node.numbers.entries()) writeSize64(this.#view, node.at + 8 * i, number);
    return at;
  }

  #text(node: FlatText): number {
    const bytes = encoder.encode(node.text);
    const at = this.#claim(4 + bytes.length + 1, 4);
    this.#view.setUint32(at, bytes.length, true);
    this.#bytes.set(bytes, at + 4);
    return at;
  }
}

/** A length or offset of at most 2^53. */
function writeSize64(view: DataView, at: number, value: number): void {
  view.setUint32(at, value % 2 ** 32, true);
  view.setUint32(at + 4, Math.floor(value / 2 ** 32), true);
}
