/**
 * Converts While to ONNX's Loop. A list that gets one item per iteration becomes a scan output, because a loop
 * variable would be copied in every iteration. A variable that the body passes through unchanged is not a loop
 * variable.
 */
import type { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumber } from '../../../graph/numbers.ts';
import type { Shape, Value } from '../../../graph/value.ts';
import { functionAttribute, splitTensor, type TfNode } from '../graph.ts';
import { cast } from './kernels.ts';
import { appended, collectedRows, unsizedRows, withRest } from './lists/rows.ts';
import { refuse } from './refuse.ts';
import {
  type Callee,
  type Context,
  FAILED,
  type Facts,
  listValue,
  type OpTable,
  type Rule,
  takes,
} from './rule.ts';

/** Shapes start as those of the initial values; each pass frees dimensions that the body changes. */
const MAX_PASSES = 4;

type Role = 'same' | 'carried' | 'set' | 'pushed';

const HAND_ON = new Set(['Identity', 'StopGradient', 'Snapshot', 'Enter']);

/** The tensor behind nodes that only pass it through. */
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

/** The positions of list and index among a node's inputs. */
const SETTERS: Readonly<Record<string, { list: number; index?: number }>> = {
  TensorArrayWriteV3: { list: 3, index: 1 },
  TensorListPushBack: { list: 0 },
  TensorListSetItem: { list: 0, index: 1 },
};

/** The names of the nodes that use an argument of a function. */
function usersOf(body: Callee, argument: string): string[] {
  return [...body.nodes.values()].flatMap((node) =>
    !HAND_ON.has(node.op) && node.inputs.some((input) => origin(body, input) === argument) ? [node.name] : [],
  );
}

/** Whether a variable starts at 0 and grows by 1 in every iteration. */
function counts(body: Callee, argument: string, initials: readonly Value[]): boolean {
  const at = body.inputs.findIndex(({ name }) => `${name}:0` === argument);
  const output = body.outputs[at];
  const initial = initials[at];
  if (!output || !initial?.constant || constantNumber(initial, 'counter') !== 0) return false;
  const node = body.nodes.get(splitTensor(origin(body, output.tensor)).node);
  if (!node || (node.op !== 'Add' && node.op !== 'AddV2')) return false;
  const inputs = node.inputs.map((input) => origin(body, input));
  if (!inputs.includes(argument)) return false;
  const step = inputs.find((input) => input !== argument) ?? ':0';
  const other = body.nodes.get(splitTensor(step).node);
  const value = other?.op === 'Const' ? other.attributes.value : undefined;
  if (value)
    return value.kind === 'tensor' && value.value.data.length === 1 && Number(value.value.data[0]) === 1;
  // The 1 may be an argument that never changes.
  const from = body.inputs.findIndex(({ name }) => `${name}:0` === step);
  const same = from >= 0 && origin(body, body.outputs[from]?.tensor ?? '') === step;
  const outer = same ? initials[from] : undefined;
  return outer?.constant !== undefined && constantNumber(outer, 'step') === 1;
}

/** Whether the condition uses a variable. */
function asks(condition: Callee, i: number): boolean {
  const argument = `${condition.inputs[i]?.name}:0`;
  if (usersOf(condition, argument).length > 0) return true;
  return condition.outputs.some(({ tensor }) => origin(condition, tensor) === argument);
}

function roleOf(body: Callee, condition: Callee, i: number, initials: readonly Value[]): Role {
  const argument = `${body.inputs[i]?.name}:0`;
  const source = origin(body, body.outputs[i]?.tensor ?? '');
  if (source === argument) return 'same';
  const setter = body.nodes.get(splitTensor(source).node);
  const places = setter && SETTERS[setter.op];
  if (!setter || !places || origin(body, setter.inputs[places.list] ?? '') !== argument) return 'carried';
  // A collected list does not exist inside the iteration, so only its setter may use it.
  const alone =
    usersOf(body, argument).every((name) => name === setter.name) && usersOf(body, source).length === 0;
  const elsewhere = body.outputs.some((output, k) => {
    const from = origin(body, output.tensor);
    return k !== i && (from === source || from === argument);
  });
  if (!alone || elsewhere || asks(condition, i)) return 'carried';
  if (places.index === undefined) return 'pushed';
  return counts(body, origin(body, setter.inputs[places.index] ?? ''), initials) ? 'set' : 'carried';
}

interface Plan {
  readonly node: TfNode;
  readonly body: string;
  readonly condition: string;
  readonly roles: readonly Role[];
  /** The values before the loop. Lists of the role `carried` are tensors. */
  readonly initials: readonly Value[];
}

interface Round {
  readonly builder: GraphBuilder;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly goOn: Value;
}

/** Converts the body for variables of these shapes. Returns undefined when something in it cannot be converted. */
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
    if (role === 'carried') {
      const variable = builder.input(`${name}/${i}`, initial.dtype, shapes[i]);
      if (context.facts.unsized.has(initial)) context.facts.unsized.add(variable);
      return variable;
    }
    const list = listValue(initial.dtype);
    context.facts.collected.set(list, { item: undefined });
    return list;
  });
  const given = context.call(plan.body, inputs, builder);
  if (!given) return undefined;
  // A new list from the body is a tensor in the next iteration, like the old one.
  const outputs = given.map((output, i) =>
    plan.roles[i] === 'carried' ? unsizedRows(builder, output, context.facts) : output,
  );
  const unsized = outputs.findIndex(
    (output, i) =>
      plan.roles[i] === 'carried' &&
      context.facts.unsized.has(output) &&
      !context.facts.unsized.has(plan.initials[i] as Value),
  );
  if (unsized >= 0) refuse('makes a list anew in every round, whose items have no known shape');
  const after = inputs.map((input, i) => (plan.roles[i] === 'carried' ? (outputs[i] as Value) : input));
  const [goOn] = context.call(plan.condition, after, builder) ?? [];
  return goOn && { builder, inputs, outputs, goOn: cast(builder, goOn, 'bool') };
}

/** Frees the dimensions that the body changes. Returns undefined when no shape changed. */
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
  let shapes = plan.initials.map(({ shape }, i): Shape | undefined => {
    if (!context.facts.unsized.has(plan.initials[i] as Value)) return shape;
    // A size of 0 changes in later iterations, so it must not be taken as fixed.
    return shape?.map((dim) => {
      if (dim !== 0) return dim;
      const free = g.fresh();
      loose.add(free);
      return free;
    });
  });
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const round = convertRound(plan, shapes, g, context);
    if (!round) return undefined;
    const next = freed(plan, shapes, round, g, loose);
    if (!next) return { round, shapes };
    shapes = next;
  }
  return refuse('changes the shapes of its variables in a way that is not understood');
}

/** A list that was filled item by item, joined with the initial items that were not overwritten. */
function filledList(role: Role, initial: Value, made: Value, g: GraphBuilder, { facts }: Context): Value {
  const rows = collectedRows(g, initial, made, facts);
  const list = role === 'pushed' ? appended(g, initial, rows, facts) : withRest(g, initial, rows, facts);
  const declared = facts.declared.get(initial);
  if (declared) facts.declared.set(list, declared);
  return list;
}

/** Lists that stay loop variables must be tensors before the loop. */
function prepared(inputs: readonly Value[], roles: readonly Role[], g: GraphBuilder, facts: Facts): Value[] {
  return inputs.map((initial, i) => (roles[i] === 'carried' ? unsizedRows(g, initial, facts) : initial));
}

const loop: Rule = (node, inputs, g, context) => {
  const body = functionAttribute(node, 'body');
  const callee = context.callee(body);
  if (callee.inputs.length !== inputs.length || callee.outputs.length !== inputs.length)
    refuse(`has ${inputs.length} variables, its body ${callee.inputs.length} and ${callee.outputs.length}`);
  const condition = functionAttribute(node, 'cond');
  const asked = context.callee(condition);
  const roles = inputs.map((_, i) => roleOf(callee, asked, i, inputs));
  const initials = prepared(inputs, roles, g, context.facts);
  const plan: Plan = { node, body, condition, roles, initials };
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
      // An item that every iteration sets anew has the shape of the last one.
      const shape = context.facts.unsized.has(initial) ? outputs[i]?.shape : shapes[i];
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
    if (role === 'carried') {
      const variable = made[carried.indexOf(i)] as Value;
      if (context.facts.unsized.has(initial)) context.facts.unsized.add(variable);
      return variable;
    }
    return filledList(role, initial, made[carried.length + lists.indexOf(i)] as Value, g, context);
  });
}

export const LOOPS: OpTable = takes(1, { StatelessWhile: loop, While: loop });
