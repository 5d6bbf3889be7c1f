/**
 * Recurrence: the LSTM, GRU and RNN of ONNX for sources that have them as operators, and a Scan for those that write out a
 * step. Sequences have the steps first, then the batch.
 */
import { badModel } from '../../lib/contract/errors.ts';
import type { GraphBuilder } from '../graph/builder.ts';
import { type Maker, named } from '../graph/layout.ts';
import { fixed, known } from '../graph/shapes.ts';
import type { Attributes, Dim, Shape, Value } from '../graph/value.ts';
import { compute } from './formula.ts';
import { cutAlong, joined } from './gather.ts';

export type Cell = 'LSTM' | 'GRU' | 'RNN';
export type Direction = 'forward' | 'reverse' | 'bidirectional';

/** The weights of all gates; the axis of directions comes first, then gates * hidden. */
export interface Recurrence {
  readonly cell: Cell;
  readonly direction: Direction;
  readonly hidden: number;
  /**
   * For each of ONNX's gates its place in the source. ONNX has input, output, forget, cell in an LSTM, and update, reset,
   * hidden in a GRU.
   */
  readonly gates: readonly number[];
  readonly forInput: Value;
  readonly forState: Value;
  /** Of the input and of the state; undefined: 0. */
  readonly biases?: readonly [Value, Value | undefined] | undefined;
  /** The steps of each sequence. Undefined: all. */
  readonly lengths?: Value | undefined;
  /** [directions, batch, hidden], before the first step: of the state, and of an LSTM's cell. Undefined: 0. */
  readonly initial: readonly (Value | undefined)[];
  readonly attributes?: Attributes;
}

/** The gates of [directions, gates * hidden, ...] in ONNX's order. Slices of constants are constants. */
function inOrder(node: Maker, value: Value, gates: readonly number[]): Value {
  if (gates.every((gate, i) => gate === i)) return value;
  const hidden = fixed(value, 1) / gates.length;
  const parts = gates.map((gate) => cutAlong(node.g, value, 1, gate * hidden, (gate + 1) * hidden));
  return joined(node.g, parts, 1);
}

/** ONNX has one list of biases: those of the input, then those of the state. */
function biasList(node: Maker, { biases, gates }: Recurrence): Value | undefined {
  if (!biases) return undefined;
  const [first, second] = biases.map((bias) => bias && inOrder(node, bias, gates));
  const shape = [fixed(biases[0], 0), fixed(biases[0], 1)] as const;
  const zeros = () => node.g.floats(new Float32Array(shape[0] * shape[1]), shape, 'zeros');
  return node.g.one('Concat', [first, second ?? zeros()], { axis: 1 });
}

/**
 * Runs over [steps, batch, size]. Returns [steps, directions, batch, hidden], then the last states as in `initial`.
 * @throws bad_model for weights of another size
 */
export function recur(node: Maker, x: Value, layer: Recurrence): [all: Value, ...last: Value[]] {
  const { cell, direction, hidden, gates, forInput, forState, lengths, initial } = layer;
  const directions = direction === 'bidirectional' ? 2 : 1;
  const size = gates.length * hidden;
  if (fixed(forState, 0) !== directions || fixed(forState, 1) !== size)
    throw badModel(
      `needs weights of ${directions} x ${size}, got ${known(forState).slice(0, 2).join(' x ')}`,
    );
  const weights = [inOrder(node, forInput, gates), inOrder(node, forState, gates)];
  const inputs = [x, ...weights, biasList(node, layer), lengths, ...initial];
  while (inputs.at(-1) === undefined) inputs.pop();
  const [steps, batch] = [known(x)[0] ?? node.g.fresh(), known(x)[1] ?? node.g.fresh()];
  const last = { dtype: x.dtype, shape: [directions, batch, hidden] };
  const results = [{ dtype: x.dtype, shape: [steps, ...last.shape] }, ...initial.map(() => last)];
  const attributes = { ...layer.attributes, hidden_size: hidden, direction };
  const options = { outputs: results.length, results, ...named(node) };
  const [all, ...states] = node.g.add(cell, inputs, attributes, options);
  return [all as Value, ...states];
}

/** One value for each direction, with the axis of directions in front. */
export function inDirections(node: Maker, parts: readonly Value[]): Value {
  const wide = parts.map((part) => node.g.one('Unsqueeze', [part, node.g.ints([0])]));
  return joined(node.g, wide, 0);
}

/**
 * Runs a step over the first axis of sequences. The step returns the next states, then what is collected of all steps.
 * Returns the last states, then what was collected.
 * @param collected the shape of all that is collected, where inference does not find it
 */
export function scan(
  node: Maker,
  states: readonly Value[],
  sequences: readonly Value[],
  step: (body: GraphBuilder, states: readonly Value[], now: readonly Value[]) => readonly Value[],
  collected?: Shape,
): Value[] {
  const body = node.g.body();
  const before = states.map(({ dtype, shape }, i) => body.input(`state_${i}`, dtype, shape));
  const now = sequences.map(({ dtype, shape }, i) => body.input(`now_${i}`, dtype, shape?.slice(1)));
  const made = step(body, before, now);
  for (const [i, value] of made.entries()) body.output(i < states.length ? `next_${i}` : `made_${i}`, value);
  const steps = sequences[0]?.shape?.[0];
  const results = made.map(({ dtype, shape }, i) => {
    const state = states[i];
    if (state) return { dtype: state.dtype, shape: state.shape };
    if (collected) return { dtype, shape: collected };
    return { dtype, shape: shape && steps !== undefined ? [steps satisfies Dim, ...shape] : undefined };
  });
  const attributes = { body: { body: body.finish() }, num_scan_inputs: sequences.length };
  const options = { outputs: made.length, results, ...named(node) };
  return node.g.add('Scan', [...states, ...sequences], attributes, options);
}

export interface LstmStep {
  /** The gates' letters in their order: input, forget, output, and c for the cell's. */
  readonly order: 'icfo' | 'ifco' | 'ifoc';
  /** Added to the forget gate. Default 0. */
  readonly forgetBias?: number;
  /** Weights from the cell to input, forget and output. */
  readonly peepholes?: readonly [Value, Value, Value] | undefined;
  /** The largest size of the cell; 0: any. Default 0. */
  readonly clip?: number;
}

/** One step of an LSTM, from the sums of all gates [batch, 4 * hidden] and the cell before it. */
export function lstmStep(g: GraphBuilder, sums: Value, cell: Value, how: LstmStep) {
  const { order, forgetBias = 0, peepholes, clip = 0 } = how;
  const parts = g.add('Split', [sums], { axis: 1 }, { outputs: 4 });
  const part = (letter: string) => parts[order.indexOf(letter)] as Value;
  const gate = (sum: Value, seen: Value, which: 0 | 1 | 2) => {
    const peephole = peepholes?.[which];
    return peephole
      ? compute(g, 'Sigmoid(sum + seen * peephole)', { sum, seen, peephole })
      : compute(g, 'Sigmoid(sum)', { sum });
  };
  const forget = part('f');
  const remembered = forgetBias === 0 ? forget : compute(g, 'forget + bias', { forget, bias: forgetBias });
  const i = gate(part('i'), cell, 0);
  const f = gate(remembered, cell, 1);
  const ci = compute(g, 'Tanh(sum)', { sum: part('c') });
  const free = 'ci * i + cell * f';
  const cs = compute(g, clip > 0 ? `Clip(${free}, -clip, clip)` : free, { ci, i, cell, f, clip });
  const o = gate(part('o'), cs, 2);
  const co = compute(g, 'Tanh(cs)', { cs });
  return { i, cs, f, o, ci, co, h: compute(g, 'co * o', { co, o }) };
}
