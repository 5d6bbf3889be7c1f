/**
 * Request records as other programs write them, made with the npm package apache-arrow. `vectorFromArray` guesses
 * types when none is given, so every column here names its type.
 */
import assert from 'node:assert/strict';
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
  Table,
  tableToIPC,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { decodeArrowRecord } from '../../../../lib/codecs/arrow/record.ts';
import { type ErrorCode, ServingError } from '../../../../lib/contract/errors.ts';
import type { Inputs, Value } from '../../../../lib/contract/values.ts';

export const structOf = (fields: Record<string, DataType>) =>
  new Struct(Object.entries(fields).map(([name, type]) => new Field(name, type, true)));
export const listOf = (item: DataType, name = 'item') => new List(new Field(name, item, true));
export const tensorType = (data: DataType = listOf(new Float32()), ints: DataType = listOf(new Int32())) =>
  structOf({ indiceData: ints, indiceShape: ints, data, shape: ints });

/** A record as the Python client lays it out: four rows, one child each. */
export function fourRows(
  type: Struct,
  indiceData: unknown[],
  indiceShape: unknown[],
  data: unknown[],
  shape: unknown[],
) {
  const none = { indiceData: null, indiceShape: null, data: null, shape: null };
  return vectorFromArray(
    [
      { ...none, indiceData },
      { ...none, indiceShape },
      { ...none, data },
      { ...none, shape },
    ],
    type,
  );
}

export function record(columns: Record<string, Vector>): Uint8Array {
  return tableToIPC(new Table(columns), 'stream');
}

/** `values` as a list with one item a list: more lists than the struct has rows. */
export function oneItemLists(type: Float32 | Int32, values: readonly number[]) {
  const leaf =
    type instanceof Int32
      ? makeData({ type, length: values.length, data: Int32Array.from(values) })
      : makeData({ type, length: values.length, data: Float32Array.from(values) });
  const valueOffsets = Int32Array.from({ length: values.length + 1 }, (_, i) => i);
  return makeData({ type: listOf(type, ''), length: values.length, nullCount: 0, valueOffsets, child: leaf });
}

/** A record of the Scala front end: one row, children in another order, nameless items, valid bits unset. */
export function scalaRecord(
  name: string,
  shape: number[],
  data: number[],
  indiceShape: number[],
  indiceData: number[],
) {
  const [int, float] = [new Int32(), new Float32()];
  const children = [
    oneItemLists(int, shape),
    oneItemLists(float, data),
    oneItemLists(int, indiceShape),
    oneItemLists(int, indiceData),
  ];
  const names = ['shape', 'data', 'indiceShape', 'indiceData'];
  const type = new Struct(children.map((child, i) => new Field(names[i] as string, child.type, true)));
  const column = makeData({ type, length: 1, nullCount: 1, nullBitmap: Uint8Array.of(0), children });
  const schema = new Schema([new Field(name, type, true)]);
  const root = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children: [column] });
  return RecordBatchStreamWriter.writeAll([new RecordBatch(schema, root)]).toUint8Array(true);
}

export function tensorOf(inputs: Inputs, name: string) {
  const value = inputs.get(name);
  assert.ok(value?.kind === 'tensor', `input ${name} is ${value?.kind}`);
  return value.tensor;
}

export function dense(shape: number[], values: number[]): Value {
  return { kind: 'tensor', tensor: { dtype: 'float32', shape, data: Float32Array.from(values) } };
}

export function refusal(bytes: Uint8Array): ServingError {
  let thrown: unknown;
  try {
    decodeArrowRecord(bytes);
  } catch (error) {
    thrown = error;
  }
  assert.ok(thrown instanceof ServingError, `expected a ServingError, got ${String(thrown)}`);
  return thrown;
}

export function assertRefused(bytes: Uint8Array, code: ErrorCode, ...messages: RegExp[]): void {
  const error = refusal(bytes);
  for (const message of messages) assert.match(error.message, message);
  assert.equal(error.code, code);
}
