/**
 * Follows the handles and flows of TensorArrays through one graph or body, back to where they come from: through
 * identities, conditions and the rounds of loops.
 */
import { splitTensor } from '../graph.ts';
import { refuse } from '../ops/refuse.ts';

export interface OrderedNode {
  readonly name: string;
  readonly op: string;
  /** `node:port`, functions inlined. */
  readonly inputs: readonly string[];
  readonly controlInputs: readonly string[];
}

export interface ArrayGraph {
  /** What the outputs need, and what must run before that. */
  readonly nodes: ReadonlyMap<string, OrderedNode>;
  /** Those of them that give the outputs a value; only these are converted. */
  readonly needed: ReadonlySet<string>;
  /** Tensors from outside: the arguments of a body. */
  readonly given: ReadonlySet<string>;
  readonly outputs: readonly string[];
}

/** Which input is the flow; the handle is always the first. */
export const FLOW: Readonly<Record<string, number>> = {
  TensorArrayWriteV3: 3,
  TensorArrayScatterV3: 3,
  TensorArraySplitV3: 3,
  TensorArrayReadV3: 2,
  TensorArrayGatherV3: 2,
  TensorArrayConcatV3: 1,
  TensorArraySizeV3: 1,
};
export const WRITES = /^TensorArray(?:Write|Scatter|Split)V3$/;
export const HANDS_ON = /^(?:Identity|StopGradient|Snapshot|(?:Ref)?(?:Enter|Exit|NextIteration|Switch))$/;
export const NEXT = /^(?:Ref)?NextIteration$/;
export const CALLS = /^(?:Stateless)?(?:While|If|Case)$/;
/** Nodes that are looked at in all. */
const MAX_STEPS = 50_000_000;

interface Handle {
  /** Where it comes from. */
  readonly tensor: string;
  /** Loops between there and here. */
  readonly depth: number;
}

/** Where a flow comes from: the last write, the array itself, the begin of a loop, the end of a condition. */
export interface Origin {
  readonly tensor: string;
  /** Conditions that were passed, and on which side. */
  readonly sides: ReadonlyMap<string, number>;
}

export class ArrayFlow {
  private readonly graph: ArrayGraph;
  private steps = 0;

  constructor(graph: ArrayGraph) {
    this.graph = graph;
  }

  handleOf(node: OrderedNode): Handle {
    let [tensor = ''] = node.inputs;
    let depth = 0;
    for (let from = this.producer(tensor); from && HANDS_ON.test(from.op); from = this.producer(tensor)) {
      if (from.op.endsWith('Enter')) depth += 1;
      else if (from.op.endsWith('Exit')) depth -= 1;
      tensor = from.inputs[0] ?? '';
      this.step();
    }
    return { tensor, depth };
  }

  originOf(flow: string): Origin {
    const sides = new Map<string, number>();
    let tensor = flow;
    for (let from = this.producer(tensor); from && HANDS_ON.test(from.op); from = this.producer(tensor)) {
      if (from.op.endsWith('Switch')) sides.set(this.plain(from.inputs[1] ?? ''), splitTensor(tensor).port);
      tensor = from.inputs[0] ?? '';
      this.step();
    }
    return { tensor, sides };
  }

  /** A condition under its first name. */
  private plain(tensor: string): string {
    let at = tensor;
    for (let from = this.producer(at); from?.op === 'Identity'; from = this.producer(at)) {
      at = from.inputs[0] ?? '';
      this.step();
    }
    return at;
  }

  /** The nodes on a flow, back to where the arrays were made. */
  flowBehind(tensors: readonly string[]): Set<string> {
    return this.behind(tensors, (node) => {
      if (FLOW[node.op] !== undefined) return WRITES.test(node.op) ? [flowOf(node)] : [];
      if (HANDS_ON.test(node.op)) return node.inputs.slice(0, 1);
      return node.op.endsWith('Merge') || CALLS.test(node.op) ? node.inputs : [];
    });
  }

  private behind(
    tensors: readonly string[],
    inputsOf: (node: OrderedNode) => readonly string[],
  ): Set<string> {
    const found = new Set<string>();
    const pending = [...tensors];
    for (let tensor = pending.pop(); tensor !== undefined; tensor = pending.pop()) {
      const node = this.producer(tensor);
      this.step();
      if (!node || found.has(node.name)) continue;
      found.add(node.name);
      pending.push(...inputsOf(node));
    }
    return found;
  }

  producer(tensor: string): OrderedNode | undefined {
    return this.graph.given.has(tensor) ? undefined : this.graph.nodes.get(splitTensor(tensor).node);
  }

  /** Limits the work; a search in a cycle of a broken file ends here. */
  step(): void {
    this.steps += 1;
    if (this.steps > MAX_STEPS) refuse('the order of TensorArrays takes too long to find');
  }
}

export function flowOf(node: OrderedNode): string {
  return node.inputs[FLOW[node.op] ?? 0] ?? '';
}

/** Only one of them ever runs. */
export function areExclusive(a: Origin, b: Origin): boolean {
  return [...a.sides].some(([condition, side]) => b.sides.has(condition) && b.sides.get(condition) !== side);
}
