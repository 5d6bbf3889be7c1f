/**
 * In: nodes, inputs, outputs and weights. Out: the bytes of an ONNX model: small models for tests and benchmarks.
 * Trap: protobuf field numbers are facts of the format (onnx.proto); a wrong one makes a file that loads as empty.
 */

const ELEMENT = {
  float32: 1,
  uint8: 2,
  int8: 3,
  uint16: 4,
  int16: 5,
  int32: 6,
  int64: 7,
  string: 8,
  bool: 9,
  float16: 10,
  float64: 11,
  uint32: 12,
  uint64: 13,
} as const;
export type Element = keyof typeof ELEMENT;

export interface ValueSpec {
  readonly name: string;
  readonly dtype: Element;
  /** A text is a free dimension. */
  readonly shape: readonly (number | string)[];
}

export interface NodeSpec {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** A number is an int attribute, an array ints, a text a string, {float} a float. */
  readonly attributes?: Readonly<
    Record<string, number | readonly number[] | string | { readonly float: number }>
  >;
}

export interface WeightSpec {
  readonly name: string;
  readonly dtype: Exclude<Element, 'string'>;
  readonly shape: readonly number[];
  readonly data: ArrayBufferView;
}

export interface ModelSpec {
  readonly inputs: readonly ValueSpec[];
  readonly outputs: readonly ValueSpec[];
  readonly nodes: readonly NodeSpec[];
  readonly weights?: readonly WeightSpec[];
  /** Default 17. */
  readonly opset?: number;
}

export function onnxModel(spec: ModelSpec): Uint8Array {
  const graph = message([
    ...spec.nodes.map((node) => field(1, nodeProto(node))),
    field(2, text('graph')),
    ...(spec.weights ?? []).map((weight) => field(5, tensorProto(weight))),
    ...spec.inputs.map((value) => field(11, valueInfo(value))),
    ...spec.outputs.map((value) => field(12, valueInfo(value))),
  ]);
  const opset = message([field(1, text('')), integer(2, spec.opset ?? 17)]);
  return message([integer(1, 8), field(7, graph), field(8, opset)]);
}

/** A model whose outputs are its inputs. */
export function identityModel(values: readonly ValueSpec[]): Uint8Array {
  return onnxModel({
    inputs: values,
    outputs: values.map((value) => ({ ...value, name: `${value.name}_out` })),
    nodes: values.map(({ name }) => ({ op: 'Identity', inputs: [name], outputs: [`${name}_out`] })),
  });
}

function nodeProto({ op, inputs, outputs, attributes = {} }: NodeSpec): Uint8Array {
  return message([
    ...inputs.map((name) => field(1, text(name))),
    ...outputs.map((name) => field(2, text(name))),
    field(4, text(op)),
    ...Object.entries(attributes).map(([name, value]) => field(5, attribute(name, value))),
  ]);
}

function attribute(
  name: string,
  value: number | readonly number[] | string | { readonly float: number },
): Uint8Array {
  const head = field(1, text(name));
  if (typeof value === 'number') return message([head, integer(3, value), integer(20, 2)]);
  if (typeof value === 'string') return message([head, field(4, text(value)), integer(20, 3)]);
  if ('float' in value) return message([head, float(2, value.float), integer(20, 1)]);
  return message([head, ...value.map((item) => integer(8, item)), integer(20, 7)]);
}

function tensorProto({ name, dtype, shape, data }: WeightSpec): Uint8Array {
  const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return message([
    ...shape.map((dim) => integer(1, dim)),
    integer(2, ELEMENT[dtype]),
    field(8, text(name)),
    field(9, raw),
  ]);
}

function valueInfo({ name, dtype, shape }: ValueSpec): Uint8Array {
  const dims = shape.map((dim) => field(1, typeof dim === 'number' ? integer(1, dim) : field(2, text(dim))));
  const tensorType = message([integer(1, ELEMENT[dtype]), field(2, message(dims))]);
  return message([field(1, text(name)), field(2, field(1, tensorType))]);
}

function text(value: string): Uint8Array {
  return Buffer.from(value);
}

function message(parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(parts);
}

function field(number: number, bytes: Uint8Array): Uint8Array {
  return Buffer.concat([varint((number << 3) | 2), varint(bytes.byteLength), bytes]);
}

function integer(number: number, value: number): Uint8Array {
  return Buffer.concat([varint(number << 3), varint(value)]);
}

function float(number: number, value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([varint((number << 3) | 5), bytes]);
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest > 0n ? low | 0x80 : low);
  } while (rest > 0n);
  return Uint8Array.from(bytes);
}
