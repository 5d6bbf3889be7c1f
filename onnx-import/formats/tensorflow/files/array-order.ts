/**
 * Finds writes to TensorFlow 1 TensorArrays that a conversion would lose. TensorFlow writes to one array in memory
 * and uses `flow` tensors only to order operations. Converted, each write makes a new tensor, so a reader sees only
 * the writes on its own flow.
 */
import type { Problems } from '../../problems.ts';
import { refuse } from '../ops/refuse.ts';

import {
  ArrayFlow,
  type ArrayGraph,
  areExclusive,
  CALLS,
  FLOW,
  flowOf,
  HANDS_ON,
  NEXT,
  type OrderedNode,
  type Origin,
  WRITES,
} from './array-flow.ts';

/** Limits the memory for the bit sets of earlier writes. */
const MAX_WORDS = 1 << 25;

/** A node that writes to the array in the state `origin`. */
interface Heir {
  readonly name: string;
  readonly origin: Origin;
}

/** Adds a problem for every node that could not be converted without losing a write. */
export function findLostWrites(
  graph: ArrayGraph,
  problems: Problems,
  label: (name: string) => string = (name) => name,
): void {
  const users = [...graph.nodes.values()].filter(({ op }) => FLOW[op] !== undefined);
  if (!users.some(({ op }) => WRITES.test(op))) return;
  const order = new ArrayOrder(graph);
  for (const node of graph.nodes.values()) {
    if (graph.needed.has(node.name) && order.countsWithFlow(node))
      problems.add(node.op, label(node.name), 'takes the flow of a TensorArray for a number');
  }
  for (const user of users) {
    const why = order.problemOf(user);
    if (why !== undefined) problems.add(user.op, label(user.name), why);
  }
}

class ArrayOrder {
  private readonly graph: ArrayGraph;
  private readonly flow: ArrayFlow;
  /** The writes to each array, by the tensor that created its handle. */
  private readonly writers = new Map<string, OrderedNode[]>();
  /** The bit of each write in `earlier`. */
  private readonly places = new Map<string, number>();
  /** The writes that ran before each node. */
  private readonly earlier = new Map<string, Uint32Array>();
  /** The handles that converted nodes use. */
  private readonly used = new Set<string>();
  /** The nodes on the flow of each tensor that enters a loop's next iteration. */
  private readonly rounds: readonly ReadonlySet<string>[];
  /** The nodes on the flow of an output. */
  private readonly returned: ReadonlySet<string>;
  /** The writes, and the loops with writes, that continue from each origin. */
  private readonly heirs = new Map<string, Heir[]>();
  /** The states that each write continues from, including that of its loop. */
  private readonly states = new Map<string, Heir[]>();

  constructor(graph: ArrayGraph) {
    this.graph = graph;
    this.flow = new ArrayFlow(graph);
    const all = [...graph.nodes.values()];
    for (const node of all) {
      if (FLOW[node.op] === undefined) continue;
      const { tensor } = this.flow.handleOf(node);
      if (graph.needed.has(node.name)) this.used.add(tensor);
      if (!WRITES.test(node.op)) continue;
      this.places.set(node.name, this.places.size);
      this.writers.set(tensor, [...(this.writers.get(tensor) ?? []), node]);
      this.inherit(node.name, flowOf(node), node.name);
    }
    const back = all.filter(({ op }) => NEXT.test(op));
    this.rounds = back.map(({ inputs }) => this.flow.flowBehind(inputs.slice(0, 1)));
    this.returned = this.flow.flowBehind(graph.outputs);
    for (const node of all) if (node.op.endsWith('Merge')) this.inheritLoop(node);
  }

  /** Whether the node computes with a flow. A flow is an arbitrary number in TensorFlow, but a whole array here. */
  countsWithFlow({ op, inputs }: OrderedNode): boolean {
    if (FLOW[op] !== undefined || HANDS_ON.test(op) || CALLS.test(op) || op.endsWith('Merge')) return false;
    return inputs.some((input) => {
      const { tensor } = this.flow.originOf(input);
      const from = this.flow.producer(tensor);
      return (
        from !== undefined && (WRITES.test(from.op) || (from.op === 'TensorArrayV3' && tensor.endsWith(':1')))
      );
    });
  }

  problemOf(user: OrderedNode): string | undefined {
    const { needed, given } = this.graph;
    const { tensor, depth } = this.flow.handleOf(user);
    if (!WRITES.test(user.op)) return needed.has(user.name) ? this.overtaken(user, tensor) : undefined;
    if (!needed.has(user.name)) {
      if (!this.used.has(tensor)) return undefined;
      return 'writes into a TensorArray that is used elsewhere, but no operation uses its flow: the write would be lost';
    }
    const rounds = depth === 0 ? 0 : this.rounds.filter((each) => each.has(user.name)).length;
    if (rounds < depth || (given.has(tensor) && !this.returned.has(user.name)))
      return 'writes in a loop into a TensorArray from outside whose flow does not go on to the next round: the write would be lost';
    return this.forked(user) ?? this.overtaken(user, tensor);
  }

  /**
   * Finds another write from the same state. TensorFlow keeps both in one array; converted, they would be two arrays.
   */
  private forked(user: OrderedNode): string | undefined {
    for (const { name, origin } of this.states.get(user.name) ?? []) {
      const other = (this.heirs.get(origin.tensor) ?? []).find((heir) => {
        this.flow.step();
        return heir.name !== name && !areExclusive(origin, heir.origin);
      });
      if (other)
        return `writes into a TensorArray from the same state as "${other.name}": one write would be lost`;
    }
    return undefined;
  }

  /** Finds a write that always runs earlier but is not on the flow of `user`. */
  private overtaken(user: OrderedNode, handle: string): string | undefined {
    const own = this.flow.flowBehind([flowOf(user)]);
    const others = (this.writers.get(handle) ?? []).filter(
      ({ name }) => name !== user.name && !own.has(name),
    );
    if (others.length === 0) return undefined;
    const before = this.writesBefore(user);
    const lost = others.find(({ name }) => {
      const place = this.places.get(name) as number;
      return ((before[place >>> 5] as number) & (1 << (place & 31))) !== 0;
    });
    return lost && `comes after "${lost.name}", and the flow it takes does not: the write would be lost`;
  }

  /** `name` is the write, or the loop variable that contains it. */
  private inherit(name: string, flow: string, write: string): void {
    const heir = { name, origin: this.flow.originOf(flow) };
    for (const [map, key] of [
      [this.heirs, heir.origin.tensor],
      [this.states, write],
    ] as const) {
      const known = map.get(key);
      if (known) known.push(heir);
      else map.set(key, [heir]);
    }
  }

  /** A loop with writes continues from the state that entered it. */
  private inheritLoop(merge: OrderedNode): void {
    const entering = merge.inputs.filter((input) => (this.flow.producer(input)?.op ?? '').endsWith('Enter'));
    const returning = merge.inputs.filter((input) => NEXT.test(this.flow.producer(input)?.op ?? ''));
    if (entering.length === 0 || returning.length === 0) return;
    const before = this.flow.flowBehind(entering);
    const write = [...this.flow.flowBehind(returning)].find(
      (name) => !before.has(name) && this.places.has(name),
    );
    if (write !== undefined) for (const input of entering) this.inherit(merge.name, input, write);
  }

  /** The writes that run before a node in the same iteration of its loop. */
  private writesBefore(user: OrderedNode): Uint32Array {
    const open = new Set<string>([user.name]);
    const path = [{ node: user, sources: this.sourcesOf(user), next: 0 }];
    for (let at = path.at(-1); at; at = path.at(-1)) {
      const source = at.sources[at.next];
      at.next += 1;
      this.flow.step();
      if (source === undefined) {
        path.pop();
        this.earlier.set(at.node.name, this.joined(at.node, at.sources));
      } else if (!open.has(source.name) && !this.earlier.has(source.name)) {
        open.add(source.name);
        path.push({ node: source, sources: this.sourcesOf(source), next: 0 });
      }
    }
    return this.earlier.get(user.name) as Uint32Array;
  }

  private joined(node: OrderedNode, sources: readonly OrderedNode[]): Uint32Array {
    const words = (this.places.size + 31) >>> 5;
    if ((this.earlier.size + 1) * words > MAX_WORDS) refuse('has too many TensorArrays to find their order');
    const all = this.earlier.get(node.name) ?? new Uint32Array(words);
    for (const { name } of sources) {
      const bits = this.earlier.get(name);
      for (const [i, word] of (bits ?? []).entries()) all[i] = (all[i] as number) | word;
      const place = this.places.get(name);
      if (place !== undefined) all[place >>> 5] = (all[place >>> 5] as number) | (1 << (place & 31));
    }
    return all;
  }

  private sourcesOf({ op, inputs, controlInputs }: OrderedNode): OrderedNode[] {
    if (NEXT.test(op)) return [];
    const tensors = [...inputs, ...controlInputs.map((name) => `${name}:0`)];
    return tensors.flatMap((tensor) => this.flow.producer(tensor) ?? []);
  }
}
