/**
 * Keeps the range check of Keras' CategoryEncoding. It is an Assert that no output needs, so TensorFlow fails for an index
 * that what counts the indices ignores. Here the bound becomes one more input of the counting, which fails in its place.
 */
import { splitTensor } from '../graph.ts';
import type { RawNode } from './raw.ts';
import type { Scope } from './scope.ts';

/** @param reached what runs for the outputs, behind control inputs too */
export function keepRangeChecks(scope: Scope, reached: ReadonlySet<string>): void {
  const nodes = [...reached].flatMap((name) => scope.nodes.get(name) ?? []);
  const bounds = new Map(nodes.flatMap((node) => (node.op === 'Assert' ? rangeOf(scope, node) : [])));
  for (const node of nodes) {
    if (bounds.size === 0 || !/^(Dense)?Bincount$/.test(node.op)) continue;
    const [numbers = ''] = node.inputs;
    const maker = makerOf(scope, numbers);
    const from = maker?.op === 'ExpandDims' ? (maker.inputs[0] ?? '') : numbers;
    const bound = bounds.get(scope.resolve(from));
    if (bound !== undefined) scope.nodes.set(node.name, { ...node, inputs: [...node.inputs, bound] });
  }
}

/** The tensor that is checked and its bound: bound > Max(tensor), and Min(tensor) >= 0. */
function rangeOf(scope: Scope, { inputs: [condition = ''] }: RawNode): [string, string][] {
  const both = makerOf(scope, condition);
  if (both?.op !== 'LogicalAnd') return [];
  const [below, least] = both.inputs.map((input) => makerOf(scope, input));
  const [bound, largest = ''] = below?.inputs ?? [];
  if (bound === undefined || below?.op !== 'Greater' || least?.op !== 'GreaterEqual') return [];
  const [max, min] = [makerOf(scope, largest), makerOf(scope, least.inputs[0] ?? '')];
  const [tensor, other] = [max, min].map((node) => scope.resolve(node?.inputs[0] ?? ''));
  const isRange = max?.op === 'Max' && min?.op === 'Min' && tensor === other;
  return isRange && tensor !== undefined ? [[tensor, bound]] : [];
}

function makerOf(scope: Scope, tensor: string): RawNode | undefined {
  return scope.nodes.get(splitTensor(scope.resolve(tensor)).node);
}
