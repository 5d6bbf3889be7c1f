/** Writes BigDL's protobuf from field numbers, independent of the reader's tables. */
import { bytes, double, floats, int, ints } from '../protobuf.ts';

const PACKAGE = 'com.intel.analytics.bigdl.';

export interface TestTensor {
  readonly size: readonly number[];
  readonly stride: readonly number[];
  /** Counted from 1. */
  readonly offset?: number;
  readonly storage: number;
  /** The storage's numbers, where they are part of the tensor. */
  readonly data?: readonly number[] | Float32Array;
}

let ids = 1;

export function tensorBytes({ size, stride, offset = 1, storage, data }: TestTensor): Buffer {
  const content = [int(9, storage), ...(data ? [floats(2, data)] : [])];
  const own = [int(1, 2), ints(2, size), ints(3, stride), int(4, offset), int(9, 1000 + ids++)];
  return Buffer.concat([...own, bytes(8, int(1, 2), ...content)]);
}

/** An attribute: a whole number, a flag, a list of whole numbers, or the bytes of a value. */
type Attribute = number | boolean | readonly number[] | Buffer;

function attributeBytes(value: Attribute): Buffer {
  if (Buffer.isBuffer(value)) return value;
  if (typeof value === 'boolean') return int(8, value);
  if (typeof value === 'number') return Number.isInteger(value) ? int(3, value) : double(6, value);
  return bytes(15, int(1, value.length), ints(3, value));
}

export function textsAttribute(...texts: readonly string[]): Buffer {
  return bytes(15, int(1, texts.length), ...texts.map((text) => bytes(7, text)));
}

export interface TestModule {
  readonly type: string;
  readonly name?: string;
  readonly attributes?: Readonly<Record<string, Attribute>>;
  readonly children?: readonly Buffer[];
  readonly before?: readonly string[];
  readonly parameters?: readonly TestTensor[];
  /** The form of old files. */
  readonly weight?: TestTensor;
  readonly bias?: TestTensor;
  /** Storages by tensor, of the root. */
  readonly storages?: readonly TestTensor[];
}

export function moduleBytes(module: TestModule): Buffer {
  const {
    type,
    name,
    attributes = {},
    children = [],
    before = [],
    parameters,
    weight,
    bias,
    storages,
  } = module;
  const entries = Object.entries(attributes).map(([key, value]) =>
    bytes(8, bytes(1, key), bytes(2, attributeBytes(value))),
  );
  const global = (storages ?? []).map((tensor) =>
    bytes(2, bytes(1, String(ids)), bytes(2, bytes(10, tensorBytes(tensor)))),
  );
  return Buffer.concat([
    ...(name === undefined ? [] : [bytes(1, name)]),
    ...children.map((child) => bytes(2, child)),
    ...(weight ? [bytes(3, tensorBytes(weight))] : []),
    ...(bias ? [bytes(4, tensorBytes(bias))] : []),
    ...before.map((each) => bytes(5, each)),
    bytes(7, PACKAGE + type),
    ...entries,
    ...(storages ? [bytes(8, bytes(1, 'global_storage'), bytes(2, bytes(14, ...global)))] : []),
    bytes(9, '0.13.0'),
    bytes(11, String(ids++)),
    ...(parameters ? [int(15, true), ...parameters.map((tensor) => bytes(16, tensorBytes(tensor)))] : []),
  ]);
}
