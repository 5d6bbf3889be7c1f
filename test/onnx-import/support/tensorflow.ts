/** Writes TensorFlow's messages as bytes from short descriptions of nodes, functions and signatures. */
import { bytes, float, floats, int, ints } from './protobuf.ts';

export const DT = {
  float: 1,
  double: 2,
  int32: 3,
  uint8: 4,
  string: 7,
  int64: 9,
  bool: 10,
  half: 19,
  resource: 20,
  variant: 21,
};

/** An attribute's value. */
export const attr = {
  int: (value: number | bigint) => int(3, value),
  float: (value: number) => float(4, value),
  bool: (value: boolean) => int(5, value),
  text: (value: string) => bytes(2, value),
  type: (value: number) => int(6, value),
  shape: (dims: readonly number[]) => bytes(7, shape(dims)),
  tensor: (value: Uint8Array) => bytes(8, value),
  func: (name: string, attributes: Attrs = {}) => bytes(10, bytes(1, name), ...entries(2, attributes)),
  types: (values: readonly number[]) => bytes(1, ints(6, values)),
  ints: (values: readonly (number | bigint)[]) => bytes(1, ints(3, values)),
  texts: (values: readonly string[]) => bytes(1, ...values.map((value) => bytes(2, value))),
  placeholder: (name: string) => bytes(9, name),
};

export type Attrs = Readonly<Record<string, Uint8Array>>;

export function shape(dims: readonly number[]): Buffer {
  return Buffer.concat(dims.map((dim) => bytes(2, int(1, dim))));
}

function entries(field: number, values: Attrs): Buffer[] {
  return Object.entries(values).map(([key, value]) => bytes(field, bytes(1, key), bytes(2, value)));
}

/** A TensorProto of floats: as `tensor_content`, or with `repeated` as float_val. */
export function floatTensor(dims: readonly number[], values: ArrayLike<number>, repeated = false): Buffer {
  const data = repeated ? floats(5, values) : bytes(4, new Uint8Array(Float32Array.from(values).buffer));
  return Buffer.concat([int(1, DT.float), bytes(2, shape(dims)), data]);
}

export function intTensor(dims: readonly number[], values: readonly number[]): Buffer {
  return Buffer.concat([int(1, DT.int32), bytes(2, shape(dims)), ints(7, values)]);
}

export function longTensor(dims: readonly number[], values: readonly number[]): Buffer {
  return Buffer.concat([int(1, DT.int64), bytes(2, shape(dims)), ints(10, values)]);
}

export function textTensor(values: readonly string[]): Buffer {
  return Buffer.concat([
    int(1, DT.string),
    bytes(2, shape([values.length])),
    ...values.map((value) => bytes(8, value)),
  ]);
}

/** A NodeDef. */
export function node(
  op: string,
  name: string,
  inputs: readonly string[] = [],
  attributes: Attrs = {},
): Buffer {
  return Buffer.concat([
    bytes(1, name),
    bytes(2, op),
    ...inputs.map((input) => bytes(3, input)),
    ...entries(5, attributes),
  ]);
}

export function placeholder(name: string, dims: readonly number[] = [-1, 2], type = DT.float): Buffer {
  return node('Placeholder', name, [], { dtype: attr.type(type), shape: attr.shape(dims) });
}

export function constant(name: string, value: Uint8Array, type = DT.float): Buffer {
  return node('Const', name, [], { dtype: attr.type(type), value: attr.tensor(value) });
}

export interface FunctionSpec {
  readonly name: string;
  /** Name to type. */
  readonly inputs: Readonly<Record<string, number>>;
  /** Name to type. */
  readonly outputs: Readonly<Record<string, number>>;
  readonly nodes: readonly Uint8Array[];
  /** Output to tensor. */
  readonly returns: Readonly<Record<string, string>>;
  readonly effects?: readonly string[];
}

export function functionDef(spec: FunctionSpec): Buffer {
  const argument = (field: number) => (entry: readonly [string, number]) =>
    bytes(field, bytes(1, entry[0]), int(3, entry[1]));
  const signature = bytes(
    1,
    bytes(1, spec.name),
    ...Object.entries(spec.inputs).map(argument(2)),
    ...Object.entries(spec.outputs).map(argument(3)),
  );
  return Buffer.concat([
    signature,
    ...spec.nodes.map((one) => bytes(3, one)),
    ...Object.entries(spec.returns).map(([output, tensor]) => bytes(4, bytes(1, output), bytes(2, tensor))),
    ...(spec.effects ?? []).map((effect) => bytes(6, bytes(1, effect), bytes(2, effect))),
  ]);
}

/** A GraphDef of today's format. */
export function graph(nodes: readonly Uint8Array[], functions: readonly FunctionSpec[] = []): Buffer {
  return Buffer.concat([
    ...nodes.map((one) => bytes(1, one)),
    bytes(2, ...functions.map((one) => bytes(1, functionDef(one)))),
    bytes(4, int(1, 1395)),
  ]);
}

/** Public name to tensor name. */
export type Names = Readonly<Record<string, string>>;

export interface MetaSpec {
  readonly graph: Uint8Array;
  readonly tags?: readonly string[];
  readonly signatures?: Readonly<Record<string, { readonly inputs: Names; readonly outputs: Names }>>;
  readonly restore?: string;
  /** The names of files in the folder `assets` by the tensors that hold their paths. */
  readonly assets?: Names;
}

export function metaGraph({
  graph: body,
  tags = ['serve'],
  signatures = {},
  restore,
  assets = {},
}: MetaSpec): Buffer {
  const infos = (field: number, names: Names): Buffer[] =>
    Object.entries(names).map(([key, tensor]) => bytes(field, bytes(1, key), bytes(2, bytes(1, tensor))));
  return Buffer.concat([
    bytes(1, ...tags.map((tag) => bytes(4, tag))),
    bytes(2, body),
    ...(restore === undefined ? [] : [bytes(3, bytes(3, restore))]),
    ...Object.entries(signatures).map(([name, { inputs, outputs }]) =>
      bytes(5, bytes(1, name), bytes(2, ...infos(1, inputs), ...infos(2, outputs))),
    ),
    ...Object.entries(assets).map(([tensor, file]) => bytes(6, bytes(1, bytes(1, tensor)), bytes(2, file))),
  ]);
}

export function savedModel(...metas: readonly MetaSpec[]): Buffer {
  return Buffer.concat([int(1, 1), ...metas.map((meta) => bytes(2, metaGraph(meta)))]);
}
