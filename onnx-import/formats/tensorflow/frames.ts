/**
 * Rewrites TensorFlow 1 loops (Enter, Merge, Switch, NextIteration, Exit) as While nodes with functions for condition
 * and body, as TensorFlow 2 writes them. Nested loops are replaced from the innermost outwards.
 */
import { splitTensor, type TfFunction, type TfGraph, type TfNode, textAttribute, usersOf } from './graph.ts';
import { refuse } from './ops/refuse.ts';

type Nodes = ReadonlyMap<string, TfNode>;

/** A loop is visited once for each loop around it. */
const MAX_FRAMES = 1000;

type Users = (tensor: string) => readonly TfNode[];

interface Entry {
  readonly argument: string;
  /** The value before the loop. */
  readonly initial: string;
}

interface Variable extends Entry {
  /** The value for the next iteration. */
  readonly next: string;
}

interface Frame {
  readonly variables: readonly Variable[];
  /** Values that do not change in the loop. */
  readonly constants: readonly Entry[];
  readonly condition: string;
  /** The loop's tensors that are arguments, as the body and the condition see them. */
  readonly names: ReadonlyMap<string, string>;
  readonly exits: ReadonlyMap<string, number>;
}

/** Returns the graph unchanged when it has no such loop. */
export function withoutFrames(tf: TfGraph): TfGraph {
  const entries = new Map<string, TfNode[]>();
  for (const node of [...tf.nodes.values()].filter(isEnter)) {
    const frame = textAttribute(node, 'frame_name');
    entries.set(frame, [...(entries.get(frame) ?? []), node]);
  }
  if (entries.size === 0) return tf;
  if (entries.size > MAX_FRAMES) refuse(`has ${entries.size} loops, the limit is ${MAX_FRAMES}`);
  const functions = new Map(tf.functions);
  const nodes = new Map(tf.nodes);
  const consumers = usersOf(tf);
  const users: Users = (tensor) => consumers.get(tensor) ?? [];
  const frames = new Map([...entries].map(([name, list]) => [name, readFrame(name, list, nodes, users)]));
  while (frames.size > 0) {
    const before = frames.size;
    for (const [name, frame] of frames) if (takeOut(name, frame, nodes, functions)) frames.delete(name);
    if (frames.size === before)
      refuse(`has loops that are not understood: ${[...frames.keys()].slice(0, 5).join(', ')}`);
  }
  const roots = tf.outputs.map(({ tensor }) => tensor);
  return { ...tf, functions, nodes: inOrder(nodes, roots, new Map(), tf.file).nodes };
}

/** Replaces one loop. Returns false while another loop is inside it. */
function takeOut(
  name: string,
  frame: Frame,
  nodes: Map<string, TfNode>,
  functions: Map<string, TfFunction>,
): boolean {
  const condition = inOrder(nodes, [frame.condition], frame.names, name);
  const next = frame.variables.map((variable) => variable.next);
  const body = inOrder(nodes, next, frame.names, name);
  if (condition.loops || body.loops) return false;
  const inputs = [...frame.variables, ...frame.constants].map(({ argument }) => ({
    name: argument,
    dtype: 'float32' as const,
  }));
  const same = frame.constants.map(({ argument }) => `${argument}:0`);
  const outputs = [...next.map((tensor) => frame.names.get(tensor) ?? tensor), ...same];
  const describe = (tensors: readonly string[]) => tensors.map((tensor) => ({ name: tensor, tensor }));
  const [bodyName, conditionName, loop] = ['body', 'condition', 'loop'].map((part) => `${name}/${part}`) as [
    string,
    string,
    string,
  ];
  functions.set(bodyName, { name: bodyName, inputs, outputs: describe(outputs), nodes: body.nodes });
  const goOn = [frame.names.get(frame.condition) ?? frame.condition];
  functions.set(conditionName, {
    name: conditionName,
    inputs,
    outputs: describe(goOn),
    nodes: condition.nodes,
  });
  for (const [exit, index] of frame.exits) {
    const node = nodes.get(exit) as TfNode;
    nodes.set(exit, { ...node, op: 'Identity', inputs: [`${loop}:${index}`], controlInputs: [] });
  }
  nodes.set(loop, {
    name: loop,
    op: 'While',
    inputs: [...frame.variables, ...frame.constants].map(({ initial }) => initial),
    controlInputs: [],
    attributes: {
      body: { kind: 'func', name: bodyName, attributes: {} },
      cond: { kind: 'func', name: conditionName, attributes: {} },
    },
  });
  return true;
}

function readFrame(name: string, entries: readonly TfNode[], nodes: Nodes, users: Users): Frame {
  const names = new Map<string, string>();
  const exits = new Map<string, number>();
  const variables: Variable[] = [];
  const constants: Entry[] = [];
  let condition: string | undefined;
  for (const enter of entries) {
    const initial =
      enter.inputs[0] ?? refuse(`loop "${name}" has an Enter without an input (node "${enter.name}")`);
    const merge = users(`${enter.name}:0`).find(isMerge);
    if (!merge) {
      const argument = `${name}/constant_${constants.length}`;
      names.set(`${enter.name}:0`, `${argument}:0`);
      constants.push({ argument, initial });
      continue;
    }
    const argument = `${name}/variable_${variables.length}`;
    names.set(`${merge.name}:0`, `${argument}:0`);
    for (const each of users(`${merge.name}:0`).filter(isSwitch)) {
      names.set(`${each.name}:1`, `${argument}:0`);
      const test = nodes.get(splitTensor(each.inputs[1] ?? ':0').node);
      if (test?.op === 'LoopCond') condition = test.inputs[0];
      for (const exit of users(`${each.name}:0`).filter(isExit)) exits.set(exit.name, variables.length);
    }
    variables.push({ argument, initial, next: wayBack(name, merge, nodes) });
  }
  if (condition === undefined) return refuse(`loop "${name}" has no condition`);
  return { variables, constants, condition, names, exits };
}

function wayBack(name: string, merge: TfNode, nodes: Nodes): string {
  const from = merge.inputs.map((input) => nodes.get(splitTensor(input).node));
  const back = from.find((node) => node && /^(Ref)?NextIteration$/.test(node.op));
  return back?.inputs[0] ?? refuse(`loop "${name}" has a variable without a way back (node "${merge.name}")`);
}

/** The nodes that `roots` need, each after its inputs. The search ends at the arguments `names`. */
function inOrder(
  nodes: Nodes,
  roots: readonly string[],
  names: ReadonlyMap<string, string>,
  where: string,
): { nodes: Map<string, TfNode>; loops: boolean } {
  const ordered = new Map<string, TfNode>();
  const open = new Set<string>();
  const steps: { readonly node: TfNode; next: number }[] = [];
  let loops = false;
  let cycle: string | undefined;
  const enter = (tensor: string) => {
    if (names.has(tensor)) return;
    const node = nodes.get(splitTensor(tensor).node);
    if (!node || ordered.has(node.name)) return;
    if (isEnter(node) || isExit(node)) loops = true;
    if (open.has(node.name)) {
      cycle = node.name;
      return;
    }
    open.add(node.name);
    steps.push({ node, next: 0 });
  };
  for (const root of roots) {
    enter(root);
    for (let step = steps.at(-1); step !== undefined; step = steps.at(-1)) {
      const input = step.node.inputs[step.next];
      step.next += 1;
      if (input !== undefined) enter(input);
      else {
        steps.pop();
        open.delete(step.node.name);
        const inputs = step.node.inputs.map((tensor) => names.get(tensor) ?? tensor);
        const controlInputs = names.size === 0 ? step.node.controlInputs : [];
        ordered.set(step.node.name, { ...step.node, inputs, controlInputs });
      }
    }
  }
  // A loop that is not replaced yet is a legitimate cycle.
  if (cycle !== undefined && !loops) refuse(`${where} has a cycle at node "${cycle}"`);
  return { nodes: ordered, loops };
}

function isEnter({ op }: TfNode): boolean {
  return op === 'Enter' || op === 'RefEnter';
}

function isExit({ op }: TfNode): boolean {
  return op === 'Exit' || op === 'RefExit';
}

function isMerge({ op }: TfNode): boolean {
  return op === 'Merge' || op === 'RefMerge';
}

function isSwitch({ op }: TfNode): boolean {
  return op === 'Switch' || op === 'RefSwitch';
}
