/** Messages in the formats of the Analytics Zoo clients for Python and Scala. */
import {
  type DataType,
  Field,
  Float32,
  Int32,
  List,
  makeData,
  RecordBatch,
  RecordBatchStreamWriter,
  Schema,
  Struct,
} from 'apache-arrow';
import type { Value } from '../../../lib/contract/values.ts';
import { encodeArrowRecord } from '../../support/arrow-record.ts';

type Message = (uri: string) => string;

export interface ZooMessages {
  readonly dense: Message;
  readonly sparse: Message;
  /** From the Scala front end: one row, children in another order. */
  readonly scala: Message;
  /** An image as base64 in a text column. */
  readonly image: Message;
  readonly strings: Message;
  /** The serde `stream`: JSON instances. */
  readonly stream: Message;
  /** Spaced as by Python's json.dumps, and long enough for the decoder's path for large messages. */
  readonly json: Message;
}

const NUMBERS = Float32Array.from({ length: 12 }, (_, i) => i - 3);
const SHAPE = [3, 2, 2];

export function zooMessages(png: Uint8Array): ZooMessages {
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  const arrow =
    (name: string, value: Value): Message =>
    (uri) =>
      JSON.stringify({ uri, data: base64(encodeArrowRecord(new Map([[name, value]]))) });
  const tensor = { dtype: 'float32' as const, shape: SHAPE, data: NUMBERS };
  const sparse = {
    shape: SHAPE,
    indices: Int32Array.of(0, 0, 1, 2, 1, 1),
    indicesShape: [2, 3],
    values: { dtype: 'float32' as const, shape: [2], data: Float32Array.of(1.5, -2) },
  };
  const scala = base64(scalaRecord('x', SHAPE, [...NUMBERS]));
  return {
    dense: arrow('x', { kind: 'tensor', tensor }),
    sparse: arrow('x', { kind: 'sparse', ...sparse }),
    scala: (uri) => JSON.stringify({ uri, data: scala, serde: 'arrow' }),
    image: arrow('x', { kind: 'text', text: base64(png) }),
    strings: arrow('s', { kind: 'text', text: 'one|zwei' }),
    stream: (uri) => {
      const x = [0, 1, 2].map((i) => [
        [i, i],
        [1, 0.5],
      ]);
      return JSON.stringify({ uri, data: JSON.stringify({ instances: [{ x }] }), serde: 'stream' });
    },
    json: (uri) => {
      const data = base64(encodeArrowRecord(new Map([['x', { kind: 'tensor', tensor }]])));
      return `{"uri": "${uri}", "data": "${data}", "serde": "arrow", "more": "${' '.repeat(2_000)}"}`;
    },
  };
}

/** A list column with one item a list, which is more lists than the record has rows. */
function oneItemLists(type: DataType, values: readonly number[]) {
  const data = type instanceof Int32 ? Int32Array.from(values) : Float32Array.from(values);
  const child = makeData({ type, length: values.length, data } as Parameters<typeof makeData>[0]);
  const valueOffsets = Int32Array.from({ length: values.length + 1 }, (_, i) => i);
  const list = new List(new Field('', type, true));
  return makeData({ type: list, length: values.length, nullCount: 0, valueOffsets, child });
}

/** A record of the Scala front end: one row, children in an order of its own, nameless items, valid bits unset. */
function scalaRecord(name: string, shape: readonly number[], data: readonly number[]): Uint8Array {
  const [int, float] = [new Int32(), new Float32()];
  const columns = {
    shape: [int, shape],
    data: [float, data],
    indiceShape: [int, []],
    indiceData: [int, []],
  } as const;
  const children = Object.values(columns).map(([type, values]) => oneItemLists(type, values));
  const fields = Object.keys(columns).map(
    (column, i) => new Field(column, (children[i] as (typeof children)[number]).type, true),
  );
  const type = new Struct(fields);
  const column = makeData({ type, length: 1, nullCount: 1, nullBitmap: Uint8Array.of(0), children });
  const schema = new Schema([new Field(name, type, true)]);
  const root = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children: [column] });
  return RecordBatchStreamWriter.writeAll([new RecordBatch(schema, root)]).toUint8Array(true);
}
