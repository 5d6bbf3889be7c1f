/**
 * Writes Arrow IPC messages with any schema (new framing, metadata V5), and so flatbuffers. The product writes one schema
 * only, that of a result, whose messages are constants in lib/codecs/arrow/result.ts.
 */
import { CONTINUATION, PREFIX_BYTES, RECORD_BATCH, SCHEMA, V5 } from '../../lib/codecs/arrow/message.ts';

const encoder = new TextEncoder();

/** A table by slot number; an absent slot has its default. */
export interface FlatTable {
  readonly kind: 'table';
  readonly slots: readonly (FlatScalar | FlatTable | FlatVector | FlatStructs | FlatText | undefined)[];
}

export interface FlatScalar {
  readonly kind: 'scalar';
  readonly bytes: 1 | 2 | 4 | 8;
  readonly value: number;
}

interface FlatVector {
  readonly kind: 'vector';
  readonly items: readonly FlatTable[];
}

/** A vector of structs of two 64-bit numbers: Arrow's FieldNode and Buffer. */
export interface FlatStructs {
  readonly kind: 'structs';
  readonly numbers: readonly number[];
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
});
export const structs = (numbers: readonly number[]): FlatStructs => ({ kind: 'structs', numbers });
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
    for (const [i, number] of node.numbers.entries()) writeSize64(this.#view, at + 4 + 8 * i, number);
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

/** The first message of a stream. */
export function schemaMessage(columns: readonly FlatTable[]): Uint8Array {
  return framed(table(scalar(2, V5), scalar(1, SCHEMA), table(undefined, vector(columns)), scalar(8, 0)));
}

interface BatchNumbers {
  readonly rows: FlatScalar;
  /** Length and null count of each node. */
  readonly nodes: FlatStructs;
  /** Offset (from the start of the body) and length of each buffer. */
  readonly buffers: FlatStructs;
  readonly bodyLength: FlatScalar;
}

/** The head of a record batch; its body follows. */
export function batchMessage(
  numbers: BatchNumbers,
  metadata?: readonly [key: string, value: string],
): Uint8Array {
  const { rows, nodes, buffers, bodyLength } = numbers;
  const pairs = metadata === undefined ? undefined : vector([table(text(metadata[0]), text(metadata[1]))]);
  const header = table(rows, nodes, buffers);
  return framed(table(scalar(2, V5), scalar(1, RECORD_BATCH), header, bodyLength, pairs));
}

function framed(root: FlatTable): Uint8Array {
  const metadata = writeFlat(root);
  const message = new Uint8Array(PREFIX_BYTES + metadata.length);
  const view = new DataView(message.buffer);
  view.setUint32(0, CONTINUATION, true);
  view.setUint32(4, metadata.length, true);
  message.set(metadata, PREFIX_BYTES);
  return message;
}

/** @param typeNumber of Arrow's union Type */
const schemaColumn = (
  name: string,
  typeNumber: number,
  type: FlatTable,
  children: readonly FlatTable[],
): FlatTable => table(text(name), scalar(1, 1), scalar(1, typeNumber), type, undefined, vector(children));

export const int32Column = (name: string): FlatTable =>
  schemaColumn(name, 2, table(scalar(4, 32), scalar(1, 1)), []);
export const float32Column = (name: string): FlatTable => schemaColumn(name, 3, table(scalar(2, 1)), []);
export const utf8Column = (name: string): FlatTable => schemaColumn(name, 5, table(), []);
export const listColumn = (name: string, item: FlatTable): FlatTable =>
  schemaColumn(name, 12, table(), [item]);
export const structColumn = (name: string, fields: readonly FlatTable[]): FlatTable =>
  schemaColumn(name, 13, table(), fields);
