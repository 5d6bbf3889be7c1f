/**
 * Reads and writes safetensors: 8 bytes of header length (little-endian), a JSON header {name: {dtype, shape,
 * data_offsets}}, then the tensors' bytes. Text and images, which the format lacks, are U8 with their kind in
 * `__metadata__`. Header and offsets come from untrusted callers and are checked against the bytes that are there.
 */
import { asError, badRequest, type ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import {
  bytesPerElement,
  elementCount,
  type NumericDType,
  numericDTypes,
  type Tensor,
  viewBytes,
} from '../contract/tensor.ts';
import { isObject } from './instances.ts';
import { objectText, parseText } from './json.ts';
import { keysInOrder } from './key-order.ts';
import { quoteName, quoteValue } from './quote.ts';

/** `F64`, `I8`, `U16`, `BOOL`. */
function nameOf(dtype: NumericDType): string {
  return dtype === 'bool' ? 'BOOL' : dtype.replace(/^(.)\D*/, '$1').toUpperCase();
}

const DTYPES = /* @__PURE__ */ (() => new Map(numericDTypes().map((dtype) => [nameOf(dtype), dtype])))();

/** The kind of a U8 entry that is not a tensor of bytes: text as a JSON array, or an encoded image. */
const STRINGS = 'strings';
const HEADER_BYTES = 1_048_576;
const utf8 = /* @__PURE__ */ new TextDecoder('utf-8', { fatal: true });

/** Tensors by name -> bytes. Shapes are kept; strings become a JSON array in a U8 entry. */
export function encodeTensors(
  tensors: ReadonlyMap<string, Tensor>,
  metadata: Record<string, string> = {},
): Uint8Array {
  const kinds = { ...metadata };
  const parts: Uint8Array[] = [];
  let offset = 0;
  const ordered = Array.from(tensors, ([name, tensor]) => {
    if (tensor.dtype === 'string') kinds[`kind:${name}`] = `${STRINGS}:${tensor.shape.join(',')}`;
    return { name, ...numeric(tensor) };
  });
  // Widest first, as the format asks: then every tensor starts on its own alignment and can be read without a copy.
  ordered.sort((a, b) => b.data.BYTES_PER_ELEMENT - a.data.BYTES_PER_ELEMENT);
  const entries = new Map<string, unknown>();
  for (const { name, dtype, shape, data } of ordered) {
    const end = offset + data.byteLength;
    entries.set(name, { dtype: nameOf(dtype), shape, data_offsets: [offset, end] });
    parts.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    offset = end;
  }
  // In the caller's order: position matters when names do not match the model's.
  const header = Array.from(tensors.keys(), (name) => [name, entries.get(name)] as const);
  const metadataEntry = Object.keys(kinds).length > 0 ? [['__metadata__', kinds] as const] : [];
  return assemble(objectText([...metadataEntry, ...header]), parts, offset);
}

function assemble(header: string, parts: readonly Uint8Array[], bodyBytes: number): Uint8Array {
  const headerBytes = new TextEncoder().encode(header);
  const padded = Math.ceil(headerBytes.length / 8) * 8;
  const file = new Uint8Array(8 + padded + bodyBytes);
  new DataView(file.buffer).setBigUint64(0, BigInt(padded), true);
  file.fill(0x20, 8, 8 + padded);
  file.set(headerBytes, 8);
  let offset = 8 + padded;
  for (const part of parts) {
    file.set(part, offset);
    offset += part.byteLength;
  }
  return file;
}

/** Text becomes its bytes as JSON. */
function numeric({ dtype, shape, data }: Tensor) {
  if (dtype !== 'string') return { dtype, shape, data };
  const bytes = new TextEncoder().encode(JSON.stringify(data));
  return { dtype: 'uint8', shape: [bytes.length], data: bytes } as const;
}

interface TensorFile {
  /** In the header's order. */
  readonly tensors: Map<string, Tensor>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The tensors are views of `bytes` if aligned. @throws bad_request for anything but a safetensors file */
export function decodeTensors(bytes: Uint8Array): Map<string, Tensor> {
  return readTensorFile(bytes).tensors;
}

/** `decodeTensors` with the file's `__metadata__`. */
export function readTensorFile(bytes: Uint8Array): TensorFile {
  const { entries, metadata, bodyAt } = layoutOf(bytes);
  const tensors = new Map<string, Tensor>();
  for (const { name, start, end, kind, ...head } of entries) {
    tensors.set(name, readTensor(name, head, bytes.subarray(bodyAt + start, bodyAt + end), kind));
  }
  return { tensors, metadata };
}

/** The header, which was compared with the length of the file. */
interface Layout {
  readonly entries: readonly (Entry & { readonly name: string; readonly kind: string | undefined })[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly bodyAt: number;
}

/** The records of one client have the same header, and reading it costs more than all else that is done to a small record. */
let last: { readonly head: Uint8Array; readonly bytes: number; readonly layout: Layout } | undefined;
const KEPT_HEAD_BYTES = 1_024;

function layoutOf(bytes: Uint8Array): Layout {
  if (last?.bytes === bytes.byteLength && startsWith(bytes, last.head)) return last.layout;
  const layout = readLayout(bytes);
  if (layout.bodyAt <= KEPT_HEAD_BYTES) {
    last = { head: Uint8Array.from(bytes.subarray(0, layout.bodyAt)), bytes: bytes.byteLength, layout };
  }
  return layout;
}

function startsWith(bytes: Uint8Array, head: Uint8Array): boolean {
  for (let i = 0; i < head.length; i++) if (bytes[i] !== head[i]) return false;
  return true;
}

function readLayout(bytes: Uint8Array): Layout {
  const { header, names, bodyAt } = readHeader(bytes);
  const bodyBytes = bytes.byteLength - bodyAt;
  const metadata = metadataOf(header['__metadata__']);
  const entries: Layout['entries'][number][] = [];
  let used = 0;
  for (const name of names) {
    if (name === '__metadata__') continue;
    if (entries.length >= LIMITS.inputsPerRecord) {
      throw broken(`${names.length} entries are over the limit of ${LIMITS.inputsPerRecord} tensors`);
    }
    const entry = readEntry(name, header[name], bodyBytes);
    // Each byte belongs to one tensor; otherwise 256 tensors could share one body, which would be copied 256 times.
    used += entry.end - entry.start;
    if (used > bodyBytes) throw broken(`its tensors have ${used} bytes together, its body ${bodyBytes}`);
    entries.push({ ...entry, name, kind: metadata[`kind:${name}`] });
  }
  return { entries, metadata, bodyAt };
}

function readHeader(bytes: Uint8Array): {
  readonly header: Record<string, unknown>;
  /** Its keys, in their order. */
  readonly names: readonly string[];
  readonly bodyAt: number;
} {
  if (bytes.byteLength < 8) throw broken(`expected at least 8 bytes, got ${bytes.byteLength}`);
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  const most = Math.min(HEADER_BYTES, bytes.byteLength - 8);
  if (length > most) throw broken(`a header of ${length} bytes, expected at most ${most}`);
  let text: string;
  let header: unknown;
  try {
    text = utf8.decode(bytes.subarray(8, 8 + length));
    header = JSON.parse(text);
  } catch (error) {
    throw broken(asError(error).message);
  }
  if (!isObject(header)) throw broken('the header is not an object');
  return { header, names: keysInOrder(text)(header), bodyAt: 8 + length };
}

function metadataOf(value: unknown): Record<string, string> {
  if (value === undefined) return {};
  if (!isObject(value) || !areTexts(value)) throw broken('__metadata__ is not an object of texts');
  return value;
}

function areTexts(value: Record<string, unknown>): value is Record<string, string> {
  return Object.values(value).every((text) => typeof text === 'string');
}

interface Entry {
  readonly dtype: NumericDType;
  readonly shape: readonly number[];
  readonly start: number;
  readonly end: number;
}

function readEntry(name: string, entry: unknown, bodyBytes: number): Entry {
  const { dtype: typeName, shape, data_offsets: offsets } = isObject(entry) ? entry : {};
  const dtype = typeof typeName === 'string' ? DTYPES.get(typeName) : undefined;
  if (!dtype) throw broken(`tensor ${quoteName(name)} is of unknown dtype ${quoteValue(typeName)}`);
  if (!isIndexes(shape) || shape.length > LIMITS.tensorRank || !isIndexes(offsets) || offsets.length !== 2) {
    throw broken(
      `tensor ${quoteName(name)} needs a shape of up to ${LIMITS.tensorRank} dimensions and two data_offsets`,
    );
  }
  const [start = 0, end = 0] = offsets;
  const expected = elementCount(shape, LIMITS.tensorElements) * bytesPerElement(dtype);
  if (start > end || end > bodyBytes || end - start !== expected) {
    throw broken(
      `tensor ${quoteName(name)}: ${dtype} [${shape.join(',')}] takes ${expected} bytes, its data_offsets are [${start},${end}] of ${bodyBytes}`,
    );
  }
  return { dtype, shape, start, end };
}

function readTensor(
  name: string,
  { dtype, shape }: Pick<Entry, 'dtype' | 'shape'>,
  bytes: Uint8Array,
  kind: string | undefined,
): Tensor {
  if (kind?.startsWith(STRINGS)) return readStrings(name, bytes, kind);
  return { dtype, shape, data: viewBytes(dtype, bytes) };
}

function readStrings(name: string, bytes: Uint8Array, kind: string): Tensor {
  let items: unknown;
  try {
    items = parseText(utf8.decode(bytes));
  } catch (error) {
    throw broken(`text ${quoteName(name)}: ${asError(error).message}`);
  }
  const dims = kind.slice(STRINGS.length + 1);
  const shape = dims === '' ? [] : dimensionsOf(dims);
  if (!Array.isArray(items) || !items.every((item) => typeof item === 'string')) {
    throw broken(`text ${quoteName(name)} is not an array of texts`);
  }
  if (shape === undefined || elementCount(shape, LIMITS.tensorElements) !== items.length) {
    throw broken(`text ${quoteName(name)}: ${items.length} items are not of shape ${quoteName(dims)}`);
  }
  return { dtype: 'string', shape, data: items };
}

const DIMENSIONS = /^\d{1,15}(,\d{1,15})*$/;

/** "2,3" -> [2, 3]; undefined for anything else, and over the limit of dimensions. */
export function dimensionsOf(text: string): number[] | undefined {
  const shape = DIMENSIONS.test(text) ? text.split(',').map(Number) : [];
  return shape.length > 0 && shape.length <= LIMITS.tensorRank ? shape : undefined;
}

function isIndexes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}

function broken(what: string): ServingError {
  return badRequest(`not a readable safetensors file: ${what}`);
}
