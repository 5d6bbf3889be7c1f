/**
 * Selects what the outputs of a graph or function body need and inlines direct function calls. Only needed calls are
 * inlined: files contain functions that save, restore and train, with operations that have no conversion.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { has, textOf } from '../../../wire/message.ts';
import type { Message, MessageMap } from '../../../wire/table.ts';
import { splitTensor } from '../graph.ts';
import { type CallStack, enter, type Library } from './library.ts';
import type { RawFunction, RawNode } from './raw.ts';
import { allBehind } from './reach.ts';

interface ReachOptions {
  /** The tensors given from outside, where the search ends. */
  readonly fed?: ReadonlySet<string>;
  /** Whether control inputs are followed too. */
  readonly control?: boolean;
}

/** Operations that change a variable or a table. */
const ASSIGNMENT =
  /^LookupTable(?:Import|Insert|Remove)(?:V2)?$|^(?:Resource)?(?:Assign(?:Add|Sub)?(?:VariableOp)?|Scatter(?:Nd)?(?:Update|Add|Sub|Mul|Div|Min|Max)|Apply[A-Z]\w*|SparseApply[A-Z]\w*|StridedSliceAssign|CountUpTo)$/;

export function isAssignment(op: string): boolean {
  return ASSIGNMENT.test(op);
}

/** Limits the chain of functions that only pass a tensor through. */
const MAX_STEPS = 1000;

export class Scope {
  /** The nodes of the file and of inlined functions, by unique name. */
  readonly nodes: Map<string, RawNode>;
  private readonly library: Library;
  private readonly stack: CallStack | undefined;
  /** The outputs of inlined calls, by what they stand for. */
  private readonly aliases = new Map<string, string>();
  /** The nodes that run whenever an inlined call runs. */
  private readonly effects = new Map<string, readonly string[]>();
  private readonly stacks = new Map<string, CallStack>();
  private renamed = 0;

  constructor(nodes: ReadonlyMap<string, RawNode>, library: Library, stack?: CallStack) {
    this.nodes = new Map(nodes);
    this.library = library;
    this.stack = stack;
  }

  /** The tensor that `tensor` stands for. Inlines the calls on the way and passes their names to `onCall`. */
  resolve(tensor: string, onCall?: (call: string) => void): string {
    let current = tensor;
    for (let steps = 0; ; steps += 1) {
      if (steps > MAX_STEPS) {
        throw badModel(`tensor "${tensor}" depends on itself, or is handed on ${MAX_STEPS} times`);
      }
      const { node } = splitTensor(current);
      const raw = this.nodes.get(node);
      if (raw !== undefined && this.inline(raw)) onCall?.(node);
      const next = this.aliases.get(current);
      if (next === undefined) {
        if (this.effects.has(node)) throw badModel(`node "${node}" has no tensor "${current}"`);
        return current;
      }
      current = next;
    }
  }

  /** Like `resolve`, but inlines no calls. */
  peek(tensor: string): string {
    let current = tensor;
    for (let steps = 0; steps < MAX_STEPS; steps += 1) {
      const next = this.aliases.get(current);
      if (next === undefined) break;
      current = next;
    }
    return current;
  }

  /** Makes `tensor` stand for `by`. */
  replace(tensor: string, by: string): void {
    this.aliases.set(tensor, by);
  }

  /** The names of all nodes that the tensors `roots` and the nodes `controls` need. */
  reach(roots: readonly string[], options: ReachOptions = {}, controls: readonly string[] = []): Set<string> {
    const reached = new Set<string>();
    const calls = new Set<string>();
    const pending: { readonly node: RawNode; readonly call: boolean }[] = [];
    const visit = (name: string, consumer: string): void => {
      if (reached.has(name)) return;
      const node = this.nodes.get(name);
      if (node === undefined) throw badModel(`${consumer} needs "${name}", which is not in the file`);
      reached.add(name);
      pending.push({ node, call: false });
    };
    const visitCall = (name: string): void => {
      const node = this.nodes.get(name);
      if (options.control !== true || node === undefined || calls.has(name)) return;
      calls.add(name);
      pending.push({ node, call: true });
    };
    const visitControl = (name: string, consumer: string): void => {
      const node = this.nodes.get(name);
      // Freezing and pruning tools leave some control inputs without a node.
      if (node === undefined) return;
      if (this.inline(node)) visitCall(name);
      else visit(name, consumer);
    };
    const visitTensor = (tensor: string, consumer: string): void => {
      const resolved = this.resolve(tensor, visitCall);
      if (options.fed?.has(resolved) !== true) visit(splitTensor(resolved).node, consumer);
    };
    for (const root of roots) visitTensor(root, `output "${root}"`);
    for (const control of controls) visitControl(control, 'the file');
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      const { node, call } = next;
      const consumer = `node "${node.name}" (${node.op})`;
      if (!call) for (const input of node.inputs) visitTensor(input, consumer);
      if (options.control !== true) continue;
      for (const control of node.controlInputs) visitControl(control, consumer);
      if (call) for (const effect of this.effects.get(node.name) ?? []) visitControl(effect, consumer);
    }
    return reached;
  }

  /** Those of these nodes that run only in one branch of a TensorFlow 1 condition. */
  behindSwitch(names: ReadonlySet<string>): Set<string> {
    const consumers = new Map<string, string[]>();
    const switches: string[] = [];
    for (const name of names) {
      const node = this.nodes.get(name);
      if (node === undefined) continue;
      if (/^(?:Ref)?Switch$/.test(node.op)) switches.push(name);
      const before = node.inputs.map((input) => splitTensor(this.peek(input)).node);
      for (const producer of [...before, ...node.controlInputs]) {
        const list = consumers.get(producer);
        if (list === undefined) consumers.set(producer, [name]);
        else list.push(name);
      }
    }
    return allBehind(switches, consumers);
  }

  /** Inlines the node if it is a direct call. Returns whether it is. */
  private inline(call: RawNode): boolean {
    if (this.effects.has(call.name)) return true;
    const callee = call.made === undefined ? this.library.calleeOf(call) : undefined;
    if (callee === undefined) return false;
    const stack = enter(callee.name, this.stacks.get(call.name) ?? this.stack);
    const body = this.library.body(callee.name);
    if (call.inputs.length !== body.inputs.length) {
      throw badModel(
        `node "${call.name}" gives function "${body.name}" ${call.inputs.length} inputs, it takes ${body.inputs.length}`,
      );
    }
    this.effects.set(call.name, this.addBody(call, body, callee.attributes, stack));
    return true;
  }

  /** Returns the names of the body's nodes with side effects. */
  private addBody(call: RawNode, body: RawFunction, attributes: MessageMap, stack: CallStack): string[] {
    const names = new Map<string, string>();
    for (const name of body.nodes.keys()) names.set(name, this.unusedName(`${call.name}/${name}`));
    const given = new Map(body.inputs.map(({ name }, i) => [`${name}:0`, call.inputs[i] ?? '']));
    const rename = (name: string): string => names.get(name) ?? `${call.name}/${name}`;
    const map = (tensor: string): string => {
      const { node, port } = splitTensor(tensor);
      return given.get(tensor) ?? `${rename(node)}:${port}`;
    };
    const effects = body.controlOutputs.map(rename);
    for (const node of body.nodes.values()) {
      const name = rename(node.name);
      if (isAssignment(node.op) || node.op === 'StatefulPartitionedCall') effects.push(name);
      this.stacks.set(name, stack);
      this.nodes.set(name, {
        ...node,
        name,
        inputs: node.inputs.map(map),
        controlInputs: node.controlInputs.filter((control) => names.has(control)).map(rename),
        attributes: fillPlaceholders(node.attributes, attributes),
      });
    }
    for (const [port, { tensor }] of body.outputs.entries())
      this.aliases.set(`${call.name}:${port}`, map(tensor));
    return effects;
  }

  unusedName(name: string): string {
    let unused = name;
    while (this.nodes.has(unused)) {
      this.renamed += 1;
      unused = `${name}_inlined_${this.renamed}`;
    }
    return unused;
  }
}

/** Replaces references to the function's attributes by the caller's values. */
function fillPlaceholders(attributes: MessageMap, given: MessageMap): MessageMap {
  let filled: Map<string | number, Message> | undefined;
  for (const [name, value] of attributes as ReadonlyMap<string, Message>) {
    if (!has(value, 'placeholder')) continue;
    const actual = given.get(textOf(value, 'placeholder')) as Message | undefined;
    if (actual === undefined) continue;
    filled ??= new Map(attributes as ReadonlyMap<string, Message>);
    filled.set(name, actual);
  }
  return filled ?? attributes;
}
