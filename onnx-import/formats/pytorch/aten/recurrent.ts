/** LSTM, GRU and RNN of several layers and directions, as ONNX's operators of one layer. */
import { type Cell, inDirections, recur } from '../../../emit/recurrent.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import type { Int } from '../run/sizes.ts';
import type { TensorRef } from '../run/tensor.ts';
import { refuse } from '../run/values.ts';
import { concat } from './moves.ts';
import type { Args, Rule, Table } from './schema.ts';
import { cut, permute, reshape } from './shaping.ts';

interface Kind {
  readonly cell: Cell;
  /** The places of ONNX's gates in torch's order. */
  readonly gates: readonly number[];
  readonly activation?: string;
}

const LSTM: Kind = { cell: 'LSTM', gates: [0, 3, 1, 2] };
const GRU: Kind = { cell: 'GRU', gates: [1, 0, 2] };
const RNN = (activation: string): Kind => ({ cell: 'RNN', gates: [0], activation });

/** How many states a cell has. */
function stateCount({ cell }: Kind): number {
  return cell === 'LSTM' ? 2 : 1;
}

interface Layer {
  readonly directions: number;
  /** For each direction the weights of the input and of the state, and their biases if there are any. */
  readonly params: readonly Value[];
}

const recurrent =
  (kind: Kind): Rule =>
  (c, a) => {
    const states = kind.cell === 'LSTM' ? a.tensors('hx') : [a.tensor('hx')];
    const [layers, directions] = [a.n('num_layers'), a.bool('bidirectional') ? 2 : 1];
    if (a.bool('train') && a.float('dropout') !== 0 && layers > 1)
      refuse(
        'drops values at random, because it is in training mode; call model.eval() before saving the model',
      );
    const hasBias = a.bool('has_biases');
    const params = a.values('params');
    const count = (hasBias ? 4 : 2) * directions;
    if (params.length !== count * layers || layers > 1000) refuse('with a projection is not supported');
    if (states.length !== stateCount(kind)) refuse('needs its initial states');
    const isBatchFirst = a.bool('batch_first');
    const input = a.v('x');
    if (input.shape?.length !== 3) refuse('needs 3 dimensions');
    let x = isBatchFirst ? permute(c, input, [1, 0, 2]) : input;
    const finals: Value[][] = states.map(() => []);
    for (let i = 0; i < layers; i++) {
      const own = params.slice(i * count, (i + 1) * count);
      c.match(c.sizeOf(x, 2), c.sizeOf(own[0] as Value, 1), 'the features of a recurrent layer');
      const made = one(c, kind, x, { directions, params: own }, states, i);
      x = made.sequence;
      for (const [at, state] of made.states.entries()) finals[at]?.push(state);
    }
    const sequence = isBatchFirst ? permute(c, x, [1, 0, 2]) : x;
    return c.tuple([sequence, ...finals.map((parts) => concat(c, parts, 0))]);
  };

function one(
  c: Context,
  { cell, gates, activation }: Kind,
  x: Value,
  { directions, params }: Layer,
  states: readonly TensorRef[],
  i: number,
) {
  const [length, batch] = c.shapeOf(x) as [Int, Int, Int];
  const hidden = c.fixed(c.sizeOf(params[1] as Value, 1), 'hidden size');
  const each = params.length / directions;
  const [forInput, forState, ...biases] = Array.from({ length: each }, (_, at) =>
    inDirections(
      c,
      params.filter((_value, k) => k % each === at),
    ),
  ) as [Value, Value, ...Value[]];
  const [all, ...last] = recur(c, x, {
    cell,
    direction: directions === 2 ? 'bidirectional' : 'forward',
    hidden,
    gates,
    forInput,
    forState,
    biases: biases.length === 2 ? (biases as [Value, Value]) : undefined,
    initial: states.map((state) =>
      state.isZero ? undefined : cut(c, state.value, 0, i * directions, (i + 1) * directions),
    ),
    attributes: {
      ...(cell === 'GRU' ? { linear_before_reset: 1 } : {}),
      ...(activation ? { activations: { strings: new Array<string>(directions).fill(activation) } } : {}),
    },
  });
  const sequence = reshape(c, permute(c, all, [0, 2, 1, 3]), [length, batch, directions * hidden]);
  return { sequence, states: last };
}

/** One step, as LSTMCell and GRUCell compute it. */
const step =
  (kind: Kind): Rule =>
  (c, a: Args) => {
    const x = a.v('x');
    const states = kind.cell === 'LSTM' ? a.tensors('hx') : [a.tensor('hx')];
    const biases = a.isSet('b_ih') ? [a.v('b_ih'), a.v('b_hh')] : [];
    const layer = { directions: 1, params: [a.v('w_ih'), a.v('w_hh'), ...biases] };
    const wide = states.map((state) => {
      const made = c.tensor(c.one('Unsqueeze', [state.value, c.g.ints([0])]));
      made.isZero = state.isZero;
      return made;
    });
    const made = one(c, kind, c.one('Unsqueeze', [x, c.g.ints([0])]), layer, wide, 0);
    const finals = made.states.map((state) => c.one('Squeeze', [state, c.g.ints([0])]));
    return kind.cell === 'LSTM' ? c.tuple(finals) : (finals[0] as Value);
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
