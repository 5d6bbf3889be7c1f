/**
 * The one graph type that all readers of TensorFlow files produce and the conversion takes. Variables are values here:
 * a variable is a Const, reading it an Identity, and a resource in a loop's body a tensor of the variable's dtype.
 */
import { badModel } from '../../lib/contract/errors.ts';
import type { DType, Tensor } from '../../lib/contract/tensor.ts';
import type { Shape } from '../graph/value.ts';

/** A type ONNX Runtime has nothing for: `resource`, `variant`, `qint8`, `complex64`. By TensorFlow's name, lower case. */
interface UnsupportedType {
  readonly unsupported: string;
}

/** half and bfloat16 are float32 here, everywhere: in weights, attributes and inputs. */
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
  /** Of quint8, qint8, qint16, quint16, qint32 the plain integers; the node's type attribute tells. */
  | { readonly kind: 'tensor'; readonly value: Tensor }
  | { readonly kind: 'func'; readonly name: string; readonly attributes: TfAttributes }
  | TfList;

/** All but one are empty; an empty list has all of them empty. */
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
  /** Data inputs, each `node:port` with its port, 0 too; in a function also `argument:0`. */
  readonly inputs: readonly string[];
  /** Names of nodes that are kept in the graph and must come before. */
  readonly controlInputs: readonly string[];
  /** A null-prototype object. */
  readonly attributes: TfAttributes;
}

/** A body of While, If, Case and their kin: whatever was called plainly has been inlined. */
export interface TfFunction {
  readonly name: string;
  /** In the order of the caller's inputs. Referred to as `name:0`. */
  readonly inputs: readonly { readonly name: string; readonly dtype: TfType }[];
  /** In the order of the caller's outputs. */
  readonly outputs: readonly { readonly name: string; readonly tensor: string }[];
  readonly nodes: ReadonlyMap<string, TfNode>;
}

export interface TfInput {
  /** The public name: a signature's key, else the tensor's name, without `:0` where the file has none. */
  readonly name: string;
  /** The graph's tensor it feeds: `x:0`. Its node is not among the nodes. */
  readonly tensor: string;
  readonly dtype: DType;
  /** Free sizes have names: that of the first axis is `N`. Undefined: unknown rank. */
  readonly shape: Shape | undefined;
}

export interface TfGraph {
  /** The file the nodes are in, relative to the model's directory. */
  readonly file: string;
  /** What the outputs need, in an order where a node follows its inputs, but for the loops of TensorFlow 1. */
  readonly nodes: ReadonlyMap<string, TfNode>;
  readonly inputs: readonly TfInput[];
  readonly outputs: readonly { readonly name: string; readonly tensor: string }[];
  readonly functions: ReadonlyMap<string, TfFunction>;
}

/** What a reader gives. */
export interface TfModel {
  readonly graph: TfGraph;
  /** The files that were read, relative to the model's directory. */
  readonly files: readonly string[];
  /** What the person should know. */
  readonly notes: readonly string[];
}

/** `node:port` apart. */
export function splitTensor(tensor: string): { readonly node: string; readonly port: number } {
  const colon = tensor.lastIndexOf(':');
  return { node: tensor.slice(0, colon), port: Number(tensor.slice(colon + 1)) };
}

/** The ways below throw bad_model when the attribute is missing and there is no fallback, or is of another kind. */
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

/** Undefined is an unknown rank, or no such attribute. */
export function shapeAttribute(node: TfNode, name: string): TfShape {
  return find(node, name, 'shape')?.value;
}

export function tensorAttribute(node: TfNode, name: string): Tensor {
  return find(node, name, 'tensor')?.value ?? required<Tensor>(node, name, undefined);
}

/** Name of the function an attribute refers to. */
export function functionAttribute(node: TfNode, name: string): string {
  return find(node, name, 'func')?.name ?? required<string>(node, name, undefined);
}

/** `listAttribute(node, 'strides').ints`; a missing attribute is an empty list. */
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

/** The nodes that take a tensor. */
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
