/**
 * Decodes the nodes that the wanted tensors need, each after its inputs, with variables replaced by their values. A
 * resource has no dtype in the file, so the dtype is passed from the variable into loops and the bodies of While and
 * If.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { Problems } from '../../problems.ts';
import { splitTensor, type TfAttributes, type TfFunction, type TfNode, type TfType } from '../graph.ts';
import type { OrderedNode } from './array-flow.ts';
import { findLostWrites } from './array-order.ts';
import { readAttributes } from './attributes.ts';
import { type HashTables, isHashTable } from './hash-tables.ts';
import { type CallStack, enter, type Library } from './library.ts';
import { inOrder } from './order.ts';
import type { RawNode } from './raw.ts';
import { carryTypes, constant, copyAttributes, readVariable } from './resources.ts';
import { isAssignment, Scope } from './scope.ts';
import type { DecodedSizeBudget } from './tensor.ts';
import { tfType } from './types.ts';
import { isVariable, type Variables } from './variables.ts';

interface AssembleContext {
  readonly library: Library;
  readonly variables: Variables;
  readonly hashTables: HashTables;
  readonly budget: DecodedSizeBudget;
  readonly problems: Problems;
}

interface Wanted {
  readonly scope: Scope;
  readonly roots: readonly string[];
  /** Tensors given from outside. A variable's resource has the dtype of the variable. */
  readonly fed: ReadonlyMap<string, TfType | undefined>;
  readonly stack: CallStack | undefined;
}

/** The bodies that While, If and similar nodes refer to. */
export class Assembler {
  readonly functions = new Map<string, TfFunction>();
  private readonly context: AssembleContext;
  /** The key of each function body, by its name and the dtypes of the variables it gets. */
  private readonly keys = new Map<string, string>();

  constructor(context: AssembleContext) {
    this.context = context;
  }

  /** The nodes that the roots need, each after its inputs. */
  nodes({ scope, roots, fed, stack }: Wanted): Map<string, TfNode> {
    const { problems, variables, hashTables } = this.context;
    const given = new Set(fed.keys());
    const reached = scope.reach(roots, { fed: given });
    const pivots = pivotsOf(scope, reached);
    for (const name of scope.reach(pivots, { fed: given })) reached.add(name);
    const nodes = new Map<string, TfNode>();
    const resources = new Map<string, TfType>();
    for (const [tensor, type] of fed) if (type !== undefined) resources.set(tensor, type);
    const label = (name: string): string =>
      stack === undefined ? name : `${name}" in function "${stack.name}`;
    for (const name of reached) {
      const raw = scope.nodes.get(name) as RawNode;
      problems.collect(raw.op, label(name), () => {
        const node = isVariable(raw)
          ? constant(name, variables.tensorOf(raw))
          : isHashTable(raw)
            ? hashTables.nodeOf(raw)
            : this.decode(raw, scope, reached);
        nodes.set(name, node);
        if (raw.op === 'VarHandleOp') resources.set(`${name}:0`, typeOf(node));
      });
      // The variable's own problem is reported already; a dtype here avoids a second one at its readers.
      if (raw.op === 'VarHandleOp' && !nodes.has(name)) resources.set(`${name}:0`, 'float32');
    }
    this.refuseLostWrites(scope, roots, given, reached, label);
    variables.assertWhole();
    carryTypes(nodes, resources);
    for (const node of nodes.values()) {
      problems.collect(node.op, label(node.name), () => {
        nodes.set(node.name, this.bodiesOf(readVariable(node, resources), resources, stack));
      });
    }
    const wanted = roots.map((root) => scope.resolve(root));
    return inOrder(nodes, [...pivots, ...wanted], given);
  }

  /** TensorArray writes change memory whether or not the outputs need them. */
  private refuseLostWrites(
    scope: Scope,
    outputs: readonly string[],
    given: ReadonlySet<string>,
    needed: ReadonlySet<string>,
    label: (name: string) => string,
  ): void {
    const isArray = (name: string) => scope.nodes.get(name)?.op.startsWith('TensorArray') === true;
    if (![...needed].some(isArray)) return;
    const all = scope.reach(outputs, { fed: given, control: true });
    const ordered = [...new Set([...needed, ...all])].map((name): [string, OrderedNode] => {
      const { op, inputs, controlInputs } = scope.nodes.get(name) as RawNode;
      return [name, { name, op, inputs: inputs.map((input) => scope.resolve(input)), controlInputs }];
    });
    const resolved = outputs.map((output) => scope.resolve(output));
    findLostWrites(
      { nodes: new Map(ordered), needed, given, outputs: resolved },
      this.context.problems,
      label,
    );
  }

  private decode(raw: RawNode, scope: Scope, reached: ReadonlySet<string>): TfNode {
    const attributes = raw.made ?? readAttributes(raw.attributes, this.context.budget);
    const node = {
      name: raw.name,
      op: raw.op,
      inputs: raw.inputs.map((input) => scope.resolve(input)),
      controlInputs: raw.controlInputs.filter((control) => reached.has(control)),
      attributes,
    };
    if (raw.op !== 'PlaceholderWithDefault') return node;
    // It is not an input, so it is its default value.
    return { ...node, op: 'Identity', attributes: rename(attributes, 'dtype', 'T') };
  }

  /** Reads the functions that the node refers to, with the dtypes of the variables that it passes. */
  private bodiesOf(
    node: TfNode,
    resources: ReadonlyMap<string, TfType>,
    stack: CallStack | undefined,
  ): TfNode {
    const referring = Object.entries(node.attributes).filter(
      ([, value]) => value.kind === 'func' || (value.kind === 'list' && value.functions.length > 0),
    );
    if (referring.length === 0) return node;
    const given = node.inputs.slice(firstArgument(node)).map((input) => resources.get(input));
    const attributes = copyAttributes(node.attributes);
    for (const [name, value] of referring) {
      if (value.kind === 'func') {
        attributes[name] = { ...value, name: this.body(value.name, given, stack) };
      } else if (value.kind === 'list') {
        const functions = value.functions.map((one) => ({ ...one, name: this.body(one.name, given, stack) }));
        attributes[name] = { ...value, functions };
      }
    }
    return { ...node, attributes };
  }

  /** Reads a body once for each combination of variable dtypes. Returns its key in `functions`. */
  private body(name: string, given: readonly (TfType | undefined)[], parent: CallStack | undefined): string {
    const stack = enter(name, parent);
    const call = JSON.stringify([name, given]);
    const known = this.keys.get(call);
    if (known !== undefined) return known;
    const raw = this.context.library.body(name);
    const key = this.functions.has(name) ? `${name} (${this.keys.size})` : name;
    const scope = new Scope(raw.nodes, this.context.library, stack);
    const fed = new Map(raw.inputs.map((input, i) => [`${input.name}:0`, given[i]] as const));
    const roots = raw.outputs.map((output) => output.tensor);
    this.refuseAssignments(scope, roots, fed, raw.controlOutputs);
    const body: TfFunction = {
      name: key,
      inputs: raw.inputs.map((input, i) => ({ name: input.name, dtype: given[i] ?? tfType(input.type) })),
      nodes: this.nodes({ scope, roots, fed, stack }),
      outputs: raw.outputs.map((output) => ({ name: output.name, tensor: scope.resolve(output.tensor) })),
    };
    this.keys.set(call, key);
    this.functions.set(key, body);
    return key;
  }

  private refuseAssignments(
    scope: Scope,
    roots: readonly string[],
    fed: ReadonlyMap<string, unknown>,
    controls: readonly string[],
  ): void {
    const effects = [...scope.nodes.values()]
      .filter((node) => isAssignment(node.op))
      .map((node) => node.name);
    const reached = scope.reach(roots, { fed: new Set(fed.keys()), control: true }, [
      ...controls,
      ...effects,
    ]);
    for (const name of reached) {
      const op = scope.nodes.get(name)?.op ?? '';
      if (isAssignment(op))
        this.context.problems.add(op, name, 'changes a variable while it runs, which is not supported');
    }
  }
}

/** The position among the node's inputs of the first argument of its functions. */
function firstArgument(node: TfNode): number {
  return /^(?:Stateless)?(?:If|Case)$/.test(node.op) ? 1 : 0;
}

/** A merged constant shows the branch it belongs to only by a control input. */
function pivotsOf(scope: Scope, reached: ReadonlySet<string>): string[] {
  const pivots = new Set<string>();
  for (const name of reached) {
    const merge = scope.nodes.get(name) as RawNode;
    if (!/^(?:Ref)?Merge$/.test(merge.op)) continue;
    for (const input of merge.inputs) {
      const source = scope.nodes.get(splitTensor(scope.resolve(input)).node);
      if (source?.op !== 'Const') continue;
      for (const control of source.controlInputs) {
        const pivot = scope.nodes.get(control);
        const from = pivot?.op === 'Identity' ? pivot.inputs[0] : undefined;
        const above = from === undefined ? undefined : scope.nodes.get(splitTensor(scope.resolve(from)).node);
        if (above !== undefined && /^(?:Ref)?Switch$/.test(above.op)) pivots.add(`${control}:0`);
      }
    }
  }
  return [...pivots];
}

function typeOf(node: TfNode): TfType {
  const dtype = node.attributes['dtype'];
  if (dtype?.kind !== 'type') throw badModel(`node "${node.name}" has no dtype`);
  return dtype.value;
}

function rename(attributes: TfAttributes, from: string, to: string): TfAttributes {
  const copy = copyAttributes(attributes);
  const value = copy[from];
  if (value !== undefined) copy[to] = value;
  return copy;
}
