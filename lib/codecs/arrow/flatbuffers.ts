/**
 * Reads the part of flatbuffers that Arrow's metadata uses: tables, vectors of tables and of 16-byte
 * structs, strings. Offsets come from untrusted callers, so each read is checked against the end of the metadata, and
 * offsets to tables only point forward, so nothing loops. Callers limit depth and fan-out.
 */
import { badRequest } from '../../contract/errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
/** Longer names go through TextDecoder, which costs about 200 ns a call. */
const SHORT_NAME_LENGTH = 64;

export class FlatReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** Bytes read as texts. */
  #textBytes = 0;

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

  /** A length or offset. Negative ones and those beyond 2^53 are corrupt. */
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

  /** The position of a slot's value in a table; 0 when it has its default. */
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
    this.#textBytes += count;
    // Otherwise 4,096 columns could share one name of 4 MB, which would become 16 GB.
    if (this.#textBytes > this.#bytes.length) {
      throw badRequest(
        `Arrow metadata is corrupt: its texts have more bytes together than its ${this.#bytes.length} bytes`,
      );
    }
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
