/**
 * Decompresses a Snappy block. Three bytes of input can copy up to 64 bytes of output, so the claimed length is
 * checked first.
 */
import { badModel } from '../../../../../lib/contract/errors.ts';

/** @throws bad_model for an invalid block, or one of more than `maxBytes` */
export function decodeSnappy(input: Uint8Array, maxBytes: number): Uint8Array {
  const reader = new SnappyReader(input);
  const length = reader.length();
  if (length > maxBytes) fail(`a block of ${length} bytes is over the limit of ${maxBytes}`);
  // A copy of 64 bytes takes at least three bytes.
  if (length > input.length * 22 + 64) fail(`${input.length} bytes cannot hold a block of ${length}`);
  return reader.decode(length);
}

class SnappyReader {
  private readonly input: Uint8Array;
  private offset = 0;

  constructor(input: Uint8Array) {
    this.input = input;
  }

  length(): number {
    let length = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.number(1);
      length += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return length;
    }
    return fail('its length is not a number');
  }

  decode(length: number): Uint8Array {
    const output = new Uint8Array(length);
    let at = 0;
    while (this.offset < this.input.length) {
      const tag = this.number(1);
      const kind = tag & 3;
      if (kind === 0) {
        const literal = this.literal(tag >> 2);
        if (literal.length > length - at) fail('it is longer than it says');
        output.set(literal, at);
        at += literal.length;
        continue;
      }
      const count = kind === 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
      const distance = kind === 1 ? ((tag >> 5) << 8) | this.number(1) : this.number(kind === 2 ? 2 : 4);
      if (distance === 0 || distance > at || count > length - at)
        fail('it copies from or to outside of itself');
      // Byte by byte, because a copy may overlap its own output.
      for (let i = 0; i < count; i += 1) output[at + i] = output[at + i - distance] ?? 0;
      at += count;
    }
    if (at !== length) fail(`it says ${length} bytes and has ${at}`);
    return output;
  }

  private literal(code: number): Uint8Array {
    const length = code < 60 ? code + 1 : this.number(code - 59) + 1;
    if (length > this.input.length - this.offset) fail('a literal is cut off');
    this.offset += length;
    return this.input.subarray(this.offset - length, this.offset);
  }

  private number(size: number): number {
    if (size > this.input.length - this.offset) fail('it is cut off');
    let value = 0;
    for (let i = 0; i < size; i += 1) value += (this.input[this.offset + i] ?? 0) * 256 ** i;
    this.offset += size;
    return value;
  }
}

function fail(problem: string): never {
  throw badModel(`a Snappy block cannot be read: ${problem}`);
}
