/** Calls operators so that the search for others goes on: what cannot be converted is noted, and its result stands for nothing. */
import { ServingError } from '../../../../lib/contract/errors.ts';
import type { Problems } from '../../problems.ts';
import { Failed } from '../code/library.ts';
import type { Context } from '../run/context.ts';
import { itemsOf, type Py } from '../run/values.ts';
import { NeedsIndex } from './indexing.ts';
import { callOperator, isOperator } from './table.ts';

interface Call {
  readonly name: string;
  readonly args: readonly Py[];
  readonly named: ReadonlyMap<string, Py>;
  /** The name of the node, which a problem names. */
  readonly node: string;
}

export function callNoted(c: Context, problems: Problems, { name, args, named, node }: Call): Py {
  if (!isOperator(name)) {
    note(problems, name, node, 'is not supported');
    return new Failed();
  }
  const all = [...args, ...named.values()];
  if (all.some((arg) => arg instanceof Failed || itemsOf(arg)?.some((item) => item instanceof Failed)))
    return new Failed();
  try {
    return callOperator(c, name, args, named);
  } catch (error) {
    const isProblem = error instanceof ServingError && error.code === 'bad_model';
    if (!isProblem || error instanceof NeedsIndex) throw error;
    note(problems, name, node, error.message);
    return new Failed();
  }
}

function note(problems: Problems, op: string, node: string, reason: string): void {
  const isNew = !problems.found.some((problem) => problem.op === op && problem.node === node);
  if (isNew) problems.add(op, node, reason);
}
