/**
 * Orders the nodes that the wanted tensors need, each after its inputs. A TensorFlow 1 loop is a cycle from
 * NextIteration back to Merge; any other cycle is an error in the file.
 */
import { badModel, type ServingError } from '../../../../lib/contract/errors.ts';
import { splitTensor, type TfNode } from '../graph.ts';

interface Step {
  readonly node: TfNode;
  next: number;
}

/** @throws bad_model for a cycle that is not a loop */
export function inOrder(
  nodes: ReadonlyMap<string, TfNode>,
  roots: readonly string[],
  fed: ReadonlySet<string>,
): Map<string, TfNode> {
  const ordered = new Map<string, TfNode>();
  const open = new Set<string>();
  const starts = roots.filter((root) => !fed.has(root)).toReversed();
  for (let start = starts.pop(); start !== undefined; start = starts.pop()) {
    const steps: Step[] = [];
    const enter = (tensor: string): void => {
      const node = nodes.get(splitTensor(tensor).node);
      // A node that could not be decoded is reported as a problem at the end.
      if (fed.has(tensor) || node === undefined || ordered.has(node.name)) return;
      if (open.has(node.name)) throw cycle(node, steps);
      open.add(node.name);
      steps.push({ node, next: 0 });
    };
    enter(start);
    for (let step = steps.at(-1); step !== undefined; step = steps.at(-1)) {
      const { node } = step;
      const input = node.inputs[step.next];
      step.next += 1;
      if (input === undefined) {
        steps.pop();
        open.delete(node.name);
        ordered.set(node.name, node);
      } else if (isLoopBack(node, nodes.get(splitTensor(input).node))) {
        starts.push(input);
      } else {
        enter(input);
      }
    }
  }
  return ordered;
}

function isLoopBack(consumer: TfNode, producer: TfNode | undefined): boolean {
  return (
    /^(?:Ref)?Merge$/.test(consumer.op) &&
    producer !== undefined &&
    /^(?:Ref)?NextIteration$/.test(producer.op)
  );
}

function cycle(node: TfNode, steps: readonly Step[]): ServingError {
  const first = steps.findIndex((step) => step.node.name === node.name);
  const names = steps.slice(first, first + 5).map((step) => `"${step.node.name}" (${step.node.op})`);
  return badModel(`the graph has a cycle that is not a loop: ${names.join(' <- ')}`);
}
