/** The coded data of JPEG scans, copied bit by bit. Source: ITU-T T.81, annexes B and F. */
import type { ServingError } from '../../../contract/errors.ts';
import { broken } from '../refusal.ts';

/** For the next 16 bits: the length of the code that they begin with, times 256, plus its symbol; 0 for no code. */
export type HuffmanTable = Uint16Array;

/** @param spec 16 counts of codes by length, then the symbols */
export function huffmanTable(spec: Uint8Array): HuffmanTable {
  const table = new Uint16Array(65_536);
  let from = 0;
  let symbol = 16;
  for (let length = 1; length <= 16; length++) {
    for (let count = spec[length - 1]!; count > 0; count--) {
      const to = from + 2 ** (16 - length);
      if (to > 65_536) throw damaged();
      table.fill((length << 8) | spec[symbol++]!, from, to);
      from = to;
    }
  }
  return table;
}

export class BitReader {
  readonly #bytes: Uint8Array;
  #at = 0;
  /** The last `#count` of them are still to be copied. */
  #bits = 0;
  #count = 0;
  /** Zeros that were read behind the end of an interval; libjpeg would read them too. */
  #missing = 0;

  /** @param bytes of one scan, with its restart markers */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** @throws bad_input when more bits were read than there are */
  check(): void {
    if (this.#count < this.#missing) throw damaged();
  }

  /** Copies one code and returns its symbol. */
  symbol(table: HuffmanTable, to: BitWriter): number {
    this.#fill();
    const found = table[(this.#bits >>> (this.#count - 16)) & 0xffff]!;
    if (found === 0) throw damaged();
    this.copy(found >> 8, to);
    return found & 0xff;
  }

  /** @param count at most 16 */
  copy(count: number, to: BitWriter): void {
    this.#fill();
    this.#count -= count;
    to.write((this.#bits >>> this.#count) & ((1 << count) - 1), count);
  }

  /** Passes a restart marker. */
  restart(): number {
    this.check();
    const marker = this.#bytes[this.#at + 1]!;
    if (this.#bytes[this.#at] !== 0xff || marker < 0xd0 || marker > 0xd7) throw damaged();
    this.#at += 2;
    this.#count = 0;
    this.#missing = 0;
    return marker;
  }

  #fill(): void {
    while (this.#count <= 16) {
      let byte = 0;
      if (
        this.#at >= this.#bytes.length ||
        (this.#bytes[this.#at] === 0xff && this.#bytes[this.#at + 1] !== 0)
      ) {
        this.#missing += 8;
      } else {
        byte = this.#bytes[this.#at]!;
        this.#at += byte === 0xff ? 2 : 1;
      }
      this.#bits = (this.#bits << 8) | byte;
      this.#count += 8;
    }
  }
}

export class BitWriter {
  #bytes = new Uint8Array(1_024);
  #length = 0;
  #bits = 0;
  #count = 0;

  /** @param count at most 16 */
  write(value: number, count: number): void {
    this.#bits = (this.#bits << count) | value;
    this.#count += count;
    while (this.#count >= 8) {
      this.#count -= 8;
      const byte = (this.#bits >>> this.#count) & 0xff;
      this.#push(byte);
      if (byte === 0xff) this.#push(0);
    }
  }

  zeros(count: number): void {
    for (let left = count; left > 0; left -= 16) this.write(0, Math.min(left, 16));
  }

  /** Ends an interval. */
  marker(marker: number): void {
    this.#align();
    this.#push(0xff);
    this.#push(marker);
  }

  end(): Uint8Array {
    this.#align();
    return this.#bytes.subarray(0, this.#length);
  }

  #align(): void {
    if (this.#count > 0) this.write(2 ** (8 - this.#count) - 1, 8 - this.#count);
  }

  #push(byte: number): void {
    if (this.#length === this.#bytes.length) {
      const larger = new Uint8Array(2 * this.#length);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes[this.#length++] = byte;
  }
}

export function damaged(): ServingError {
  return broken('JPEG', 'its coded data is damaged');
}
