/** An ONNX graph as the analysis of batching sees it, with weights as values. */
import type { Fixed } from './value.ts';

/** Of a list of texts more are left out (onnx/skim.ts): trees name a mode for each of a million nodes. */
export const MOST_TEXTS = 65_536;

export interface GraphInput {
  readonly name: string;
  /** Undefined where not even the rank is said; a text, or none, is a free size. */
  readonly shape: readonly (number | string)[] | undefined;
}

export interface Graph {
  readonly nodes: readonly GraphNode[];
  readonly weights: ReadonlyMap<string, Fixed>;
  /** Without those that are weights. */
  readonly inputs: readonly GraphInput[];
  readonly outputs: readonly string[];
}

export interface GraphNode {
  readonly name: string;
  readonly operator: string;
  /** Empty for the standard operators. */
  readonly domain: string;
  /** Which of several functions of that name it calls. */
  readonly overload: string;
  /** An empty name is an optional input left out. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: ReadonlyMap<string, Attribute>;
}

export interface Attribute {
  readonly int: number;
  readonly float: number;
  readonly text: string;
  readonly ints: readonly number[];
  /** As far as they are few. */
  readonly floats: readonly number[];
  /** How many numbers or texts a list has; 0 for one that skim.ts leaves out, of texts at most MOST_TEXTS. */
  readonly count: number;
  readonly tensor: Fixed | undefined;
  readonly graph: Graph | undefined;
  /** In a function: the attribute of the call that it takes its value from. */
  readonly reference: string;
}
