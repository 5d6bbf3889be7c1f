/**
 * Constants, placeholders, and operations that hand their input on.
 * Trap: a PlaceholderWithDefault that nobody named as an input is its default; dropout and training flags are such.
 */
import type { Value } from '../../graph/value.ts';
import { tensorAttribute, typeAttribute } from '../graph.ts';
import { isTrainingFlag } from '../switches.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

const first: Rule = (_node, [x]) => x;
/** Their work is done by the time a graph is served. */
const nothing: Rule = () => [];

const HAND_ON =
  'CheckNumerics CheckNumericsV2 Conj DebugGradientIdentity DebugGradientRefIdentity DeepCopy Identity ' +
  'OptimizationBarrier PlaceholderWithDefault PreventGradient Print ReadVariableOp RefIdentity Snapshot StopGradient';

function rules(names: string, rule: Rule): OpTable {
  return Object.fromEntries(names.split(' ').map((name) => [name, rule]));
}

/** Only a condition needs it, no output: a training flag is such. */
const flag: Rule = (node, _inputs, g, { notes }) => {
  const dtype = typeAttribute(node, 'dtype');
  if (dtype !== 'bool' || !isTrainingFlag(node.name))
    refuse('is no input of the graph; name it with --input');
  notes.push(`input "${node.name}" is replaced by 0`);
  return g.scalar('bool', 0);
};

export const SOURCES: OpTable = {
  ...takes(1, rules(HAND_ON, first)),
  ...rules('Assert ControlTrigger NoOp PrintV2', nothing),
  Const: (node, _inputs, g) => g.constant(tensorAttribute(node, 'value'), node.name),
  // Variables are constants by now.
  ...rules('IsVariableInitialized VarIsInitializedOp', (_node, _inputs, g) => g.scalar('bool', 1)),
  // A function whose body was not kept with the graph: whatever it does in training, to serve it hands its input on.
  Dropout: (node, [x], _g, { notes }) => {
    notes.push(`node "${node.name}" (Dropout) hands its input on`);
    return x;
  },
  IdentityN: (_node, inputs): readonly Value[] => [...inputs],
  Placeholder: flag,
};
