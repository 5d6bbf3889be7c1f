/**
 * The graph type that all readers of TensorFlow files produce and the conversion takes. Variables are values: a
 * variable is a Const, reading it is an Identity, and a resource in a loop's body is a tensor of the variable's
 * dtype.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { DType, Tensor } from '../../../lib/contract/tensor.ts';
import type { Shape } from '../../graph/value.ts';

/**
 * A type without an ONNX Runtime equivalent, by TensorFlow's name in lower case: `resource`, `variant`, `qint8`,
 * `complex64`.
 */
interface UnsupportedType {
  readonly unsupported: string;
}

/** half and bfloat16 are float32 in weights, attributes and inputs. */
export type TfType = DType | UnsupportedType;

/** As in the file: -1 is an unknown size, undefined an unknown rank. */
export type TfShape = readonly number[] | undefined;

export type TfAttribute =
  | { readonly kind: 'int'; readonly value: number }
  | { readonly kind: 'float'; readonly value: number }
  | { readonly kind: 'bool'; readonly value: boolean }
  | { readonly kind: 'string'; readonly value: string; readonly bytes: Uint8Array }
  | { readonly kind: 'type'; readonly value: TfType }
  | { readonly kind: 'shape'; readonly value: TfShape }
  /**
   * Quantized types (quint8, qint8, qint16, quint16, qint32) hold plain integers; the node's type attribute names the
   * type.
   */
  | { readonly kind: 'tensor'; readonly value: Tensor }
  | { readonly kind: 'func'; readonly name: string; readonly attributes: TfAttributes }
  | TfList;

/** At most one of the arrays has elements. */
export interface TfList {
  readonly kind: 'list';
  readonly ints: readonly number[];
  readonly floats: readonly number[];
  readonly bools: readonly boolean[];
  readonly strings: readonly string[];
  readonly types: readonly TfType[];
  readonly shapes: readonly TfShape[];
  readonly tensors: readonly Tensor[];
  readonly functions: readonly { readonly name: string; readonly attributes: TfAttributes }[];
}

export type TfAttributes = Readonly<Record<string, TfAttribute>>;

export interface TfNode {
  readonly name: string;
  readonly op: string;
  /** Data inputs, each as `node:port` (port 0 too); in a function also `argument:0`. */
  readonly inputs: readonly string[];
  /** The names of nodes in the graph that must run before. */
  readonly controlInputs: readonly string[];
  /** A null-prototype object. */
  readonly attributes: TfAttributes;
}

/** The body of While, If, Case and similar nodes. Direct calls are inlined already. */
export interface TfFunction {
  readonly name: string;
  /** In the order of the caller's inputs, which nodes refer to as `name:0`. */
  readonly inputs: readonly { readonly name: string; readonly dtype: TfType }[];
  /** In the order of the caller's outputs. */
  readonly outputs: readonly { readonly name: string; readonly tensor: string }[];
  readonly nodes: ReadonlyMap<string, TfNode>;
}

export interface TfInput {
  /** The signature key, else the name of the tensor, without `:0`. */
  readonly name: string;
  /** The graph tensor that the input feeds, such as `x:0`. Its node is not in `nodes`. */
  readonly tensor: string;
  readonly dtype: DType;
  /** Free sizes have names; that of the first axis is `N`. Undefined for an unknown rank. */
  readonly shape: Shape | undefined;
}

export interface TfGraph {
  /** The file with the nodes, relative to the model's directory. */
  readonly file: string;
  /** The nodes that the outputs need, each after its inputs except in TensorFlow 1 loops. */
  readonly nodes: ReadonlyMap<string, TfNode>;
  readonly inputs: readonly TfInput[];
  readonly outputs: readonly { readonly name: string; readonly tensor: string }[];
  readonly functions: ReadonlyMap<string, TfFunction>;
}

/** The result of a reader. */
export interface TfModel {
  readonly graph: TfGraph;
  /** The files that were read, relative to the model's directory. */
  readonly files: readonly string[];
  /** Notes for the user. */
  readonly notes: readonly string[];
}

/** Splits `node:port`. */
export function splitTensor(tensor: string): { readonly node: string; readonly port: number } {
  const colon = tensor.lastIndexOf(':');
  return { node: tensor.slice(0, colon), port: Number(tensor.slice(colon + 1)) };
}

/** These functions throw bad_model when the attribute is of another kind, or is missing and there is no fallback. */
export function intAttribute(node: TfNode, name: string, fallback?: number): number {
  return find(node, name, 'int')?.value ?? required(node, name, fallback);
}

export function floatAttribute(node: TfNode, name: string, fallback?: number): number {
  return find(node, name, 'float')?.value ?? required(node, name, fallback);
}

export function flagAttribute(node: TfNode, name: string, fallback?: boolean): boolean {
  return find(node, name, 'bool')?.value ?? required(node, name, fallback);
}

export function textAttribute(node: TfNode, name: string, fallback?: string): string {
  return find(node, name, 'string')?.value ?? required(node, name, fallback);
}

export function typeAttribute(node: TfNode, name: string, fallback?: TfType): TfType {
  return find(node, name, 'type')?.value ?? required(node, name, fallback);
}

/** Returns undefined for an unknown rank or a missing attribute. */
export function shapeAttribute(node: TfNode, name: string): TfShape {
  return find(node, name, 'shape')?.value;
}

export function tensorAttribute(node: TfNode, name: string): Tensor {
  return find(node, name, 'tensor')?.value ?? required<Tensor>(node, name, undefined);
}

/** The name of the function that an attribute refers to. */
export function functionAttribute(node: TfNode, name: string): string {
  return find(node, name, 'func')?.name ?? required<string>(node, name, undefined);
}

/** Use as `listAttribute(node, 'strides').ints`. A missing attribute is an empty list. */
export function listAttribute(node: TfNode, name: string): TfList {
  return find(node, name, 'list') ?? NO_LIST;
}

const NO_LIST: TfList = {
  kind: 'list',
  ints: [],
  floats: [],
  bools: [],
  strings: [],
  types: [],
  shapes: [],
  tensors: [],
  functions: [],
};

function find<Kind extends TfAttribute['kind']>(
  node: TfNode,
  name: string,
  kind: Kind,
): Extract<TfAttribute, { kind: Kind }> | undefined {
  const attribute = node.attributes[name];
  if (attribute === undefined) return undefined;
  if (attribute.kind === kind) return attribute as Extract<TfAttribute, { kind: Kind }>;
  throw badModel(`attribute ${name} of node "${node.name}" is a ${attribute.kind}, expected ${kind}`);
}

function required<T>(node: TfNode, name: string, fallback: T | undefined): T {
  if (fallback !== undefined) return fallback;
  throw badModel(`node "${node.name}" (${node.op}) has no attribute ${name}`);
}

const USERS = new WeakMap<TfGraph, Map<string, TfNode[]>>();

/** The nodes that consume each tensor. */
export function usersOf(tf: TfGraph): Map<string, TfNode[]> {
  const known = USERS.get(tf);
  if (known) return known;
  const users = new Map<string, TfNode[]>();
  for (const node of tf.nodes.values())
    for (const input of new Set(node.inputs)) {
      const list = users.get(input);
      if (list) list.push(node);
      else users.set(input, [node]);
    }
  USERS.set(tf, users);
  return users;
}
