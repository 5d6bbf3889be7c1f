/** Records as Arrow streams, for the model `pair`. Made by the npm package apache-arrow, then broken. */
import {
  Dictionary,
  Field,
  FixedSizeList,
  Float32,
  Int32,
  Int64,
  makeData,
  RecordBatch,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  Table,
  TimestampMillisecond,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import type { ErrorCode } from '../../../../lib/contract/errors.ts';
import { fourRows, listOf, record, structOf, tensorType } from '../../../lib/codecs/arrow/records.ts';
import {
  type FlatTable,
  float32Column,
  scalar,
  structs,
  table,
  text,
  utf8Column,
  vector,
  writeFlat,
} from '../../../support/arrow-writer.ts';
import type { DataCase } from '../cases.ts';

export const goodArrow = (): Uint8Array => record({ x: fourRows(tensorType(), [], [], [1, 2], [2]) });

const bad = (
  name: string,
  data: () => Uint8Array,
  message: RegExp,
  code: ErrorCode = 'bad_request',
): DataCase => [name, data, code, message];

/** A message: marker, length of the metadata, metadata, body. */
function frame(metadata: Uint8Array, body = new Uint8Array(0)): Uint8Array {
  const prefix = Buffer.alloc(8, 0xff);
  prefix.writeUInt32LE(metadata.length, 4);
  return Buffer.concat([prefix, metadata, body]);
}

function ipcMessage(type: number, header: FlatTable | undefined, bodyLength = 0, version = 4): Uint8Array {
  return frame(writeFlat(table(scalar(2, version), scalar(1, type), header, scalar(8, bodyLength))));
}

const [SCHEMA, DICTIONARY, BATCH] = [1, 2, 3] as const;
const schema = (...columns: FlatTable[]) => ipcMessage(SCHEMA, table(undefined, vector(columns)));
const batch = (nodes: number[], buffers: number[], bodyLength: number) =>
  ipcMessage(BATCH, table(scalar(8, 1), structs(nodes), structs(buffers)), bodyLength);
/** One float32 column and a body of 8 bytes, with these numbers in the batch. */
const floats = (nodes: number[], buffers: number[], bodyLength = 8) =>
  Buffer.concat([schema(float32Column('x')), batch(nodes, buffers, bodyLength), Buffer.alloc(8)]);
const column = (typeNumber: number, type: FlatTable) =>
  schema(table(text('x'), scalar(1, 1), scalar(1, typeNumber), type, undefined, vector([])));

const TERA = 2 ** 40;
const x = (data: unknown[], shape: unknown[], type = tensorType()) =>
  record({ x: fourRows(type, [], [], data, shape) });
const sparse = (indices: number[], indicesShape: number[], data: number[], shape: number[]) =>
  record({ x: fourRows(tensorType(), indices, indicesShape, data, shape) });

export const endlessColumn = (): Uint8Array => floats([TERA, 0], [0, 0, 0, 4 * TERA]);

/** A column of float32 values for each claim: `elements` of them from byte `at` of a body of zeros on. */
export function claims(
  columns: readonly { readonly at: number; readonly elements: number }[],
  bodyBytes: number,
): Uint8Array {
  const fields = columns.map((_, i) =>
    table(text(`c${i}`), scalar(1, 1), scalar(1, 12), table(), undefined, vector([float32Column('item')])),
  );
  const nodes = columns.flatMap(({ elements }) => [1, 0, elements, 0]);
  const buffers = columns.flatMap(({ at, elements }) => [0, 0, 0, 8, 0, 0, at, 4 * elements]);
  return Buffer.concat([schema(...fields), batch(nodes, buffers, bodyBytes), Buffer.alloc(bodyBytes)]);
}

/** `count` columns that all claim the same megabytes of the body, one byte off. */
export function sharedBody(count: number, megabytes: number): Uint8Array {
  const elements = (megabytes * 1024 * 1024) / 4;
  return claims(
    Array.from({ length: count }, () => ({ at: 1, elements })),
    4 * elements + 8,
  );
}

/** `count` text columns that all claim the same megabytes of the body. */
function sharedText(count: number, megabytes: number): Uint8Array {
  const bytes = megabytes * 1024 * 1024;
  const columns = Array.from({ length: count }, (_, i) => utf8Column(`c${i}`));
  const body = Buffer.alloc(bytes + 8, 'a');
  body.writeInt32LE(0, 0);
  body.writeInt32LE(bytes, 4);
  const buffers = columns.flatMap(() => [0, 0, 0, 8, 8, bytes]);
  return Buffer.concat([
    schema(...columns),
    batch(
      columns.flatMap(() => [1, 0]),
      buffers,
      body.length,
    ),
    body,
  ]);
}

function twoOfOneName(): Uint8Array {
  const fields = new Schema([new Field('x', new Float32(), true), new Field('x', new Float32(), true)]);
  const one = makeData({ type: new Float32(), length: 1, data: Float32Array.of(1) });
  const root = makeData({ type: new Struct(fields.fields), length: 1, nullCount: 0, children: [one, one] });
  return RecordBatchStreamWriter.writeAll([new RecordBatch(fields, root)]).toUint8Array(true);
}

function twoBatches(): Uint8Array {
  const { batches } = new Table({ x: vectorFromArray([1], new Float32()) });
  return RecordBatchStreamWriter.writeAll([...batches, ...batches]).toUint8Array(true);
}

const schemaAlone = () => {
  const whole = goodArrow();
  return whole.subarray(0, 8 + new DataView(whole.buffer, whole.byteOffset).getUint32(4, true));
};

function notUtf8(): Uint8Array {
  const bytes = record({ x: vectorFromArray(['needle'], new Utf8()) });
  bytes[Buffer.from(bytes).indexOf('needle')] = 0xff;
  return bytes;
}

const NO_ARROW = /^Arrow stream: cut off or no Arrow at all \(\d+ bytes\)$/;

/** No model is needed to see it. */
export const ARROW: readonly DataCase[] = [
  bad('nothing', () => new Uint8Array(0), /^Arrow stream: it is empty; expected a schema/),
  bad('an end marker alone', () => Uint8Array.of(255, 255, 255, 255, 0, 0, 0, 0), /it is empty/),
  bad('one byte', () => Uint8Array.of(1), NO_ARROW),
  bad('JSON', () => Buffer.from('{"instances":[]}'), NO_ARROW),
  bad('a PNG', () => Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), NO_ARROW),
  bad(
    'the file format',
    () => tableToIPC(new Table({ x: vectorFromArray([1]) }), 'file'),
    /got the Arrow file format; expected the stream format/,
  ),
  bad('a schema alone', schemaAlone, /^Arrow record: expected one record batch, got 0/),
  bad('a batch cut in its metadata', () => goodArrow().subarray(0, schemaAlone().length + 20), NO_ARROW),
  bad(
    'a batch cut in its body',
    () => goodArrow().subarray(0, -40),
    /cut off: a message body of \d+ bytes, \d+ are there/,
  ),
  bad('two batches', twoBatches, /expected one record batch, got 2/),
  bad('no column', () => schema(), /expected one record batch, got 0/),
  bad(
    '257 columns',
    () =>
      record(
        Object.fromEntries(
          Array.from({ length: 257 }, (_, i) => [`c${i}`, vectorFromArray([1], new Float32())]),
        ),
      ),
    /257 inputs are over the limit of 256/,
    'too_large',
  ),
  bad(
    'a column name of 257 characters',
    () => record({ ['n'.repeat(257)]: vectorFromArray([1], new Float32()) }),
    /its name is over the limit of 256 characters/,
    'too_large',
  ),
  bad(
    'two columns of one name',
    twoOfOneName,
    /column "x" \(float32\): expected one column of this name, got two/,
  ),
  bad(
    'a dictionary',
    () => record({ x: vectorFromArray(['a'], new Dictionary(new Utf8(), new Int32())) }),
    /column "x": type dictionary of utf8 is not supported; expected utf8, a number/,
  ),
  bad(
    'a time',
    () => record({ x: vectorFromArray([new Date(0)], new TimestampMillisecond()) }),
    /type timestamp is not supported/,
  ),
  bad(
    'a list of fixed size',
    () =>
      record({ x: vectorFromArray([[1, 2]], new FixedSizeList(2, new Field('item', new Float32(), true))) }),
    /type fixed_size_list is not supported/,
  ),
  bad('booleans', () => record({ x: vectorFromArray([true]) }), /type bool is not supported/),
  bad(
    'a list of lists',
    () => record({ x: vectorFromArray([[[1, 2]]], listOf(listOf(new Float32()))) }),
    /expected numbers or text in a list, got list<list<float32>>/,
  ),
  bad(
    'lists four deep',
    () => record({ x: vectorFromArray([[[[1]]]], listOf(listOf(listOf(new Float32())))) }),
    /nested too deeply/,
  ),
  bad(
    'data for another shape',
    () => x([1, 2, 3], [2, 2]),
    /column "x" .*shape \[2,2\] means 4 values, data has 3/,
  ),
  bad('no data for a shape', () => x([], [2]), /shape \[2\] means 2 values, data has 0/),
  bad('two values for a scalar', () => x([1, 2], []), /shape \[\] means 1 values, data has 2/),
  bad('a dimension of -1', () => x([1], [-1]), /shape: expected whole numbers from 0 to 2147483647, got -1/),
  bad(
    'a dimension of a half',
    () => x([1], [0.5], tensorType(undefined, listOf(new Float32()))),
    /shape: expected whole numbers .* got 0\.5/,
  ),
  bad(
    'a dimension of 2^31',
    () => x([1], [2n ** 31n], tensorType(undefined, listOf(new Int64()))),
    /got 2147483648/,
  ),
  bad(
    'a dimension that is a text',
    () => x([1], ['one'], tensorType(undefined, listOf(new Utf8()))),
    /shape: expected whole numbers .* got one/,
  ),
  bad(
    '17 dimensions',
    () => x([1], Array(17).fill(1)),
    /shape: 17 dimensions are over the limit of 16/,
    'too_large',
  ),
  bad(
    'a product beyond the limit',
    () => x([], [2 ** 30, 2 ** 30, 0]),
    /over the limit of 67108864 elements/,
    'too_large',
  ),
  bad('a null value', () => x([1, null], [2]), /expected no null values, got 1/),
  bad(
    'two rows of numbers',
    () => record({ x: vectorFromArray([1, 2], new Float32()) }),
    /expected 1 row, got 2/,
  ),
  bad(
    'two rows of lists',
    () => record({ x: vectorFromArray([[1], [2]], listOf(new Float32())) }),
    /expected 1 row, got 2/,
  ),
  bad(
    'two texts',
    () => record({ x: vectorFromArray(['a', 'b'], new Utf8()) }),
    /expected one cell, the first, got 2 with 0 of them null/,
  ),
  bad(
    'no text',
    () => record({ x: vectorFromArray([null], new Utf8()) }),
    /expected one cell, the first, got 1 with 1 of them null/,
  ),
  bad('a text that is not UTF-8', notUtf8, /column "x" \(utf8\): the text is not valid UTF-8/),
  bad(
    'a tensor without data',
    () => record({ x: vectorFromArray([{ shape: [1] }], structOf({ shape: listOf(new Int32()) })) }),
    /expected the fields "data" and "shape"/,
  ),
  bad(
    'a tensor with a foreign field',
    () =>
      record({
        x: vectorFromArray(
          [{ data: [1], dims: [1] }],
          structOf({ data: listOf(new Float32()), dims: listOf(new Int32()) }),
        ),
      }),
    /unknown field "dims"; expected indiceData, indiceShape, data, shape/,
  ),
  bad(
    'data that is no list',
    () =>
      record({
        x: vectorFromArray(
          [{ data: 1, shape: [1] }],
          structOf({ data: new Float32(), shape: listOf(new Int32()) }),
        ),
      }),
    /expected a list in "data", got float32/,
  ),
  bad(
    'sparse: no shape of the indices',
    () => sparse([1], [], [1], [5]),
    /indiceShape \[\] does not fit the 1 values of indiceData/,
  ),
  bad(
    'sparse: indices of another shape',
    () => sparse([1, 2, 3], [2, 2], [1, 2], [5, 5]),
    /indiceShape \[2,2\] does not fit the 3 values/,
  ),
  bad(
    'sparse: more values than indices',
    () => sparse([1, 2, 3, 4], [2, 2], [1, 2, 3], [5, 5]),
    /expected 6 indices for 3 values of shape \[5,5\], got 4/,
  ),
  bad(
    'sparse: a shape of 10^18',
    () => sparse([0, 0], [2, 1], [1], [1e9, 1e9]),
    /over the limit of 67108864 elements/,
    'too_large',
  ),
  bad('a column of 2^40 rows', endlessColumn, /expected 1 row, got 1099511627776/),
  bad(
    'a body of 2^40 bytes',
    () => floats([1, 0], [0, 0, 0, 4], TERA),
    /a message body of 1099511627776 bytes, 8 are there/,
  ),
  bad(
    'a buffer behind its body',
    () => floats([1, 0], [0, 0, 8, 4]),
    /expected a buffer of 4 bytes, got 4 at 8 of a body of 8/,
  ),
  bad(
    'a buffer at 2^52',
    () => floats([1, 0], [0, 0, 2 ** 52, 4]),
    /got 4 at 4503599627370496 of a body of 8/,
  ),
  bad('a buffer too short', () => floats([1, 0], [0, 0, 0, 2]), /expected a buffer of 4 bytes, got 2/),
  bad('a negative length', () => floats([-1, 0], [0, 0, 0, 0]), /a 64-bit length at \d+ is out of range/),
  bad('fewer nodes than columns', () => floats([], [0, 0, 0, 4]), /0 nodes, fewer than its schema says/),
  bad('fewer buffers than columns', () => floats([1, 0], []), /0 buffers, fewer than its schema says/),
  bad(
    'text offsets that go backwards',
    () =>
      Buffer.concat([
        schema(utf8Column('x')),
        batch([1, 0], [0, 0, 0, 8, 8, 8], 16),
        Buffer.from(Int32Array.of(6, 2, 0, 0).buffer),
      ]),
    /text offsets go from 6 to 2; expected ascending/,
  ),
  bad(
    'a batch before the schema',
    () => batch([], [], 0),
    /expected a schema first, got a message of type 3/,
  ),
  bad(
    'two schemas',
    () => Buffer.concat([schema(), schema()]),
    /expected record batches after the schema, got a message of type 1/,
  ),
  bad(
    'a dictionary batch',
    () => Buffer.concat([schema(), ipcMessage(DICTIONARY, table())]),
    /dictionaries are not supported; send plain columns/,
  ),
  bad(
    'a message of another type',
    () => Buffer.concat([schema(), ipcMessage(9, table())]),
    /got a message of type 9/,
  ),
  bad('a message without a header', () => ipcMessage(SCHEMA, undefined), /a message has no header/),
  bad(
    'metadata of version 3',
    () => ipcMessage(SCHEMA, table(), 0, 2),
    /expected metadata version 4 or 5, got 3/,
  ),
  bad(
    'big-endian data',
    () => ipcMessage(SCHEMA, table(scalar(2, 1))),
    /expected little-endian data, got big-endian/,
  ),
  bad(
    'integers of 24 bits',
    () => column(2, table(scalar(4, 24), scalar(1, 1))),
    /column "x": type int of 24 bits is not supported/,
  ),
  bad('a type that does not exist', () => column(99, table()), /type number 99 is not supported/),
  bad('a list of nothing', () => column(12, table()), /type list of 0 items is not supported/),
  bad(
    'metadata of random bytes',
    () => frame(Buffer.alloc(64, 0x55)),
    /Arrow metadata is corrupt: a read of \d bytes at \d+ is outside its 64 bytes/,
  ),
  bad(
    '256 columns that share one body',
    () => sharedBody(256, 4),
    /its buffers have more bytes together than its body of 4194312/,
  ),
  bad(
    '256 texts that share one body',
    () => sharedText(256, 4),
    /its buffers have more bytes together than its body/,
  ),
];

/** Readable, and no input of the model. */
export const ARROW_UNFIT: readonly DataCase[] = [
  [
    'a vector of three',
    () => x([1, 2, 3], [3]),
    'bad_input',
    /^input "x": expected float32 \[2\], got shape \[3\]/,
  ],
  [
    'no elements',
    () => x([], [0]),
    'bad_input',
    /^input "x": is empty \(shape \[0\]\), expected float32 \[2\]/,
  ],
  [
    'a text',
    () => record({ x: vectorFromArray(['a|b'], new Utf8()) }),
    'bad_input',
    /expected float32 \[2\], got text or an image/,
  ],
  [
    'texts in a tensor',
    () => x(['a', 'b'], [2], tensorType(listOf(new Utf8()))),
    'bad_input',
    /expected float32, got string/,
  ],
  [
    'an input too many',
    () =>
      record({ x: vectorFromArray([[1, 2]], listOf(new Float32())), y: vectorFromArray([1], new Float32()) }),
    'bad_input',
    /unknown input "y"/,
  ],
  [
    'sparse of another shape',
    () => sparse([0, 0], [1, 2], [1], [5, 5]),
    'bad_input',
    /expected float32 \[2\], got shape \[5,5\]/,
  ],
  [
    'sparse with an index beyond its shape',
    () => sparse([2], [1, 1], [1], [2]),
    'bad_input',
    /sparse index 2 of dimension 0: expected 0 to 1/,
  ],
  [
    'sparse with a point twice',
    () => sparse([1, 1], [2, 1], [1, 2], [2]),
    'bad_input',
    /the same point is named twice/,
  ],
];
