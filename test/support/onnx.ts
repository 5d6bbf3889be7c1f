/**
 * Writes small ONNX models for tests and benchmarks from nodes, inputs, outputs and weights. The field numbers are
 * those of onnx.proto; a wrong one makes a file that loads as empty.
 */
import type { DType } from '../../lib/contract/tensor.ts';
import { ELEMENT_TYPES } from '../../onnx-import/graph/attributes.ts';
import {
  bytes,
  type Chunk,
  float,
  integer,
  message,
  packedFloats,
  text,
} from '../../onnx-import/wire/chunk.ts';

export type Element = DType;

export interface ValueSpec {
  readonly name: string;
  readonly dtype: Element;
  /** A text is a free dimension; undefined: not even the rank is declared. */
  readonly shape: readonly (number | string)[] | undefined;
  /** It is a list of tensors, or of maps from a text to a float, as ZipMap makes it. */
  readonly listOf?: 'tensors' | 'maps';
}

export type AttributeSpec =
  | number
  | readonly number[]
  | string
  | { readonly float: number }
  | { readonly floats: readonly number[] }
  | { readonly strings: readonly string[] }
  /** The body of an If, which has no inputs. */
  | { readonly nodes: readonly NodeSpec[]; readonly outputs: readonly ValueSpec[] };

export interface NodeSpec {
  readonly op: string;
  readonly name?: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Default: the standard operators. */
  readonly domain?: string;
  /** Which of several functions of the file it calls. */
  readonly overload?: string;
  /** A number is an int attribute, an array ints, a text a string, {float} a float, {floats} and {strings} lists. */
  readonly attributes?: Readonly<Record<string, AttributeSpec>>;
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
  /** Versions of other domains. */
  readonly domains?: Readonly<Record<string, number>>;
}

export function onnxModel(spec: ModelSpec): Uint8Array {
  const graph = message([
    ...spec.nodes.map((node) => bytes(1, nodeProto(node))),
    text(2, 'graph'),
    ...(spec.weights ?? []).map((weight) => bytes(5, tensorProto(weight))),
    ...spec.inputs.map((value) => bytes(11, valueInfo(value))),
    ...spec.outputs.map((value) => bytes(12, valueInfo(value))),
  ]);
  const opset = message([text(1, ''), integer(2, spec.opset ?? 17)]);
  const others = Object.entries(spec.domains ?? {}).map(([domain, version]) =>
    bytes(8, message([text(1, domain), integer(2, version)])),
  );
  return Buffer.concat(message([integer(1, 8), bytes(7, graph), bytes(8, opset), ...others]).parts);
}

/** A model whose outputs are its inputs. */
export function identityModel(values: readonly ValueSpec[]): Uint8Array {
  return onnxModel({
    inputs: values,
    outputs: values.map((value) => ({ ...value, name: `${value.name}_out` })),
    nodes: values.map(({ name }) => ({ op: 'Identity', inputs: [name], outputs: [`${name}_out`] })),
  });
}

export function nodeProto({ op, name, inputs, outputs, domain, overload, attributes = {} }: NodeSpec): Chunk {
  return message([
    ...inputs.map((input) => text(1, input)),
    ...outputs.map((output) => text(2, output)),
    ...(name === undefined ? [] : [text(3, name)]),
    text(4, op),
    ...Object.entries(attributes).map(([key, value]) => bytes(5, attribute(key, value))),
    ...(domain === undefined ? [] : [text(7, domain)]),
    ...(overload === undefined ? [] : [text(8, overload)]),
  ]);
}

function attribute(name: string, value: AttributeSpec): Chunk {
  const head = text(1, name);
  if (typeof value === 'number') return message([head, integer(3, value), integer(20, 2)]);
  if (typeof value === 'string') return message([head, text(4, value), integer(20, 3)]);
  if ('float' in value) return message([head, float(2, value.float), integer(20, 1)]);
  if ('floats' in value) return message([head, packedFloats(7, value.floats), integer(20, 6)]);
  if ('nodes' in value) {
    const body = [...value.nodes.map((node) => bytes(1, nodeProto(node))), text(2, name)];
    const outputs = value.outputs.map((output) => bytes(12, valueInfo(output)));
    return message([head, bytes(6, message([...body, ...outputs])), integer(20, 5)]);
  }
  if ('strings' in value) {
    return message([head, ...value.strings.map((item) => text(9, item)), integer(20, 8)]);
  }
  return message([head, ...value.map((item) => integer(8, item)), integer(20, 7)]);
}

function tensorProto({ name, dtype, shape, data }: WeightSpec): Chunk {
  const raw = new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
  return message([
    ...shape.map((dim) => integer(1, dim)),
    integer(2, ELEMENT_TYPES[dtype]),
    text(8, name),
    bytes(9, { parts: [raw], length: raw.byteLength }),
  ]);
}

function valueInfo({ name, dtype, shape, listOf }: ValueSpec): Chunk {
  const dims = shape?.map((dim) =>
    bytes(1, message([typeof dim === 'number' ? integer(1, dim) : text(2, dim)])),
  );
  const type = message([integer(1, ELEMENT_TYPES[dtype]), ...(dims ? [bytes(2, message(dims))] : [])]);
  const tensor = message([bytes(1, type)]);
  const map = message([bytes(5, message([integer(1, 8), bytes(2, tensor)]))]);
  const list = message([bytes(4, message([bytes(1, listOf === 'maps' ? map : tensor)]))]);
  return message([text(1, name), bytes(2, listOf === undefined ? tensor : list)]);
}
