/**
 * Converts If and Case: to the branch taken when the condition is constant, otherwise to ONNX's If, whose bodies see
 * the outer values. Dimensions in which the branches differ become free.
 */
import type { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumber } from '../../../graph/numbers.ts';
import type { Shape, Value, ValueType } from '../../../graph/value.ts';
import { functionAttribute, listAttribute, type TfNode } from '../graph.ts';
import { cast } from './kernels.ts';
import { unsizedRows } from './lists/rows.ts';
import { refuse } from './refuse.ts';
import { type Context, FAILED, type Facts, type OpTable, type Rule, takes } from './rule.ts';

/** Adds the nodes of one branch to a body and returns its results. */
type Outcome = (g: GraphBuilder) => readonly Value[] | undefined;

function commonShape(a: Shape | undefined, b: Shape | undefined, fresh: () => string): Shape | undefined {
  if (!a || !b || a.length !== b.length) return undefined;
  return a.map((dim, i) => (dim === b[i] ? dim : fresh()));
}

/** Returns the results of an If; undefined when a branch cannot be converted. */
export function choose(
  g: GraphBuilder,
  name: string,
  condition: Value,
  outcomes: readonly [Outcome, Outcome],
  facts: Facts,
): readonly Value[] | undefined {
  const [yes, no] = outcomes.map((outcome) => {
    const body = g.body();
    return { body, values: outcome(body) };
  }) as [Filled, Filled];
  if (!yes.values || !no.values) return undefined;
  if (yes.values.length !== no.values.length)
    refuse(`gives ${yes.values.length} values or ${no.values.length}`);
  const [ours, theirs] = [yes.values, no.values];
  // A list that both branches pass through is not a tensor yet, and need not become one.
  const same = ours.map((value, i) => value.name === '' && value === theirs[i]);
  const pairs = ours.flatMap((value, i): [Value, Value][] =>
    same[i] ? [] : [[unsizedRows(yes.body, value, facts), unsizedRows(no.body, theirs[i] as Value, facts)]],
  );
  const made = pairs.length === 0 ? [] : addIf(g, name, condition, [yes.body, no.body], pairs);
  for (const [i, pair] of pairs.entries())
    if (pair.some((value) => facts.unsized.has(value))) facts.unsized.add(made[i] as Value);
  const rest = made.values();
  return ours.map((value, i) => (same[i] ? value : (rest.next().value as Value)));
}

interface Filled {
  readonly body: GraphBuilder;
  readonly values: readonly Value[] | undefined;
}

function addIf(
  g: GraphBuilder,
  name: string,
  condition: Value,
  [yes, no]: readonly [GraphBuilder, GraphBuilder],
  pairs: readonly (readonly [Value, Value])[],
): readonly Value[] {
  const results = pairs.map(([value, other]): ValueType => {
    if (value.dtype !== other.dtype) refuse(`gives ${value.dtype} or ${other.dtype}`);
    return { dtype: value.dtype, shape: commonShape(value.shape, other.shape, g.fresh) };
  });
  for (const [value, other] of pairs) {
    yes.output(`${name}:${g.fresh()}`, value);
    no.output(`${name}:${g.fresh()}`, other);
  }
  const attributes = { then_branch: { body: yes.finish() }, else_branch: { body: no.finish() } };
  return g.add('If', [condition], attributes, { outputs: results.length, results, hint: name });
}

function outcomeOf(name: string, inputs: readonly Value[], context: Context): Outcome {
  return (g) => context.call(name, inputs, g);
}

/** One FAILED value per output, so that the nodes that depend on them are skipped. */
function failed(node: TfNode): Value[] {
  return Array.from({ length: Math.max(1, listAttribute(node, 'Tout').types.length) }, () => FAILED);
}

const branch: Rule = (node, [condition, ...inputs], g, context) => {
  const names = [functionAttribute(node, 'then_branch'), functionAttribute(node, 'else_branch')] as const;
  const flag = cast(g, condition, 'bool');
  if (flag.constant) {
    const chosen = Number(flag.constant.data[0]) === 0 ? names[1] : names[0];
    return context.call(chosen, inputs, g) ?? failed(node);
  }
  const [yes, no] = [outcomeOf(names[0], inputs, context), outcomeOf(names[1], inputs, context)];
  return choose(g, node.name, flag, [yes, no], context.facts) ?? failed(node);
};

/** An index out of range selects the last branch. */
const caseRule: Rule = (node, [index, ...inputs], g, context) => {
  const names = listAttribute(node, 'branches').functions.map(({ name }) => name);
  const last = names.length - 1;
  if (last < 0) refuse('has no branches');
  if (index.constant) {
    const at = constantNumber(index, 'index');
    const chosen = names[at >= 0 && at < last ? at : last] as string;
    return context.call(chosen, inputs, g) ?? failed(node);
  }
  const from = (i: number): Outcome => {
    const own = outcomeOf(names[i] as string, inputs, context);
    if (i === last) return own;
    return (body) => {
      const hit = body.one('Equal', [index, body.scalar(index.dtype, i)]);
      return choose(body, node.name, hit, [own, from(i + 1)], context.facts);
    };
  };
  return from(0)(g) ?? failed(node);
};

export const BRANCHES: OpTable = takes(1, {
  Case: caseRule,
  If: branch,
  StatelessCase: caseRule,
  StatelessIf: branch,
});
