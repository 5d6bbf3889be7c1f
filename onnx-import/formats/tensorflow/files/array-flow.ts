/**
 * Traces the handles and flows of TensorArrays through a graph or a function body back to their origin, through
 * identities, conditions and loops.
 */
import { splitTensor } from '../graph.ts';
import { refuse } from '../ops/refuse.ts';

export interface OrderedNode {
  readonly name: string;
  readonly op: string;
  /** `node:port`, with functions inlined. */
  readonly inputs: readonly string[];
  readonly controlInputs: readonly string[];
}

export interface ArrayGraph {
  /** The nodes that the outputs need, and those that must run before them. */
  readonly nodes: ReadonlyMap<string, OrderedNode>;
  /** The nodes that compute the outputs; only these are converted. */
  readonly needed: ReadonlySet<string>;
  /** The arguments of a body. */
  readonly given: ReadonlySet<string>;
  readonly outputs: readonly string[];
}

/** The position of the flow among the inputs. The handle is always the first. */
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
/** Limits the number of nodes visited in one graph. */
const MAX_STEPS = 50_000_000;

interface Handle {
  /** The tensor that created the handle. */
  readonly tensor: string;
  /** How many loops lie between its creation and its use. */
  readonly depth: number;
}

/** The origin of a flow: the last write, the new array, the start of a loop or the end of a condition. */
export interface Origin {
  readonly tensor: string;
  /** The conditions on the way to the origin, each with the branch taken. */
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

  /** Looks through Identity nodes, so that one condition has one name. */
  private plain(tensor: string): string {
    let at = tensor;
    for (let from = this.producer(at); from?.op === 'Identity'; from = this.producer(at)) {
      at = from.inputs[0] ?? '';
      this.step();
    }
    return at;
  }

  /** All nodes on a flow, back to where the arrays were created. */
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

  /** Limits the work, which also ends a search in the cycle of a broken file. */
  step(): void {
    this.steps += 1;
    if (this.steps > MAX_STEPS) refuse('the order of TensorArrays takes too long to find');
  }
}

export function flowOf(node: OrderedNode): string {
  return node.inputs[FLOW[node.op] ?? 0] ?? '';
}

/** Whether `a` and `b` lie in different branches of one condition, so that only one of them runs. */
export function areExclusive(a: Origin, b: Origin): boolean {
  return [...a.sides].some(([condition, side]) => b.sides.has(condition) && b.sides.get(condition) !== side);
}
