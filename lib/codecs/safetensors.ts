/**
 * In: named tensors of any dtype. Out: one safetensors file in memory, and the way back.
 * Format: 8 bytes length of the header (little-endian), a JSON header {name: {dtype, shape, data_offsets}}, then the
 * tensors' bytes. Text and images, which safetensors does not know, are U8 with their kind in `__metadata__`.
 * Trap: header and offsets come from strangers; every one is checked against the bytes that are there.
 */
import { LIMITS } from '../contract/limits.ts';
import { ServingError } from '../errors.ts';
import {
  bytesPerElement,
  elementCount,
  type NumericDType,
  type Tensor,
  type TypedArray,
  viewBytes,
} from '../tensor.ts';
import { isObject } from './instances.ts';

const NAMES: Readonly<Record<NumericDType, string>> = {
  float64: 'F64',
  float32: 'F32',
  float16: 'F16',
  int64: 'I64',
  int32: 'I32',
  int16: 'I16',
  int8: 'I8',
  uint64: 'U64',
  uint32: 'U32',
  uint16: 'U16',
  uint8: 'U8',
  bool: 'BOOL',
};
const DTYPES = new Map(Object.entries(NAMES).map(([dtype, name]) => [name, dtype as NumericDType]));
/** Kind of a U8 entry that is no tensor of bytes: text as a JSON array, or an encoded image. */
const STRINGS = 'strings';
const HEADER_BYTES = 1024 * 1024;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Tensors by name -> bytes. Shapes are kept; strings become a JSON array in a U8 entry. */
export function encodeTensors(
  tensors: ReadonlyMap<string, Tensor>,
  metadata: Record<string, string> = {},
): Uint8Array {
  const kinds = { ...metadata };
  // No prototype: an input may be called __proto__.
  const header: Record<string, unknown> = Object.create(null);
  const parts: Uint8Array[] = [];
  let offset = 0;
  // Widest first, as the format asks: then every tensor starts on its own alignment and can be read without a copy.
  const ordered = [...tensors].map(([name, tensor]) => ({ name, tensor, width: widthOf(tensor) }));
  ordered.sort((a, b) => b.width - a.width);
  const entries = new Map<string, unknown>();
  for (const { name, tensor } of ordered) {
    const bytes = bytesOf(tensor);
    if (tensor.dtype === 'string') kinds[`kind:${name}`] = `${STRINGS}:${tensor.shape.join(',')}`;
    const dtype = tensor.dtype === 'string' ? 'U8' : NAMES[tensor.dtype];
    const shape = tensor.dtype === 'string' ? [bytes.byteLength] : tensor.shape;
    entries.set(name, { dtype, shape, data_offsets: [offset, offset + bytes.byteLength] });
    parts.push(bytes);
    offset += bytes.byteLength;
  }
  if (Object.keys(kinds).length > 0) header['__metadata__'] = kinds;
  // In the caller's order: position matters when names do not match the model's.
  for (const name of tensors.keys()) header[name] = entries.get(name);
  return assemble(JSON.stringify(header), parts, offset);
}

function assemble(header: string, parts: readonly Uint8Array[], bodyBytes: number): Uint8Array {
  const headerBytes = Buffer.byteLength(header);
  const padded = Math.ceil(headerBytes / 8) * 8;
  const file = new Uint8Array(8 + padded + bodyBytes);
  new DataView(file.buffer).setBigUint64(0, BigInt(padded), true);
  const text = Buffer.from(file.buffer, 8, padded);
  text.fill(0x20);
  text.write(header);
  let offset = 8 + padded;
  for (const part of parts) {
    file.set(part, offset);
    offset += part.byteLength;
  }
  return file;
}

function widthOf(tensor: Tensor): number {
  return tensor.dtype === 'string' ? 1 : bytesPerElement(tensor.dtype);
}

function bytesOf(tensor: Tensor): Uint8Array {
  if (tensor.dtype === 'string') return Buffer.from(JSON.stringify(tensor.data));
  const data = tensor.data as TypedArray;
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

export interface TensorFile {
  /** In the header's order. */
  readonly tensors: Map<string, Tensor>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** @throws bad_request for anything that is no safetensors file; views of `bytes` where they are aligned */
export function decodeTensors(bytes: Uint8Array): Map<string, Tensor> {
  return readTensorFile(bytes).tensors;
}

/** `decodeTensors` with the file's `__metadata__`. */
export function readTensorFile(bytes: Uint8Array): TensorFile {
  const { header, body } = readHeader(bytes);
  const metadata = metadataOf(header['__metadata__']);
  const tensors = new Map<string, Tensor>();
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    if (tensors.size >= LIMITS.inputsPerRecord) throw broken(`more than ${LIMITS.inputsPerRecord} tensors`);
    tensors.set(name, readTensor(name, entry, body, metadata[`kind:${name}`]));
  }
  return { tensors, metadata };
}

function readHeader(bytes: Uint8Array): { header: Record<string, unknown>; body: Uint8Array } {
  if (bytes.byteLength < 8) throw broken(`${bytes.byteLength} bytes are too few`);
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  if (length > HEADER_BYTES || length > bytes.byteLength - 8) throw broken(`a header of ${length} bytes`);
  let header: unknown;
  try {
    header = JSON.parse(utf8.decode(bytes.subarray(8, 8 + length)));
  } catch (error) {
    throw broken((error as Error).message);
  }
  if (!isObject(header)) throw broken('the header is no object');
  return { header, body: bytes.subarray(8 + length) };
}

function metadataOf(value: unknown): Record<string, string> {
  if (value === undefined) return {};
  if (!isObject(value) || !Object.values(value).every((text) => typeof text === 'string')) {
    throw broken('__metadata__ is no object of texts');
  }
  return value as Record<string, string>;
}

function readTensor(name: string, entry: unknown, body: Uint8Array, kind: string | undefined): Tensor {
  const { dtype: typeName, shape, data_offsets: offsets } = isObject(entry) ? entry : {};
  const dtype = DTYPES.get(String(typeName));
  if (!dtype) throw broken(`tensor ${JSON.stringify(name)} is of unknown dtype ${JSON.stringify(typeName)}`);
  if (!isIndexes(shape) || shape.length > LIMITS.tensorRank || !isIndexes(offsets) || offsets.length !== 2) {
    throw broken(`tensor ${JSON.stringify(name)} needs a shape and two data_offsets`);
  }
  const [start, end] = offsets as [number, number];
  const count = elementCount(shape, LIMITS.tensorElements);
  if (start > end || end > body.byteLength || end - start !== count * bytesPerElement(dtype)) {
    throw broken(`tensor ${JSON.stringify(name)}: shape and data_offsets do not agree with the bytes`);
  }
  const bytes = body.subarray(start, end);
  if (kind?.startsWith(STRINGS)) return readStrings(name, bytes, kind);
  return { dtype, shape, data: viewBytes(dtype, bytes) };
}

function readStrings(name: string, bytes: Uint8Array, kind: string): Tensor {
  let items: unknown;
  try {
    items = JSON.parse(utf8.decode(bytes));
  } catch (error) {
    throw broken(`text ${JSON.stringify(name)}: ${(error as Error).message}`);
  }
  const dims = kind.slice(STRINGS.length + 1);
  const shape = dims === '' ? [] : dims.split(',').map(Number);
  if (!Array.isArray(items) || !items.every((item) => typeof item === 'string')) {
    throw broken(`text ${JSON.stringify(name)} is no array of texts`);
  }
  if (!isIndexes(shape) || elementCount(shape, LIMITS.tensorElements) !== items.length) {
    throw broken(`text ${JSON.stringify(name)}: ${items.length} items are not of shape [${dims}]`);
  }
  return { dtype: 'string', shape, data: items };
}

function isIndexes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}

function broken(what: string): ServingError {
  return new ServingError('bad_request', `not a readable safetensors file: ${what}`);
}
