/**
 * What the converters build with: values of a graph under construction, and the graph's nodes.
 * Trap: a shape may be unknown (`undefined`) or partly free (a text); a converter that needs a number asks for it with
 * `fixed` and fails with the node's name, it never guesses.
 */
import type { DType, Tensor } from '../../lib/contract/tensor.ts';

/** A number, or the name of a free size: two dimensions of one name are equal. */
export type Dim = number | string;
export type Shape = readonly Dim[];

export interface ValueType {
  readonly dtype: DType;
  readonly shape: Shape | undefined;
}

export interface Value {
  /** Unique in the graph and its bodies. */
  readonly name: string;
  readonly dtype: DType;
  /** `undefined`: not even the rank is known. */
  readonly shape: Shape | undefined;
  /** Known while converting. */
  readonly constant?: Tensor;
  /**
   * What is known of the elements of a small integer tensor of rank 0 or 1 (the arithmetic of shapes): a number, the
   * name of a free size, or undefined. Also set for constants.
   */
  readonly elements?: readonly (Dim | undefined)[];
}

/** A number is an int, an array of numbers ints, a text a string. */
export type Attribute =
  | number
  | readonly number[]
  | string
  | { readonly float: number }
  | { readonly floats: readonly number[] }
  | { readonly strings: readonly string[] }
  | { readonly tensor: Tensor }
  /** The body of a Loop, If or Scan. */
  | { readonly body: Body };

export type Attributes = Readonly<Record<string, Attribute | undefined>>;

export interface Node {
  readonly op: string;
  /** `undefined` is an optional input left out. */
  readonly inputs: readonly (Value | undefined)[];
  readonly outputs: readonly Value[];
  readonly attributes: Attributes;
}

export interface NamedValue {
  readonly name: string;
  readonly value: Value;
}

/** A finished graph: what the writer writes. */
export interface Body {
  readonly inputs: readonly Value[];
  readonly outputs: readonly NamedValue[];
  readonly nodes: readonly Node[];
}
