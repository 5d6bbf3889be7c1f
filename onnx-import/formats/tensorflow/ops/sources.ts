/**
 * Converts constants, placeholders, and operations that pass their input through. A PlaceholderWithDefault that is
 * not named as an input is its default, as for dropout and training flags.
 */
import type { Value } from '../../../graph/value.ts';
import { tensorAttribute, typeAttribute } from '../graph.ts';
import { isTrainingFlag } from '../switches.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

const first: Rule = (_node, [x]) => x;
/** Their work is done before a graph is served. */
const nothing: Rule = () => [];

const HAND_ON =
  'CheckNumerics CheckNumericsV2 Conj DebugGradientIdentity DebugGradientRefIdentity DeepCopy Identity ' +
  'OptimizationBarrier PlaceholderWithDefault PreventGradient Print ReadVariableOp RefIdentity Snapshot StopGradient';

function rules(names: string, rule: Rule): OpTable {
  return Object.fromEntries(names.split(' ').map((name) => [name, rule]));
}

/** A placeholder that no output needs, but a condition does, such as a training flag. */
const flag: Rule = (node, _inputs, g, { notes }) => {
  const dtype = typeAttribute(node, 'dtype');
  if (dtype !== 'bool' || !isTrainingFlag(node.name))
    refuse('is not an input of the graph; name it with --input');
  notes.push(`input "${node.name}" is replaced by 0`);
  return g.scalar('bool', 0);
};

export const SOURCES: OpTable = {
  ...takes(1, rules(HAND_ON, first)),
  ...rules('Assert ControlTrigger NoOp PrintV2', nothing),
  Const: (node, _inputs, g) => g.constant(tensorAttribute(node, 'value'), node.name),
  // Variables are constants here.
  ...rules('IsVariableInitialized VarIsInitializedOp', (_node, _inputs, g) => g.scalar('bool', 1)),
  // The function's body is not in the graph. Dropout passes its input through at inference.
  Dropout: (node, [x], _g, { notes }) => {
    notes.push(`node "${node.name}" (Dropout) passes its input through`);
    return x;
  },
  IdentityN: (_node, inputs): readonly Value[] => [...inputs],
  Placeholder: flag,
};
