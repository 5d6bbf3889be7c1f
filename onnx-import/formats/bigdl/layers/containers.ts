/** Modules that run other modules. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { known, product as productOf } from '../../../graph/shapes.ts';
import type { Dim, Shape } from '../../../graph/value.ts';
import { type Activity, type Call, isTable, type Rule, rows, rowsOf } from '../call.ts';
import type { Module } from '../module.ts';

const sequential: Rule = (call) =>
  call.module.children.reduce<Activity>((activity, child) => call.run(child, activity), call.activity);

const concatTable: Rule = (call) => call.module.children.map((child) => call.run(child, call.activity));

const parallelTable: Rule = (call) => {
  const { children } = call.module;
  const { table } = call;
  if (table.length !== children.length)
    throw badModel(`has ${children.length} modules for ${table.length} inputs`);
  return children.map((child, i) => call.run(child, table[i] as Activity));
};

/** The module of a container that repeats one. */
function only(call: Call): Module {
  call.module.ignore('module');
  const [child, ...others] = call.module.children;
  if (child && others.length === 0) return child;
  throw badModel(`needs one module, has ${call.module.children.length}`);
}

const mapTable: Rule = (call) => {
  const [child] = call.module.children;
  call.module.ignore('module');
  if (!child) throw badModel('has no module');
  return call.table.map((each) => call.run(child, each));
};

/** A wrapper of the Keras-style API: its child computes the same. */
export const wrapper: Rule = (call) => {
  const [child, ...others] = call.module.children;
  if (!child || others.length > 0)
    throw badModel('is not supported: it has no module inside that computes it');
  call.module.ignore(...call.module.attributes);
  return call.run(child, call.activity);
};

/** Runs each module once those before it are done. */
const graph: Rule = (call) => {
  const { module } = call;
  const nodes = new Map(module.children.map((child) => [child.name, child]));
  const inputs = module.texts('inputNames');
  module.ignore('stopGradientLayers', 'generateBackward', 'sharedWeight', 'sharedBias');
  if (module.type === 'nn.DynamicGraph') module.ignore('generateBackward');
  const done = new Map<string, Activity>();
  for (const name of nodes.keys()) module.ignore(`${name}_edges`);
  const order = orderOf(module.texts('outputNames'), nodes);
  for (const name of order) {
    const node = nodes.get(name) as Module;
    const at = inputs.indexOf(name);
    const own = at >= 0 ? inputAt(call, at, inputs.length) : undefined;
    const edges = module.entries(`${name}_edges`);
    const before = node.before.filter((each) => nodes.has(each));
    if (own !== undefined && before.length > 0) throw badModel(`input "${name}" also follows other modules`);
    if (own === undefined && before.length === 0) throw badModel(`"${name}" has no input`);
    const parts = before.map((each) => edgeOf(done.get(each) as Activity, edges.get(each) ?? -1));
    done.set(name, call.run(node, own ?? (parts.length === 1 ? (parts[0] as Activity) : parts)));
  }
  const outputs = module.texts('outputNames').map((name) => done.get(name) as Activity);
  return outputs.length === 1 ? (outputs[0] as Activity) : outputs;
};

function inputAt(call: Call, at: number, count: number): Activity {
  if (count === 1) return call.activity;
  const own = call.table[at];
  if (own === undefined) throw badModel(`needs ${count} inputs, got ${call.table.length}`);
  return own;
}

/** An edge takes the whole activity, or one entry of a table. */
function edgeOf(activity: Activity, index: number): Activity {
  if (index === -1 || (index === 1 && !isTable(activity))) return activity;
  const part = isTable(activity) ? activity[index - 1] : undefined;
  if (part === undefined) throw badModel(`an edge takes entry ${index} of what is not such a table`);
  return part;
}

/** The names that the outputs need, each after those before it. @throws bad_model for a loop */
function orderOf(outputs: readonly string[], nodes: ReadonlyMap<string, Module>): string[] {
  const order: string[] = [];
  const state = new Map<string, 'open' | 'done'>();
  const stack = outputs.toReversed();
  if (outputs.length === 0) throw badModel('names no outputs');
  for (let name = stack.at(-1); name !== undefined; name = stack.at(-1)) {
    const node = nodes.get(name);
    if (!node) throw badModel(`has no module "${name}"`);
    const before = node.before.filter((each) => nodes.has(each) && state.get(each) !== 'done');
    if (state.get(name) === 'done' || before.length === 0) {
      stack.pop();
      if (state.get(name) !== 'done') order.push(name);
      state.set(name, 'done');
    } else if (state.get(name) === 'open' && before.some((each) => state.get(each) === 'open')) {
      throw badModel(`"${name}" is in a loop`);
    } else {
      state.set(name, 'open');
      stack.push(...before);
    }
  }
  return order;
}

/** One dimension for several, the first of which may be a batch. */
export function together(call: Call, dims: Shape): Dim {
  const count = rowsOf(dims[0] as Dim);
  const rest = productOf(dims.slice(1));
  if (count !== undefined && typeof rest === 'number') return rows(count * rest);
  return productOf(dims) ?? call.g.fresh();
}

/** Views the leading dimensions as one batch. */
const bottle: Rule = (call) => {
  const { module } = call;
  const child = only(call);
  const [inner, outer] = [module.int('nInputDim'), module.int('nOutputDim1')];
  const shape = known(call.input);
  if (shape.length <= inner) return call.run(child, call.input);
  const cut = shape.length - inner + 1;
  const made = call.value(
    child,
    call.reshape(call.input, [together(call, shape.slice(0, cut)), ...shape.slice(cut)]),
  );
  if (known(made).length !== outer) throw badModel(`its module makes ${formatShape(known(made))}`);
  return call.reshape(made, [...shape.slice(0, cut), ...known(made).slice(1)]);
};

/** A module whose computation is in an attribute. @param names its other attributes */
const held =
  (name: string, ...names: readonly string[]): Rule =>
  (call) => {
    const inner = call.module.module(name);
    if (!inner) throw badModel(`has no module "${name}"`);
    call.module.ignore(...names);
    return call.run(inner, call.activity);
  };

export const CONTAINERS: Readonly<Record<string, Rule>> = {
  Bottle: bottle,
  ConcatTable: concatTable,
  Graph: graph,
  MapTable: mapTable,
  Maxout: held('layer', 'inputSize', 'outputSize', 'maxoutNumber', 'withBias'),
  ParallelTable: parallelTable,
  Sequential: sequential,
  StaticGraph: graph,
};
