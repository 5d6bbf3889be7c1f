/**
 * The inputs, attributes and weights of a layer during its conversion. What a rule did not ask for is refused after
 * it, so that no attribute is ignored. A static batch is freed first; a layer that is bound to it says so, and the
 * net is converted again as it is.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { ELEMENT_TYPES } from '../../graph/attributes.ts';
import { BatchBound } from '../../graph/batch.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import type { Attributes, Value } from '../../graph/value.ts';
import type { Problems } from '../problems.ts';
import type { Layer, Net } from './net.ts';
import { type Bytes, readConstant } from './weights.ts';

/** What the layers of a net and of its bodies share during conversion. */
export interface NetState {
  readonly file: string;
  readonly version: number;
  readonly weights: Bytes;
  /** The batch of the file while it is free; undefined when the file's is kept. */
  readonly freedBatch: number | undefined;
  /** The sizes of ports hold, because no input has another shape than in the file. */
  readonly isAsDeclared: boolean;
  readonly problems: Problems;
  /** Converts the layers of a body for these values, by the id of its Parameter. */
  readonly convertBody: (
    net: Net,
    given: ReadonlyMap<string, Value>,
    g: GraphBuilder,
  ) => ReadonlyMap<string, Value>;
}

/** Says nothing about the answer: layouts of memory, and notes of the tools that made the file. */
const WITHOUT_MEANING = new Set([
  'auto_broadcast',
  'originalLayersNames',
  'PrimitivesPriority',
  'ExecPrecision',
  'element_type',
  'output_padding_legacy',
]);

export class OvNode {
  readonly layer: Layer;
  readonly inputs: readonly (Value | undefined)[];
  readonly net: NetState;
  readonly g: GraphBuilder;
  readonly #read = new Set<string>();
  readonly #isTaken: (i: number) => boolean;

  constructor(
    layer: Layer,
    inputs: readonly (Value | undefined)[],
    net: NetState,
    g: GraphBuilder,
    isTaken: (i: number) => boolean,
  ) {
    this.layer = layer;
    this.inputs = inputs;
    this.net = net;
    this.g = g;
    this.#isTaken = isTaken;
  }

  /** The name prefix of the layer's values. */
  get hint(): string {
    return this.layer.name || this.layer.type;
  }

  /** The number of the opset that defines the layer; 0 in old versions. */
  get opset(): number {
    return Number(/^opset(\d{1,3})$/.exec(this.layer.opset)?.[1] ?? 0);
  }

  /** @throws bad_model when the layer has fewer inputs */
  input(i = 0): Value {
    const value = this.optional(i);
    if (value) return value;
    throw badModel(`needs ${i + 1} inputs, got ${this.inputs.length}`);
  }

  optional(i: number): Value | undefined {
    this.#read.add(`input ${i}`);
    return this.inputs[i];
  }

  /** @throws bad_model when one is missing */
  all(): Value[] {
    return this.inputs.map((_, i) => this.input(i));
  }

  /** Whether anything takes this output. */
  isTaken(i: number): boolean {
    return this.#isTaken(i);
  }

  has(name: string): boolean {
    this.#read.add(name);
    return this.layer.attributes.has(name);
  }

  /** @throws bad_model when it is missing and has no default */
  text(name: string, fallback?: string): string {
    this.#read.add(name);
    const value = this.layer.attributes.get(name) ?? fallback;
    if (value !== undefined) return value;
    throw badModel(`has no attribute ${name}`);
  }

  /** One of the texts. @throws bad_model when it is another */
  choice<T extends string>(name: string, texts: readonly T[], fallback?: T): T {
    const value = this.text(name, fallback).toLowerCase();
    const found = texts.find((text) => text === value);
    if (found !== undefined) return found;
    throw badModel(`${name} "${value.slice(0, 100)}" is not supported, only ${texts.join(', ')}`);
  }

  number(name: string, fallback?: number): number {
    return numberOf(this.text(name, fallback === undefined ? undefined : `${fallback}`), name);
  }

  whole(name: string, fallback?: number): number {
    const number = this.number(name, fallback);
    if (Number.isSafeInteger(number)) return number;
    throw badModel(`${name} must be a whole number, got ${number}`);
  }

  numbers(name: string, fallback?: readonly number[]): readonly number[] {
    const text = this.text(name, fallback?.join());
    if (text.trim() === '') return [];
    const parts = text.split(',');
    if (parts.length > 10_000) throw badModel(`${name} has ${parts.length} numbers, the limit is 10000`);
    return parts.map((part) => numberOf(part, name));
  }

  flag(name: string, fallback?: boolean): boolean {
    const text = this.text(name, fallback === undefined ? undefined : `${fallback}`).toLowerCase();
    if (/^(1|true|yes)$/.test(text)) return true;
    if (/^(0|false|no|)$/.test(text)) return false;
    throw badModel(`${name} must be true or false, got "${text.slice(0, 100)}"`);
  }

  /** Declares that attributes say nothing here. */
  ignore(...names: readonly string[]): void {
    for (const name of names) this.#read.add(name);
  }

  /** @throws bad_model when the rule left an attribute or an input out */
  assertAllRead(): void {
    const attributes = [...this.layer.attributes.keys()].filter(
      (name) => !this.#read.has(name) && !WITHOUT_MEANING.has(name),
    );
    if (attributes.length > 0)
      throw badModel(`has an attribute that is not supported: ${attributes.join(', ')}`);
    const inputs = this.inputs.flatMap((value, i) => (value && !this.#read.has(`input ${i}`) ? [i] : []));
    if (inputs.length > 0) throw badModel(`has an input that is not supported: input ${inputs.join(', ')}`);
  }

  /** An operation whose result is named after the layer. */
  one(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes = {}): Value {
    return this.g.one(op, inputs, attributes, this.hint);
  }

  /** Declares that the layer mixes the records of a batch. */
  bindBatch(): void {
    if (this.net.freedBatch !== undefined) throw new BatchBound();
  }

  /** Weights of an old version. @throws bad_model when they do not fit */
  blob(name: string, shape?: readonly number[]): Value {
    const tensor = this.blobIfAny(name, shape);
    if (tensor) return this.g.constant(tensor, `${this.hint}/${name}`);
    throw badModel(`has no ${name} in the .bin file`);
  }

  blobIfAny(name: string, shape?: readonly number[]): Tensor | undefined {
    const place = this.layer.blobs.get(name);
    return place && readConstant(this.net.weights, place, this.layer.precision || 'f32', shape);
  }
}

function numberOf(text: string, name: string): number {
  const trimmed = text.trim();
  // Infinities are written as C does.
  const infinite = /^([-+]?)inf(inity)?$/i.exec(trimmed);
  if (infinite) return infinite[1] === '-' ? -Infinity : Infinity;
  const number = trimmed === '' ? Number.NaN : Number(trimmed);
  if (!Number.isNaN(number)) return number;
  throw badModel(`${name} must be a number, got "${trimmed.slice(0, 100)}"`);
}

/** An entry in the tables of operations. Returns the outputs, in order. */
export type Rule = (node: OvNode) => Value | readonly Value[];
export type OpTable = Readonly<Record<string, Rule>>;

/** `value` with another dtype. */
export function cast(node: OvNode, value: Value, dtype: keyof typeof ELEMENT_TYPES): Value {
  return value.dtype === dtype ? value : node.g.one('Cast', [value], { to: ELEMENT_TYPES[dtype] });
}

export function int64(node: OvNode, value: Value): Value {
  return cast(node, value, 'int64');
}
