/**
 * Finds tensors after an unsupported node that could become inputs instead: only those that a supported operation
 * takes. Decoding is often followed by a loop over files, whose lists cannot be inputs, and by more unsupported
 * nodes.
 */
import { type TfGraph, type TfNode, usersOf } from './graph.ts';

const SHOWN = 8;
/** Limits the nodes visited. */
const MAX_STEPS = 10_000;
const LISTS = /^(TensorList|TensorArray|EmptyTensorList)/;

export function tensorsBehind(
  tf: TfGraph,
  start: TfNode,
  isConverted: (node: TfNode) => boolean,
): readonly string[] {
  const open = [start];
  const seen = new Set(open);
  const found = new Set<string>();
  const users = usersOf(tf);
  const outputs = outputsByNode(users);
  for (let steps = 0; steps < MAX_STEPS; steps++) {
    const node = open.shift();
    if (!node || found.size >= SHOWN) break;
    for (const tensor of outputs.get(node.name) ?? []) {
      const consumers = users.get(tensor) ?? [];
      if (
        !isLoopOfOld(node) &&
        consumers.some((consumer) => isConverted(consumer) && !LISTS.test(consumer.op))
      ) {
        found.add(tensor);
        continue;
      }
      for (const consumer of consumers) {
        if (seen.has(consumer)) continue;
        seen.add(consumer);
        open.push(consumer);
      }
    }
  }
  return [...found].slice(0, SHOWN);
}

/** Such a node comes from frames.ts and is not in the file. */
function isLoopOfOld({ op, name, attributes }: TfNode): boolean {
  const { body } = attributes;
  return op === 'While' && body?.kind === 'func' && body.name === name.replace(/loop$/, 'body');
}

const OUTPUTS = new WeakMap<Map<string, TfNode[]>, Map<string, string[]>>();

/** The tensors of each node that have consumers. */
function outputsByNode(users: Map<string, TfNode[]>): Map<string, string[]> {
  const known = OUTPUTS.get(users);
  if (known) return known;
  const outputs = new Map<string, string[]>();
  for (const tensor of users.keys()) {
    const name = tensor.slice(0, tensor.lastIndexOf(':'));
    const list = outputs.get(name);
    if (list) list.push(tensor);
    else outputs.set(name, [tensor]);
  }
  OUTPUTS.set(users, outputs);
  return outputs;
}
