/**
 * The type of an entry in the operation tables: a rule takes a TensorFlow node and its inputs, adds ONNX nodes and
 * returns the outputs. Malformed files contain nodes with too few inputs; `takes` checks that once for all rules.
 */
import type { DType, Tensor } from '../../../../lib/contract/tensor.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import type { Value } from '../../../graph/value.ts';
import type { TfNode } from '../graph.ts';
import type { Size } from './dims.ts';
import type { Layouts } from './layout.ts';
import { refuse } from './refuse.ts';

/** At least as many inputs as `takes` requires are present. */
export type Operands = readonly [Value, Value, Value, Value, Value, Value, Value, Value, Value, ...Value[]];

export type Rule = (
  node: TfNode,
  inputs: Operands,
  g: GraphBuilder,
  context: Context,
) => Value | readonly Value[];

export type OpTable = Readonly<Record<string, Rule>>;

/** What is known besides the types of values. Graph and bodies share it, except for `layouts`. */
export interface Context {
  readonly notes: string[];
  /** The layout pairs of this graph or body. */
  readonly layouts: Layouts;
  readonly facts: Facts;
  /** Adds a function's nodes to `g`. Returns undefined when one of them cannot be converted. */
  readonly call: (name: string, inputs: readonly Value[], g: GraphBuilder) => readonly Value[] | undefined;
  /** The inputs and nodes of a function, for loops that inspect their bodies. */
  readonly callee: (name: string) => Callee;
}

export interface Callee {
  readonly inputs: readonly { readonly name: string }[];
  readonly outputs: readonly { readonly tensor: string }[];
  readonly nodes: ReadonlyMap<string, TfNode>;
}

/** Facts by value. Each value is created once. */
export interface Facts {
  readonly ranges: WeakMap<Value, Range>;
  /** Lists that are reserved but not filled yet. */
  readonly reserved: WeakMap<Value, Reserved>;
  /** Lists that a loop fills item by item; an operation that sets an item records it here. */
  readonly collected: WeakMap<Value, Collected>;
  /** Images in blocks, and their convolution if there is one. */
  readonly spaced: WeakMap<Value, Spaced>;
  /** TensorArrays by their handles. `grows` allows writes past the end. */
  readonly arrays: WeakMap<Value, { readonly grows: boolean }>;
  /** Lists as tensors with sizes that may be 0 because no item is set yet. */
  readonly unsized: WeakSet<Value>;
  /** The declared shape of a list's items. */
  readonly declared: WeakMap<Value, Value>;
  /** Values that are the numbers 0, 1, 2 and so on, with their count. */
  readonly counting: WeakMap<Value, Value>;
  /** The content of lookup tables. */
  readonly tables: WeakMap<Value, LookupTable>;
}

export interface LookupTable {
  readonly keys: Tensor;
  /** One for each key; what they have beyond the first axis is the shape of a value. */
  readonly values: Tensor;
}

/** Random numbers in [low, high) of this shape. */
export interface Range {
  readonly low: number;
  readonly high: number;
  readonly shape: Value;
}

export interface Spaced {
  /** The image before padding and division into blocks. */
  readonly x: Value;
  readonly blocks: readonly number[];
  readonly paddings: readonly (readonly [Size, Size])[];
  /** Applies the same convolution to the padded image, with the blocks as dilations. */
  readonly convolve?: (padded: Value, g: GraphBuilder, context: Context) => Value;
}

interface Collected {
  item: Value | undefined;
}

export interface Reserved {
  /** The number of items, which are 0 until they are set. */
  readonly count: Value;
  /** -1 is an unknown size, undefined an unknown rank. */
  readonly element: readonly Size[] | undefined;
}

/** A value that could not be converted; the problem is already recorded. */
export const FAILED: Value = { name: '', dtype: 'float32', shape: undefined };

/** A value in the branch of a constant condition that is never taken. Values that depend on it are dead too. */
export const DEAD: Value = { name: '', dtype: 'float32', shape: undefined };

/** A list that is not a tensor yet. Only list operations and loops may see it. */
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
