import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Float64, Int32, Utf8, vectorFromArray } from 'apache-arrow';
import { decodeArrowRecord } from '../../../../lib/codecs/arrow/record.ts';
import { decodeArrowResult, encodeArrowResult } from '../../../../lib/codecs/arrow/result.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import type { Value } from '../../../../lib/contract/values.ts';
import { encodeArrowRecord } from '../../../support/arrow-record.ts';
import {
  type FlatTable,
  float32Column,
  int32Column,
  scalar,
  structs,
  table,
  text,
  utf8Column,
  vector,
  writeFlat,
} from '../../../support/arrow-writer.ts';
import fc from '../../../support/fast-check.ts';
import { assertRefused, dense, fourRows, listOf, record, scalaRecord, tensorType } from './records.ts';

const sparse: Value = {
  kind: 'sparse',
  shape: [5, 10],
  indices: Int32Array.of(0, 1, 4, 0, 2, 5),
  indicesShape: [2, 3],
  values: { dtype: 'float32', shape: [3], data: Float32Array.of(1, 2, 3) },
};

/** Valid streams of every kind, from our writers and from apache-arrow. */
const RECORDS: readonly Uint8Array[] = [
  encodeArrowRecord(
    new Map<string, Value>([
      ['t', dense([2, 2], [1, 2, 3, 4])],
      ['s', sparse],
      ['u', { kind: 'text', text: 'grüß' }],
    ]),
  ),
  record({ d: fourRows(tensorType(listOf(new Float64())), [], [], [1, 2], [2]) }),
  record({
    s: fourRows(tensorType(listOf(new Utf8())), [], [], ['a', 'bc'], [2]),
    i: vectorFromArray([7], new Int32()),
  }),
  scalaRecord('x', [3], [1, 2, 3], [], []),
];
const RESULTS: readonly Uint8Array[] = [
  encodeArrowResult([{ dtype: 'float32', shape: [1, 1, 2], data: Float32Array.of(1, 2) }]),
  encodeArrowResult([
    { dtype: 'float32', shape: [3], data: Float32Array.of(1, 2, 3) },
    { dtype: 'float32', shape: [0, 2], data: new Float32Array(0) },
  ]),
];
const SAMPLES = [...RECORDS, ...RESULTS];

/** Bytes and characters of all values. */
function sizeOf(value: Value): number {
  if (value.kind === 'text') return value.text.length;
  if (value.kind === 'sparse')
    return value.indices.byteLength + sizeOf({ kind: 'tensor', tensor: value.values });
  if (value.kind !== 'tensor') return 0;
  const { data } = value.tensor;
  return ArrayBuffer.isView(data) ? data.byteLength : data.reduce((sum, item) => sum + item.length, 0);
}

/** Decodes with both decoders; all that may come out is a ServingError, or values no larger than the bytes. */
function survive(bytes: Uint8Array): void {
  try {
    for (const value of decodeArrowRecord(bytes).values()) assert.ok(sizeOf(value) <= bytes.length);
  } catch (error) {
    assert.ok(
      error instanceof ServingError && error.code !== 'internal',
      `decodeArrowRecord: ${String(error)}`,
    );
  }
  try {
    for (const tensor of decodeArrowResult(bytes))
      assert.ok(sizeOf({ kind: 'tensor', tensor }) <= bytes.length);
  } catch (error) {
    assert.ok(
      error instanceof ServingError && error.code !== 'internal',
      `decodeArrowResult: ${String(error)}`,
    );
  }
}

describe('only a ServingError leaves the Arrow decoders', () => {
  it('when a valid stream is cut at any byte', () => {
    for (const sample of SAMPLES) {
      for (let length = 0; length < sample.length; length++) survive(sample.subarray(0, length));
    }
  });

  it('when any byte of a valid stream is changed', () => {
    for (const sample of SAMPLES) {
      const bytes = sample.slice();
      for (const [at, original] of sample.entries()) {
        for (const changed of [0, 1, 4, 0x7f, 0x80, 0xff, original ^ 1, original + 8]) {
          bytes[at] = changed;
          survive(bytes);
        }
        bytes[at] = original;
      }
    }
  });

  it('when any 4 bytes of a valid stream become a hostile number', () => {
    for (const sample of SAMPLES) {
      const bytes = sample.slice();
      const view = new DataView(bytes.buffer);
      for (let at = 0; at + 4 <= bytes.length; at += 4) {
        const original = view.getUint32(at);
        for (const hostile of [
          0x7fff_ffff,
          0x8000_0000,
          0xffff_ffff,
          0xffff_fff8,
          0x4000_0000,
          bytes.length,
        ]) {
          view.setUint32(at, hostile, true);
          survive(bytes);
        }
        view.setUint32(at, original);
      }
    }
  });

  it('when many bytes of a valid stream are changed', () => {
    const changes = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 2, maxLength: 12 });
    fc.assert(
      fc.property(fc.nat(SAMPLES.length - 1), changes, (which, edits) => {
        const bytes = (SAMPLES[which] as Uint8Array).slice();
        for (const [at, value] of edits) bytes[at % bytes.length] = value;
        survive(bytes);
      }),
      { numRuns: 3_000 },
    );
  });

  it('when the bytes are random, framed or not', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), (random, framed) => {
        survive(random);
        if (framed) survive(frame(random));
      }),
      { numRuns: 3_000 },
    );
  });
});

/** A message: marker, length of the metadata, metadata, body. */
function frame(metadata: Uint8Array, body = new Uint8Array(0)): Uint8Array {
  const prefix = new Uint8Array(8);
  const view = new DataView(prefix.buffer);
  view.setUint32(0, 0xffff_ffff, true);
  view.setUint32(4, metadata.length, true);
  return Buffer.concat([prefix, metadata, body]);
}

function message(type: number, header: FlatTable | undefined, bodyLength = 0, version = 4): Uint8Array {
  return frame(writeFlat(table(scalar(2, version), scalar(1, type), header, scalar(8, bodyLength))));
}

const [SCHEMA, DICTIONARY, BATCH] = [1, 2, 3];
const schema = (...columns: FlatTable[]) => message(SCHEMA, table(undefined, vector(columns)));
const batch = (nodes: number[], buffers: number[], bodyLength = 0) =>
  message(BATCH, table(scalar(8, 1), structs(nodes), structs(buffers)), bodyLength);

describe('the Arrow decoders refuse', () => {
  it('lengths beyond the bytes that are there, without room for them', () => {
    const column = schema(float32Column('x'));
    const [tera, body] = [2 ** 40, new Uint8Array(8)];
    const long = Buffer.concat([column, batch([tera, 0], [0, 0, 0, 4 * tera], 8), body]);
    assertRefused(long, 'bad_request', /expected 1 row, got 1099511627776/);
    const beyond = Buffer.concat([column, batch([1, 0], [0, 0, 8, 4], 8), body]);
    assertRefused(beyond, 'bad_request', /column "x"/, /4 bytes, got 4 at 8 of a body of 8/);
    const short = Buffer.concat([column, batch([1, 0], [0, 0, 0, 2], 8), body]);
    assertRefused(short, 'bad_request', /expected a buffer of 4 bytes, got 2/);
    const bodyless = Buffer.concat([column, batch([1, 0], [0, 0, 0, 4], tera)]);
    assertRefused(bodyless, 'bad_request', /a message body of 1099511627776 bytes, 0 are there/);
  });

  it('a negative length, and a name longer than the metadata', () => {
    const column = schema(float32Column('needle'));
    const negative = Buffer.concat([column, batch([-1, 0], [0, 0, 0, 0])]);
    assertRefused(negative, 'bad_request', /a 64-bit length at \d+ is out of range/);
    const nameLength = Buffer.from(column).indexOf('needle') - 4;
    for (const length of [60, 2 ** 20]) {
      new DataView(column.buffer, column.byteOffset).setUint32(nameLength, length, true);
      assertRefused(column, 'bad_request', new RegExp(`metadata is corrupt: a read of ${length} bytes`));
    }
  });

  it('a result with more nulls than rows, or with endless metadata', () => {
    const columns = schema(float32Column('data'), int32Column('shape'));
    const buffers = [0, 0, 0, 4, 0, 0, 0, 4];
    const body = new Uint8Array(8);
    const nulls = Buffer.concat([columns, batch([1, 0, 1, 2], buffers, 8), body]);
    assert.throws(() => decodeArrowResult(nulls), { code: 'bad_request', message: /more nulls than rows/ });
    const pairs = vector(Array.from({ length: 4097 }, () => table(text('k'))));
    const head = table(scalar(8, 1), structs([1, 0, 1, 1]), structs(buffers));
    const metadata = writeFlat(table(scalar(2, 4), scalar(1, BATCH), head, scalar(8, 8), pairs));
    const endless = Buffer.concat([columns, frame(metadata, body)]);
    assert.throws(() => decodeArrowResult(endless), {
      code: 'too_large',
      message: /4097 entries are over 4096/,
    });
  });

  it('a batch with fewer nodes or buffers than its schema', () => {
    const columns = schema(int32Column('x'), int32Column('y'));
    const body = new Uint8Array(8);
    const nodes = Buffer.concat([columns, batch([1, 0], [0, 0, 0, 4, 0, 0, 0, 4], 8), body]);
    assertRefused(nodes, 'bad_request', /column "y"/, /1 nodes, fewer than its schema says/);
    const buffers = Buffer.concat([columns, batch([1, 0, 1, 0], [0, 0, 0, 4], 8), body]);
    assertRefused(buffers, 'bad_request', /column "y"/, /2 buffers, fewer than its schema says/);
  });

  it('text offsets that go backwards', () => {
    const body = new Uint8Array(16);
    new Int32Array(body.buffer).set([6, 2]);
    const bytes = Buffer.concat([schema(utf8Column('x')), batch([1, 0], [0, 0, 0, 8, 8, 8], 16), body]);
    assertRefused(bytes, 'bad_request', /text offsets go from 6 to 2/);
  });

  it('messages out of order or of another kind', () => {
    const empty = table();
    assertRefused(batch([], []), 'bad_request', /expected a schema first, got a message of type 3/);
    const column = schema(float32Column('x'));
    assertRefused(
      Buffer.concat([column, column]),
      'bad_request',
      /record batches after the schema, got .* type 1/,
    );
    assertRefused(
      Buffer.concat([column, message(DICTIONARY, empty)]),
      'bad_request',
      /dictionaries are not supported/,
    );
    assertRefused(Buffer.concat([column, message(9, empty)]), 'bad_request', /got a message of type 9/);
    assertRefused(message(SCHEMA, undefined), 'bad_request', /a message has no header/);
  });

  it('metadata before V4 and big-endian data', () => {
    assertRefused(message(SCHEMA, table(), 0, 2), 'bad_request', /metadata version 4 or 5, got 3/);
    assertRefused(message(SCHEMA, table(scalar(2, 1))), 'bad_request', /got big-endian/);
  });

  it('integers of odd widths and unknown types, by number', () => {
    const column = (typeNumber: number, type: FlatTable) =>
      schema(table(text('x'), scalar(1, 1), scalar(1, typeNumber), type, undefined, vector([])));
    assertRefused(
      column(2, table(scalar(4, 24), scalar(1, 1))),
      'bad_request',
      /column "x": type int of 24 bits/,
    );
    assertRefused(column(3, table(scalar(2, 7))), 'bad_request', /type float of unknown precision/);
    assertRefused(column(99, table()), 'bad_request', /type number 99/);
    assertRefused(column(12, table()), 'bad_request', /type list of 0 items/);
  });

  it('a schema whose columns all point to one wide struct', () => {
    const leaves = Array.from({ length: 1000 }, (_, i) => float32Column(`c${i}`));
    const struct = table(text('s'), scalar(1, 1), scalar(1, 13), table(), undefined, vector(leaves));
    const narrow = Array.from({ length: 1000 }, (_, i) => utf8Column(`u${i}`));
    const bytes = schema(...narrow, struct);
    // Metadata starts at 8; the fields vector holds forward offsets, the last one to the struct.
    const view = new DataView(bytes.buffer, bytes.byteOffset + 8);
    const slot = (at: number, index: number) =>
      at + view.getUint16(at - view.getInt32(at, true) + 4 + 2 * index, true);
    const follow = (at: number) => at + view.getUint32(at, true);
    const first = follow(slot(follow(slot(follow(0), 2)), 1)) + 4;
    const target = follow(first + 4 * 1000);
    for (let i = 0; i < 1000; i++) view.setUint32(first + 4 * i, target - (first + 4 * i), true);
    assertRefused(bytes, 'too_large', /over the limit of 4096 fields/);
  });

  it('more record batches than the limit', () => {
    const one = encodeArrowResult([{ dtype: 'float32', shape: [], data: Float32Array.of(1) }]);
    const schemaBytes = 8 + new DataView(one.buffer, one.byteOffset).getUint32(4, true);
    const messageBytes = one.subarray(schemaBytes, one.length - 8);
    const many = Buffer.concat([
      one.subarray(0, schemaBytes),
      ...Array.from({ length: 1025 }, () => messageBytes),
    ]);
    assertRefused(many, 'too_large', /over the limit of 1024 record batches/);
    assert.equal(decodeArrowResult(many.subarray(0, schemaBytes + 1024 * messageBytes.length)).length, 1024);
  });
});
