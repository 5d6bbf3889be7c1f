/**
 * Constants, placeholders, and operations that hand their input on.
 * Trap: a PlaceholderWithDefault that nobody named as an input is its default; dropout and training flags are such.
 */
import type { Value } from '../../graph/value.ts';
import { tensorAttribute } from '../graph.ts';
import { type OpTable, type Rule, refuse, takes } from './rule.ts';

const first: Rule = (_node, [x]) => x;
/** Their work is done by the time a graph is served. */
const nothing: Rule = () => [];

const HAND_ON =
  'CheckNumerics CheckNumericsV2 DebugGradientIdentity DebugGradientRefIdentity DeepCopy Identity ' +
  'OptimizationBarrier PlaceholderWithDefault PreventGradient Print ReadVariableOp RefIdentity Snapshot StopGradient';

function rules(names: string, rule: Rule): OpTable {
  return Object.fromEntries(names.split(' ').map((name) => [name, rule]));
}

export const SOURCES: OpTable = {
  ...takes(1, rules(HAND_ON, first)),
  ...rules('Assert ControlTrigger NoOp PrintV2', nothing),
  Const: (node, _inputs, g) => g.constant(tensorAttribute(node, 'value'), node.name),
  IdentityN: (_node, inputs): readonly Value[] => [...inputs],
  Placeholder: () => refuse('is no input of the graph; name it with --input'),
};
