/**
 * Reads an Arrow IPC stream, in old framing (length first) or new (0xFFFFFFFF first), as views of the given bytes.
 * Lengths come from untrusted callers, so nothing is allocated by them. A stream may end without an end marker, so a
 * cut exactly between two messages cannot be detected.
 */
import { badRequest, ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { bytesPerElement, type NumericDType, type TypedArray, viewBytes } from '../../contract/tensor.ts';
import { FlatReader } from './flatbuffers.ts';
import { CONTINUATION, DICTIONARY_BATCH, PREFIX_BYTES, RECORD_BATCH, SCHEMA, V4, V5 } from './message.ts';
import { type ArrowField, readSchema } from './schema.ts';

const MESSAGE = { version: 0, headerType: 1, header: 2, bodyLength: 3, metadata: 4 } as const;
const BATCH = { rows: 0, nodes: 1, buffers: 2, compression: 3 } as const;
const CODECS = ['lz4', 'zstd'];
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

interface ArrowStream {
  readonly fields: readonly ArrowField[];
  readonly batches: readonly ArrowBatch[];
}

interface Message {
  readonly flat: FlatReader;
  readonly type: number;
  readonly header: number;
  readonly body: Uint8Array;
  /** Custom metadata of this message: where the vector's offset stands, or 0. */
  readonly metadata: number;
}

/** @throws bad_request unless the bytes are a stream of a schema and plain record batches; too_large over limits */
export function readArrowStream(given: Uint8Array): ArrowStream {
  // A Buffer's slice() shares memory where a Uint8Array's copies; from here on it is always a Uint8Array.
  const bytes = new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let fields: ArrowField[] | undefined;
  const batches: ArrowBatch[] = [];
  let at = 0;
  while (at < bytes.length) {
    const metadata = framed(bytes, view, at);
    if (metadata.length === 0) break;
    at = metadata.byteOffset - bytes.byteOffset + metadata.length;
    const message = readMessage(metadata, bytes.subarray(at));
    at += message.body.length;
    if (message.type === SCHEMA && fields === undefined) {
      fields = readSchema(message.flat, message.header);
    } else if (message.type === RECORD_BATCH && fields !== undefined) {
      if (batches.length === LIMITS.arrowBatches) {
        throw overLimit('arrowBatches', 'Arrow stream:', 'record batches');
      }
      batches.push(new ArrowBatch(message));
    } else {
      throw unexpected(message.type, fields === undefined);
    }
  }
  if (fields === undefined) throw badRequest('Arrow stream: it is empty; expected a schema');
  return { fields, batches };
}

/** The metadata of the message at `at`; empty at the end marker. */
function framed(bytes: Uint8Array, view: DataView, at: number): Uint8Array {
  if (at + 4 > bytes.length) throw cutOff(bytes.length);
  let start = at + 4;
  let length = view.getUint32(at, true);
  if (length === CONTINUATION) {
    if (at + PREFIX_BYTES > bytes.length) throw cutOff(bytes.length);
    start = at + PREFIX_BYTES;
    length = view.getUint32(at + 4, true);
  }
  if (start + length > bytes.length) {
    if (at === 0 && isFileMagic(bytes)) {
      throw badRequest('Arrow stream: got the Arrow file format; expected the stream format');
    }
    throw cutOff(bytes.length);
  }
  return bytes.subarray(start, start + length);
}

function isFileMagic(bytes: Uint8Array): boolean {
  return bytes.length >= 6 && String.fromCharCode(...bytes.subarray(0, 6)) === 'ARROW1';
}

function cutOff(length: number): ServingError {
  return badRequest(`Arrow stream: cut off or no Arrow at all (${length} bytes)`);
}

function readMessage(metadata: Uint8Array, rest: Uint8Array): Message {
  const flat = new FlatReader(metadata);
  const root = flat.root();
  const versionAt = flat.slot(root, MESSAGE.version);
  const version = versionAt === 0 ? 0 : flat.i16(versionAt);
  if (version !== V4 && version !== V5) {
    throw badRequest(`Arrow stream: expected metadata version 4 or 5, got ${version + 1}`);
  }
  const typeAt = flat.slot(root, MESSAGE.headerType);
  const headerAt = flat.slot(root, MESSAGE.header);
  const bodyAt = flat.slot(root, MESSAGE.bodyLength);
  if (headerAt === 0) throw badRequest('Arrow stream: a message has no header');
  const bodyLength = bodyAt === 0 ? 0 : flat.size64(bodyAt);
  if (bodyLength > rest.length) {
    throw badRequest(
      `Arrow stream: cut off: a message body of ${bodyLength} bytes, ${rest.length} are there`,
    );
  }
  return {
    flat,
    type: typeAt === 0 ? 0 : flat.u8(typeAt),
    header: flat.follow(headerAt),
    body: rest.subarray(0, bodyLength),
    metadata: flat.slot(root, MESSAGE.metadata),
  };
}

function unexpected(type: number, atStart: boolean): ServingError {
  if (type === DICTIONARY_BATCH) {
    return badRequest('Arrow stream: dictionaries are not supported; send plain columns');
  }
  const expected = atStart ? 'a schema first' : 'record batches after the schema';
  return badRequest(`Arrow stream: expected ${expected}, got a message of type ${type}`);
}

/** One record batch: the data of each column and child, as views. */
export class ArrowBatch {
  readonly #message: Message;
  /** The bytes returned so far. */
  #used = 0;
  readonly #nodes: { readonly start: number; readonly count: number };
  readonly #buffers: { readonly start: number; readonly count: number };

  constructor(message: Message) {
    const { flat, header } = message;
    const compressionAt = flat.slot(header, BATCH.compression);
    if (compressionAt !== 0) {
      const codecAt = flat.slot(flat.follow(compressionAt), 0);
      const codec = CODECS[codecAt === 0 ? 0 : flat.u8(codecAt)] ?? 'unknown';
      throw badRequest(`Arrow stream: the body is compressed (${codec}); send it uncompressed`);
    }
    const nodesAt = flat.slot(header, BATCH.nodes);
    const buffersAt = flat.slot(header, BATCH.buffers);
    this.#message = message;
    this.#nodes = nodesAt === 0 ? { start: 0, count: 0 } : flat.items(nodesAt, 16);
    this.#buffers = buffersAt === 0 ? { start: 0, count: 0 } : flat.items(buffersAt, 16);
  }

  #nodeAt(field: ArrowField): number {
    if (field.node >= this.#nodes.count) {
      throw badRequest(`Arrow batch has ${this.#nodes.count} nodes, fewer than its schema says`);
    }
    return this.#nodes.start + 16 * field.node;
  }

  /** The cells of a column or items of a child. Compared with the buffers only when these are read. */
  lengthOf(field: ArrowField): number {
    return this.#message.flat.size64(this.#nodeAt(field));
  }

  nullsOf(field: ArrowField): number {
    return this.#message.flat.size64(this.#nodeAt(field) + 8);
  }

  /** The buffer `index` of a field (0 = validity), cut to its first `bytes`. */
  bufferOf(field: ArrowField, index: number, bytes: number): Uint8Array {
    const buffer = field.buffer + index;
    if (buffer >= this.#buffers.count) {
      throw badRequest(`Arrow batch has ${this.#buffers.count} buffers, fewer than its schema says`);
    }
    const { flat, body } = this.#message;
    const at = this.#buffers.start + 16 * buffer;
    const offset = flat.size64(at);
    const length = flat.size64(at + 8);
    if (offset + length > body.length || bytes > length) {
      throw badRequest(
        `expected a buffer of ${bytes} bytes, got ${length} at ${offset} of a body of ${body.length}`,
      );
    }
    // Each byte belongs to one buffer; otherwise 256 columns could share one body, which would be copied 256 times.
    this.#used += bytes;
    if (this.#used > body.length) {
      throw badRequest(`Arrow batch: its buffers have more bytes together than its body of ${body.length}`);
    }
    return body.subarray(offset, offset + bytes);
  }

  /** True for each cell that is not null. */
  validityOf(field: ArrowField): (cell: number) => boolean {
    if (this.nullsOf(field) === 0) return () => true;
    const bits = this.bufferOf(field, 0, Math.ceil(this.lengthOf(field) / 8));
    return (cell) => (((bits[cell >> 3] as number) >> (cell & 7)) & 1) === 1;
  }

  /** All values of a numeric field; its validity is ignored. Returns a view when the bytes are aligned. */
  numbersOf(field: ArrowField, dtype: NumericDType): TypedArray {
    return viewBytes(dtype, this.bufferOf(field, 1, this.lengthOf(field) * bytesPerElement(dtype)));
  }

  /** The first `count` cells of a utf8 or large_utf8 field as text. */
  textsOf(field: ArrowField, count: number): string[] {
    if (count === 0) return [];
    if (count > LIMITS.texts) throw overLimit('texts', `${count} texts are`);
    const large = field.type === 'large_utf8';
    const offsetBytes = this.bufferOf(field, 1, (count + 1) * (large ? 8 : 4));
    const offsets = viewBytes(large ? 'int64' : 'int32', offsetBytes);
    const bytes = this.bufferOf(field, 2, Number(offsets[count]));
    const texts: string[] = [];
    let start = Number(offsets[0]);
    for (let cell = 0; cell < count; cell++) {
      const end = Number(offsets[cell + 1]);
      // In order, so that a thousand cells cannot each claim the whole buffer.
      if (start < 0 || end < start) {
        throw badRequest(`text offsets go from ${start} to ${end}; expected ascending`);
      }
      texts.push(decodeText(bytes.subarray(start, end)));
      start = end;
    }
    return texts;
  }

  /** Custom metadata of the batch; empty when there is none. */
  metadata(): ReadonlyMap<string, string> {
    const { flat, metadata } = this.#message;
    const pairs = new Map<string, string>();
    if (metadata === 0) return pairs;
    const { start, count } = flat.items(metadata, 4);
    if (count > LIMITS.arrowFields) {
      throw new ServingError('too_large', `Arrow metadata: ${count} entries are over ${LIMITS.arrowFields}`);
    }
    for (let i = 0; i < count; i++) {
      const pair = flat.follow(start + 4 * i);
      const [key, value] = [flat.slot(pair, 0), flat.slot(pair, 1)];
      if (key !== 0) pairs.set(flat.string(key), value === 0 ? '' : flat.string(value));
    }
    return pairs;
  }
}

function decodeText(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw badRequest('the text is not valid UTF-8');
  }
}
