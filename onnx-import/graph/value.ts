/**
 * The values and nodes of a graph under construction. A shape may be unknown (`undefined`) or partly free (a text); a
 * converter that needs a number calls `fixed`, which fails with a clear error instead of guessing.
 */
import type { DType, Tensor } from '../../lib/contract/tensor.ts';
import type { Chunk } from '../wire/chunk.ts';

/** A number, or the name of a free size. Dimensions with the same name are equal. */
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
  /** `undefined`: the rank is unknown. */
  readonly shape: Shape | undefined;
  /** The value, if it is known during conversion. */
  readonly constant?: Tensor;
  /**
   * The known elements of an integer tensor of rank 0 or 1 (for shape arithmetic): a number, the name of a free size,
   * or undefined. Also set for constants.
   */
  readonly elements?: readonly (Dim | undefined)[];
}

/** A number becomes an int, an array ints, a text a string. */
export type Attribute =
  | number
  | readonly number[]
  | string
  /** A long list in ONNX's own form: the fields behind the name, and the type of the attribute. */
  | { readonly type: number; readonly encoded: Chunk }
  | { readonly float: number }
  | { readonly floats: readonly number[] }
  | { readonly strings: readonly string[] }
  | { readonly tensor: Tensor }
  /** The body of a Loop, If or Scan. */
  | { readonly body: Body };

export type Attributes = Readonly<Record<string, Attribute | undefined>>;

export interface Node {
  /** Of the standard operators, or a domain (`ai.onnx.ml`, `com.microsoft`), a colon and its name. */
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

/** A finished graph, as the writer takes it. */
export interface Body {
  readonly inputs: readonly Value[];
  readonly outputs: readonly NamedValue[];
  readonly nodes: readonly Node[];
}
