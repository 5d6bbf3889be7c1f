/** Encodes protobuf fields as lists of byte arrays with their total length, without copying large arrays. */

export interface Chunk {
  readonly parts: readonly Uint8Array[];
  /** The total length of all parts, in bytes. */
  readonly length: number;
}

/** Parts up to this size are joined, so that a graph of 10,000 nodes does not take 100,000 writes. */
const JOIN_BYTES = 4096;

export function message(fields: readonly Chunk[]): Chunk {
  const parts: Uint8Array[] = [];
  let small: Uint8Array[] = [];
  let length = 0;
  const flush = () => {
    if (small.length > 0) parts.push(small.length === 1 ? (small[0] as Uint8Array) : Buffer.concat(small));
    small = [];
  };
  for (const field of fields) {
    length += field.length;
    for (const part of field.parts) {
      if (part.byteLength <= JOIN_BYTES) small.push(part);
      else {
        flush();
        parts.push(part);
      }
    }
  }
  flush();
  return { parts, length };
}

/** A length-delimited field: a nested message, a text or raw bytes. */
export function bytes(number: number, content: Chunk): Chunk {
  const head = Buffer.concat([varint((number << 3) | 2), varint(content.length)]);
  return { parts: [head, ...content.parts], length: head.byteLength + content.length };
}

export function text(number: number, value: string): Chunk {
  const encoded = Buffer.from(value);
  return bytes(number, { parts: [encoded], length: encoded.byteLength });
}

export function integer(number: number, value: number): Chunk {
  return one(Buffer.concat([varint(number << 3), varint(value)]));
}

export function float(number: number, value: number): Chunk {
  const encoded = Buffer.alloc(4);
  encoded.writeFloatLE(value);
  return one(Buffer.concat([varint((number << 3) | 5), encoded]));
}

export function packedFloats(number: number, values: readonly number[]): Chunk {
  const encoded = Buffer.from(Float32Array.from(values).buffer);
  return bytes(number, { parts: [encoded], length: encoded.byteLength });
}

const PIECE_BYTES = 64 * 1024;

/** The content of a long list, which grows in pieces so that it is in memory once. */
export class Growing {
  readonly #parts: Uint8Array[] = [];
  #piece = new DataView(new ArrayBuffer(0));
  #at = 0;
  #done = 0;

  /** @param value from 0 to 2^31 - 1 */
  varint(value: number): void {
    this.#makeRoom(5);
    let rest = value;
    for (; rest > 0x7f; rest >>>= 7) this.#piece.setUint8(this.#at++, (rest & 0x7f) | 0x80);
    this.#piece.setUint8(this.#at++, rest);
  }

  number(dtype: 'float32' | 'float64', value: number): void {
    this.#makeRoom(8);
    if (dtype === 'float32') this.#piece.setFloat32(this.#at, value, true);
    else this.#piece.setFloat64(this.#at, value, true);
    this.#at += dtype === 'float32' ? 4 : 8;
  }

  done(): Chunk {
    // The last piece becomes as long as what is in it.
    const last = new Uint8Array(this.#piece.buffer.slice(0, this.#at));
    return { parts: [...this.#parts, last], length: this.#done + this.#at };
  }

  #makeRoom(count: number): void {
    if (this.#at + count <= this.#piece.byteLength) return;
    if (this.#at > 0) this.#parts.push(new Uint8Array(this.#piece.buffer, 0, this.#at));
    this.#done += this.#at;
    this.#piece = new DataView(new ArrayBuffer(PIECE_BYTES));
    this.#at = 0;
  }
}

function one(part: Uint8Array): Chunk {
  return { parts: [part], length: part.byteLength };
}

function varint(value: number): Uint8Array {
  const encoded: number[] = [];
  // A negative number takes ten bytes: the 64-bit two's complement.
  let rest = BigInt.asUintN(64, BigInt(value));
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    encoded.push(rest > 0n ? low | 0x80 : low);
  } while (rest > 0n);
  return Uint8Array.from(encoded);
}
