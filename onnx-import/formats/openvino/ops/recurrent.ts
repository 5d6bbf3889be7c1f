/**
 * LSTM, GRU and RNN, as sequences and as single cells. OpenVINO has the batch first and its gates in another order; a
 * cell is a sequence of one step.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { cutAlong } from '../../../emit/gather.ts';
import { type Cell, recur } from '../../../emit/recurrent.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Attribute, Value } from '../../../graph/value.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { alongBatch } from './shaping.ts';

/** For each of ONNX's gates the place of OpenVINO's: its LSTM has forget, input, cell, output. */
const GATES: Readonly<Record<Cell, readonly number[]>> = { LSTM: [1, 3, 0, 2], GRU: [0, 1, 2], RNN: [0] };
const ACTIVATIONS: Readonly<Record<Cell, readonly string[]>> = {
  LSTM: ['sigmoid', 'tanh', 'tanh'],
  GRU: ['sigmoid', 'tanh'],
  RNN: ['tanh'],
};
const NAMES: ReadonlyMap<string, string> = new Map([
  ['sigmoid', 'Sigmoid'],
  ['tanh', 'Tanh'],
  ['relu', 'Relu'],
]);

/** All with an axis of directions in front. */
export interface Weights {
  readonly input: Value;
  readonly state: Value;
  readonly bias: Value | undefined;
}

interface Recurrence {
  readonly kind: Cell;
  /** [batch, steps, size] */
  readonly x: Value;
  /** Each [batch, directions, hidden]. */
  readonly states: readonly Value[];
  readonly lengths: Value | undefined;
  readonly weights: Weights;
}

const sequence =
  (kind: Cell): Rule =>
  (node) => {
    const count = kind === 'LSTM' ? 2 : 1;
    const states = Array.from({ length: count }, (_, i) => node.input(i + 1));
    const [input, state, bias] = [2, 3, 4].map((i) => node.input(count + i)) as [Value, Value, Value];
    const lengths = node.input(count + 1);
    return recurrence(node, { kind, x: node.input(0), states, lengths, weights: { input, state, bias } });
  };

const cell =
  (kind: Cell): Rule =>
  (node) => {
    const count = kind === 'LSTM' ? 2 : 1;
    const states = Array.from({ length: count }, (_, i) => node.input(i + 1));
    const [input, state] = [node.input(count + 1), node.input(count + 2)];
    node.choice('weights_format', ['fico'], 'fico');
    if (node.flag('input_forget', false)) throw badModel('input_forget is not supported');
    return oneStep(node, kind, node.input(0), states, { input, state, bias: node.optional(count + 3) });
  };

/** The states after one step; weights are without an axis of directions. */
export function oneStep(
  node: OvNode,
  kind: Cell,
  x: Value,
  states: readonly Value[],
  weights: Weights,
): Value[] {
  const front = (value: Value, axis: number) => node.g.one('Unsqueeze', [value, node.g.ints([axis])]);
  const made = recurrence(node, {
    kind,
    x: front(x, 1),
    states: states.map((value) => front(value, 1)),
    lengths: undefined,
    weights: {
      input: front(weights.input, 0),
      state: front(weights.state, 0),
      bias: weights.bias && front(weights.bias, 0),
    },
  });
  return made.slice(1).map((value) => node.one('Squeeze', [value, node.g.ints([1])]));
}

/** A GRU that is reset after its product has a gate more: the bias of the state's product. */
function biasesOf(
  node: OvNode,
  bias: Value,
  hidden: number,
  isReset: boolean,
): readonly [Value, Value | undefined] {
  if (!isReset) return [bias, undefined];
  const zeros = node.g.floats(
    new Float32Array(fixed(bias, 0) * 2 * hidden),
    [fixed(bias, 0), 2 * hidden],
    'zeros',
  );
  const gate = (from: number, to: number) => cutAlong(node, bias, 1, from * hidden, to * hidden);
  return [gate(0, 3), node.g.one('Concat', [zeros, gate(3, 4)], { axis: 1 })];
}

function activationsOf(node: OvNode, kind: Cell, directions: number): Record<string, Attribute | undefined> {
  if (node.numbers('activations_alpha', []).length + node.numbers('activations_beta', []).length > 0)
    throw badModel('parameters of activations are not supported');
  const given = node
    .text('activations', '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const own = given.length > 0 ? given : ACTIVATIONS[kind];
  const names = own.map((name) => NAMES.get(name) ?? refuseActivation(name));
  if (names.length !== ACTIVATIONS[kind].length) throw badModel(`has ${names.length} activations`);
  const clip = node.number('clip', 0);
  return {
    activations: { strings: Array.from({ length: directions }, () => names).flat() },
    ...(clip > 0 && Number.isFinite(clip) ? { clip: { float: clip } } : {}),
  };
}

function refuseActivation(name: string): never {
  throw badModel(`activation ${name.slice(0, 50)} is not supported`);
}

function recurrence(node: OvNode, { kind, x, states, lengths, weights }: Recurrence): Value[] {
  const { g } = node;
  const hidden = node.whole('hidden_size');
  const isReset = kind === 'GRU' && node.flag('linear_before_reset', false);
  const direction = node.choice('direction', ['forward', 'reverse', 'bidirectional'], 'forward');
  const turned = (value: Value) => g.one('Transpose', [value], { perm: [1, 0, 2] });
  const [all, ...last] = recur(node, turned(x), {
    cell: kind,
    direction,
    hidden,
    gates: GATES[kind],
    forInput: weights.input,
    forState: weights.state,
    biases: weights.bias && biasesOf(node, weights.bias, hidden, isReset),
    lengths: lengthsOf(node, lengths, x),
    initial: states.map((value) => turned(alongBatch(node, value, x, 0))),
    attributes: {
      ...activationsOf(node, kind, direction === 'bidirectional' ? 2 : 1),
      ...(isReset ? { linear_before_reset: 1 } : {}),
    },
  });
  return [
    node.one('Transpose', [all], { perm: [2, 1, 0, 3] }),
    ...last.map((value) => node.one('Transpose', [value], { perm: [1, 0, 2] })),
  ];
}

/** Undefined when each sequence has all steps. */
function lengthsOf(node: OvNode, lengths: Value | undefined, x: Value): Value | undefined {
  if (!lengths) return undefined;
  const steps = known(x)[1];
  if (lengths.constant && constantNumbers(lengths, 'lengths').every((length) => length === steps))
    return undefined;
  return cast(node, alongBatch(node, lengths, x, 0), 'int32');
}

export const RECURRENCES: OpTable = {
  GRUCell: cell('GRU'),
  GRUSequence: sequence('GRU'),
  LSTMCell: cell('LSTM'),
  LSTMSequence: sequence('LSTM'),
  RNNCell: cell('RNN'),
  RNNSequence: sequence('RNN'),
};
