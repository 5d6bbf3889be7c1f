/**
 * LSTM, GRU and RNN, as sequences and as single cells. OpenVINO has the batch first and its gates in another order; a
 * cell is a sequence of one step.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { cutAlong } from '../../emit/gather.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { fixed, known } from '../../graph/shapes.ts';
import type { Attribute, Value } from '../../graph/value.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { alongBatch } from './shaping.ts';

type Kind = 'LSTM' | 'GRU' | 'RNN';

/** For each of ONNX's gates the place of OpenVINO's: its LSTM has forget, input, cell, output. */
const GATES: Readonly<Record<Kind, readonly number[]>> = { LSTM: [1, 3, 0, 2], GRU: [0, 1, 2], RNN: [0] };
const ACTIVATIONS: Readonly<Record<Kind, readonly string[]>> = {
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
  readonly kind: Kind;
  /** [batch, steps, size] */
  readonly x: Value;
  /** Each [batch, directions, hidden]. */
  readonly states: readonly Value[];
  readonly lengths: Value | undefined;
  readonly weights: Weights;
}

const sequence =
  (kind: Kind): Rule =>
  (node) => {
    const count = kind === 'LSTM' ? 2 : 1;
    const states = Array.from({ length: count }, (_, i) => node.input(i + 1));
    const [input, state, bias] = [2, 3, 4].map((i) => node.input(count + i)) as [Value, Value, Value];
    const lengths = node.input(count + 1);
    return recurrence(node, { kind, x: node.input(0), states, lengths, weights: { input, state, bias } });
  };

const cell =
  (kind: Kind): Rule =>
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
  kind: Kind,
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

/** The gates of [directions, gates * hidden, ...] in ONNX's order. */
function reordered(node: OvNode, value: Value, kind: Kind, gates: number): Value {
  const order = gates === GATES[kind].length ? GATES[kind] : Array.from({ length: gates }, (_, i) => i);
  if (order.every((gate, i) => gate === i)) return value;
  const parts = node.g.add('Split', [value], { axis: 1 }, { outputs: gates });
  return node.g.one(
    'Concat',
    order.map((gate) => parts[gate]),
    { axis: 1 },
  );
}

/** ONNX adds two biases; the second is 0, except for a GRU's last gate that is reset after its product. */
function biasOf(
  node: OvNode,
  kind: Kind,
  bias: Value | undefined,
  hidden: number,
  isReset: boolean,
): Value | undefined {
  if (!bias) return undefined;
  const directions = fixed(bias, 0);
  const zeros = (gates: number) =>
    node.g.floats(new Float32Array(directions * gates * hidden), [directions, gates * hidden], 'zeros');
  const gates = GATES[kind].length;
  if (!isReset) return node.g.one('Concat', [reordered(node, bias, kind, gates), zeros(gates)], { axis: 1 });
  const gate = (from: number, to: number) => cutAlong(node, bias, 1, from * hidden, to * hidden);
  return node.g.one('Concat', [gate(0, 3), zeros(2), gate(3, 4)], { axis: 1 });
}

function activationsOf(node: OvNode, kind: Kind, directions: number): Record<string, Attribute | undefined> {
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
  const directions = direction === 'bidirectional' ? 2 : 1;
  const gates = GATES[kind].length;
  if (fixed(weights.state, 0) !== directions || fixed(weights.state, 1) !== gates * hidden)
    throw badModel(
      `needs weights of ${directions} x ${gates * hidden}, got ${known(weights.state).slice(0, 2).join(' x ')}`,
    );
  const attributes = {
    ...activationsOf(node, kind, directions),
    hidden_size: hidden,
    direction,
    ...(isReset ? { linear_before_reset: 1 } : {}),
  };
  const steps = g.one('Transpose', [x], { perm: [1, 0, 2] });
  const turned = states.map((value) =>
    g.one('Transpose', [alongBatch(node, value, x, 0)], { perm: [1, 0, 2] }),
  );
  const inputs = [
    steps,
    reordered(node, weights.input, kind, gates),
    reordered(node, weights.state, kind, gates),
    biasOf(node, kind, weights.bias, hidden, isReset),
    lengthsOf(node, lengths, x),
    ...turned,
  ];
  const [batch, time] = [known(x)[0] ?? g.fresh(), known(x)[1] ?? g.fresh()];
  const last = { dtype: x.dtype, shape: [directions, batch, hidden] };
  const results = [{ dtype: x.dtype, shape: [time, directions, batch, hidden] }, ...states.map(() => last)];
  const [all, ...ends] = g.add(kind, inputs, attributes, {
    outputs: results.length,
    results,
    hint: node.hint,
  });
  return [
    node.one('Transpose', [all], { perm: [2, 1, 0, 3] }),
    ...ends.map((value) => node.one('Transpose', [value], { perm: [1, 0, 2] })),
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
