/**
 * Converts nodes in order, each after its inputs, and records every problem. TensorFlow 1 writes conditions as Switch
 * and Merge: with a constant condition one branch is dead; with a computed one both are computed and Merge selects.
 */
import type { GraphBuilder } from '../../graph/builder.ts';
import type { Value } from '../../graph/value.ts';
import { type Problems, withValidSizes } from '../problems.ts';
import type { TfGraph, TfNode } from './graph.ts';
import { choose } from './ops/branches.ts';
import { cast } from './ops/kernels.ts';
import { Layouts } from './ops/layout.ts';
import { refuse } from './ops/refuse.ts';
import { wayOut, whyRefused } from './ops/refused.ts';
import { type Callee, type Context, DEAD, FAILED, type Facts, type Operands } from './ops/rule.ts';
import { ruleOf } from './ops/table.ts';
import { tensorsBehind } from './predecessors.ts';

/** Limits nested bodies, because a function that calls itself would never end. */
const MAX_DEPTH = 32;
/** Limits all converted bodies: two calls in each of 32 levels would be billions. */
const MAX_CALLS = 20_000;
/** Limits all converted nodes; those of a body count each time it is converted. */
const MAX_STEPS = 2_000_000;

/** How many unsupported nodes get a suggestion for inputs, which takes a search each. */
const MAX_SEARCHES = 50;

/** More than the outputs of any skipped node. */
const MAX_PORTS = 64;

interface Branch {
  readonly condition: Value;
  readonly taken: boolean;
}

/** The state that the graph and all bodies share. */
export interface Conversions {
  readonly tf: TfGraph;
  readonly problems: Problems;
  readonly notes: string[];
  readonly facts: Facts;
  readonly work: {
    calls: number;
    steps: number;
    searches: number;
    /** The current node of the main graph. */
    at: TfNode | undefined;
  };
}

/** Operations that take lists or tables, or pass any value through. */
const KNOWS_LISTS =
  /^(LookupTable|TensorList|TensorArray|EmptyTensorList|While|StatelessWhile|If|StatelessIf|Identity|IdentityN|Enter|Exit)/;

export class Walk {
  /** By `node:port`. */
  readonly values = new Map<string, Value>();
  readonly #branches = new Map<string, readonly Branch[]>();
  readonly #shared: Conversions;
  readonly #g: GraphBuilder;
  readonly #layouts: Layouts;
  readonly #depth: number;

  constructor(shared: Conversions, g: GraphBuilder, layouts: Layouts, depth = 0) {
    if (depth > MAX_DEPTH) refuse(`has functions within functions, more than ${MAX_DEPTH} deep`);
    this.#shared = shared;
    this.#g = g;
    this.#layouts = layouts;
    this.#depth = depth;
  }

  run(nodes: ReadonlyMap<string, TfNode>): void {
    for (const node of nodes.values()) this.#convert(node);
  }

  /** Returns undefined for a tensor that could not be converted. */
  result(tensor: string): Value | undefined {
    const value = this.values.get(tensor);
    if (value === DEAD) refuse(`output "${tensor}" is in a branch of a condition that is never taken`);
    return value === FAILED ? undefined : value;
  }

  #convert(node: TfNode): void {
    const inputs = node.inputs.map((tensor) => this.values.get(tensor) ?? FAILED);
    const { problems, work } = this.#shared;
    if (this.#depth === 0) work.at = node;
    work.steps += 1;
    if (work.steps > MAX_STEPS) refuse(`needs more than ${MAX_STEPS} steps`);
    if (this.#isDead(node, inputs)) return this.#set(node, [DEAD]);
    const merging = node.op === 'Merge' || node.op === 'RefMerge';
    const rule = ruleOf(node.op);
    if (!rule && !merging && !isSwitch(node)) {
      problems.add(node.op, node.name, this.#whyRefused(node));
      return this.#set(node, [FAILED]);
    }
    if (inputs.includes(FAILED)) {
      this.#scan(node);
      return this.#set(node, [FAILED]);
    }
    const made = problems.collect(
      node.op,
      node.name,
      () => {
        if (isSwitch(node)) return this.#switch(node, inputs);
        if (merging) return this.#merge(node, inputs);
        if (inputs.some((input) => input.name === '') && !KNOWS_LISTS.test(node.op))
          refuse('uses a list as if it were a tensor');
        return withValidSizes(() => rule?.(node, inputs as unknown as Operands, this.#g, this.#context()));
      },
      () => wayOut(node.op, this.#behind(node)),
    );
    this.#set(node, made === undefined ? [FAILED] : Array.isArray(made) ? made : [made as Value]);
  }

  #whyRefused(node: TfNode): string {
    return whyRefused(node.op, this.#behind(node));
  }

  /** A tensor inside a function cannot be named as an input, but one after the loop or condition can. */
  #behind(node: TfNode): readonly string[] {
    const { tf, work } = this.#shared;
    const isConverted = (consumer: TfNode) =>
      ruleOf(consumer.op) !== undefined &&
      consumer.op !== 'Identity' &&
      !/^(Stateless)?(While|If)$/.test(consumer.op);
    const isSupported = (other: TfNode, depth = 0): boolean =>
      (ruleOf(other.op) !== undefined || isSwitch(other) || /^(Ref)?Merge$/.test(other.op)) &&
      Object.values(other.attributes).every(
        (value) =>
          value.kind !== 'func' ||
          depth > 2 ||
          [...(tf.functions.get(value.name)?.nodes.values() ?? [])].every((each) =>
            isSupported(each, depth + 1),
          ),
      );
    // Searching for every node would take long in a large graph of unsupported operations.
    work.searches += 1;
    return work.searches > MAX_SEARCHES ? [] : tensorsBehind(tf, work.at ?? node, isConverted, isSupported);
  }

  /** A missing output of a failed or dead node is failed or dead too. */
  #set(node: TfNode, values: readonly Value[]): void {
    const branches = this.#branchesOf(node);
    const [first] = values;
    // A Switch has one dead and one live output.
    const missing = values.length === 1 && (first === FAILED || first === DEAD) ? first : undefined;
    for (let i = 0; i < Math.max(values.length, missing ? MAX_PORTS : 0); i++) {
      const tensor = `${node.name}:${i}`;
      this.values.set(tensor, missing ?? (values[i] as Value));
      if (branches.length > 0 && !this.#branches.has(tensor)) this.#branches.set(tensor, branches);
    }
  }

  #isDead(node: TfNode, inputs: readonly Value[]): boolean {
    if (node.op === 'Merge' || node.op === 'RefMerge') return inputs.every((input) => input === DEAD);
    return inputs.includes(DEAD) || node.controlInputs.some((name) => this.values.get(`${name}:0`) === DEAD);
  }

  #branchesOf(node: TfNode): readonly Branch[] {
    const tensors = [...node.inputs, ...node.controlInputs.map((name) => `${name}:0`)];
    const all = tensors.flatMap((tensor) => this.#branches.get(tensor) ?? []);
    return all.length < 2 ? all : [...new Set(all)];
  }

  #switch(node: TfNode, inputs: readonly Value[]): Value[] {
    const [data, flag] = inputs;
    if (!data || !flag) return refuse(`has ${inputs.length} inputs, needs 2`);
    const condition = cast(this.#g, flag, 'bool');
    if (condition.constant) return Number(condition.constant.data[0]) === 0 ? [data, DEAD] : [DEAD, data];
    const outer = this.#branchesOf(node);
    for (const taken of [false, true])
      this.#branches.set(`${node.name}:${taken ? 1 : 0}`, [...outer, { condition, taken }]);
    return [data, data];
  }

  #merge(node: TfNode, inputs: readonly Value[]): Value[] {
    const g = this.#g;
    const alive = inputs.flatMap((input, i) => (input === DEAD ? [] : [i]));
    const [first, second] = alive;
    if (first === undefined) return [DEAD];
    if (second === undefined) return [inputs[first] as Value, g.scalar('int32', first)];
    if (alive.length > 2) return refuse('merges more than two ways, which is not supported');
    const [a, b] = [first, second].map((i) => this.#branches.get(node.inputs[i] as string) ?? []) as [
      readonly Branch[],
      readonly Branch[],
    ];
    const own = decidedBy(a, b);
    if (!own) return refuse('merges two ways without a condition that decides');
    const [yes, no] = own.taken ? [first, second] : [second, first];
    const rest = [...a, ...b].filter(({ condition }) => condition !== own.condition);
    for (const port of [0, 1]) this.#branches.set(`${node.name}:${port}`, rest);
    const outcomes = [() => [inputs[yes] as Value], () => [inputs[no] as Value]] as const;
    const chosen = choose(g, node.name, own.condition, outcomes, this.#shared.facts);
    const index = g.one('Where', [own.condition, g.scalar('int32', yes), g.scalar('int32', no)]);
    return [chosen?.[0] ?? FAILED, index];
  }

  #context(): Context {
    const { facts, notes } = this.#shared;
    return {
      notes,
      facts,
      layouts: this.#layouts,
      call: (name, inputs, g) => this.#call(name, inputs, g),
      callee: (name) => this.#callee(name),
    };
  }

  #callee(name: string): Callee {
    return (
      this.#shared.tf.functions.get(name) ?? refuse(`calls function "${name}", which is not in the file`)
    );
  }

  #call(name: string, inputs: readonly Value[], g: GraphBuilder): readonly Value[] | undefined {
    const { work } = this.#shared;
    work.calls += 1;
    if (work.calls > MAX_CALLS) refuse(`calls functions more than ${MAX_CALLS} times`);
    const callee = this.#callee(name);
    if (callee.inputs.length > inputs.length)
      refuse(`calls function "${name}" with ${inputs.length} values, it takes ${callee.inputs.length}`);
    const layouts = g === this.#g ? this.#layouts : new Layouts(this.#layouts);
    const inner = new Walk(this.#shared, g, layouts, this.#depth + 1);
    for (const [i, argument] of callee.inputs.entries())
      inner.values.set(`${argument.name}:0`, inputs[i] as Value);
    inner.run(callee.nodes);
    const outputs = callee.outputs.map(({ tensor }) => inner.result(tensor));
    return outputs.every((value) => value !== undefined) ? outputs : undefined;
  }

  /** Also reports unsupported operations in the bodies of a skipped node. */
  #scan(node: TfNode, seen = new Set<string>()): void {
    for (const attribute of Object.values(node.attributes)) {
      const names =
        attribute.kind === 'func'
          ? [attribute.name]
          : attribute.kind === 'list'
            ? attribute.functions.map(({ name }) => name)
            : [];
      for (const name of names) {
        if (seen.has(name)) continue;
        seen.add(name);
        for (const inner of this.#shared.tf.functions.get(name)?.nodes.values() ?? []) {
          if (!ruleOf(inner.op) && !isSwitch(inner) && inner.op !== 'Merge')
            this.#shared.problems.add(inner.op, inner.name, this.#whyRefused(inner));
          this.#scan(inner, seen);
        }
      }
    }
  }
}

function isSwitch(node: TfNode): boolean {
  return node.op === 'Switch' || node.op === 'RefSwitch';
}

/** The innermost condition that separates two branches, and its value for the first. */
function decidedBy(a: readonly Branch[], b: readonly Branch[]): Branch | undefined {
  const opposite = a.findLast((branch) =>
    b.some((other) => other.condition === branch.condition && other.taken !== branch.taken),
  );
  if (opposite) return opposite;
  // One side may be a constant, which has no Switch. Conditions that both share do not separate them.
  const within = (branch: Branch, others: readonly Branch[]) =>
    others.some((other) => other.condition === branch.condition && other.taken === branch.taken);
  const ownA = a.findLast((branch) => !within(branch, b));
  const ownB = b.findLast((branch) => !within(branch, a));
  if (ownA && !ownB) return ownA;
  if (ownB && !ownA) return { condition: ownB.condition, taken: !ownB.taken };
  return undefined;
}
