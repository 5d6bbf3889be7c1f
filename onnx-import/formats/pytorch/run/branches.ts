/** An `if` that the data decide: both branches are built, and ONNX's If chooses among their results. */
import type { GraphBuilder } from '../../../graph/builder.ts';
import type { Value, ValueType } from '../../../graph/value.ts';
import type { Context } from './context.ts';
import { Expr } from './sizes.ts';
import { TensorRef } from './tensor.ts';
import { Float, isNumber, List, type Py, refuse, Scalar, Tuple, Unset } from './values.ts';

export type Variables = Map<string, Py>;

/** What a branch ends with: its variables, with tensors and numbers made values of its own graph. */
interface Outcome {
  readonly body: GraphBuilder;
  readonly variables: Variables;
  readonly values: Map<Py, Value>;
}

/** Runs both branches on copies of the variables, and sets those that both have to the chosen result. */
export function chooseBranch(
  c: Context,
  condition: Scalar,
  variables: Variables,
  branches: readonly [(own: Variables) => void, (own: Variables) => void],
): void {
  const [yes, no] = branches.map((run) => outcomeOf(c, variables, run)) as [Outcome, Outcome];
  const pairs: (readonly [Value, Value])[] = [];
  const makers: { readonly name: string; readonly make: (chosen: readonly Value[]) => Py }[] = [];
  for (const [name, value] of yes.variables) {
    const other = no.variables.get(name);
    if (other === undefined || (value === other && variables.get(name) === value)) continue;
    makers.push({ name, make: merge(c, value, other, [yes, no], pairs) });
  }
  const results = pairs.map((pair) => typeOf(c, pair));
  for (const [a, b] of pairs) {
    yes.body.output(`then_${c.g.fresh()}`, a);
    no.body.output(`else_${c.g.fresh()}`, b);
  }
  const attributes = { then_branch: { body: yes.body.finish() }, else_branch: { body: no.body.finish() } };
  const chosen =
    pairs.length === 0
      ? []
      : c.g.add('If', [condition.value], attributes, { outputs: results.length, results });
  for (const { name, make } of makers) variables.set(name, make(chosen));
}

function outcomeOf(c: Context, outer: Variables, run: (own: Variables) => void): Outcome {
  return c.branch((body) => {
    const variables = new Map(outer);
    run(variables);
    const values = new Map<Py, Value>();
    for (const [name, value] of variables) if (outer.get(name) !== value) collect(value, values);
    return { body, variables, values };
  });
}

/** Reads what the branch made while its graph is open: reading a view may add nodes. */
function collect(value: Py, values: Map<Py, Value>): void {
  if (value instanceof TensorRef) values.set(value, value.value);
  else if (value instanceof Scalar) values.set(value, value.value);
  else if (value instanceof List || value instanceof Tuple)
    for (const item of value.items) collect(item, values);
}

/** How to make one value of both. What cannot be one stays unset, which only matters where it is used. */
function merge(
  c: Context,
  a: Py,
  b: Py,
  outcomes: readonly [Outcome, Outcome],
  pairs: (readonly [Value, Value])[],
): (chosen: readonly Value[]) => Py {
  if (isSame(a, b)) return () => a;
  const choose = (left: Value, right: Value, make: (value: Value) => Py) => {
    const at = pairs.push([left, right]) - 1;
    return (chosen: readonly Value[]) => make(chosen[at] as Value);
  };
  const [one, other] = [outcomes[0].values.get(a), outcomes[1].values.get(b)];
  if ((a instanceof TensorRef && a.quantized) || (b instanceof TensorRef && b.quantized))
    return refuse('makes a quantized tensor in a branch that the data decide');
  if (a instanceof TensorRef && b instanceof TensorRef)
    return choose(one ?? a.value, other ?? b.value, (value) => c.tensor(value));
  if (isNumber(a) && isNumber(b) && !(a instanceof Expr || b instanceof Expr)) {
    const type = typeOfNumbers(a, b);
    const dtype = type === 'float' ? 'float32' : type === 'bool' ? 'bool' : 'int64';
    const known = (value: Py, own: Value | undefined) =>
      value instanceof Scalar ? (own ?? value.value) : c.number(value, dtype);
    return choose(known(a, one), known(b, other), (value) => new Scalar(type, value));
  }
  const isList = a instanceof List && b instanceof List;
  if ((isList || (a instanceof Tuple && b instanceof Tuple)) && a.items.length === b.items.length) {
    const makers = a.items.map((item, i) => merge(c, item, b.items[i] as Py, outcomes, pairs));
    const names = a instanceof Tuple ? a.names : undefined;
    return (chosen) => {
      const items = makers.map((make) => make(chosen));
      return isList ? c.list(items) : new Tuple(items, names);
    };
  }
  return () => new Unset();
}

function typeOfNumbers(a: Py, b: Py): Scalar['type'] {
  const types = [a, b].map((each) => {
    if (each instanceof Scalar) return each.type;
    return each instanceof Float ? 'float' : typeof each === 'boolean' ? 'bool' : 'int';
  });
  const [type, other] = types as [Scalar['type'], Scalar['type']];
  return type === other ? type : refuse('its branches give numbers of different types');
}

function isSame(a: Py, b: Py): boolean {
  if (a instanceof Float && b instanceof Float) return Object.is(a.value, b.value);
  if (a instanceof Expr && b instanceof Expr) return a.name === b.name;
  return a === b;
}

function typeOf(c: Context, [a, b]: readonly [Value, Value]): ValueType {
  if (a.dtype !== b.dtype) refuse(`one branch gives ${a.dtype}, the other ${b.dtype}`);
  if (!a.shape || !b.shape || a.shape.length !== b.shape.length)
    return refuse('its branches give different ranks');
  return { dtype: a.dtype, shape: a.shape.map((dim, i) => (dim === b.shape?.[i] ? dim : c.g.fresh())) };
}
