/**
 * Encodes a record as the Arrow stream that the old Python client would send, for old servers. A tensor takes four rows
 * and all columns have the same number of rows, so a text column beside tensors is padded with nulls; the old server
 * reads its first cell. Numbers become float32, and strings lose their shape.
 */
import { toFloat32 } from '../../lib/codecs/arrow/float32.ts';
import { align8, CONTINUATION, END_BYTES } from '../../lib/codecs/arrow/message.ts';
import { encodeBase64 } from '../../lib/codecs/encode-base64.ts';
import { quoteName } from '../../lib/codecs/quote.ts';
import { badInput, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS, overLimit } from '../../lib/contract/limits.ts';
import { elementCount, formatShape, type Tensor } from '../../lib/contract/tensor.ts';
import type { Inputs, Value } from '../../lib/contract/values.ts';
import {
  batchMessage,
  type FlatTable,
  float32Column,
  int32Column,
  listColumn,
  scalar,
  schemaMessage,
  structColumn,
  structs,
  utf8Column,
} from './arrow-writer.ts';

const TENSOR_ROWS = 4;
/** Strings of one input travel in one cell, joined by this; the old server splits there. */
const STRING_SEPARATOR = '|';
const NO_BYTES = new Uint8Array(0);
const encoder = new TextEncoder();

/** A column before the number of rows is known. */
interface Column {
  readonly schema: FlatTable;
  /** Length and null count of its nodes. */
  readonly nodes: (rows: number) => readonly number[];
  readonly buffers: (rows: number) => readonly Uint8Array[];
  /** Rows it needs; a text column can have more. */
  readonly rows: number;
}

/**
 * @throws bad_input naming the input when its value has no place in this format: a JSON value, several strings with a
 *   bar in one of them, strings of rank 2; too_large over the limits
 */
export function encodeArrowRecord(inputs: Inputs): Uint8Array {
  if (inputs.size === 0) throw badInput('expected at least one input, got none');
  if (inputs.size > LIMITS.inputsPerRecord) throw overLimit('inputsPerRecord', `${inputs.size} inputs are`);
  const columns = [...inputs].map(([name, value]) => toColumn(name, value));
  const rows = Math.max(...columns.map((column) => column.rows));
  const schema = schemaMessage(columns.map((column) => column.schema));
  const body = layOut(columns.flatMap((column) => column.buffers(rows)));
  const head = batchMessage({
    rows: scalar(8, rows),
    nodes: structs(columns.flatMap((column) => column.nodes(rows))),
    buffers: structs(body.places),
    bodyLength: scalar(8, body.length),
  });
  const stream = new Uint8Array(schema.length + head.length + body.length + END_BYTES);
  stream.set(schema);
  stream.set(head, schema.length);
  const start = schema.length + head.length;
  for (const [i, buffer] of body.buffers.entries())
    stream.set(buffer, start + (body.places[2 * i] as number));
  new DataView(stream.buffer).setUint32(stream.length - END_BYTES, CONTINUATION, true);
  return stream;
}

/** Offset and length of each buffer, one after another at multiples of 8. */
function layOut(buffers: readonly Uint8Array[]): {
  readonly buffers: readonly Uint8Array[];
  readonly places: readonly number[];
  readonly length: number;
} {
  const places: number[] = [];
  let length = 0;
  for (const buffer of buffers) {
    places.push(length, buffer.length);
    length += align8(buffer.length);
  }
  return { buffers, places, length };
}

function toColumn(name: string, value: Value): Column {
  try {
    if (name.length > LIMITS.inputNameLength) throw overLimit('inputNameLength', 'its name is', 'characters');
    return columnOf(name, value);
  } catch (error) {
    if (!(error instanceof ServingError)) throw error;
    throw new ServingError(error.code, `input ${quoteName(name)}: ${error.message}`, { cause: error });
  }
}

function columnOf(name: string, value: Value): Column {
  switch (value.kind) {
    case 'text':
      return textColumn(name, value.text);
    case 'image':
      return textColumn(name, encodeBase64(value.bytes));
    case 'tensor':
      return value.tensor.dtype === 'string'
        ? textColumn(name, joinStrings(value.tensor))
        : tensorColumn(name, [], new Int32Array(0), value.tensor.shape, denseValues(value.tensor));
    case 'sparse': {
      const values = floats(value.values);
      return tensorColumn(name, value.indicesShape, value.indices, value.shape, values);
    }
    default:
      throw badInput('a JSON value cannot be written as Arrow; give a tensor, text or an image');
  }
}

function joinStrings({ shape, data }: Tensor): string {
  const strings = data as readonly string[];
  if (shape.length > 1 || strings.length === 0) {
    throw badInput(`expected one string or a list of them, got shape ${formatShape(shape)}`);
  }
  const split = strings.find((item) => item.includes(STRING_SEPARATOR));
  if (split !== undefined && strings.length > 1) {
    throw badInput(`${quoteName(split)} has a vertical bar, which would split it in two`);
  }
  return strings.join(STRING_SEPARATOR);
}

function denseValues(tensor: Tensor): Float32Array {
  const count = elementCount(tensor.shape, LIMITS.tensorElements);
  if (count !== tensor.data.length) {
    throw badInput(
      `shape ${formatShape(tensor.shape)} means ${count} values, data has ${tensor.data.length}`,
    );
  }
  return floats(tensor);
}

function floats({ dtype, data }: Tensor): Float32Array {
  if (dtype === 'string') throw badInput('expected numbers in a sparse tensor, got strings');
  return toFloat32(data, dtype);
}

/** The text in the first row, nulls in the others. */
function textColumn(name: string, text: string): Column {
  const bytes = encoder.encode(text);
  return {
    schema: utf8Column(name),
    rows: 1,
    nodes: (rows) => [rows, rows - 1],
    buffers: (rows) => [rows === 1 ? NO_BYTES : Uint8Array.of(1), offsets(rows, 0, bytes.length), bytes],
  };
}

function tensorColumn(
  name: string,
  indicesShape: readonly number[],
  indices: Int32Array,
  shape: readonly number[],
  values: Float32Array,
): Column {
  if (Math.max(shape.length, indicesShape.length) > LIMITS.tensorRank) {
    throw overLimit('tensorRank', `rank ${shape.length} is`);
  }
  const children = [indices, toInt32(indicesShape), values, toInt32(shape)];
  return {
    schema: structColumn(name, [
      listColumn('indiceData', int32Column('item')),
      listColumn('indiceShape', int32Column('item')),
      listColumn('data', float32Column('item')),
      listColumn('shape', int32Column('item')),
    ]),
    rows: TENSOR_ROWS,
    nodes: () => [
      TENSOR_ROWS,
      0,
      ...children.flatMap(({ length }) => [TENSOR_ROWS, TENSOR_ROWS - 1, length, 0]),
    ],
    buffers: () => [
      NO_BYTES,
      ...children.flatMap((child, row) => [
        Uint8Array.of(1 << row),
        offsets(TENSOR_ROWS, row, child.length),
        NO_BYTES,
        new Uint8Array(child.buffer, child.byteOffset, child.byteLength),
      ]),
    ],
  };
}

/** Offsets of `rows` cells of which only `row` holds anything. */
function offsets(rows: number, row: number, length: number): Uint8Array {
  return new Uint8Array(Int32Array.from({ length: rows + 1 }, (_, i) => (i > row ? length : 0)).buffer);
}

function toInt32(dims: readonly number[]): Int32Array {
  for (const dim of dims) {
    if (!Number.isInteger(dim) || dim < 0 || dim > 0x7fff_ffff) {
      throw badInput(`expected dimensions from 0 to 2147483647, got ${dim}`);
    }
  }
  return Int32Array.from(dims);
}
