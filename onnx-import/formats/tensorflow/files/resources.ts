/**
 * Replaces variables by their values. A variable reaches its reader through Identity, Switch, Enter and loop
 * arguments; the type attribute of each says `resource` and must be changed to the dtype of the variable.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { intAttribute, type TfAttribute, type TfAttributes, type TfNode, type TfType } from '../graph.ts';

interface Carrier {
  /** The attribute with the input types. */
  readonly attribute: string;
  /** How many inputs come before those that the attribute describes. */
  readonly skipped: number;
  /** The outputs that get the input: `same` is the one at its own position, a number is the first so many outputs. */
  readonly outputs: 'same' | 'none' | number;
}

const CARRIERS: ReadonlyMap<string, Carrier> = new Map([
  ...each(
    'Identity RefIdentity StopGradient Enter RefEnter Exit RefExit NextIteration RefNextIteration',
    'T',
    0,
    1,
  ),
  ...each('Merge RefMerge', 'T', 0, 1),
  ...each('Switch RefSwitch', 'T', 0, 2),
  ...each('IdentityN While StatelessWhile', 'T', 0, 'same'),
  ...each('If StatelessIf Case StatelessCase', 'Tin', 1, 'none'),
]);

function each(
  operations: string,
  attribute: string,
  skipped: number,
  outputs: Carrier['outputs'],
): (readonly [string, Carrier])[] {
  return operations.split(' ').map((operation) => [operation, { attribute, skipped, outputs }] as const);
}

/** Adds every tensor that carries a variable to `resources`, and gives its nodes the variable's type. */
export function carryTypes(nodes: Map<string, TfNode>, resources: Map<string, TfType>): void {
  if (resources.size === 0) return;
  const consumers = new Map<string, { readonly name: string; readonly index: number }[]>();
  for (const node of nodes.values()) {
    if (!CARRIERS.has(node.op)) continue;
    for (const [index, input] of node.inputs.entries()) {
      const list = consumers.get(input);
      if (list === undefined) consumers.set(input, [{ name: node.name, index }]);
      else list.push({ name: node.name, index });
    }
  }
  const places = new Map<string, Map<number, TfType>>();
  const pending = [...resources.keys()];
  for (let tensor = pending.pop(); tensor !== undefined; tensor = pending.pop()) {
    const type = resources.get(tensor);
    for (const { name, index } of consumers.get(tensor) ?? []) {
      const node = nodes.get(name);
      const carrier = node === undefined ? undefined : CARRIERS.get(node.op);
      if (node === undefined || carrier === undefined || type === undefined) continue;
      const place = index - carrier.skipped;
      if (place < 0) continue;
      places.set(name, (places.get(name) ?? new Map<number, TfType>()).set(place, type));
      for (const port of outputsOf(carrier, place)) {
        const output = `${name}:${port}`;
        if (resources.has(output)) continue;
        resources.set(output, type);
        pending.push(output);
      }
    }
  }
  for (const [name, types] of places) {
    const node = nodes.get(name);
    const attribute = node === undefined ? undefined : CARRIERS.get(node.op)?.attribute;
    if (node !== undefined && attribute !== undefined) nodes.set(name, withTypes(node, attribute, types));
  }
}

function outputsOf({ outputs }: Carrier, place: number): number[] {
  if (outputs === 'none') return [];
  return outputs === 'same' ? [place] : Array.from({ length: outputs }, (_, port) => port);
}

function withTypes(node: TfNode, name: string, places: ReadonlyMap<number, TfType>): TfNode {
  const attribute = node.attributes[name];
  if (attribute?.kind === 'list') {
    const types = attribute.types.map((type, place) => places.get(place) ?? type);
    return withAttribute(node, name, { ...attribute, types });
  }
  const type = places.get(0) ?? [...places.values()][0];
  return type === undefined ? node : withAttribute(node, name, { kind: 'type', value: type });
}

/** Turns a node that reads a variable into one that takes a value, and returns any other node unchanged. */
export function readVariable(node: TfNode, resources: ReadonlyMap<string, TfType>): TfNode {
  const type = resources.get(node.inputs[0] ?? '');
  switch (node.op) {
    case 'ReadVariableOp':
      return { ...withAttribute(node, 'T', { kind: 'type', value: known(type) }), op: 'Identity' };
    case 'ResourceGather':
      known(type);
      if (intAttribute(node, 'batch_dims', 0) !== 0) throw badModel('needs batch_dims 0');
      return { ...node, op: 'Gather' };
    case 'ResourceGatherNd':
      known(type);
      return { ...node, op: 'GatherNd' };
    case 'VariableShape':
      return { ...withAttribute(node, 'T', { kind: 'type', value: known(type) }), op: 'Shape' };
    case 'VarIsInitializedOp':
    case 'IsVariableInitialized':
      // Every variable is initialized here.
      return { ...constant(node.name, TRUE), controlInputs: node.controlInputs };
    default:
      return node;
  }
}

const TRUE: Tensor = { dtype: 'bool', shape: [], data: new Uint8Array([1]) };

export function constant(name: string, value: Tensor): TfNode {
  const attributes = {
    dtype: { kind: 'type', value: value.dtype },
    value: { kind: 'tensor', value },
  } as const;
  return { name, op: 'Const', inputs: [], controlInputs: [], attributes };
}

function known(type: TfType | undefined): TfType {
  if (type !== undefined) return type;
  throw badModel('reads a resource that is not a variable of this file');
}

function withAttribute(node: TfNode, name: string, attribute: TfAttribute): TfNode {
  return { ...node, attributes: Object.assign(copyAttributes(node.attributes), { [name]: attribute }) };
}

export function copyAttributes(attributes: TfAttributes): Record<string, TfAttribute> {
  return Object.assign(Object.create(null) as Record<string, TfAttribute>, attributes);
}
