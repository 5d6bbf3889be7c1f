/**
 * Resolves the names that a user or a file gives to tensors. A name is a signature key, a node, or `node:port`; names
 * inside functions exist only once these are inlined.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { splitTensor, type TfShape, type TfType } from '../graph.ts';
import { type OutputTable, portCount } from './outputs.ts';
import type { Scope } from './scope.ts';

/** A tensor by its public name, with the type and shape that the file declares for it. */
export interface NamedTensor {
  readonly name: string;
  readonly tensor: string;
  readonly dtype?: TfType;
  readonly shape?: TfShape;
}

/** `x:0` is called `x`. */
export function publicName(tensor: string): string {
  return tensor.endsWith(':0') ? tensor.slice(0, -2) : tensor;
}

export function named(name: string): NamedTensor {
  return { name: publicName(name), tensor: /:\d+$/.test(name) ? name : `${name}:0` };
}

/** Looks a name up in `known`, then in the scope. Returns undefined when there is none. */
export function findTensor(
  name: string,
  known: readonly NamedTensor[],
  scope: Scope,
  table: OutputTable,
): NamedTensor | undefined {
  const same =
    known.find((one) => one.name === name) ?? known.find((one) => one.tensor === named(name).tensor);
  if (same !== undefined) return same;
  const tensor = named(name);
  const { node, port } = splitTensor(tensor.tensor);
  const raw = scope.nodes.get(node);
  return raw === undefined || port >= Math.max(1, portCount(table, raw)) ? undefined : tensor;
}

/** @throws bad_model for a duplicate name */
export function checkDistinct(tensors: readonly NamedTensor[], what: string): void {
  const seen = new Set<string>();
  for (const { name } of tensors) {
    if (seen.has(name)) throw badModel(`two ${what} are named "${name}"`);
    seen.add(name);
  }
}
