/**
 * Finds the inputs and outputs of a graph that does not name them, or lists the candidates. Training leaves behind
 * losses, gradients, savers and summaries without consumers, so the outputs of a graph with training operations are
 * never guessed.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { splitTensor } from '../graph.ts';
import { listNodes } from './nodes.ts';
import { type OutputTable, portCount } from './outputs.ts';
import type { RawNode } from './raw.ts';
import { allBehind } from './reach.ts';
import { isAssignment } from './scope.ts';
import { isVariable } from './variables.ts';

const GRADIENT = /(?:^|\/)gradients(?:_\d+)?\//;
const NO_OUTPUT =
  /^(?:Const|NoOp|Assert|Print|PrintV2|Save\w*|Restore\w*|ShardedFilename|MergeV2Checkpoints|\w*Summary\w*|InitializeTable\w*|Placeholder\w*|IsVariableInitialized|VarIsInitializedOp|HashTable\w*)$/;
const TRAINING = /^(?:Resource)?(?:Sparse)?Apply[A-Z]\w*$/;
const ONE_RESULT = /^_?FusedBatchNorm|^Merge$/;
const LIKELY = /^(?:Softmax|LogSoftmax|Sigmoid|ArgMax|TopKV2)$/;

export function isPlaceholder(op: string): boolean {
  return op === 'Placeholder' || op === 'PlaceholderV2';
}

/** Finds the nodes that could be outputs. When `trained` is false, all of them are. */
function findSinks(nodes: ReadonlyMap<string, RawNode>): { sinks: RawNode[]; trained: boolean } {
  const kept = [...nodes.values()].filter((node) => !isLeftover(node));
  const consumed = new Set(kept.flatMap((node) => node.inputs.map((input) => splitTensor(input).node)));
  // Other nodes only wait for the pivots of a condition or loop, but a group (NoOp) may wait for an output.
  for (const node of kept) {
    if (node.op !== 'NoOp') for (const control of node.controlInputs) consumed.add(control);
  }
  const fed = dependents(kept);
  const sinks = kept.filter((node) => !consumed.has(node.name) && !NO_OUTPUT.test(node.op));
  const trained = [...nodes.values()].some((node) => TRAINING.test(node.op) || GRADIENT.test(node.name));
  return { sinks: fed.size === 0 ? sinks : sinks.filter((node) => fed.has(node.name)), trained };
}

function isLeftover(node: RawNode): boolean {
  return (
    GRADIENT.test(node.name) ||
    TRAINING.test(node.op) ||
    isAssignment(node.op) ||
    /Summary|^(?:Save|Restore|MergeV2)/.test(node.op)
  );
}

/** The names of the placeholders and of all nodes that depend on them. */
function dependents(nodes: readonly RawNode[]): Set<string> {
  const consumers = new Map<string, string[]>();
  for (const node of nodes) {
    for (const input of node.inputs) {
      const { node: producer } = splitTensor(input);
      const list = consumers.get(producer);
      if (list === undefined) consumers.set(producer, [node.name]);
      else list.push(node.name);
    }
  }
  const placeholders = nodes.filter((node) => node.op.startsWith('Placeholder'));
  return allBehind(
    placeholders.map((node) => node.name),
    consumers,
  );
}

/**
 * The tensors without consumers, when they are clearly the outputs.
 * @throws bad_model listing the candidates when it is unclear
 */
export function guessOutputs(
  nodes: ReadonlyMap<string, RawNode>,
  table: OutputTable,
  file: string,
): string[] {
  const { sinks, trained } = findSinks(nodes);
  const variables = [...nodes.values()].some(isVariable);
  if (sinks.length === 0 || trained || (sinks.length > 1 && variables)) {
    const why = trained
      ? 'it was trained in place'
      : sinks.length === 0
        ? 'there is none'
        : 'there are several';
    throw badModel(
      `${file} does not say what its outputs are, and ${why}. Name them with --output, or in a graph_meta.json with input_names and output_names.\n${describeCandidates(nodes)}`,
    );
  }
  return sinks.flatMap((node) => {
    // The other outputs of a normalization are for training.
    const ports = ONE_RESULT.test(node.op) ? 1 : portCount(table, node);
    return Array.from({ length: ports }, (_, port) => `${node.name}:${port}`);
  });
}

/** Lists tensors that could be named as inputs and outputs. */
export function describeCandidates(nodes: ReadonlyMap<string, RawNode>): string {
  const { sinks } = findSinks(nodes);
  const likely = [...nodes.values()].filter((node) => LIKELY.test(node.op) && !isLeftover(node));
  const inputs = [...nodes.values()].filter((node) => /^(?:Placeholder|IteratorGetNext)/.test(node.op));
  const outputs = [...new Set([...likely, ...sinks])];
  return `Inputs could be: ${listNodes(inputs)}. Outputs could be: ${listNodes(outputs)}.`;
}
