/**
 * If and Case. In: a condition, functions for its outcomes. Out: one of them where the condition is constant, else
 * ONNX's If, whose bodies see the outer values as they are.
 * Trap: the outcomes may have different shapes; what differs is free.
 */
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber } from '../../graph/numbers.ts';
import type { Shape, Value, ValueType } from '../../graph/value.ts';
import { functionAttribute, listAttribute, type TfNode } from '../graph.ts';
import { cast } from './kernels.ts';
import { type Context, FAILED, type OpTable, type Rule, refuse, takes } from './rule.ts';

/** One outcome: fills a body and says what it gives. */
export type Outcome = (g: GraphBuilder) => readonly Value[] | undefined;

export function commonShape(
  a: Shape | undefined,
  b: Shape | undefined,
  fresh: () => string,
): Shape | undefined {
  if (!a || !b || a.length !== b.length) return undefined;
  return a.map((dim, i) => (dim === b[i] ? dim : fresh()));
}

/** The results of an If; undefined when an outcome cannot be converted. */
export function choose(
  g: GraphBuilder,
  name: string,
  condition: Value,
  outcomes: readonly [Outcome, Outcome],
): readonly Value[] | undefined {
  const bodies = outcomes.map((outcome) => {
    const body = g.body();
    return { body, values: outcome(body) };
  });
  const [yes, no] = bodies.map(({ values }) => values);
  if (!yes || !no) return undefined;
  if (yes.length !== no.length) refuse(`gives ${yes.length} values or ${no.length}`);
  const results = yes.map((value, i): ValueType => {
    const other = no[i] as Value;
    if (value.name === '' || other.name === '') refuse('gives a list, which is not supported');
    if (value.dtype !== other.dtype) refuse(`gives ${value.dtype} or ${other.dtype}`);
    return { dtype: value.dtype, shape: commonShape(value.shape, other.shape, g.fresh) };
  });
  if (results.length === 0) return [];
  const [then_branch, else_branch] = bodies.map(({ body, values }) => {
    for (const value of values ?? []) body.output(`${name}:${g.fresh()}`, value);
    return { body: body.finish() };
  });
  const attributes = {
    ...(then_branch ? { then_branch } : {}),
    ...(else_branch ? { else_branch } : {}),
  };
  return g.add('If', [condition], attributes, { outputs: results.length, results, hint: name });
}

function outcomeOf(name: string, inputs: readonly Value[], context: Context): Outcome {
  return (g) => context.call(name, inputs, g);
}

/** As many failures as the node has outputs, so that what follows is passed over. */
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
  return choose(g, node.name, flag, [yes, no]) ?? failed(node);
};

/** Any index that is not there is the last one. */
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
      return choose(body, node.name, hit, [own, from(i + 1)]);
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
