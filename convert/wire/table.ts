/**
 * The shape of a protobuf message as we read it: a table from field number to field. In: nothing. Out: types, limits.
 * Trap: a table names only the fields we need; whatever a file has besides is skipped, in both encodings.
 */

/**
 * What a field holds, and what a message then has under its name (first alone, then `repeated`):
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
  /** A function for a message, so that tables may refer to one another in any order. */
  readonly type: ScalarType | (() => Table);
  readonly repeated?: true;
  /** A protobuf map: `type` is the table of its entries, 1 the key (string or number), 2 the value. Becomes a Map. */
  readonly map?: true;
  /** Numbers by name, for the text format; both encodings give the number. */
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

/** Fields by name, without a prototype. A field the file does not have is undefined; nothing gets a default. */
export interface Message {
  readonly [name: string]: MessageValue | undefined;
}

export interface WireLimits {
  /** Messages within messages. */
  readonly depth: number;
  /** Messages, texts and byte strings in all. */
  readonly items: number;
  /** Repeated numbers that are no view of the file, in all. */
  readonly numbers: number;
}

/** 100 levels is protobuf's own limit; the largest TensorFlow graphs we know have about 700,000 items. */
export const WIRE_LIMITS: WireLimits = { depth: 100, items: 3_000_000, numbers: 1 << 26 };
