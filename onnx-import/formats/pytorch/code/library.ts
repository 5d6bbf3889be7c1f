/** What the code of an archive consists of, and how a run of it ends early. */
import type { Variables } from '../run/branches.ts';
import { type Py, Unset } from '../run/values.ts';
import type { ClassDefinition, FunctionDefinition } from './ast.ts';

/** The result of an operator that could not be converted; the problem is noted, and the search for others goes on. */
export class Failed extends Unset {}

/** Nothing more can be found: what failed decides the control flow. */
export class Stopped extends Error {}

/** The classes and functions of an archive by their qualified names. */
export interface Library {
  function(name: string): FunctionDefinition | undefined;
  class(name: string): ClassDefinition | undefined;
  constant(name: string): Py;
}

export interface Frame {
  readonly where: string;
  readonly variables: Variables;
  line: number;
}
