/**
 * The entries of the operator tables. A key is a signature in torch's own notation, with the defaults that archives
 * leave out; a name may have several signatures, of which the first that fits the arguments is taken. An argument
 * that no signature has is refused.
 */
import type { DType } from '../../../../lib/contract/tensor.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import type { Int } from '../run/sizes.ts';
import { TensorRef } from '../run/tensor.ts';
import {
  Float,
  isInt,
  isNumber,
  itemsOf,
  kindOf,
  Named,
  type Py,
  refuse,
  Scalar,
  Unset,
} from '../run/values.ts';

/** A value becomes a tensor. */
export type Result = Value | Py;

/** Whether it is a value of the graph, which becomes a tensor. */
export function isValue(result: Result): result is Value {
  return typeof result === 'object' && result !== null && 'dtype' in result && !(result instanceof TensorRef);
}

export type Rule = (c: Context, a: Args) => Result;
export type Table = Readonly<Record<string, Rule>>;

interface Parameter {
  readonly name: string;
  readonly type: string;
  /** Undefined: required. */
  readonly fallback: Py | undefined;
  /** After `*`: only by its name. */
  readonly isNamed: boolean;
}

export interface Signature {
  readonly text: string;
  readonly parameters: readonly Parameter[];
  readonly rule: Rule;
}

function literal(text: string): Py {
  if (text === 'None') return null;
  if (text === 'True' || text === 'False') return text === 'True';
  if (text.startsWith("'")) return text.slice(1, -1);
  return /[.e]/.test(text) ? new Float(Number(text)) : Number(text);
}

function parse(text: string, rule: Rule): readonly [string, Signature] {
  const open = text.indexOf('(');
  const parts = text.slice(open + 1, -1).split(', ');
  const star = parts.includes('*') ? parts.indexOf('*') : parts.length;
  const parameters = parts.flatMap((part, i): Parameter[] => {
    if (part === '' || part === '*') return [];
    const [, type = '', name = '', fallback] =
      /^(\S+) (\w+)(?:=(\S+))?$/.exec(part) ?? refuse(`signature ${text}`);
    return [
      { name, type, fallback: fallback === undefined ? undefined : literal(fallback), isNamed: i > star },
    ];
  });
  return [text.slice(0, open), { text, parameters, rule }];
}

/** Several signatures as text may share one rule, separated by a bar. */
export function operators(...tables: readonly Table[]): ReadonlyMap<string, readonly Signature[]> {
  const found = new Map<string, Signature[]>();
  for (const table of tables)
    for (const [texts, rule] of Object.entries(table))
      for (const text of texts.split(' | ')) {
        const [name, signature] = parse(text, rule);
        found.set(name, [...(found.get(name) ?? []), signature]);
      }
  return found;
}

const FITS: Readonly<Record<string, (value: Py) => boolean>> = {
  Tensor: (value) => value instanceof TensorRef,
  'Tensor[]': (value) => itemsOf(value)?.every((item) => item instanceof TensorRef) ?? false,
  'Tensor?[]': (value) =>
    itemsOf(value)?.every((item) => item === null || item instanceof TensorRef) ?? false,
  Operand: (value) => value instanceof TensorRef || isNumber(value),
  Scalar: (value) => isNumber(value) || isRankZero(value),
  int: (value) =>
    isInt(value) ||
    typeof value === 'boolean' ||
    (value instanceof Scalar && value.type === 'int') ||
    isRankZero(value),
  'int[]': (value) =>
    isInt(value) ||
    (itemsOf(value)?.every((item) => isInt(item) || item instanceof Scalar || isRankZero(item)) ?? false),
  float: (value) => isNumber(value) || isRankZero(value),
  'float[]': (value) => itemsOf(value)?.every(isNumber) ?? false,
  bool: (value) => typeof value === 'boolean' || value instanceof Scalar,
  str: (value) => typeof value === 'string',
  device: (value) => value instanceof Named || typeof value === 'string',
  any: () => true,
};

function isRankZero(value: Py): boolean {
  return value instanceof TensorRef && value.shape.length === 0;
}

function fits({ type }: Parameter, value: Py): boolean {
  if (value instanceof Unset) return false;
  if (type.endsWith('?') && value === null) return true;
  return FITS[type.replace(/\?$/, '')]?.(value) ?? refuse(`no type ${type}`);
}

/** Undefined when the arguments do not fit. */
function bind({ parameters }: Signature, args: readonly Py[], named: ReadonlyMap<string, Py>) {
  if (args.length > parameters.filter(({ isNamed }) => !isNamed).length) return undefined;
  for (const name of named.keys()) if (!parameters.some((each) => each.name === name)) return undefined;
  const bound = new Map<string, Py>();
  for (const [i, parameter] of parameters.entries()) {
    const { name, fallback } = parameter;
    if (i < args.length && named.has(name)) return undefined;
    const value = i < args.length ? args[i] : named.has(name) ? named.get(name) : undefined;
    if (value === undefined) {
      if (fallback === undefined) return undefined;
      bound.set(name, fallback);
    } else if (!fits(parameter, value)) return undefined;
    else bound.set(name, value);
  }
  return bound;
}

export function callEntry(
  c: Context,
  entries: readonly Signature[],
  args: readonly Py[],
  named: ReadonlyMap<string, Py>,
): Result {
  for (const entry of entries) {
    const bound = bind(entry, args, named);
    if (bound) return entry.rule(c, new Args(c, bound));
  }
  const given = [...args.map(kindOf), ...[...named].map(([name, value]) => `${name}=${kindOf(value)}`)];
  return refuse(
    `is not supported with (${given.join(', ')}); known is ${entries.map(({ text }) => text).join(' and ')}`,
  );
}

/** Torch's numbers of dtypes. Half precision is computed as float32. */
export const DTYPES: Readonly<Record<number, DType>> = {
  0: 'uint8',
  1: 'int8',
  2: 'int16',
  3: 'int32',
  4: 'int64',
  5: 'float32',
  6: 'float32',
  7: 'float64',
  11: 'bool',
  15: 'float32',
};

export class Args {
  readonly #c: Context;
  readonly #bound: ReadonlyMap<string, Py>;

  constructor(c: Context, bound: ReadonlyMap<string, Py>) {
    this.#c = c;
    this.#bound = bound;
  }

  raw(name: string): Py {
    return this.#bound.get(name) ?? null;
  }

  isSet(name: string): boolean {
    return this.raw(name) !== null;
  }

  tensor(name: string): TensorRef {
    const value = this.raw(name);
    return value instanceof TensorRef ? value : refuse(`needs a tensor as ${name}, got ${kindOf(value)}`);
  }

  v(name: string): Value {
    return this.tensor(name).value;
  }

  opt(name: string): Value | undefined {
    return this.isSet(name) ? this.v(name) : undefined;
  }

  tensors(name: string): readonly TensorRef[] {
    return (itemsOf(this.raw(name)) ?? []) as readonly TensorRef[];
  }

  values(name: string): readonly Value[] {
    return this.tensors(name).map(({ value }) => value);
  }

  int(name: string): Int {
    return this.#int(this.raw(name), name);
  }

  #int(value: Py, name: string): Int {
    if (isInt(value)) return value;
    if (typeof value === 'boolean') return value ? 1 : 0;
    if (value instanceof TensorRef) return this.#int(this.#c.scalar(value, 'int'), name);
    if (value instanceof Scalar) return refuse(`needs ${name} to be known, but the data decide it`);
    return refuse(`needs an int as ${name}, got ${kindOf(value)}`);
  }

  /** An int that must be a number. */
  n(name: string): number {
    return this.#c.fixed(this.int(name), name);
  }

  ints(name: string): readonly Int[] {
    const value = this.raw(name);
    return (itemsOf(value) ?? [value]).map((item) => this.#int(item, name));
  }

  /** Numbers; one stands for `count`. */
  ns(name: string, count = 0): number[] {
    const found = this.ints(name).map((size) => this.#c.fixed(size, name));
    return found.length === 1 && count > 1 ? new Array<number>(count).fill(found[0] as number) : found;
  }

  /** An axis as 0..rank-1 of `x`. */
  axis(name: string, x: { readonly shape: Value['shape'] }, extra = 0): number {
    return axisIn(this.n(name), (x.shape?.length ?? refuse('needs a known rank')) + extra);
  }

  axes(name: string, x: { readonly shape: Value['shape'] }): number[] {
    return this.ns(name).map((axis) => axisIn(axis, x.shape?.length ?? refuse('needs a known rank')));
  }

  float(name: string): number {
    const value = this.raw(name);
    if (value instanceof Float) return value.value;
    if (typeof value === 'number') return value;
    if (typeof value === 'boolean') return value ? 1 : 0;
    if (value instanceof TensorRef) {
      const known = this.#c.scalar(value, 'float');
      if (known instanceof Float) return known.value;
    }
    return refuse(`needs a known number as ${name}, got ${kindOf(value)}`);
  }

  bool(name: string): boolean {
    const value = this.raw(name);
    if (typeof value === 'boolean') return value;
    if (typeof value === 'number') return value !== 0;
    if (value === null) return false;
    return refuse(`needs a known bool as ${name}, got ${kindOf(value)}`);
  }

  text(name: string): string {
    const value = this.raw(name);
    return typeof value === 'string' ? value : refuse(`needs a text as ${name}, got ${kindOf(value)}`);
  }

  dtype(name: string): DType | undefined {
    if (!this.isSet(name)) return undefined;
    const number = this.n(name);
    if (number === 5 || number === 15) this.#c.notes.add('half precision of the file is computed as float32');
    return DTYPES[number] ?? refuse(`torch's dtype ${number} is not supported`);
  }
}

export function axisIn(axis: number, rank: number): number {
  const at = axis < 0 ? axis + Math.max(rank, 1) : axis;
  return at >= 0 && at < Math.max(rank, 1) ? at : refuse(`axis ${axis} is outside of ${rank} dimensions`);
}
