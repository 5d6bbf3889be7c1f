/**
 * Reads the keys and values of a LevelDB table file. Keys are bytes that share a prefix with the previous key; here
 * they are strings with one character per byte.
 */
import { badModel } from '../../../../../lib/contract/errors.ts';
import { crc32c, maskCrc } from './crc32c.ts';
import { decodeSnappy } from './snappy.ts';

const FOOTER_BYTES = 48;
const TRAILER_BYTES = 5;
const MAGIC = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];
const MAX_BLOCK_BYTES = 64 << 20;
const MAX_KEY_BYTES = 64 << 10;
const MAX_ENTRIES = 1_000_000;
/** Limits the full keys, and the decompressed blocks, of the whole file. */
const MAX_TOTAL_BYTES = 512 << 20;

/**
 * Maps keys (see `keyOf`) to values, which are views of the file or of a decompressed block.
 * @throws bad_model naming `file`
 */
export function readTable(bytes: Uint8Array, file: string): Map<string, Uint8Array> {
  return new TableReader(bytes, file).read();
}

/** The UTF-8 bytes of a text with one character per byte, as in the keys of `readTable`. */
export function keyOf(name: string): string {
  return Buffer.from(name, 'utf8').toString('latin1');
}

interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
}

class TableReader {
  private readonly bytes: Uint8Array;
  private readonly file: string;
  private entries = 0;
  private total = 0;

  constructor(bytes: Uint8Array, file: string) {
    this.bytes = bytes;
    this.file = file;
  }

  read(): Map<string, Uint8Array> {
    const footer = this.bytes.subarray(-FOOTER_BYTES);
    if (footer.length < FOOTER_BYTES || MAGIC.some((byte, i) => footer[40 + i] !== byte)) {
      this.fail('it does not end like a table of variables; is it cut off?');
    }
    const handles = new Varints(footer, 0, this);
    handles.pair();
    const table = new Map<string, Uint8Array>();
    for (const { value } of this.block(handles.pair())) {
      const handle = new Varints(value, 0, this).pair();
      for (const entry of this.block(handle)) table.set(entry.key, entry.value);
    }
    return table;
  }

  fail(problem: string): never {
    throw badModel(`${this.file}: ${problem}`);
  }

  private *block([offset, size]: readonly [number, number]): Generator<Entry> {
    const end = this.bytes.length - FOOTER_BYTES - TRAILER_BYTES;
    if (offset + size > end) this.fail(`a block of ${size} bytes at ${offset} is outside of the file`);
    const stored = this.bytes.subarray(offset, offset + size + TRAILER_BYTES);
    const view = new DataView(stored.buffer, stored.byteOffset + size, TRAILER_BYTES);
    const checksum = maskCrc(crc32c(stored.subarray(0, size + 1)));
    if (view.getUint32(1, true) !== checksum) this.fail(`the block at ${offset} does not have its checksum`);
    const block = this.uncompress(stored.subarray(0, size), view.getUint8(0));
    this.count(block.length);
    yield* this.entriesOf(block);
  }

  private uncompress(block: Uint8Array, compression: number): Uint8Array {
    if (compression === 0) return block;
    if (compression !== 1) this.fail(`a block has the unknown compression ${compression}`);
    return decodeSnappy(block, MAX_BLOCK_BYTES);
  }

  private *entriesOf(block: Uint8Array): Generator<Entry> {
    if (block.length < 4) this.fail('a block is too short');
    const restarts = new DataView(block.buffer, block.byteOffset + block.length - 4, 4).getUint32(0, true);
    const end = block.length - 4 - restarts * 4;
    if (end < 0) this.fail('a block has more restarts than bytes');
    const varints = new Varints(block.subarray(0, end), 0, this);
    let key = '';
    while (varints.offset < end) {
      const shared = varints.next();
      const own = varints.next();
      const size = varints.next();
      if (shared > key.length || shared + own > MAX_KEY_BYTES) this.fail('a key is longer than it can be');
      key = key.slice(0, shared) + Buffer.from(varints.take(own)).toString('latin1');
      this.count(key.length);
      this.entries += 1;
      if (this.entries > MAX_ENTRIES) this.fail(`there are more than ${MAX_ENTRIES} entries`);
      yield { key, value: varints.take(size) };
    }
  }

  private count(bytes: number): void {
    this.total += bytes;
    if (this.total > MAX_TOTAL_BYTES) this.fail(`its content is over the limit of ${MAX_TOTAL_BYTES} bytes`);
  }
}

class Varints {
  offset: number;
  private readonly bytes: Uint8Array;
  private readonly reader: TableReader;

  constructor(bytes: Uint8Array, offset: number, reader: TableReader) {
    this.bytes = bytes;
    this.offset = offset;
    this.reader = reader;
  }

  next(): number {
    let value = 0;
    for (let scale = 1; scale < 2 ** 50; scale *= 128) {
      const byte = this.bytes[this.offset];
      this.offset += 1;
      if (byte === undefined) break;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    return this.reader.fail('a number is cut off or too large');
  }

  /** Offset and size of a block. */
  pair(): readonly [number, number] {
    return [this.next(), this.next()];
  }

  take(size: number): Uint8Array {
    if (size > this.bytes.length - this.offset) this.reader.fail('an entry is cut off');
    this.offset += size;
    return this.bytes.subarray(this.offset - size, this.offset);
  }
}
