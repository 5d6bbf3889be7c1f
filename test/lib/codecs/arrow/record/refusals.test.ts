import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
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
import { decodeArrowRecord } from '../../../../../lib/codecs/arrow/record.ts';
import type { Value } from '../../../../../lib/contract/values.ts';
import { encodeArrowRecord } from '../../../../support/arrow-record.ts';
import { assertRefused, fourRows, listOf, record, structOf, tensorType } from '../records.ts';

describe('decodeArrowRecord refuses', () => {
  it('a column of another type, naming the column and the type', () => {
    const dictionary = vectorFromArray(['a'], new Dictionary(new Utf8(), new Int32()));
    assertRefused(record({ d: dictionary }), 'bad_request', /column "d": type dictionary of utf8/);
    const time = vectorFromArray([new Date(0)], new TimestampMillisecond());
    assertRefused(record({ t: time }), 'bad_request', /column "t": type timestamp/);
    const fixed = vectorFromArray([[1, 2]], new FixedSizeList(2, new Field('item', new Float32(), true)));
    assertRefused(record({ f: fixed }), 'bad_request', /column "f": type fixed_size_list/);
    assertRefused(record({ b: vectorFromArray([true]) }), 'bad_request', /column "b": type bool/);
  });

  it('a type deep in a struct, naming the path', () => {
    const type = structOf({ data: listOf(new TimestampMillisecond()), shape: listOf(new Int32()) });
    const x = vectorFromArray([{ data: [new Date(0)], shape: [1] }], type);
    assertRefused(record({ x }), 'bad_request', /column "x\.data\.item": type timestamp/);
  });

  it('lists of lists', () => {
    const x = vectorFromArray([[[1, 2]]], listOf(listOf(new Float32())));
    assertRefused(record({ x }), 'bad_request', /column "x" \(list<list<float32>>\)/);
    const deep = vectorFromArray([[[[1, 2]]]], listOf(listOf(listOf(new Float32()))));
    assertRefused(record({ deep }), 'bad_request', /column "deep/, /nested too deeply/);
  });

  it('data that does not fit its shape, saying both', () => {
    const x = fourRows(tensorType(), [], [], [1, 2, 3], [2, 2]);
    assertRefused(record({ x }), 'bad_request', /column "x"/, /shape \[2,2\] means 4 values, data has 3/);
    const scalar = fourRows(tensorType(), [], [], [1, 2], []);
    assertRefused(record({ scalar }), 'bad_request', /shape \[\] means 1 values, data has 2/);
    const nothing = fourRows(tensorType(), [], [], [], []);
    assertRefused(record({ nothing }), 'bad_request', /shape \[\] means 1 values, data has 0/);
  });

  it('a negative, fractional or huge dimension', () => {
    const negative = fourRows(tensorType(), [], [], [1], [-1]);
    assertRefused(record({ negative }), 'bad_request', /shape: expected whole numbers .* got -1/);
    const fraction = fourRows(tensorType(undefined, listOf(new Float32())), [], [], [1], [0.5]);
    assertRefused(record({ fraction }), 'bad_request', /got 0\.5/);
    const huge = fourRows(tensorType(undefined, listOf(new Int64())), [], [], [1], [2n ** 31n]);
    assertRefused(record({ huge }), 'bad_request', /got 2147483648/);
    const words = fourRows(tensorType(undefined, listOf(new Utf8())), [], [], [1], ['one']);
    assertRefused(record({ words }), 'bad_request', /got one/);
  });

  it('more dimensions or elements than the limits', () => {
    const rank = fourRows(
      tensorType(),
      [],
      [],
      [1],
      Array.from({ length: 17 }, () => 1),
    );
    assertRefused(record({ rank }), 'too_large', /17 dimensions are over the limit of 16/);
    const dense = fourRows(tensorType(), [], [], [], [2 ** 30, 2 ** 30, 0]);
    assertRefused(record({ dense }), 'too_large', /column "dense"/, /limit of 67108864 elements/);
    const sparse = fourRows(tensorType(), [0, 0], [2, 1], [1], [2 ** 30, 2 ** 30]);
    assertRefused(record({ sparse }), 'too_large', /limit of 67108864 elements/);
  });

  it('more sparse values than the limit', () => {
    const count = 4 * 1024 * 1024 + 1;
    const sparse: Value = {
      kind: 'sparse',
      shape: [count],
      indices: new Int32Array(count),
      indicesShape: [count, 1],
      values: { dtype: 'float32', shape: [count], data: new Float32Array(count) },
    };
    const bytes = encodeArrowRecord(new Map([['x', sparse]]));
    assertRefused(bytes, 'too_large', /column "x"/, /4194305 sparse values are over the limit of 4194304/);
  });

  it('sparse parts that disagree', () => {
    const shapeless = fourRows(tensorType(), [1], [], [1], [5]);
    assertRefused(
      record({ shapeless }),
      'bad_request',
      /indiceShape \[\] does not fit the 1 values of indiceData/,
    );
    const short = fourRows(tensorType(), [1, 2, 3], [2, 2], [1, 2], [5, 5]);
    assertRefused(record({ short }), 'bad_request', /indiceShape \[2,2\] does not fit the 3 values/);
    const more = fourRows(tensorType(), [1, 2, 3, 4], [2, 2], [1, 2, 3], [5, 5]);
    assertRefused(record({ more }), 'bad_request', /expected 6 indices for 3 values of shape \[5,5\], got 4/);
    const text = fourRows(tensorType(listOf(new Utf8())), [1], [1, 1], ['a'], [5]);
    assertRefused(record({ text }), 'bad_request', /expected numbers in a sparse tensor/);
  });

  it('null values inside a tensor', () => {
    const x = fourRows(tensorType(), [], [], [1, null], [2]);
    assertRefused(record({ x }), 'bad_request', /column "x"/, /no null values, got 1/);
  });

  it('more or fewer rows than one for numbers and lists', () => {
    assertRefused(
      record({ n: vectorFromArray([1, 2], new Float32()) }),
      'bad_request',
      /expected 1 row, got 2/,
    );
    const lists = vectorFromArray([[1], [2]], listOf(new Float32()));
    assertRefused(record({ lists }), 'bad_request', /expected 1 row, got 2/);
  });

  it('several or no text cells', () => {
    assertRefused(record({ s: vectorFromArray(['a', 'b'], new Utf8()) }), 'bad_request', /expected one cell/);
    assertRefused(record({ s: vectorFromArray([null], new Utf8()) }), 'bad_request', /expected one cell/);
    assertRefused(
      record({ s: vectorFromArray([null, 'b'], new Utf8()) }),
      'bad_request',
      /expected one cell/,
    );
  });

  it('text that is not UTF-8', () => {
    const bytes = record({ s: vectorFromArray(['needle'], new Utf8()) });
    const at = Buffer.from(bytes).indexOf('needle');
    bytes[at] = 0xff;
    assertRefused(bytes, 'bad_request', /column "s" \(utf8\): the text is not valid UTF-8/);
  });

  it('a struct without data, or with an unknown field', () => {
    const half = structOf({ shape: listOf(new Int32()) });
    assertRefused(
      record({ x: vectorFromArray([{ shape: [1] }], half) }),
      'bad_request',
      /expected the fields "data"/,
    );
    const odd = structOf({ data: listOf(new Float32()), dims: listOf(new Int32()) });
    const x = vectorFromArray([{ data: [1], dims: [1] }], odd);
    assertRefused(record({ x }), 'bad_request', /unknown field "dims"/);
    const flat = structOf({ data: new Float32(), shape: listOf(new Int32()) });
    const y = vectorFromArray([{ data: 1, shape: [1] }], flat);
    assertRefused(record({ y }), 'bad_request', /expected a list in "data", got float32/);
  });

  it('a struct with two fields of one name', () => {
    const floats = listOf(new Float32());
    const children = ['data', 'data', 'shape'].map((name) => new Field(name, floats, true));
    const data = makeData({
      type: new Struct(children),
      length: 1,
      children: children.map(() => vectorFromArray([[1]], floats).data[0]).filter((one) => one !== undefined),
    });
    const schema = new Schema([new Field('x', data.type, true)]);
    const table = new Table([
      new RecordBatch(schema, makeData({ type: new Struct(schema.fields), children: [data] })),
    ]);
    assertRefused(
      tableToIPC(table, 'stream'),
      'bad_request',
      /column "x"/,
      /expected one field "data", got two/,
    );
  });

  it('two columns of one name', () => {
    const schema = new Schema([new Field('x', new Float32(), true), new Field('x', new Float32(), true)]);
    const column = makeData({ type: new Float32(), length: 1, data: Float32Array.of(1) });
    const root = makeData({
      type: new Struct(schema.fields),
      length: 1,
      nullCount: 0,
      children: [column, column],
    });
    const bytes = RecordBatchStreamWriter.writeAll([new RecordBatch(schema, root)]).toUint8Array(true);
    assertRefused(bytes, 'bad_request', /column "x" .*one column of this name/);
  });

  it('no column, no batch and several batches', () => {
    const table = new Table({ x: vectorFromArray([1], new Float32()) });
    const whole = tableToIPC(table, 'stream');
    const schemaBytes = 8 + new DataView(whole.buffer, whole.byteOffset).getUint32(4, true);
    assertRefused(whole.subarray(0, schemaBytes), 'bad_request', /expected one record batch, got 0/);
    const two = RecordBatchStreamWriter.writeAll([...table.batches, ...table.batches]).toUint8Array(true);
    assertRefused(two, 'bad_request', /expected one record batch, got 2/);
    const empty = new RecordBatch(
      new Schema([]),
      makeData({ type: new Struct([]), length: 1, nullCount: 0 }),
    );
    const columnless = RecordBatchStreamWriter.writeAll([empty]).toUint8Array(true);
    assertRefused(columnless, 'bad_request', /expected a column per input, got none/);
  });

  it('more inputs or longer names than the limits', () => {
    const one = vectorFromArray([1], new Float32());
    const many = Object.fromEntries(Array.from({ length: 257 }, (_, i) => [`c${i}`, one]));
    assertRefused(record(many), 'too_large', /257 inputs are over the limit of 256/);
    assertRefused(record({ ['n'.repeat(257)]: one }), 'too_large', /name is over the limit of 256/);
    assert.equal(decodeArrowRecord(record({ ['n'.repeat(256)]: one })).size, 1);
  });

  it('what is not an Arrow stream', () => {
    assertRefused(new Uint8Array(0), 'bad_request', /it is empty/);
    assertRefused(Buffer.from('{"instances":[]}'), 'bad_request', /no Arrow at all/);
    assertRefused(Uint8Array.of(255, 255, 255, 255, 0, 0, 0, 0), 'bad_request', /it is empty/);
  });
});
