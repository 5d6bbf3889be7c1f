/**
 * Types for protobuf messages: a table maps field numbers to fields. A table names only the fields that the
 * converters need; others are skipped in both encodings.
 */

/**
 * The types of a field, each with its value in a message (single, then `repeated`):
 * - bool: boolean, Uint8Array of 0 and 1
 * - int32, enum: number, Int32Array; uint32, fixed32: number, Uint32Array
 * - int64: number (the nearest double beyond 2^53), BigInt64Array (exact); uint64, fixed64: number, BigUint64Array
 * - float: number, Float32Array; double: number, Float64Array
 * - string: string (UTF-8), string[]; bytes: Uint8Array (a view of the file), Uint8Array[]
 */
export type ScalarType =
  | 'bool'
  | 'int32'
  | 'uint32'
  | 'int64'
  | 'uint64'
  | 'enum'
  | 'float'
  | 'double'
  | 'string'
  | 'bytes'
  | 'fixed32'
  | 'fixed64';

export interface Field {
  readonly name: string;
  /** A function for a message, so that tables may refer to one another. */
  readonly type: ScalarType | (() => Table);
  readonly repeated?: true;
  /** In bytes: a longer value is left out by skim.ts, of a longer message what is longer in it. */
  readonly most?: number;
  /** A protobuf map: `type` is the table of its entries, 1 the key (string or number), 2 the value. Becomes a Map. */
  readonly map?: true;
  /** The enum's numbers by name, for text. Both encodings return numbers. */
  readonly enumNames?: Readonly<Record<string, number>>;
}

export type Table = Readonly<Record<number, Field>>;

export type NumberArray =
  | Float32Array
  | Float64Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Uint8Array;

export type MessageMap = ReadonlyMap<string | number, MessageValue>;

export type MessageValue =
  | boolean
  | number
  | string
  | NumberArray
  | Message
  | readonly Message[]
  | readonly string[]
  | readonly Uint8Array[]
  | MessageMap;

/** Fields by name, without a prototype. A missing field is undefined; there are no defaults. */
export interface Message {
  readonly [name: string]: MessageValue | undefined;
}

export interface WireLimits {
  /** The nesting of messages. */
  readonly depth: number;
  /** The total number of messages, texts and byte strings. */
  readonly items: number;
  /** The total of repeated numbers that are not views of the file. */
  readonly numbers: number;
}

/** 100 levels is protobuf's own limit; the largest TensorFlow graphs we know have about 700,000 items. */
export const WIRE_LIMITS: WireLimits = { depth: 100, items: 3_000_000, numbers: 1 << 26 };
