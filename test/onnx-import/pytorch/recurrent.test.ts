/** LSTM, GRU and RNN with one feature and two hidden ones, against PyTorch's formulas step by step. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertClose, tensorText } from '../support/pytorch/rows.ts';
import { floats, runScript } from '../support/pytorch/run.ts';

type Vector = readonly number[];
type Matrix = readonly Vector[];
interface Weights {
  readonly input: Matrix;
  readonly hidden: Matrix;
  readonly biases: readonly [Vector, Vector] | undefined;
}
interface State {
  readonly h: Vector;
  readonly c: Vector;
}
type Cell = (x: Vector, state: State, weights: Weights) => State;

const HIDDEN = 2;
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const product = (m: Matrix, v: Vector, bias: Vector | undefined) =>
  m.map((row, i) => row.reduce((sum, x, j) => sum + x * (v[j] as number), bias?.[i] ?? 0));
/** What gate `i` has of the input and of the hidden state. */
const gate = (x: Vector, { h }: State, { input, hidden, biases }: Weights, i: number) => {
  const part = (v: Vector) => v.slice(i * HIDDEN, (i + 1) * HIDDEN);
  return [part(product(input, x, biases?.[0])), part(product(hidden, h, biases?.[1]))] as [Vector, Vector];
};
const add = ([a, b]: readonly [Vector, Vector], of: (x: number) => number) =>
  a.map((value, i) => of(value + (b[i] as number)));

const lstm: Cell = (x, state, weights) => {
  const of = (at: number, apply: (x: number) => number) => add(gate(x, state, weights, at), apply);
  const [i, f, g, o] = [of(0, sigmoid), of(1, sigmoid), of(2, Math.tanh), of(3, sigmoid)];
  const c = state.c.map((old, at) => (f[at] as number) * old + (i[at] as number) * (g[at] as number));
  return { h: c.map((value, at) => (o[at] as number) * Math.tanh(value)), c };
};
const gru: Cell = (x, state, weights) => {
  const [r, z] = [add(gate(x, state, weights, 0), sigmoid), add(gate(x, state, weights, 1), sigmoid)];
  const [of, from] = gate(x, state, weights, 2);
  const n = of.map((value, at) => Math.tanh(value + (r[at] as number) * (from[at] as number)));
  const h = n.map(
    (value, at) => (1 - (z[at] as number)) * value + (z[at] as number) * (state.h[at] as number),
  );
  return { h, c: state.c };
};
const rnn =
  (of: (x: number) => number): Cell =>
  (x, state, weights) => ({ h: add(gate(x, state, weights, 0), of), c: state.c });

const CELLS = {
  lstm: { cell: lstm, gates: 4 },
  gru: { cell: gru, gates: 3 },
  rnn_tanh: { cell: rnn(Math.tanh), gates: 1 },
  rnn_relu: { cell: rnn((x) => Math.max(0, x)), gates: 1 },
};

const some = (rows: number, columns: number, seed: number) =>
  Array.from({ length: rows }, (_, i) =>
    Array.from({ length: columns }, (__, j) => ((i * 7 + j * 3 + seed * 5) % 11) / 10 - 0.4),
  );

/** Three steps of two records with one feature. */
const STEPS = [
  [0.5, -1],
  [1.5, 2],
  [-2, 0.25],
];
const X = floats([3, 2, 1], STEPS.flat());

interface Layers {
  readonly count: number;
  readonly directions: number;
  readonly hasBias: boolean;
  readonly isBatchFirst: boolean;
  readonly isZero: boolean;
}

function weightsOf(gates: number, { count, directions, hasBias }: Layers): Weights[] {
  return Array.from({ length: count * directions }, (_, i) => ({
    input: some(gates * HIDDEN, i < directions ? 1 : HIDDEN * directions, i),
    hidden: some(gates * HIDDEN, HIDDEN, i + 1),
    biases: hasBias
      ? [some(1, gates * HIDDEN, i + 2)[0] as Vector, some(1, gates * HIDDEN, i + 3)[0] as Vector]
      : undefined,
  }));
}

/** The outputs [step, record, feature], and the last states [layer and direction, record, feature]. */
function expected(cell: Cell, all: readonly Weights[], layers: Layers, states: { h: Matrix[]; c: Matrix[] }) {
  let sequence: Matrix[] = STEPS.map((row) => row.map((value) => [value]));
  const last: State[][] = [];
  for (let layer = 0; layer < layers.count; layer++) {
    const out: Matrix[][] = [];
    for (let direction = 0; direction < layers.directions; direction++) {
      const at = layer * layers.directions + direction;
      const own: State[] = [0, 1].map((record) => ({
        h: states.h[at]?.[record] as Vector,
        c: states.c[at]?.[record] as Vector,
      }));
      const order = direction === 0 ? [0, 1, 2] : [2, 1, 0];
      const made: Matrix[] = [];
      for (const step of order) {
        for (const record of [0, 1])
          own[record] = cell(sequence[step]?.[record] as Vector, own[record] as State, all[at] as Weights);
        made[step] = own.map(({ h }) => h);
      }
      out.push(made);
      last.push(own);
    }
    sequence = sequence.map((_, step) =>
      [0, 1].map((record) => out.flatMap((made) => made[step]?.[record] as Vector)),
    );
  }
  return {
    sequence: layers.isBatchFirst
      ? [0, 1].flatMap((record) => sequence.flatMap((step) => step[record] as Vector))
      : sequence.flat(2),
    h: last.flatMap((own) => own.flatMap(({ h }) => h)),
    c: last.flatMap((own) => own.flatMap(({ c }) => c)),
  };
}

const FORMS: readonly Layers[] = [
  { count: 1, directions: 1, hasBias: true, isBatchFirst: false, isZero: true },
  { count: 1, directions: 2, hasBias: false, isBatchFirst: true, isZero: false },
  { count: 2, directions: 2, hasBias: true, isBatchFirst: false, isZero: false },
];

for (const [name, { cell, gates }] of Object.entries(CELLS))
  for (const layers of FORMS)
    test(`${name} of ${layers.count} layers and ${layers.directions} directions`, async (t) => {
      const weights = weightsOf(gates, layers);
      const count = layers.count * layers.directions;
      const state = (seed: number) =>
        Array.from({ length: count }, (_, i) =>
          some(2, HIDDEN, layers.isZero ? 0 : i + seed).map((row) =>
            row.map((value) => (layers.isZero ? 0 : value)),
          ),
        );
      const states = { h: state(4), c: state(7) };
      const zeros = `torch.zeros([${count}, 2, 2])`;
      const [h, c] = [states.h, states.c].map((each) => (layers.isZero ? zeros : tensorText(each)));
      const params = weights.flatMap(({ input, hidden, biases }) =>
        [input, hidden, ...(biases ?? [])].map(tensorText),
      );
      const flags = [
        layers.hasBias,
        layers.count,
        '0.5',
        false,
        layers.directions === 2,
        layers.isBatchFirst,
      ].map((flag) => (flag === true ? 'True' : flag === false ? 'False' : flag));
      const x = layers.isBatchFirst ? 'torch.transpose(x, 0, 1)' : 'x';
      const isLstm = name === 'lstm';
      const forward = `${isLstm ? 'y, h, c' : 'y, h'} = torch.${name}(${x}, ${isLstm ? `[${h}, ${c}]` : h}, [${params.join(', ')}], ${flags.join(', ')})\nreturn (${isLstm ? 'y, h, c' : 'y, h'})`;
      const results = await runScript(t, { forward }, X);
      const wanted = expected(cell, weights, layers, states);
      assertClose(results[0], wanted.sequence, 'the sequence');
      assertClose(results[1], wanted.h, 'the hidden states');
      if (isLstm) assertClose(results[2], wanted.c, 'the cell states');
    });

test('a cell is one step', async (t) => {
  const input = 'torch.select(x, 0, 1)';
  const [h, c] = [some(2, HIDDEN, 4), some(2, HIDDEN, 7)];
  for (const [name, { cell, gates }] of Object.entries(CELLS))
    for (const hasBias of [true, false]) {
      const [weights] = weightsOf(gates, { ...(FORMS[0] as Layers), hasBias }) as [Weights];
      const params = [weights.input, weights.hidden, ...(weights.biases ?? [])].map(tensorText).join(', ');
      const isLstm = name === 'lstm';
      const call = `torch.${name}_cell(${input}, ${isLstm ? `[${tensorText(h)}, ${tensorText(c)}]` : tensorText(h)}, ${params})`;
      const forward = isLstm ? `a, b = ${call}\nreturn (a, b)` : `return ${call}`;
      const results = await runScript(t, { forward }, X);
      const made = [0, 1].map((record) =>
        cell([STEPS[1]?.[record] as number], { h: h[record] as Vector, c: c[record] as Vector }, weights),
      );
      assertClose(
        results[0],
        made.flatMap((state) => state.h),
        name,
      );
      if (isLstm)
        assertClose(
          results[1],
          made.flatMap((state) => state.c),
          name,
        );
    }
});

const REFUSED: readonly (readonly [call: string, message: RegExp])[] = [
  ['torch.gru(x, h, [w, w, w], False, 1, 0., False, False, False)', /with a projection/],
  ['torch.gru(x, h, [w, w, w, w], False, 2, 0.5, True, False, False)', /in training mode/],
  ['torch.lstm(x, [h], [w, w], False, 1, 0., False, False, False)', /needs its initial states/],
  ['torch.gru(torch.select(x, 0, 0), h, [w, w], False, 1, 0., False, False, False)', /needs 3 dimensions/],
  ['torch.gru(x, h, [w, w], False, 1, 0., False, False, False)', /combines 1 and 2 as the features/],
];
for (const [call, message] of REFUSED)
  test(`refused: ${call}`, async (t) => {
    const forward = `w = torch.zeros([6, 2])\nh = torch.zeros([1, 2, 2])\nreturn ${call}`;
    await assert.rejects(runScript(t, { forward }, X), { code: 'bad_model', message });
  });
