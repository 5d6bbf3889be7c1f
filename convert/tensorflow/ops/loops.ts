/**
 * While. In: functions for the condition and the body, and the variables they pass on. Out: ONNX's Loop.
 * Trap: a list that gets one item per round would be copied in every round as a variable; it is a scan output instead,
 * and a variable that the body hands on unchanged is no variable.
 */
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber } from '../../graph/numbers.ts';
import type { Shape, Value } from '../../graph/value.ts';
import { functionAttribute, splitTensor, type TfNode } from '../graph.ts';
import { dimOf, shapeList } from './dims.ts';
import { cast, oneNumber } from './kernels.ts';
import { materialize } from './lists.ts';
import {
  type Callee,
  type Context,
  FAILED,
  listValue,
  type OpTable,
  type Rule,
  refuse,
  takes,
} from './rule.ts';

/** Shapes of variables are guessed and then freed where the body changes them; each pass frees more. */
const MAX_PASSES = 4;

type Role = 'same' | 'carried' | 'set' | 'pushed';

const HAND_ON = new Set(['Identity', 'StopGradient', 'Snapshot', 'Enter']);

/** Back through nodes that only hand on. */
function origin(body: Callee, tensor: string): string {
  let at = tensor;
  for (let steps = 0; steps < 1000; steps++) {
    const node = body.nodes.get(splitTensor(at).node);
    const input = node && HAND_ON.has(node.op) ? node.inputs[0] : undefined;
    if (input === undefined) return at;
    at = input;
  }
  return at;
}

/** Position of the list, the index and the item among a node's inputs. */
const SETTERS: Readonly<Record<string, { list: number; index?: number }>> = {
  TensorArrayWriteV3: { list: 3, index: 1 },
  TensorListPushBack: { list: 0 },
  TensorListSetItem: { list: 0, index: 1 },
};

/** Who uses a function's argument, by name of the node. */
function usersOf(body: Callee, argument: string): string[] {
  return [...body.nodes.values()].flatMap((node) =>
    !HAND_ON.has(node.op) && node.inputs.some((input) => origin(body, input) === argument) ? [node.name] : [],
  );
}

/** A variable that grows by 1 in every round from 0. */
function counts(body: Callee, argument: string, initials: readonly Value[]): boolean {
  const at = body.inputs.findIndex(({ name }) => `${name}:0` === argument);
  const output = body.outputs[at];
  const initial = initials[at];
  if (!output || !initial?.constant || constantNumber(initial, 'counter') !== 0) return false;
  const node = body.nodes.get(splitTensor(origin(body, output.tensor)).node);
  if (!node || (node.op !== 'Add' && node.op !== 'AddV2')) return false;
  const inputs = node.inputs.map((input) => origin(body, input));
  if (!inputs.includes(argument)) return false;
  const other = body.nodes.get(splitTensor(inputs.find((input) => input !== argument) ?? ':0').node);
  const value = other?.op === 'Const' ? other.attributes.value : undefined;
  return value?.kind === 'tensor' && value.value.data.length === 1 && Number(value.value.data[0]) === 1;
}

function roleOf(body: Callee, i: number, initials: readonly Value[]): Role {
  const argument = `${body.inputs[i]?.name}:0`;
  const source = origin(body, body.outputs[i]?.tensor ?? '');
  if (source === argument) return 'same';
  const setter = body.nodes.get(splitTensor(source).node);
  const places = setter && SETTERS[setter.op];
  if (!setter || !places || origin(body, setter.inputs[places.list] ?? '') !== argument) return 'carried';
  const alone = usersOf(body, argument).every((name) => name === setter.name);
  if (!alone || body.outputs.some((output, k) => k !== i && origin(body, output.tensor) === source))
    return 'carried';
  if (places.index === undefined) return 'pushed';
  return counts(body, origin(body, setter.inputs[places.index] ?? ''), initials) ? 'set' : 'carried';
}

interface Plan {
  readonly node: TfNode;
  readonly body: string;
  readonly condition: string;
  readonly roles: readonly Role[];
  /** Before the loop; lists of the role `carried` are tensors. */
  readonly initials: readonly Value[];
  /** Those that are nothing before the first round. */
  readonly empty: ReadonlySet<Value>;
}

interface Round {
  readonly builder: GraphBuilder;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly goOn: Value;
}

/** One body with variables of these shapes; undefined when something in it cannot be converted. */
function convertRound(
  plan: Plan,
  shapes: readonly (Shape | undefined)[],
  g: GraphBuilder,
  context: Context,
): Round | undefined {
  const builder = g.body();
  const { name } = plan.node;
  builder.input(`${name}/round`, 'int64', []);
  builder.input(`${name}/go_on`, 'bool', []);
  const inputs = plan.initials.map((initial, i) => {
    const role = plan.roles[i];
    if (role === 'same') return initial;
    if (role === 'carried') return builder.input(`${name}/${i}`, initial.dtype, shapes[i]);
    const list = listValue(initial.dtype);
    context.facts.collected.set(list, { item: undefined });
    return list;
  });
  const outputs = context.call(plan.body, inputs, builder);
  if (!outputs) return undefined;
  const after = inputs.map((input, i) => (plan.roles[i] === 'carried' ? (outputs[i] as Value) : input));
  const [goOn] = context.call(plan.condition, after, builder) ?? [];
  return goOn && { builder, inputs, outputs, goOn: cast(builder, goOn, 'bool') };
}

/** Frees what the body changes; undefined when the shapes hold. */
function freed(
  plan: Plan,
  shapes: readonly (Shape | undefined)[],
  { outputs }: Round,
  g: GraphBuilder,
  loose: Set<string>,
) {
  let changed = false;
  const next = shapes.map((shape, i) => {
    if (plan.roles[i] !== 'carried' || !shape) return shape;
    const given = outputs[i]?.shape;
    if (given?.length !== shape.length) {
      changed = true;
      return undefined;
    }
    return shape.map((dim, axis) => {
      if (dim === given[axis] || (typeof dim === 'string' && loose.has(dim))) return dim;
      changed = true;
      const free = g.fresh();
      loose.add(free);
      return free;
    });
  });
  return changed ? next : undefined;
}

function convertBody(
  plan: Plan,
  g: GraphBuilder,
  context: Context,
): { round: Round; shapes: readonly (Shape | undefined)[] } | undefined {
  const loose = new Set<string>();
  let shapes: readonly (Shape | undefined)[] = plan.initials.map((initial) => initial.shape);
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const round = convertRound(plan, shapes, g, context);
    if (!round) return undefined;
    const next = freed(plan, shapes, round, g, loose);
    if (!next) return { round, shapes };
    shapes = next;
  }
  return refuse('changes the shapes of its variables in a way that is not understood');
}

/** A list that was filled item by item, with what was not reached. */
function filledList(role: Role, initial: Value, rows: Value, g: GraphBuilder, context: Context): Value {
  const reserved = context.facts.reserved.get(initial);
  if (role === 'pushed') return reserved ? rows : g.one('Concat', [initial, rows], { axis: 0 });
  const size = rows.shape?.length;
  if (!reserved || size === undefined) return rows;
  const count = oneNumber(g, reserved.count, 'int64');
  const missing = g.one('Sub', [count, g.one('Shape', [rows], { start: 0, end: 1 })]);
  const none = Array.from({ length: size - 1 }, () => 0);
  const pads = shapeList(g, [0, ...none, missing, ...none]);
  const shape = [dimOf(count, g.fresh), ...(rows.shape ?? []).slice(1)];
  return g.add(
    'Pad',
    [rows, pads],
    {},
    { results: [{ dtype: rows.dtype, shape }], hint: 'list' },
  )[0] as Value;
}

/** Lists that stay variables must be tensors before the loop begins. */
function prepared(
  inputs: readonly Value[],
  roles: readonly Role[],
  g: GraphBuilder,
  context: Context,
): Pick<Plan, 'initials' | 'empty'> {
  const empty = new Set<Value>();
  const initials = inputs.map((initial, i) => {
    if (roles[i] !== 'carried' || initial.name !== '') return initial;
    const reserved = context.facts.reserved.get(initial);
    // One item, which every round sets anew: before the first round it is nothing.
    if (reserved?.count.elements?.[0] !== 1 || !reserved.element)
      return materialize(g, initial, context.facts);
    const dims = [1, ...reserved.element.map((dim) => Math.max(dim, 0))];
    const list = g.one('Expand', [g.scalar(initial.dtype, 0), g.ints(dims)], {}, 'list');
    if (dims.includes(0)) empty.add(list);
    return list;
  });
  return { initials, empty };
}

const loop: Rule = (node, inputs, g, context) => {
  const body = functionAttribute(node, 'body');
  const callee = context.callee(body);
  if (callee.inputs.length !== inputs.length || callee.outputs.length !== inputs.length)
    refuse(`has ${inputs.length} variables, its body ${callee.inputs.length} and ${callee.outputs.length}`);
  const roles = inputs.map((_, i) => roleOf(callee, i, inputs));
  const { initials, empty } = prepared(inputs, roles, g, context);
  const plan: Plan = { node, body, condition: functionAttribute(node, 'cond'), roles, initials, empty };
  const [begin] = context.call(plan.condition, initials, g) ?? [];
  const converted = begin && convertBody(plan, g, context);
  return converted ? finish(plan, begin, converted, g, context) : inputs.map(() => FAILED);
};

function finish(
  plan: Plan,
  begin: Value,
  { round, shapes }: { round: Round; shapes: readonly (Shape | undefined)[] },
  g: GraphBuilder,
  context: Context,
): Value[] {
  const { builder, outputs, goOn } = round;
  const { name } = plan.node;
  const at = (wanted: (role: Role) => boolean) => plan.roles.flatMap((role, i) => (wanted(role) ? [i] : []));
  const carried = at((role) => role === 'carried');
  const lists = at((role) => role === 'set' || role === 'pushed');
  builder.output(`${name}:${g.fresh()}`, goOn);
  for (const i of [...carried, ...lists]) builder.output(`${name}:${g.fresh()}`, outputs[i] as Value);
  const results = [
    ...carried.map((i) => {
      const initial = plan.initials[i] as Value;
      // An item that every round sets anew has the shape of the last one.
      const shape = plan.empty.has(initial) ? outputs[i]?.shape : shapes[i];
      return { dtype: initial.dtype, shape };
    }),
    ...lists.map((i) => {
      const item = outputs[i] as Value;
      return { dtype: item.dtype, shape: item.shape && [g.fresh(), ...item.shape] };
    }),
  ];
  if (results.length === 0) return [...plan.initials];
  const made = g.add(
    'Loop',
    [undefined, cast(g, begin, 'bool'), ...carried.map((i) => plan.initials[i])],
    { body: { body: builder.finish() } },
    { outputs: results.length, results, hint: name },
  );
  return plan.initials.map((initial, i) => {
    const role = plan.roles[i] as Role;
    if (role === 'same') return initial;
    if (role === 'carried') return made[carried.indexOf(i)] as Value;
    return filledList(role, initial, made[carried.length + lists.indexOf(i)] as Value, g, context);
  });
}

export const LOOPS: OpTable = takes(1, { StatelessWhile: loop, While: loop });
