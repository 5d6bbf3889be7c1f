/**
 * Builds an ONNX graph operation by operation and infers every shape that can be known. Inputs and outputs keep their
 * public names, which must differ; inner names are unique over all bodies, because an inner name would hide an outer
 * one.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { type DType, elementCount, type Tensor } from '../../lib/contract/tensor.ts';
import { elementsOf, foldNode, inferNode } from './infer.ts';
import { tensorOf } from './numbers.ts';
import { prune } from './prune.ts';
import type { Attributes, Body, NamedValue, Node, Shape, Value, ValueType } from './value.ts';

/** Limits the graph that a malicious file can produce. */
const MAX_NODES = 200_000;
/** Equal constants up to this size are shared, and shape arithmetic knows their elements. */
const SMALL_ELEMENTS = 64;

export interface AddOptions {
  /** The number of outputs. Default 1. */
  readonly outputs?: number;
  /** The prefix of the outputs' names. Default: the operation. */
  readonly hint?: string;
  /** Output types that override the inferred ones. */
  readonly results?: readonly ValueType[];
}

/** The state that a graph shares with its bodies. */
interface Shared {
  readonly names: Set<string>;
  readonly constants: Map<string, Value>;
  counter: number;
  free: number;
  nodes: number;
}

export class GraphBuilder {
  /** Notes for the user, such as renamed outputs. */
  readonly notes: string[] = [];
  readonly #inner: boolean;
  readonly #shared: Shared;
  readonly #inputs: Value[] = [];
  readonly #nodes: Node[] = [];
  readonly #outputs: NamedValue[] = [];

  constructor(shared?: Shared) {
    this.#inner = shared !== undefined;
    this.#shared = shared ?? { names: new Set(), constants: new Map(), counter: 0, free: 0, nodes: 0 };
  }

  /** What adds to a graph has one; a graph adds to itself. */
  get g(): this {
    return this;
  }

  /** Adds an input, which must come before any node. In a body, `name` is only a hint. */
  input(name: string, dtype: DType, shape: Shape | undefined): Value {
    if (!this.#inner && this.#shared.names.has(name)) throw badModel(`two inputs are named "${name}"`);
    const value = { name: this.#unique(name), dtype, shape };
    this.#inputs.push(value);
    return value;
  }

  /** Adds a constant. Equal small constants are shared. */
  constant(tensor: Tensor, hint = 'constant'): Value {
    const { dtype, shape } = tensor;
    if (tensor.data.length !== elementCount(shape))
      throw badModel(`constant "${hint}": shape [${shape.join(',')}] and ${tensor.data.length} elements`);
    if (tensor.data.length > SMALL_ELEMENTS)
      return { name: this.#unique(hint), dtype, shape, constant: tensor };
    const key = keyOf(tensor);
    const same = this.#shared.constants.get(key);
    if (same) return same;
    const bare: Value = { name: this.#unique(hint), dtype, shape, constant: tensor };
    const elements = elementsOf(bare);
    const value = elements ? { ...bare, elements } : bare;
    this.#shared.constants.set(key, value);
    return value;
  }

  /** An int64 list: axes, a shape, pads. */
  ints(values: readonly number[], hint = 'ints'): Value {
    return this.constant(tensorOf('int64', [values.length], values), hint);
  }

  /** A constant of rank 0. */
  scalar(dtype: DType, value: number): Value {
    return this.constant(tensorOf(dtype, [], [value]), 'scalar');
  }

  /** A constant list of floats. */
  floats(values: ArrayLike<number>, shape: readonly number[] = [values.length], hint = 'floats'): Value {
    return this.constant(tensorOf('float32', shape, values), hint);
  }

  /** A new free dimension. */
  readonly fresh = (): string => {
    this.#shared.free += 1;
    return `free_${this.#shared.free}`;
  };

  /**
   * Adds a node and infers its output types. If the result can be computed now, it becomes a constant instead.
   * @throws bad_model when the inputs do not fit the operation
   */
  add(
    op: string,
    inputs: readonly (Value | undefined)[],
    attributes: Attributes = {},
    options: AddOptions = {},
  ): Value[] {
    const { outputs = 1, hint = op.toLowerCase(), results } = options;
    const folded = foldNode(op, inputs, attributes);
    if (folded) return folded.map((tensor) => this.constant(tensor, hint));
    const types = results ?? inferNode(op, inputs, attributes, outputs, this.fresh);
    const known = outputs === 1 ? elementsOf(types[0] as ValueType, op, inputs, attributes) : undefined;
    const first = types[0] as ValueType;
    if (known?.every((element) => typeof element === 'number') && first.shape) {
      return [
        this.constant(tensorOf(first.dtype, first.shape.length === 0 ? [] : [known.length], known), hint),
      ];
    }
    const values = types.map(
      ({ dtype, shape }): Value => ({
        name: this.#unique(hint),
        dtype,
        shape,
        ...(known ? { elements: known } : {}),
      }),
    );
    this.#shared.nodes += 1;
    if (this.#shared.nodes > MAX_NODES) throw badModel(`the model is over the limit of ${MAX_NODES} nodes`);
    this.#nodes.push({ op, inputs, outputs: values, attributes });
    return values;
  }

  /** Adds a node and returns its first output. */
  one(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes = {}, hint?: string): Value {
    return this.add(op, inputs, attributes, hint === undefined ? {} : { hint })[0] as Value;
  }

  /** Starts the body of a Loop, If or Scan, which may use the values of this graph. */
  body(): GraphBuilder {
    return new GraphBuilder(this.#shared);
  }

  /** Adds an output of the graph with its public name. */
  output(name: string, value: Value): void {
    const taken = (wanted: string) =>
      this.#outputs.some((other) => other.name === wanted) ||
      this.#inputs.some((input) => input.name === wanted);
    let free = name;
    for (let i = 0; taken(free); i++) free = i === 0 ? `${name}_output` : `${name}_output_${i}`;
    if (free !== name) this.notes.push(`output "${name}" is named "${free}": "${name}" is taken`);
    const produced = this.#nodes.some((node) => node.outputs.includes(value));
    const used = this.#outputs.some((other) => other.value === value);
    // An output that is an input, a constant, an outer value or another output needs a node of its own.
    const own = produced && !used ? value : this.#copy(value);
    this.#outputs.push({ name: free, value: own });
  }

  #copy(value: Value): Value {
    const copy = { name: this.#unique(value.name), dtype: value.dtype, shape: value.shape };
    this.#nodes.push({ op: 'Identity', inputs: [value], outputs: [copy], attributes: {} });
    return copy;
  }

  /** Returns the graph without the nodes that no output needs. */
  finish(): Body {
    return prune({ inputs: this.#inputs, outputs: this.#outputs, nodes: this.#nodes });
  }

  #unique(wanted: string): string {
    const { names } = this.#shared;
    let name = wanted;
    while (names.has(name)) {
      this.#shared.counter += 1;
      name = `${wanted}.${this.#shared.counter}`;
    }
    names.add(name);
    return name;
  }
}

/** Constants with the same key are equal to the bit: -0 is not 0. */
function keyOf({ dtype, shape, data }: Tensor): string {
  const texts = Array.from<unknown, string>(data, (element) =>
    Object.is(element, -0) ? '-0' : String(element),
  );
  return JSON.stringify([dtype, shape, texts]);
}
