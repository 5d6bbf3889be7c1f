/**
 * Finds tensors after an unsupported node that could become inputs instead: best the first one behind which nothing
 * needs the node or what it is computed from, so that naming it alone is enough; else those that a supported operation
 * takes. Decoding is often followed by a loop over files, whose lists cannot be inputs, and by more unsupported nodes.
 */
import { splitTensor, type TfGraph, type TfNode, usersOf } from './graph.ts';

const SHOWN = 8;
/** Limits the nodes visited. */
const MAX_STEPS = 10_000;
const MAX_CUT_STEPS = 1_000_000;
const LISTS = /^(TensorList|TensorArray|EmptyTensorList)/;
/** What reads a list as a whole gives a tensor. */
const LISTS_OF_ITEMS =
  /^(TensorList(?!Stack|Concat|Gather)|TensorArray(?!Gather|Concat)|EmptyTensorList|While|StatelessWhile)/;

export function tensorsBehind(
  tf: TfGraph,
  start: TfNode,
  isConverted: (node: TfNode) => boolean,
  isSupported?: (node: TfNode) => boolean,
): readonly string[] {
  const alone = firstCut(tf, [start], isConverted, isSupported);
  if (alone !== undefined) return [alone];
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

/**
 * The nearest tensor that all ways from the nodes `starts` and their inputs to the outputs pass; best one behind which
 * every node is supported.
 */
export function firstCut(
  tf: TfGraph,
  starts: readonly TfNode[],
  isConverted: (node: TfNode) => boolean,
  isSupported: (node: TfNode) => boolean = () => true,
): string | undefined {
  const users = usersOf(tf);
  const producer = (tensor: string) => tf.nodes.get(splitTensor(tensor).node);
  let steps = MAX_CUT_STEPS;
  /** All tensors that `roots` are computed from, but for those behind `cut`. */
  const needs = (roots: readonly string[], cut?: string): Set<string> => {
    const seen = new Set<string>();
    const open = [...roots];
    for (let tensor = open.pop(); tensor !== undefined && steps > 0; tensor = open.pop()) {
      if (tensor === cut || seen.has(tensor)) continue;
      steps -= 1;
      seen.add(tensor);
      open.push(...(producer(tensor)?.inputs ?? []));
    }
    return seen;
  };
  const before = needs(starts.flatMap((start) => start.inputs));
  const inputs = tf.inputs.map(({ tensor }) => tensor);
  // A variable is computed from no input.
  const own = inputs.some((tensor) => before.has(tensor))
    ? inputs.filter((tensor) => before.has(tensor))
    : inputs;
  const outputs = tf.outputs.map(({ tensor }) => tensor);
  let nearest: string | undefined;
  const behind = new Set(starts.map(({ name }) => name));
  for (const node of tf.nodes.values()) {
    if (!behind.has(node.name) && !node.inputs.some((input) => behind.has(splitTensor(input).node))) continue;
    behind.add(node.name);
    const ports = outputsByNode(users).get(node.name) ?? [];
    const [tensor] = ports;
    const isTensor = ports.length === 1 && !LISTS_OF_ITEMS.test(node.op) && !isLoopOfOld(node);
    if (tensor === undefined || !isTensor || !users.get(tensor)?.some(isConverted)) continue;
    const needed = needs(outputs, tensor);
    if (steps <= 0) return nearest;
    const isFree = starts.every(({ name }) => !needed.has(`${name}:0`));
    if (!isFree || own.some((input) => needed.has(input))) continue;
    nearest ??= tensor;
    const nodes = [...needed].flatMap((other) => producer(other) ?? []);
    if (nodes.every((other) => isSupported(other))) return tensor;
  }
  return nearest;
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
