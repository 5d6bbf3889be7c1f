/** Functions made while the code runs, and the cells that they share with the code around them. */
import { Callable, itemsOf, Named, type Py, refuse } from '../run/values.ts';

import type { Code } from './classes.ts';
import { type Frame, NO_NAMES, pop, type Step } from './frame.ts';

/** A code object on the stack, which MAKE_FUNCTION takes. */
export class CodeValue extends Named {
  readonly code: Code;
  constructor(code: Code) {
    super(code.name);
    this.code = code;
  }
}

/** Derefs count cells, since 3.11 after the local variables. */
export function cellName({ code }: Frame, arg: number): string {
  const names = code.isNew
    ? [...code.variables, ...code.cells.filter((name) => !code.variables.includes(name))]
    : code.cells;
  return names[arg] ?? refuse('reads a cell that is not there');
}

/** Undefined when it is not set; null is Python's None. */
function cellValue({ locals, cells }: Frame, name: string): Py | undefined {
  return locals.has(name) ? locals.get(name) : cells.get(name);
}

export function deref(frame: Frame, name: string): Py {
  const value = cellValue(frame, name);
  return value === undefined ? refuse(`variable ${name} is not set`) : value;
}

/** A function made while the code runs: a lambda or a comprehension. It reads the variables around it. */
export const makeFunction: Step = (frame, arg) => {
  if (!frame.code.isNew) pop(frame);
  const made = pop(frame);
  if (!(made instanceof CodeValue)) return refuse('makes a function without code');
  const { code } = made;
  if (arg & 8) pop(frame);
  if (arg & 4) pop(frame);
  if (arg & 2) return refuse('makes a function with keyword defaults');
  const defaults = arg & 1 ? (itemsOf(pop(frame)) ?? []) : [];
  const cells = { get: (name: string) => cellValue(frame, name) };
  const around = { global: frame.global, cells, defaults, keywordDefaults: NO_NAMES };
  frame.stack.push(new Callable(code.name, (args, named) => frame.run(code, around, args, named)));
  return undefined;
};
