/** LSTM, GRU and RNN of several layers and directions, as ONNX's operators of one layer. */
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import type { Int } from '../run/sizes.ts';
import type { TensorRef } from '../run/tensor.ts';
import { refuse } from '../run/values.ts';
import { concat } from './moves.ts';
import type { Args, Rule, Table } from './schema.ts';
import { cut, permute, reshape } from './shaping.ts';

interface Cell {
  readonly op: 'LSTM' | 'GRU' | 'RNN';
  /** The places of ONNX's gates in torch's order. */
  readonly gates: readonly number[];
  readonly attributes: Readonly<Record<string, number>>;
  readonly activation?: string;
}

const LSTM: Cell = { op: 'LSTM', gates: [0, 3, 1, 2], attributes: {} };
const GRU: Cell = { op: 'GRU', gates: [1, 0, 2], attributes: { linear_before_reset: 1 } };
const RNN = (activation: string): Cell => ({ op: 'RNN', gates: [0], attributes: {}, activation });

/** The rows of the gates, in ONNX's order, with an axis for the direction in front. */
function ordered(c: Context, { gates }: Cell, weight: Value, hidden: number): Value {
  const rows = gates.map((gate) => cut(c, weight, 0, gate * hidden, (gate + 1) * hidden));
  const joined = rows.length === 1 ? (rows[0] as Value) : c.one('Concat', rows, { axis: 0 });
  return c.one('Unsqueeze', [joined, c.g.ints([0])]);
}

interface Layer {
  readonly directions: number;
  readonly hidden: number;
  readonly params: readonly Value[];
  readonly hasBias: boolean;
}

function weightsOf(
  c: Context,
  cell: Cell,
  { directions, hidden, params, hasBias }: Layer,
): (Value | undefined)[] {
  const each = params.length / directions;
  const join = (at: number) => {
    const parts = Array.from({ length: directions }, (_, i) =>
      ordered(c, cell, params[i * each + at] as Value, hidden),
    );
    return parts.length === 1 ? (parts[0] as Value) : c.one('Concat', parts, { axis: 0 });
  };
  return [join(0), join(1), hasBias ? c.one('Concat', [join(2), join(3)], { axis: 1 }) : undefined];
}

const recurrent =
  (cell: Cell): Rule =>
  (c, a) => {
    const states = cell.op === 'LSTM' ? a.tensors('hx') : [a.tensor('hx')];
    const [layers, directions] = [a.n('num_layers'), a.bool('bidirectional') ? 2 : 1];
    if (a.bool('train') && a.float('dropout') !== 0 && layers > 1)
      refuse(
        'drops values at random, because it is in training mode; call model.eval() before saving the model',
      );
    const hasBias = a.bool('has_biases');
    const params = a.values('params');
    const count = (hasBias ? 4 : 2) * directions;
    if (params.length !== count * layers || layers > 1000) refuse('with a projection is not supported');
    if (states.length !== (cell.op === 'LSTM' ? 2 : 1)) refuse('needs its initial states');
    const isBatchFirst = a.bool('batch_first');
    const input = a.v('x');
    if (input.shape?.length !== 3) refuse('needs 3 dimensions');
    let x = isBatchFirst ? permute(c, input, [1, 0, 2]) : input;
    const finals: Value[][] = states.map(() => []);
    for (let i = 0; i < layers; i++) {
      const own = params.slice(i * count, (i + 1) * count);
      const hidden = c.fixed(c.sizeOf(own[1] as Value, 1), 'hidden size');
      c.match(c.sizeOf(x, 2), c.sizeOf(own[0] as Value, 1), 'the features of a recurrent layer');
      const layer = { directions, hidden, params: own, hasBias };
      const made = one(c, cell, x, layer, states, i);
      x = made.sequence;
      for (const [at, state] of made.states.entries()) finals[at]?.push(state);
    }
    const sequence = isBatchFirst ? permute(c, x, [1, 0, 2]) : x;
    return c.tuple([sequence, ...finals.map((parts) => concat(c, parts, 0))]);
  };

function one(c: Context, cell: Cell, x: Value, layer: Layer, states: readonly TensorRef[], i: number) {
  const { directions, hidden } = layer;
  const [length, batch] = c.shapeOf(x) as [Int, Int, Int];
  const initial = states.map((state) =>
    state.isZero ? undefined : cut(c, state.value, 0, i * directions, (i + 1) * directions),
  );
  const attributes = {
    ...cell.attributes,
    hidden_size: hidden,
    direction: directions === 2 ? 'bidirectional' : 'forward',
    ...(cell.activation
      ? { activations: { strings: new Array<string>(directions).fill(cell.activation) } }
      : {}),
  };
  const state = { dtype: x.dtype, shape: [directions, c.sizes.dim(batch), hidden] };
  const all = { dtype: x.dtype, shape: [c.sizes.dim(length), ...state.shape] };
  const results = [all, ...states.map(() => state)];
  const inputs = [x, ...weightsOf(c, cell, layer), undefined, ...initial];
  while (inputs.at(-1) === undefined) inputs.pop();
  const [made, ...finals] = c.g.add(cell.op, inputs, attributes, { outputs: results.length, results }) as [
    Value,
    ...Value[],
  ];
  const sequence = reshape(c, permute(c, made, [0, 2, 1, 3]), [length, batch, directions * hidden]);
  return { sequence, states: finals };
}

/** One step, as LSTMCell and GRUCell compute it. */
const step =
  (cell: Cell): Rule =>
  (c, a: Args) => {
    const x = a.v('x');
    const states = cell.op === 'LSTM' ? a.tensors('hx') : [a.tensor('hx')];
    const hidden = c.fixed(c.sizeOf(a.v('w_hh'), 1), 'hidden size');
    const hasBias = a.isSet('b_ih');
    const params = [a.v('w_ih'), a.v('w_hh'), ...(hasBias ? [a.v('b_ih'), a.v('b_hh')] : [])];
    const layer = { directions: 1, hidden, params, hasBias };
    const wide = states.map((state) => {
      const made = c.tensor(c.one('Unsqueeze', [state.value, c.g.ints([0])]));
      made.isZero = state.isZero;
      return made;
    });
    const made = one(c, cell, c.one('Unsqueeze', [x, c.g.ints([0])]), layer, wide, 0);
    const finals = made.states.map((state) => c.one('Squeeze', [state, c.g.ints([0])]));
    return cell.op === 'LSTM' ? c.tuple(finals) : (finals[0] as Value);
  };

const TAIL =
  'Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first';
const CELL = 'Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None';

export const RECURRENT: Table = {
  [`lstm(Tensor x, Tensor[] hx, ${TAIL})`]: recurrent(LSTM),
  [`gru(Tensor x, Tensor hx, ${TAIL})`]: recurrent(GRU),
  [`rnn_tanh(Tensor x, Tensor hx, ${TAIL})`]: recurrent(RNN('Tanh')),
  [`rnn_relu(Tensor x, Tensor hx, ${TAIL})`]: recurrent(RNN('Relu')),
  [`lstm_cell(Tensor x, Tensor[] hx, ${CELL})`]: step(LSTM),
  [`gru_cell(Tensor x, Tensor hx, ${CELL})`]: step(GRU),
  [`rnn_tanh_cell(Tensor x, Tensor hx, ${CELL})`]: step(RNN('Tanh')),
  [`rnn_relu_cell(Tensor x, Tensor hx, ${CELL})`]: step(RNN('Relu')),
};
