/**
 * Finds the tensor of each variable. The key of a variable in the file is not its name: the graph's restore
 * operations map keys to variables, and names and the object graph are used only when these are missing.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { readMessage } from '../../wire/binary.ts';
import { bytesOf, messageOf, messagesOf, numberOf, textOf } from '../../wire/message.ts';
import type { Message } from '../../wire/table.ts';
import { splitTensor } from '../graph.ts';
import type { Bundle } from './bundle/bundle.ts';
import { listNodes } from './nodes.ts';
import type { RawNode } from './raw.ts';
import type { Scope } from './scope.ts';
import { OBJECT_GRAPH } from './tables.ts';
import { type DecodedSizeBudget, readShape, readTensor } from './tensor.ts';
import { tfType } from './types.ts';

const OPERATIONS = new Set([
  'VarHandleOp',
  'VariableV2',
  'Variable',
  'AutoReloadVariable',
  'TemporaryVariable',
]);
const OBJECT_GRAPH_KEY = '_CHECKPOINTABLE_OBJECT_GRAPH';
/** The operations that may lie between a value and the variable it is assigned to. */
const HANDED_ON = new Set(['Identity', 'Reshape', 'ReadVariableOp']);
const MAX_STEPS = 20;

export function isVariable(node: RawNode): boolean {
  return OPERATIONS.has(node.op);
}

interface VariableSource {
  readonly scope: Scope;
  readonly bundle: Bundle | undefined;
  /** The node that restores all variables, if the file names it. */
  readonly restoreNode: string;
  /** Added to the error about a variable when there is no bundle. */
  readonly advice: string;
  readonly budget: DecodedSizeBudget;
}

interface Saved {
  readonly key: string;
  readonly part: string;
}

export class Variables {
  /** The variables that are in no file and start as a constant. */
  readonly initial: string[] = [];
  private readonly source: VariableSource;
  private readonly tensors = new Map<string, Tensor>();
  private readonly values = new Map<string, Tensor>();
  private readonly texts = new Map<Message, readonly string[]>();
  private assigned: ReadonlyMap<string, readonly string[]> | undefined;
  private fullNames: ReadonlyMap<string, string> | undefined;

  constructor(source: VariableSource) {
    this.source = source;
  }

  /** @throws bad_model when its value is unknown */
  tensorOf(variable: RawNode): Tensor {
    let tensor = this.tensors.get(variable.name);
    if (tensor === undefined) {
      tensor = this.find(variable);
      checkFit(variable, tensor);
      this.tensors.set(variable.name, tensor);
    }
    return tensor;
  }

  /**
   * Finds the restore operations of the variables among `names`, once.
   * @throws bad_model for all variables together when the model came without their file
   */
  prepare(names: readonly string[]): void {
    const { scope, bundle, advice } = this.source;
    const variables = names.flatMap((name) => scope.nodes.get(name) ?? []).filter(isVariable);
    if (variables.length === 0) return;
    this.assigned ??= this.collectAssigned();
    if (bundle !== undefined) return;
    const open = variables.filter((variable) => this.initialValue(variable) === undefined);
    if (open.length === 0) return;
    throw badModel(`${advice}. These variables have no values: ${listNodes(open)}`);
  }

  /** @throws bad_model when files of requested variables are missing or damaged */
  assertWhole(): void {
    this.source.bundle?.assertWhole();
  }

  /** A constant, or a tensor that is restored from the saved ones; undefined when it is computed. */
  contentOf(tensor: string): Tensor | undefined {
    const { bundle, budget } = this.source;
    const saved = this.restoredFrom(tensor);
    if (saved !== undefined) return bundle?.read(saved.key, saved.part);
    const node = this.origin(tensor);
    const content = node?.op === 'Const' ? tensorAttribute(node) : undefined;
    return content === undefined ? undefined : readTensor(content, budget);
  }

  isSaved(tensor: string): boolean {
    return this.restoredFrom(tensor) !== undefined;
  }

  private find(variable: RawNode): Tensor {
    const { bundle, advice, budget } = this.source;
    const saved = bundle === undefined ? undefined : this.savedFor(variable, bundle);
    if (bundle !== undefined && saved !== undefined) {
      // Several nodes may be one variable: each inlined copy of a function has its own node for it.
      const where = JSON.stringify(saved);
      const tensor = this.values.get(where) ?? bundle.read(saved.key, saved.part);
      this.values.set(where, tensor);
      return tensor;
    }
    const initial = this.initialValue(variable);
    if (initial !== undefined) {
      this.initial.push(variable.name);
      return readTensor(initial, budget);
    }
    const where = bundle === undefined ? advice : `it is not in ${bundle.file}`;
    throw badModel(`the variable has no value: ${where}`);
  }

  private savedFor(variable: RawNode, bundle: Bundle): Saved | undefined {
    for (const value of this.valuesOf(variable)) {
      const saved = this.restoredFrom(value);
      if (saved !== undefined) return saved;
    }
    const shared = textAttribute(variable, 'shared_name');
    for (const key of [variable.name, shared]) {
      if (bundle.has(key)) return { key, part: '' };
    }
    const names = this.objectNames(bundle);
    const key = names.get(shared) ?? names.get(variable.name);
    return key === undefined || !bundle.has(key) ? undefined : { key, part: '' };
  }

  /** TensorFlow fills a variable that is not saved with its initial value when it loads the model. */
  private initialValue(variable: RawNode): Message | undefined {
    for (const value of this.valuesOf(variable)) {
      const node = this.origin(value);
      const content = node?.op === 'Const' ? tensorAttribute(node) : undefined;
      if (content !== undefined) return content;
    }
    return undefined;
  }

  /** The tensors assigned to a variable anywhere in the graph, restored ones first. */
  valuesOf(variable: RawNode): readonly string[] {
    this.assigned ??= this.collectAssigned();
    // Nodes with the same shared name are one variable; a function may have its own node for it.
    return this.assigned.get(variable.name) ?? this.assigned.get(sharedKey(variable)) ?? [];
  }

  /** Only the restore operation is followed into functions; functions that save or train are not inlined. */
  inlineRestore(): ReadonlySet<string> {
    const { scope, restoreNode } = this.source;
    return scope.nodes.has(restoreNode) ? scope.reach([], { control: true }, [restoreNode]) : new Set();
  }

  private collectAssigned(): Map<string, string[]> {
    const { scope } = this.source;
    const restoring = this.inlineRestore();
    const assigned = new Map<string, string[]>();
    for (const name of [...restoring, ...scope.nodes.keys()]) {
      const node = scope.nodes.get(name);
      const [target, value] = node?.inputs ?? [];
      if (node === undefined || target === undefined || value === undefined) continue;
      if (node.op !== 'Assign' && node.op !== 'AssignVariableOp') continue;
      const variable = this.origin(target);
      if (variable === undefined) continue;
      for (const key of new Set([variable.name, sharedKey(variable)])) {
        const values = assigned.get(key);
        if (values === undefined) assigned.set(key, [value]);
        else values.push(value);
      }
    }
    return assigned;
  }

  private restoredFrom(tensor: string): Saved | undefined {
    const { scope } = this.source;
    let current = scope.peek(tensor);
    for (let steps = 0; steps < MAX_STEPS; steps += 1) {
      const { node: name, port } = splitTensor(current);
      const node = scope.nodes.get(name);
      if (node === undefined) return undefined;
      if (node.op === 'RestoreV2') {
        const key = this.textsOf(node.inputs[1])[port];
        return key === undefined ? undefined : { key, part: this.textsOf(node.inputs[2])[port] ?? '' };
      }
      if (!HANDED_ON.has(node.op)) return undefined;
      current = scope.peek(node.inputs[0] ?? '');
    }
    return undefined;
  }

  /** The node that computes a tensor, looking through nodes that only pass it on. */
  origin(tensor: string): RawNode | undefined {
    const { scope } = this.source;
    let node: RawNode | undefined;
    let current = tensor;
    for (let steps = 0; steps < MAX_STEPS; steps += 1) {
      node = scope.nodes.get(splitTensor(scope.peek(current)).node);
      if (node === undefined || !HANDED_ON.has(node.op)) return node;
      current = node.inputs[0] ?? '';
    }
    return node;
  }

  private textsOf(tensor: string | undefined): readonly string[] {
    const node = tensor === undefined ? undefined : this.origin(tensor);
    const content = node?.op === 'Const' ? tensorAttribute(node) : undefined;
    if (content === undefined) return [];
    // All variables share one list of keys, so it is decoded once.
    const known = this.texts.get(content);
    if (known !== undefined) return known;
    const { dtype, data } = readTensor(content, this.source.budget);
    const texts = dtype === 'string' ? data : [];
    this.texts.set(content, texts);
    return texts;
  }

  /** Keys by variable name, from the object graph. Ambiguous names are left out. */
  private objectNames(bundle: Bundle): ReadonlyMap<string, string> {
    if (this.fullNames !== undefined) return this.fullNames;
    const names = new Map<string, string>();
    const twice = new Set<string>();
    const bytes = bundle.readBytes(OBJECT_GRAPH_KEY);
    const graph = bytes === undefined ? undefined : readMessage(bytes, OBJECT_GRAPH, { what: bundle.file });
    for (const node of graph === undefined ? [] : messagesOf(graph, 'nodes')) {
      for (const attribute of messagesOf(node, 'attributes')) {
        const name = textOf(attribute, 'full_name');
        if (names.has(name)) twice.add(name);
        names.set(name, textOf(attribute, 'checkpoint_key'));
      }
    }
    for (const name of [...twice, '']) names.delete(name);
    this.fullNames = names;
    return names;
  }
}

/** The colon keeps this apart from node names, which have none. */
export function sharedKey(variable: RawNode): string {
  const shared = textAttribute(variable, 'shared_name');
  return shared === '' ? variable.name : `shared:${shared}`;
}

export function textAttribute(node: RawNode, name: string): string {
  const value = node.attributes.get(name) as Message | undefined;
  return value === undefined ? '' : Buffer.from(bytesOf(value, 's')).toString('utf8');
}

function tensorAttribute(node: RawNode): Message | undefined {
  const value = node.attributes.get('value') as Message | undefined;
  return value === undefined ? undefined : messageOf(value, 'tensor');
}

/** The stored tensor must match the dtype and shape of the variable in the graph. */
function checkFit(variable: RawNode, tensor: Tensor): void {
  const dtype = variable.attributes.get('dtype') as Message | undefined;
  const type = dtype === undefined ? tensor.dtype : tfType(numberOf(dtype, 'type'));
  if (typeof type === 'string' && type !== tensor.dtype) {
    throw badModel(`the variable is ${type} and its value in the file is ${tensor.dtype}`);
  }
  const attribute = variable.attributes.get('shape') as Message | undefined;
  const shape = attribute === undefined ? undefined : readShape(messageOf(attribute, 'shape'));
  // In old files an empty shape means unspecified.
  if (shape === undefined || shape.length === 0) return;
  const fits =
    shape.length === tensor.shape.length && shape.every((dim, i) => dim === -1 || dim === tensor.shape[i]);
  if (fits) return;
  throw badModel(
    `the variable is of shape [${shape.join(',')}] and its value in the file of [${tensor.shape.join(',')}]`,
  );
}
