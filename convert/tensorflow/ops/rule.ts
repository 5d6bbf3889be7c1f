/**
 * The type of an entry in the operation tables: it takes a TensorFlow node and its inputs, adds ONNX nodes and returns
 * the outputs. A hostile file has nodes with too few inputs; `takes` checks that once for all rules.
 */
import type { DType } from '../../../lib/contract/tensor.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import type { Value } from '../../graph/value.ts';
import type { TfNode } from '../graph.ts';
import type { Size } from './dims.ts';
import type { Layouts } from './layout.ts';
import { refuse } from './refuse.ts';

/** As many as `takes` was told are surely there. */
export type Operands = readonly [Value, Value, Value, Value, Value, Value, Value, Value, Value, ...Value[]];

export type Rule = (
  node: TfNode,
  inputs: Operands,
  g: GraphBuilder,
  context: Context,
) => Value | readonly Value[];

export type OpTable = Readonly<Record<string, Rule>>;

/** What is known beside the values' types. Shared by a graph and its bodies, but for `layouts`. */
export interface Context {
  readonly notes: string[];
  /** Of this graph or body. */
  readonly layouts: Layouts;
  readonly facts: Facts;
  /** Converts a function into `g`; undefined when one of its nodes cannot be converted. */
  readonly call: (name: string, inputs: readonly Value[], g: GraphBuilder) => readonly Value[] | undefined;
  /** Names, inputs and nodes of a function, for loops that look into their bodies. */
  readonly callee: (name: string) => Callee;
}

export interface Callee {
  readonly inputs: readonly { readonly name: string }[];
  readonly outputs: readonly { readonly tensor: string }[];
  readonly nodes: ReadonlyMap<string, TfNode>;
}

/** By value; a value is made once and seen only where it is visible. */
export interface Facts {
  readonly ranges: WeakMap<Value, Range>;
  /** Lists that are reserved and not yet filled. */
  readonly reserved: WeakMap<Value, Reserved>;
  /** Lists that a loop fills item by item: whoever sets an item says it here. */
  readonly collected: WeakMap<Value, Collected>;
  /** Images in blocks, and what a convolution made of them. */
  readonly spaced: WeakMap<Value, Spaced>;
  /** TensorArrays by their handles: a write behind the end makes them longer, or is an error. */
  readonly arrays: WeakMap<Value, { readonly grows: boolean }>;
  /** Lists as tensors whose sizes may be 0 because no item has come yet. */
  readonly unsized: WeakSet<Value>;
  /** What a list was told of the shape of its items. */
  readonly declared: WeakMap<Value, Value>;
  /** The numbers 0, 1, 2, ... and how many of them. */
  readonly counting: WeakMap<Value, Value>;
}

/** Random numbers in [low, high), as many as `shape` says. */
export interface Range {
  readonly low: number;
  readonly high: number;
  readonly shape: Value;
}

export interface Spaced {
  /** The image before it was padded and cut into blocks. */
  readonly x: Value;
  readonly blocks: readonly number[];
  readonly paddings: readonly (readonly [Size, Size])[];
  /** The same convolution, with the blocks as dilations, of the padded image. */
  readonly convolve?: (padded: Value, g: GraphBuilder, context: Context) => Value;
}

interface Collected {
  item: Value | undefined;
}

export interface Reserved {
  /** How many items, all 0 until they are set. */
  readonly count: Value;
  /** -1 is unknown; undefined: unknown rank. */
  readonly element: readonly Size[] | undefined;
}

/** Something in it could not be converted; the problem is noted where it was. */
export const FAILED: Value = { name: '', dtype: 'float32', shape: undefined };

/** On the side of a Switch with a constant condition that is never taken; whatever depends on it is not either. */
export const DEAD: Value = { name: '', dtype: 'float32', shape: undefined };

/** A list that is no tensor yet: only list operations and loops may see it. */
export function listValue(dtype: DType): Value {
  return { name: '', dtype, shape: undefined };
}

export function takes(count: number, rules: OpTable): OpTable {
  const checked = (rule: Rule): Rule => {
    return (node, inputs, g, context) => {
      if (inputs.length < count) refuse(`has ${inputs.length} inputs, needs ${count}`);
      return rule(node, inputs, g, context);
    };
  };
  return Object.fromEntries(Object.entries(rules).map(([op, rule]) => [op, checked(rule)]));
}
