/**
 * The values of a symbolic run: what a variable of the model's code holds while its graph is built. An int is a
 * number or a polynomial of free sizes; a float is wrapped, because the two differ in type promotion.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { Value } from '../../../graph/value.ts';
import { Expr, type Int } from './sizes.ts';
import { TensorRef } from './tensor.ts';

export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

/** A number that only the run of the model knows, of rank 0. */
export class Scalar {
  readonly type: 'int' | 'float' | 'bool';
  readonly value: Value;
  constructor(type: 'int' | 'float' | 'bool', value: Value) {
    this.type = type;
    this.value = value;
  }
}

export class List {
  readonly items: Py[];
  /** The graph it was made in: 0 is the model's, others are branches. */
  readonly scope: number;
  constructor(items: Py[], scope = 0) {
    this.items = items;
    this.scope = scope;
  }
}

export class Tuple {
  readonly items: readonly Py[];
  /** The names of a NamedTuple. */
  readonly names: readonly string[] | undefined;
  constructor(items: readonly Py[], names?: readonly string[]) {
    this.items = items;
    this.names = names;
  }
}

export class Dict {
  /** Keys are texts, ints and bools. */
  readonly items = new Map<string | number | boolean, Py>();
}

/** An object with attributes: a module, or one of a class in the file. */
export class Obj {
  readonly type: string;
  readonly attributes = new Map<string, Py>();
  /** What it was made of. */
  origin: object | undefined;
  constructor(type: string) {
    this.type = type;
  }
}

/** Something that can be called. */
export class Callable {
  readonly name: string;
  readonly call: (args: readonly Py[], named: ReadonlyMap<string, Py>) => Py;
  constructor(name: string, call: Callable['call']) {
    this.name = name;
    this.call = call;
  }
}

/** A value that no valid path uses, such as the result of a branch that raises. */
export class Unset {
  readonly kind = 'unset';
}

/** Things of which only the name counts: types, devices, layouts. */
export class Named {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

export type Py =
  | null
  | boolean
  | string
  | Int
  | Float
  | Scalar
  | TensorRef
  | List
  | Tuple
  | Dict
  | Obj
  | Callable
  | Unset
  | Named;

export function isInt(value: Py | undefined): value is Int {
  return typeof value === 'number' || value instanceof Expr;
}

export function isNumber(value: Py | undefined): value is Int | Float | Scalar | boolean {
  return isInt(value) || value instanceof Float || value instanceof Scalar || typeof value === 'boolean';
}

export function itemsOf(value: Py | undefined): readonly Py[] | undefined {
  return value instanceof List || value instanceof Tuple ? value.items : undefined;
}

/** What a value is, for messages. */
export function kindOf(value: Py | undefined): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return 'a bool';
  if (typeof value === 'string') return 'a text';
  if (isInt(value)) return 'an int';
  if (value instanceof Float) return 'a float';
  if (value instanceof Scalar)
    return `${value.type === 'int' ? 'an' : 'a'} ${value.type} that the data decide`;
  if (value instanceof TensorRef) return 'a tensor';
  if (value instanceof List) return 'a list';
  if (value instanceof Tuple) return 'a tuple';
  if (value instanceof Dict) return 'a dict';
  if (value instanceof Obj) return `an object of ${value.type}`;
  return value instanceof Callable ? 'a function' : 'another value';
}

export function refuse(reason: string): never {
  throw badModel(reason);
}
