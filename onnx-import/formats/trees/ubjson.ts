/**
 * Reads Universal Binary JSON as XGBoost writes it. Lengths are checked against the bytes that are left before anything is
 * allocated. As in json.ts, a list of numbers of one type, and an object in a list, is read when it is asked for.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { Later } from './fields.ts';

const MAX_DEPTH = 100;
/** Objects, lists and texts; numbers of typed lists do not count. */
const MAX_ITEMS = 20_000_000;

/** How many bytes a number takes, and how it is read; big-endian. */
const NUMBERS: Readonly<Record<string, readonly [number, (view: DataView, at: number) => number]>> = {
  i: [1, (view, at) => view.getInt8(at)],
  U: [1, (view, at) => view.getUint8(at)],
  I: [2, (view, at) => view.getInt16(at)],
  l: [4, (view, at) => view.getInt32(at)],
  L: [8, (view, at) => Number(view.getBigInt64(at))],
  d: [4, (view, at) => view.getFloat32(at)],
  D: [8, (view, at) => view.getFloat64(at)],
};

const ARRAYS: Readonly<
  Record<
    string,
    typeof Int8Array | typeof Uint8Array | typeof Int16Array | typeof Int32Array | typeof Float32Array
  >
> = {
  i: Int8Array,
  U: Uint8Array,
  I: Int16Array,
  l: Int32Array,
  d: Float32Array,
};

/** @throws bad_model with the offset of what is wrong */
export function readUbjson(bytes: Uint8Array): unknown {
  const reader = new Reader(bytes);
  return reader.value(reader.marker(), 1);
}

class Reader {
  readonly #bytes: Buffer;
  readonly #view: DataView;
  #at = 0;
  #items = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** The next byte as a letter; N does nothing. */
  marker(): string {
    for (;;) {
      const code = this.#bytes[this.#at++];
      if (code === undefined) return this.#fail('the file is cut off');
      if (code !== 0x4e) return String.fromCharCode(code);
    }
  }

  value(marker: string, depth: number): unknown {
    if (++this.#items > MAX_ITEMS) this.#fail(`it has more than ${MAX_ITEMS} values`);
    if (depth > MAX_DEPTH) this.#fail(`it is nested deeper than ${MAX_DEPTH}`);
    if (Object.hasOwn(NUMBERS, marker)) return this.#number(marker);
    switch (marker) {
      case '{':
        return this.#object(depth);
      case '[':
        return this.#list(depth);
      case 'S':
      case 'H':
        return this.#text();
      case 'C':
        return this.#take(1);
      case 'T':
        return true;
      case 'F':
        return false;
      case 'Z':
        return null;
      default:
        return this.#fail(`the unknown marker ${JSON.stringify(marker)}`);
    }
  }

  #number(marker: string): number {
    const [size, read] = NUMBERS[marker] ?? this.#fail('a length that is no number');
    if (size > this.#bytes.length - this.#at) this.#fail('the file is cut off');
    const value = read(this.#view, this.#at);
    this.#at += size;
    return value;
  }

  /** A number of bytes or values; each takes at least `size` bytes of what is left. */
  #length(size = 1): number {
    const length = this.#number(this.marker());
    const left = this.#bytes.length - this.#at;
    if (Number.isSafeInteger(length) && length >= 0 && length * size <= left) return length;
    return this.#fail(`a length of ${length}, and ${left} bytes are left`);
  }

  #text(): string {
    return this.#take(this.#length());
  }

  #take(length: number): string {
    if (length > this.#bytes.length - this.#at) this.#fail('the file is cut off');
    this.#at += length;
    return this.#bytes.toString('utf8', this.#at - length, this.#at);
  }

  #object(depth: number): Record<string, unknown> {
    const found: Record<string, unknown> = Object.create(null);
    for (const _ of this.#each('}')) {
      const name = this.#text();
      found[name] = this.value(this.marker(), depth + 1);
    }
    return found;
  }

  #list(depth: number): unknown {
    if (this.#ends('$')) return this.#typed();
    const found: unknown[] = [];
    for (const _ of this.#each(']')) {
      const marker = this.marker();
      const at = this.#at;
      const value = this.value(marker, depth + 1);
      found.push(marker === '{' ? this.#later(at, () => this.#object(depth + 1)) : value);
    }
    return found;
  }

  #later(at: number, read: () => unknown): Later {
    return () => {
      this.#at = at;
      return read();
    };
  }

  /** A list of numbers of one type. 64-bit ones become doubles. */
  #typed(): Later {
    const type = this.marker();
    const [size, read] = NUMBERS[type] ?? this.#fail(`a list of the unknown type ${JSON.stringify(type)}`);
    if (!this.#ends('#')) this.#fail('a list of one type without a count');
    const length = this.#length(size);
    const at = this.#at;
    this.#at += length * size;
    return () => {
      const values = new (ARRAYS[type] ?? Float64Array)(length);
      for (let i = 0; i < length; i++) values[i] = read(this.#view, at + i * size);
      return values;
    };
  }

  /** Turns once per value: as often as a count says, or up to the end. */
  *#each(end: string): Generator<number> {
    if (this.#ends('#')) {
      const count = this.#length();
      for (let i = 0; i < count; i++) yield i;
    } else for (let i = 0; !this.#ends(end); i++) yield i;
  }

  /** Steps over the next byte if it is this one. */
  #ends(marker: string): boolean {
    if (this.#bytes[this.#at] !== marker.charCodeAt(0)) return false;
    this.#at += 1;
    return true;
  }

  #fail(problem: string): never {
    throw badModel(`no UBJSON: ${problem} (at byte ${this.#at})`);
  }
}
