/** The state of a running function: its variables, its stack, and what lies around it. */
import type { Pickled } from '../../../files/pickled.ts';
import { convert } from '../aten/numbers.ts';
import { callOperator } from '../aten/table.ts';
import type { Context } from '../run/context.ts';
import { TensorRef } from '../run/tensor.ts';
import { Callable, Dict, itemsOf, kindOf, Named, Obj, type Py, refuse } from '../run/values.ts';
import type { Code } from './classes.ts';

export const MAX_STACK = 10_000;

/** What the interpreter needs to know of modules and pickled values. */
export interface World {
  readonly c: Context;
  value(pickled: Pickled): Py;
  attribute(of: Obj, name: string): Py;
  call(of: Obj, args: readonly Py[], named: ReadonlyMap<string, Py>): Py;
  items(of: Obj): readonly Py[] | undefined;
}

/** An iterator, which a loop takes values from. */
export class Iteration extends Named {
  readonly items: readonly Py[];
  at = 0;
  constructor(items: readonly Py[]) {
    super('iterator');
    this.items = items;
  }
}

/** The empty place under a callee, since 3.11. */
export const EMPTY = new Named('NULL');

/** What lies around a function's code. */
export interface Surroundings {
  readonly global: (name: string) => Py;
  readonly cells: { get(name: string): Py | undefined };
  readonly defaults: readonly Py[];
  readonly keywordDefaults: ReadonlyMap<string, Py>;
}

/** The index of the next instruction, when it is another than the following one. */
export type Step = (frame: Frame, arg: number, target: number) => number | undefined;

export interface Frame {
  /** Runs a function that the code made. */
  readonly run: (code: Code, around: Surroundings, args: readonly Py[], named: ReadonlyMap<string, Py>) => Py;
  readonly world: World;
  readonly code: Code;
  readonly locals: Map<string, Py>;
  readonly global: (name: string) => Py;
  readonly cells: { get(name: string): Py | undefined };
  readonly stack: Py[];
  readonly loops: number[];
  keywords: readonly string[];
}

export function pop(frame: Frame): Py {
  const value = frame.stack.pop();
  return value === undefined ? refuse(`${frame.code.name} takes a value that is not there`) : value;
}

export function popMany(frame: Frame, count: number): Py[] {
  if (count > frame.stack.length) return refuse(`${frame.code.name} takes values that are not there`);
  return count === 0 ? [] : frame.stack.splice(-count);
}

export function peek(frame: Frame, depth: number): Py {
  const value = frame.stack.at(-depth);
  return value === undefined ? refuse(`${frame.code.name} takes a value that is not there`) : value;
}

/** Python's truth of a value that is known. */
export function truth(c: Context, value: Py): boolean {
  if (value instanceof Obj || value instanceof Callable) return true;
  if (value === null) return false;
  const made = convert('bool')(c, value);
  if (typeof made === 'boolean') return made;
  return refuse('has an if that the data decide; export the model with torch.jit.script');
}

export const NO_NAMES: ReadonlyMap<string, Py> = new Map();

export function iterate(frame: Frame, value: Py): Iteration {
  if (value instanceof Iteration) return value;
  const { c } = frame.world;
  if (value instanceof TensorRef)
    return new Iteration(itemsOf(callOperator(c, 'unbind', [value, 0], NO_NAMES)) ?? []);
  const items =
    itemsOf(value) ??
    (value instanceof Dict
      ? ([...value.items.keys()] as Py[])
      : value instanceof Obj
        ? frame.world.items(value)
        : undefined);
  return new Iteration(items ?? refuse(`loops over ${kindOf(value)}`));
}
