/**
 * A node as its rule sees it. A rule gets an input only through one of these methods, each of which ends the proof where
 * the input is not what the rule is made for; an input that no rule looked at must be fixed.
 */
import type { Attribute, Graph, GraphNode } from './node.ts';
import type { ShapeNode, ShapeRule } from './shape-node.ts';
import { isUnknown, type Names, numberOf, type Shape, type Size, size } from './size.ts';
import {
  type Data,
  type Fixed,
  fixedOf,
  type Place,
  ProofEnd,
  type Rows,
  rowsOf,
  type Value,
} from './value.ts';

/** Where the rows go in one operator: the value of each output. Outputs beyond those that it returns must be unused. */
export type RowRule = (call: Call) => Value | readonly Value[];

/** What all nodes of an analysis share. */
export interface Analysis {
  /** The number of rows: a name, or the number that the model is fixed to. */
  readonly n: Size;
  readonly names: Names;
  /** Outputs of a body that sees the values around the node. */
  runBody(graph: Graph, inputs: readonly Value[], call: Call): Value[];
}

export class Call implements ShapeNode {
  readonly operator: string;
  readonly node: GraphNode;
  readonly opset: number;
  readonly analysis: Analysis;
  /** What the values around the node are called; for bodies. */
  readonly scope: unknown;
  readonly #inputs: readonly (Value | undefined)[];
  readonly #shapes: ShapeRule | undefined;
  #results: readonly (Shape | undefined)[] | undefined;
  #seen = new Set<number>();

  constructor(
    node: GraphNode,
    inputs: readonly (Value | undefined)[],
    opset: number,
    analysis: Analysis,
    scope: unknown,
    shapes: ShapeRule | undefined,
  ) {
    this.node = node;
    this.operator = node.operator;
    this.opset = opset;
    this.analysis = analysis;
    this.scope = scope;
    this.#inputs = inputs;
    this.#shapes = shapes;
  }

  get count(): number {
    return this.#inputs.length;
  }

  get outputs(): number {
    return this.node.outputs.length;
  }

  get names(): Names {
    return this.analysis.names;
  }

  /** The shape of an output, which must be known. */
  result(index = 0): Shape {
    this.#results ??= this.#shapes?.(this);
    return this.#results?.[index] ?? this.end(UNKNOWN_RANK);
  }

  shapeAt(index: number): Shape | undefined {
    const value = this.#inputs[index];
    return value?.kind === 'ended' ? undefined : value?.shape;
  }

  listAt(index: number): readonly (Size | undefined)[] | undefined {
    const value = this.#inputs[index];
    if (value?.kind === 'fixed')
      return value.elements?.map((element) => (element.names.some(isUnknown) ? undefined : element));
    if (value?.kind === 'counts') this.end(`its ${nth(index)} input depends on how many rows share the run`);
    return undefined;
  }

  constantAt(index: number): readonly number[] | undefined {
    const numbers = this.listAt(index)?.map(numberOf);
    return numbers?.every((number) => number !== undefined) ? numbers : undefined;
  }

  mismatch(): void {
    // A branch that is never taken may not fit.
  }

  end(reason: string): never {
    throw new ProofEnd(reason, this.operator, this.node.name);
  }

  has(index: number): boolean {
    return this.#inputs[index] !== undefined;
  }

  /** An input that may be anything; the rule looks at its kind. */
  value(index: number): Exclude<Value, { kind: 'ended' }> | undefined {
    this.#seen.add(index);
    const value = this.#inputs[index];
    return value?.kind === 'ended' ? undefined : value;
  }

  /** An input that is fixed or has rows. */
  optional(index: number): Data | undefined {
    const value = this.value(index);
    if (value?.kind === 'counts') this.end(`its ${nth(index)} input depends on how many rows share the run`);
    if (value?.kind === 'row numbers') throw value.end;
    return value;
  }

  data(index: number): Data {
    return this.optional(index) ?? this.end(`it has no ${nth(index)} input`);
  }

  /** All inputs from `from` on. */
  all(from = 0): Data[] {
    return this.#inputs.flatMap((_, i) => (i < from ? [] : (this.optional(i) ?? [])));
  }

  fixed(index: number): Fixed | undefined {
    const value = this.optional(index);
    if (value?.kind === 'rows') this.end(`its ${nth(index)} input differs from row to row`);
    return value;
  }

  /** Elements of a small tensor that may depend on N, as shapes do; undefined where they are not known. */
  sizes(index: number): readonly (Size | undefined)[] | undefined {
    const value = this.value(index);
    if (value?.kind === 'rows') this.end(`its ${nth(index)} input differs from row to row`);
    if (value?.kind === 'row numbers') throw value.end;
    return value?.elements;
  }

  /** Elements of a small tensor that is fixed; undefined where they are not known. */
  elements(index: number): readonly Size[] | undefined {
    return this.fixed(index)?.elements;
  }

  /** Elements that are all numbers; undefined where the input is left out. */
  numbers(index: number, what: string): number[] | undefined {
    if (!this.has(index)) return undefined;
    const numbers = this.elements(index)?.map(numberOf);
    if (numbers?.every((number) => number !== undefined)) return numbers;
    return this.end(`its ${what} are not constant`);
  }

  /** The call with another value as one input. What is looked at there counts as looked at here. */
  withInput(index: number, value: Value): Call {
    const inputs = this.#inputs.with(index, value);
    const call = new Call(this.node, inputs, this.opset, this.analysis, this.scope, this.#shapes);
    call.#seen = this.#seen;
    return call;
  }

  /** Inputs that no method was asked for. */
  unseen(): Value[] {
    return this.#inputs.filter((value, i) => value !== undefined && !this.#seen.has(i)) as Value[];
  }

  attribute(name: string): Attribute | undefined {
    return this.node.attributes.get(name);
  }

  int(name: string, fallback: number): number {
    return this.attribute(name)?.int ?? fallback;
  }

  ints(name: string): readonly number[] | undefined {
    return this.attribute(name)?.ints;
  }

  text(name: string, fallback: string): string {
    return this.attribute(name)?.text ?? fallback;
  }

  /** The shape of an input, which must be known. */
  shape(data: Data): Shape {
    return data.shape ?? this.end(UNKNOWN_RANK);
  }

  /** An axis as 0..rank-1. */
  axis(axis: number, rank: number): number {
    const at = axis < 0 ? axis + rank : axis;
    return Number.isInteger(at) && at >= 0 && at < rank ? at : this.end(`it has no axis ${axis}`);
  }

  /** The input's rows, or none, in a new shape. */
  moved(from: Data, shape: Shape, axis = from.kind === 'rows' ? from.axis : 0): Data {
    return from.kind === 'rows' ? this.rows(shape, { ...from, axis }) : fixedOf(shape);
  }

  rows(shape: Shape, { axis, outer, inner }: Place): Rows {
    return rowsOf(shape, { axis, outer, inner }, this.analysis.n);
  }

  dim(): Size {
    return this.names.dim();
  }

  /** A size where it is a number, else a new one. */
  dimOr(number: number | undefined): Size {
    return number === undefined || !Number.isFinite(number) ? this.dim() : size(number);
  }
}

const UNKNOWN_RANK = 'the number of dimensions of an input is not known';

function nth(index: number): string {
  return ['first', 'second', 'third', 'fourth', 'fifth'][index] ?? `${index + 1}th`;
}
