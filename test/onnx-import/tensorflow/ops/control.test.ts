/** Conditions, loops, lists and fused recurrent cells. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import { readFrozenGraph } from '../../../../onnx-import/formats/tensorflow/files/frozen.ts';
import type { TfFunction } from '../../../../onnx-import/formats/tensorflow/graph.ts';
import {
  attribute as a,
  assertTensor,
  constant,
  floats,
  graphOf,
  int32s,
  makeFunction,
  type NodeSpec,
  noisy,
  run,
  runGraph,
  tensor,
} from './graph.ts';

const flag = (value: boolean) => tensor('bool', [], [value ? 1 : 0]);
const one = constant('one', int32s([], [1]));
const zero = constant('zero', int32s([], [0]));

const DOUBLE = makeFunction('double', { v: 'float32' }, [['r', 'Add', ['v', 'v']]], ['r']);
const NEGATE = makeFunction('negate', { v: 'float32' }, [['r', 'Neg', ['v']]], ['r']);

test('If runs the branch of its condition, and a constant condition leaves no If', async () => {
  const x = noisy([2, 3]);
  const spec = (condition: NodeSpec[]) => ({
    inputs: { x, ...(condition.length === 0 ? { p: flag(false) } : {}) },
    nodes: [
      ...condition,
      [
        'y',
        'StatelessIf',
        ['p', 'x'],
        { then_branch: a.func('double'), else_branch: a.func('negate') },
      ] as NodeSpec,
    ],
    outputs: ['y'],
    functions: [DOUBLE, NEGATE],
  });
  const [no] = await run(spec([]));
  assertTensor(
    no as Tensor,
    floats(
      [2, 3],
      Array.from(x.data as Float32Array, (value) => -value),
    ),
  );
  const fixed = spec([constant('p', flag(true))]);
  const [yes] = await run(fixed);
  assertTensor(
    yes as Tensor,
    floats(
      [2, 3],
      Array.from(x.data as Float32Array, (value) => 2 * value),
    ),
  );
  const { nodes } = convertTensorflow(graphOf(fixed, 'fixed'), {}).graph;
  assert.ok(!nodes.some(({ op }) => op === 'If'));
});

test('a dropout function whose body the file has lost passes its input through, and the notes say so', async () => {
  const x = noisy([2, 3]);
  const spec = { inputs: { x }, nodes: [['y', 'Dropout', ['x']] as NodeSpec], outputs: ['y'] };
  const [y] = await run(spec);
  assertTensor(y as Tensor, x);
  assert.match(
    convertTensorflow(graphOf(spec, 'fixed'), {}).notes.join(),
    /"y" \(Dropout\) passes its input through/,
  );
});

test('Case takes the last branch for an index that is not there', async () => {
  const x = noisy([3]);
  for (const [index, factor] of [
    [0, 2],
    [1, -1],
    [7, -1],
    [-1, -1],
  ] as const) {
    const [y] = await run({
      inputs: { x, i: int32s([], [index]) },
      nodes: [['y', 'Case', ['i', 'x'], { branches: a.funcs(['double', 'negate']) }]],
      outputs: ['y'],
      functions: [DOUBLE, NEGATE],
    });
    assertTensor(
      y as Tensor,
      floats(
        [3],
        Array.from(x.data as Float32Array, (value) => factor * value),
      ),
    );
  }
});

test('Switch and Merge: a constant condition leaves one way, a computed one chooses', async () => {
  const x = noisy([4]);
  const nodes = (first: NodeSpec[]): NodeSpec[] => [
    ...first,
    ['s', 'Switch', ['x', 'p']],
    ['no', 'Neg', ['s:0']],
    ['yes', 'Exp', ['s:1']],
    ['y', 'Merge', ['no', 'yes']],
  ];
  const exp = floats([4], Array.from(x.data as Float32Array, Math.exp));
  const neg = floats(
    [4],
    Array.from(x.data as Float32Array, (value) => -value),
  );
  for (const value of [true, false]) {
    const [folded, index] = await run({
      inputs: { x },
      nodes: nodes([constant('p', flag(value))]),
      outputs: ['y:0', 'y:1'],
    });
    assertTensor(folded as Tensor, value ? exp : neg);
    assert.equal(index?.data[0], value ? 1 : 0);
    const [chosen, which] = await run({
      inputs: { x, p: flag(value) },
      nodes: nodes([]),
      outputs: ['y:0', 'y:1'],
    });
    assertTensor(chosen as Tensor, value ? exp : neg);
    assert.equal(which?.data[0], value ? 1 : 0);
  }
});

test('a condition within a condition, one of its ways a constant, chooses by both', async () => {
  const x = floats([2], [3, -4]);
  for (const p of [true, false])
    for (const q of [true, false]) {
      const [y] = await run({
        inputs: { x, p: flag(p), q: flag(q) },
        nodes: [
          ['outer', 'Switch', ['x', 'p']],
          ['within', 'Switch', ['q', 'p']],
          ['inner', 'Switch', ['outer:1', 'within:1']],
          ['twice', 'Add', ['inner:1', 'inner:1']],
          constant('nine', floats([2], [9, 9])),
          ['chosen', 'Merge', ['nine', 'twice']],
          ['back', 'Neg', ['outer:0']],
          ['y', 'Merge', ['back', 'chosen']],
        ],
        outputs: ['y'],
      });
      assertTensor(y as Tensor, floats([2], p ? (q ? [6, -8] : [9, 9]) : [-3, 4]), `p ${p}, q ${q}`);
    }
});

test('two constants are merged by the flag that only their control inputs lead to', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cs-tf-merge-'));
  const number = (name: string, control: string, value: number) =>
    `node { name: "${name}" op: "Const" input: "^cond/switch_${control}" attr { key: "dtype" value { type: DT_FLOAT } }
     attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: ${value} } } } }`;
  const place = (name: string, type: string) =>
    `node { name: "${name}" op: "Placeholder" attr { key: "dtype" value { type: ${type} } } }`;
  const text = [
    place('x', 'DT_FLOAT'),
    place('is_training', 'DT_BOOL'),
    'node { name: "cond/Switch" op: "Switch" input: "is_training" input: "is_training" }',
    'node { name: "cond/switch_t" op: "Identity" input: "cond/Switch:1" }',
    'node { name: "cond/switch_f" op: "Identity" input: "cond/Switch" }',
    number('half', 't', 0.5),
    number('whole', 'f', 3),
    'node { name: "merged" op: "Merge" input: "whole" input: "half" }',
    'node { name: "y" op: "Mul" input: "x" input: "merged" }',
  ].join('\n');
  try {
    writeFileSync(join(folder, 'frozen_inference_graph.pbtxt'), text);
    const { graph } = await readFrozenGraph(folder);
    const conversion = convertTensorflow(graph, {});
    assert.deepEqual(conversion.notes, ['input "is_training" is replaced by 0']);
    const [y] = await runGraph(conversion, { x: floats([2], [1, -2]) });
    assertTensor(y as Tensor, floats([2], [3, -6]));
    const options = { inputNames: ['x', 'is_training'], inputShapes: { x: [2], is_training: [] } };
    const open = convertTensorflow((await readFrozenGraph(folder, options)).graph, options);
    const [trained] = await runGraph(open, { x: floats([2], [1, -2]), is_training: flag(true) });
    assertTensor(trained as Tensor, floats([2], [0.5, -1]));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('an operation on the way that is never taken is not refused', async () => {
  const x = noisy([2]);
  const [y] = await run({
    inputs: { x },
    nodes: [
      constant('p', flag(false)),
      ['s', 'Switch', ['x', 'p']],
      ['train', 'SomeTrainingOp', ['s:1']],
      ['y', 'Merge', ['s:0', 'train']],
    ],
    outputs: ['y'],
  });
  assertTensor(y as Tensor, x);
});

test('a While loop passes its variables on until the condition is false', async () => {
  const x = noisy([3]);
  const body = makeFunction(
    'body',
    { i: 'int32', n: 'int32', v: 'float32', w: 'float32' },
    [one, ['next', 'AddV2', ['i', 'one']], ['sum', 'AddV2', ['v', 'w']], ['same', 'Identity', ['w']]],
    ['next', 'n:0', 'sum', 'same'],
  );
  const condition = makeFunction(
    'condition',
    { i: 'int32', n: 'int32', v: 'float32', w: 'float32' },
    [['less', 'Less', ['i', 'n']]],
    ['less'],
  );
  for (const rounds of [3, 0]) {
    const [y, count] = await run({
      inputs: { x, n: int32s([], [rounds]) },
      nodes: [
        zero,
        ['y', 'While', ['zero', 'n', 'x', 'x'], { body: a.func('body'), cond: a.func('condition') }],
      ],
      outputs: ['y:2', 'y:0'],
      functions: [body, condition],
    });
    assertTensor(
      y as Tensor,
      floats(
        [3],
        Array.from(x.data as Float32Array, (value) => (rounds + 1) * value),
      ),
    );
    assertTensor(count as Tensor, int32s([], [rounds]));
  }
});

test('a variable whose shape grows in the body is free in the loop', async () => {
  const x = noisy([1, 2]);
  const body = makeFunction(
    'body',
    { i: 'int32', v: 'float32' },
    [one, zero, ['next', 'AddV2', ['i', 'one']], ['grown', 'ConcatV2', ['v', 'v', 'zero']]],
    ['next', 'grown'],
  );
  const condition = makeFunction(
    'condition',
    { i: 'int32', v: 'float32' },
    [constant('two', int32s([], [2])), ['less', 'Less', ['i', 'two']]],
    ['less'],
  );
  const [y] = await run({
    inputs: { x },
    nodes: [
      zero,
      ['y', 'StatelessWhile', ['zero', 'x'], { body: a.func('body'), cond: a.func('condition') }],
    ],
    outputs: ['y:1'],
    functions: [body, condition],
    sizes: 'fixed and batch',
  });
  assertTensor(
    y as Tensor,
    floats(
      [4, 2],
      Array.from({ length: 8 }, (_, i) => x.data[i % 2] as number),
    ),
  );
});

/** A running sum over the rows of x, as Keras writes an RNN: one list is read, another filled. */
function runningSum(options: { all: boolean; push?: boolean }) {
  const variant = { unsupported: 'variant' };
  const arguments_ = { i: 'int32', n: 'int32', out: variant, state: 'float32', rows: variant } as const;
  const set: NodeSpec = options.push
    ? ['filled', 'TensorListPushBack', ['out', 'sum'], { element_dtype: a.type('float32') }]
    : [
        'filled',
        'TensorListSetItem',
        ['out', options.all ? 'i' : 'zero', 'sum'],
        { element_dtype: a.type('float32') },
      ];
  const body = makeFunction(
    'body',
    arguments_,
    [
      one,
      zero,
      constant('any', int32s([1], [-1])),
      ['row', 'TensorListGetItem', ['rows', 'i', 'any'], { element_dtype: a.type('float32') }],
      ['sum', 'AddV2', ['state', 'row']],
      set,
      ['next', 'AddV2', ['i', 'one']],
    ],
    ['next', 'n:0', 'filled', 'sum', 'rows:0'],
  );
  const condition = makeFunction('condition', arguments_, [['less', 'Less', ['i', 'n']]], ['less']);
  const start: NodeSpec = options.push
    ? ['out', 'EmptyTensorList', ['shape', 'zero'], { element_dtype: a.type('float32') }]
    : [
        'out',
        'TensorListReserve',
        ['shape', options.all ? 'steps' : 'one'],
        { element_dtype: a.type('float32') },
      ];
  const nodes: NodeSpec[] = [
    zero,
    one,
    constant('two', int32s([1], [2])),
    constant('at', int32s([1], [0])),
    constant('end', int32s([1], [1])),
    constant('shape', int32s([2], [-1, 3])),
    ['sizes', 'Shape', ['x']],
    [
      'steps',
      'StridedSlice',
      ['sizes', 'at', 'end', 'end'],
      { shrink_axis_mask: a.int(1), begin_mask: a.int(0), end_mask: a.int(0) },
    ],
    ['rows', 'TensorListFromTensor', ['x', 'shape'], { element_dtype: a.type('float32') }],
    start,
    [
      'w',
      'While',
      ['zero', 'steps', 'out', 'state', 'rows'],
      { body: a.func('body'), cond: a.func('condition') },
    ],
    ['y', 'TensorListStack', ['w:2', 'shape'], { element_dtype: a.type('float32'), num_elements: a.int(-1) }],
  ];
  return { nodes, functions: [body, condition] };
}

for (const [title, options] of [
  ['a list that is set item by item is a scan', { all: true }],
  ['a list whose only item is set in every round holds the last', { all: false }],
  ['a list that grows by pushing is a scan', { all: true, push: true }],
] as const) {
  test(title, async () => {
    const [x, state] = [noisy([4, 2, 3]), noisy([2, 3], 2)];
    const { nodes, functions } = runningSum(options);
    const spec = { inputs: { x, state }, nodes, outputs: ['y', 'w:3'], functions };
    const [y, last] = await run(spec);
    const sums: number[][] = [];
    let current = [...state.data].map(Number);
    for (let t = 0; t < 4; t++) {
      current = current.map((value, k) => value + (x.data[t * 6 + k] as number));
      sums.push(current);
    }
    assertTensor(last as Tensor, floats([2, 3], current));
    assertTensor(y as Tensor, options.all ? floats([4, 2, 3], sums.flat()) : floats([1, 2, 3], current));
    const loop = convertTensorflow(graphOf(spec, 'free'), {}).graph.nodes.find(({ op }) => op === 'Loop');
    // Counter, state, and the list of one; what is filled is no variable, but a scan output.
    assert.equal(loop?.inputs.length, options.all ? 4 : 5);
  });
}

test('a loop that stops early leaves zeros in the list', async () => {
  const x = noisy([4, 2, 3]);
  const { nodes, functions } = runningSum({ all: true });
  const shorter = nodes.map(
    (node): NodeSpec =>
      node[0] === 'w' ? ['w', 'While', ['zero', 'rounds', 'out', 'state', 'rows'], node[3] ?? {}] : node,
  );
  const [y] = await run({
    inputs: { x, state: floats([2, 3], [0, 0, 0, 0, 0, 0]) },
    nodes: [constant('rounds', int32s([], [2])), ...shorter],
    outputs: ['y'],
    functions,
  });
  const first = [...x.data].slice(0, 6).map(Number);
  const second = first.map((value, k) => value + (x.data[6 + k] as number));
  assertTensor(y as Tensor, floats([4, 2, 3], [...first, ...second, ...new Array<number>(12).fill(0)]));
});

test('convolutions work in the body of a loop, on its variable and on what was convolved outside', async () => {
  const x = noisy([1, 4, 4, 2]);
  const strides = { strides: a.ints([1, 1, 1, 1]), padding: a.text('SAME') };
  const w = constant('w', noisy([3, 3, 2, 2], 2));
  const arguments_ = { i: 'int32', v: 'float32', u: 'float32', k: 'float32' } as const;
  const body = makeFunction(
    'body',
    arguments_,
    [
      one,
      ['next', 'AddV2', ['i', 'one']],
      ['c', 'Conv2D', ['v', 'k'], strides],
      ['r', 'Relu', ['u']],
      ['sum', 'AddV2', ['c', 'r']],
    ],
    ['next', 'sum', 'u:0', 'k:0'],
  );
  const condition = makeFunction(
    'condition',
    arguments_,
    [constant('two', int32s([], [2])), ['less', 'Less', ['i', 'two']]],
    ['less'],
  );
  const step = (name: string, input: string): NodeSpec[] => [
    [`${name}c`, 'Conv2D', [input, 'w'], strides],
    [name, 'AddV2', [`${name}c`, 'relu']],
  ];
  const [looped, unrolled] = await run({
    inputs: { x },
    nodes: [
      w,
      zero,
      ['outside', 'Conv2D', ['x', 'w'], strides],
      ['loop', 'While', ['zero', 'x', 'outside', 'w'], { body: a.func('body'), cond: a.func('condition') }],
      ['y', 'Conv2D', ['loop:1', 'w'], strides],
      ['relu', 'Relu', ['outside']],
      ...step('first', 'x'),
      ...step('second', 'first'),
      ['z', 'Conv2D', ['second', 'w'], strides],
    ],
    outputs: ['y', 'z'],
    functions: [body, condition],
  });
  assertTensor(looped as Tensor, unrolled as Tensor);
});

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

/** One step of TensorFlow's LSTM cell for one row; gates by name. */
function lstmStep(
  x: number[],
  state: { c: number[]; h: number[] },
  weights: { w: number[][]; bias: number[]; order: string; forget: number; peep?: number[][] },
) {
  const input = [...x, ...state.h];
  const units = state.h.length;
  const all = weights.bias.map((bias, j) =>
    input.reduce((sum, value, i) => sum + value * (weights.w[i]?.[j] as number), bias),
  );
  const gate = (name: string, k: number) => all[weights.order.indexOf(name) * units + k] as number;
  const peep = (which: number, k: number) => weights.peep?.[which]?.[k] ?? 0;
  const c = state.h.map((_, k) => {
    const i = sigmoid(gate('i', k) + peep(0, k) * (state.c[k] as number));
    const f = sigmoid(gate('f', k) + weights.forget + peep(1, k) * (state.c[k] as number));
    return i * Math.tanh(gate('c', k)) + f * (state.c[k] as number);
  });
  const h = c.map((value, k) => sigmoid(gate('o', k) + peep(2, k) * value) * Math.tanh(value));
  return { c, h };
}

for (const version of ['BlockLSTM', 'BlockLSTMV2'] as const) {
  test(`${version} runs its cell over all steps, with peepholes`, async () => {
    const [steps, batch, size, units] = [3, 2, 2, 2];
    const x = noisy([steps, batch, size]);
    const w = noisy([size + units, 4 * units], 2);
    const bias = noisy([4 * units], 3);
    const peeps = [4, 5, 6].map((seed) => noisy([units], seed)) as [Tensor, Tensor, Tensor];
    const [cs, h] = [noisy([batch, units], 7), noisy([batch, units], 8)];
    const [rows, states] = await run({
      inputs: { x, cs, h },
      nodes: [
        constant('length', tensor('int64', [], [steps])),
        constant('w', w),
        constant('bias', bias),
        ...peeps.map((value, i) => constant(`p${i}`, value)),
        [
          'y',
          version,
          ['length', 'x', 'cs', 'h', 'w', 'p0', 'p1', 'p2', 'bias'],
          {
            use_peephole: a.flag(true),
            cell_clip: a.float(-1),
            ...(version === 'BlockLSTM' ? { forget_bias: a.float(0.5) } : {}),
          },
        ],
      ],
      outputs: ['y:6', 'y:1'],
    });
    const list = (value: Tensor, from: number, count: number) =>
      [...value.data].slice(from, from + count).map(Number);
    const weights = {
      w: Array.from({ length: size + units }, (_, i) => list(w, i * 4 * units, 4 * units)),
      bias: list(bias, 0, 4 * units),
      order: version === 'BlockLSTM' ? 'icfo' : 'ifco',
      forget: version === 'BlockLSTM' ? 0.5 : 0,
      peep: peeps.map((value) => list(value, 0, units)),
    };
    const expected = { h: [] as number[], c: [] as number[] };
    const state = Array.from({ length: batch }, (_, n) => ({
      c: list(cs, n * units, units),
      h: list(h, n * units, units),
    }));
    for (let t = 0; t < steps; t++)
      for (let n = 0; n < batch; n++) {
        const next = lstmStep(
          list(x, (t * batch + n) * size, size),
          state[n] as { c: number[]; h: number[] },
          weights,
        );
        state[n] = next;
        expected.h.push(...next.h);
        expected.c.push(...next.c);
      }
    assertTensor(rows as Tensor, floats([steps, batch, units], expected.h));
    assertTensor(states as Tensor, floats([steps, batch, units], expected.c));
  });
}

test('GRUBlockCell resets the state before the product', async () => {
  const [x, h] = [noisy([1, 2]), noisy([1, 2], 2)];
  const [ru, c] = [noisy([4, 4], 3), noisy([4, 2], 4)];
  const [bru, bc] = [noisy([4], 5), noisy([2], 6)];
  const [y] = await run({
    inputs: { x, h },
    nodes: [
      constant('ru', ru),
      constant('c', c),
      constant('bru', bru),
      constant('bc', bc),
      ['y', 'GRUBlockCell', ['x', 'h', 'ru', 'c', 'bru', 'bc']],
    ],
    outputs: ['y:3'],
  });
  const product = (row: number[], w: Tensor, bias: Tensor) =>
    Array.from({ length: bias.data.length }, (_, j) =>
      row.reduce(
        (sum, value, i) => sum + value * (w.data[i * bias.data.length + j] as number),
        bias.data[j] as number,
      ),
    );
  const [row, state] = [[...x.data].map(Number), [...h.data].map(Number)];
  const gates = product([...row, ...state], ru, bru).map(sigmoid);
  const [r, u] = [gates.slice(0, 2), gates.slice(2)];
  const candidate = product([...row, ...state.map((value, k) => value * (r[k] as number))], c, bc).map(
    Math.tanh,
  );
  const expected = state.map(
    (value, k) => (u[k] as number) * value + (1 - (u[k] as number)) * (candidate[k] as number),
  );
  assertTensor(y as Tensor, floats([1, 2], expected));
});

/** A raw loop over variables: by name what enters, what goes back, and whether the body changes it. */
function rawLoop(
  frame: string,
  variables: Readonly<Record<string, { readonly from: string; readonly next: string }>>,
  constants: Readonly<Record<string, string>>,
  condition: string,
): NodeSpec[] {
  const attributes = { frame_name: a.text(frame) };
  return [
    ...Object.entries(constants).map(
      ([name, from]): NodeSpec => [name, 'Enter', [from], { ...attributes, is_constant: a.flag(true) }],
    ),
    ...Object.entries(variables).flatMap(([name, { from, next }]): NodeSpec[] => [
      [`${name}/enter`, 'Enter', [from], attributes],
      [`${name}/merge`, 'Merge', [`${name}/enter`, `${name}/back`]],
      [`${name}/switch`, 'Switch', [`${name}/merge`, `${frame}/cond`]],
      [name, 'Identity', [`${name}/switch:1`]],
      [`${name}/back`, 'NextIteration', [next]],
      [`${name}/exit`, 'Exit', [`${name}/switch:0`]],
    ]),
    [`${frame}/cond`, 'LoopCond', [condition]],
  ];
}

test("TensorFlow 1's dynamic_rnn: a raw loop that reads one TensorArray and fills another", async () => {
  const [x, state] = [noisy([4, 2, 3]), noisy([2, 3], 2)];
  const float = { dtype: a.type('float32') };
  const nodes: NodeSpec[] = [
    zero,
    one,
    constant('at', int32s([1], [0])),
    constant('end', int32s([1], [1])),
    ['sizes', 'Shape', ['x']],
    ['steps', 'StridedSlice', ['sizes', 'at', 'end', 'end'], { shrink_axis_mask: a.int(1) }],
    ['out', 'TensorArrayV3', ['steps'], float],
    ['in', 'TensorArrayV3', ['steps'], float],
    ['all', 'Range', ['zero', 'steps', 'one']],
    ['rows', 'TensorArrayScatterV3', ['in:0', 'all', 'x', 'in:1']],
    ...rawLoop(
      'rnn',
      {
        i: { from: 'zero', next: 'i_next' },
        flow: { from: 'out:1', next: 'written' },
        s: { from: 'state', next: 'sum' },
      },
      { limit: 'steps', in_handle: 'in:0', in_flow: 'rows', out_handle: 'out:0' },
      'less',
    ),
    ['less', 'Less', ['i/merge', 'limit']],
    constant('step', int32s([], [1])),
    ['i_next', 'Add', ['i', 'step']],
    ['row', 'TensorArrayReadV3', ['in_handle', 'i', 'in_flow'], float],
    ['sum', 'Add', ['s', 'row']],
    ['written', 'TensorArrayWriteV3', ['out_handle', 'i', 'sum', 'flow']],
    ['size', 'TensorArraySizeV3', ['out:0', 'flow/exit']],
    ['places', 'Range', ['zero', 'size', 'one']],
    ['y', 'TensorArrayGatherV3', ['out:0', 'places', 'flow/exit'], float],
  ];
  const [y, last] = await run({ inputs: { x, state }, nodes, outputs: ['y', 's/exit'] });
  const sums: number[] = [];
  let current = [...state.data].map(Number);
  for (let t = 0; t < 4; t++) {
    current = current.map((value, k) => value + (x.data[t * 6 + k] as number));
    sums.push(...current);
  }
  assertTensor(y as Tensor, floats([4, 2, 3], sums));
  assertTensor(last as Tensor, floats([2, 3], current));
});

test('a raw loop within a raw loop runs for each round of the outer one', async () => {
  const x = noisy([2]);
  const nodes: NodeSpec[] = [
    zero,
    constant('three', int32s([], [3])),
    constant('two', int32s([], [2])),
    ...rawLoop(
      'outer',
      { i: { from: 'zero', next: 'i_next' }, v: { from: 'x', next: 'w/exit' } },
      { outer_limit: 'three', outer_x: 'x' },
      'outer_less',
    ),
    ['outer_less', 'Less', ['i/merge', 'outer_limit']],
    constant('i_step', int32s([], [1])),
    ['i_next', 'Add', ['i', 'i_step']],
    constant('j_start', int32s([], [0])),
    constant('j_limit', int32s([], [2])),
    ...rawLoop(
      'inner',
      { j: { from: 'j_start', next: 'j_next' }, w: { from: 'v', next: 'w_next' } },
      { inner_limit: 'j_limit', inner_x: 'outer_x' },
      'inner_less',
    ),
    ['inner_less', 'Less', ['j/merge', 'inner_limit']],
    constant('j_step', int32s([], [1])),
    ['j_next', 'Add', ['j', 'j_step']],
    ['w_next', 'Add', ['w', 'inner_x']],
  ];
  const [y] = await run({ inputs: { x }, nodes, outputs: ['v/exit'] });
  assertTensor(
    y as Tensor,
    floats(
      [2],
      Array.from(x.data as Float32Array, (value) => 7 * value),
    ),
  );
});

test('an input without a shape gets the shape its users demand, with a note', () => {
  const shapeless = (nodes: NodeSpec[]) => {
    const graph = graphOf({ inputs: { x: noisy([1]) }, nodes, outputs: ['y'] }, 'fixed');
    const open = { ...graph, inputs: graph.inputs.map((input) => ({ ...input, shape: undefined })) };
    const { graph: made, notes } = convertTensorflow(open, {});
    return { shape: made.inputs[0]?.shape, notes };
  };
  const strides = { strides: a.ints([1, 1, 1, 1]), padding: a.text('SAME') };
  const w = constant('w', noisy([3, 3, 2, 4]));
  const image = shapeless([
    w,
    constant('half', floats([], [0.5])),
    ['s', 'Mul', ['x', 'half']],
    ['y', 'Conv2D', ['s', 'w'], strides],
  ]);
  assert.deepEqual(image.shape, ['N', 'x_d1', 'x_d2', 2]);
  assert.deepEqual(image.notes, ['input "x" has no shape in the file; what takes it takes [N,x_d1,x_d2,2]']);
  assert.deepEqual(shapeless([constant('w', noisy([5, 3])), ['y', 'MatMul', ['x', 'w']]]).shape, ['N', 5]);
  const reshaped: NodeSpec[] = [constant('to', int32s([3], [-1, 28, 28])), ['y', 'Reshape', ['x', 'to']]];
  assert.deepEqual(shapeless(reshaped).shape, undefined);
  // A mean per channel may have spread one channel to four.
  const spread = [
    constant('w', noisy([1, 1, 4, 4])),
    constant('mean', noisy([4])),
    ['s', 'Sub', ['x', 'mean']] as NodeSpec,
  ];
  assert.deepEqual(shapeless([...spread, ['y', 'Conv2D', ['s', 'w'], strides]]).shape, [
    'N',
    'x_d1',
    'x_d2',
    'x_d3',
  ]);
  assert.deepEqual(shapeless([['y', 'Relu', ['x']]]).shape, undefined);
  assert.deepEqual(
    shapeless([
      w,
      constant('m', noisy([5, 3])),
      ['c', 'Conv2D', ['x', 'w'], strides],
      ['n', 'MatMul', ['x', 'm']],
      constant('all', int32s([1], [-1])),
      ['f', 'Reshape', ['c', 'all']],
      ['g', 'Reshape', ['n', 'all']],
      ['y', 'Add', ['f', 'g']],
    ]).shape,
    undefined,
  );
});

test('a function that calls itself is refused', () => {
  const endless = makeFunction(
    'endless',
    { v: 'float32' },
    [
      constant('p', flag(true)),
      ['r', 'If', ['p', 'v'], { then_branch: a.func('endless'), else_branch: a.func('endless') }],
    ],
    ['r'],
  );
  const graph = graphOf(
    {
      inputs: { x: noisy([1]), p: flag(true) },
      nodes: [['y', 'If', ['p', 'x'], { then_branch: a.func('endless'), else_branch: a.func('endless') }]],
      outputs: ['y'],
      functions: [endless],
    },
    'fixed',
  );
  assert.throws(() => convertTensorflow(graph, {}), {
    code: 'bad_model',
    message: /functions within functions/,
  });
});

test('random numbers that only one branch of a condition draws are reported', () => {
  const side = (name: string, nodes: readonly NodeSpec[], output: string) =>
    makeFunction(name, { x: 'float32' }, nodes, [output]);
  const drawing: readonly NodeSpec[] = [
    constant('shape', int32s([1], [2])),
    ['drawn', 'RandomUniform', ['shape'], { dtype: a.type('float32') }],
    ['sum', 'AddV2', ['x', 'drawn']],
  ];
  const notesOf = (other: TfFunction) => {
    const inputs = { x: floats([2], [1, 2]), flag: tensor('bool', [], [1]) };
    const nodes: NodeSpec[] = [
      ['y', 'If', ['flag', 'x'], { then_branch: a.func('plain'), else_branch: a.func('other') }],
    ];
    const functions = [side('plain', [['same', 'Identity', ['x']]], 'same'), other];
    return convertTensorflow(graphOf({ inputs, nodes, outputs: ['y'], functions }, 'fixed'), {}).notes.join();
  };
  assert.match(notesOf(side('other', drawing, 'sum')), /draws random numbers/);
  assert.equal(notesOf(side('other', [['minus', 'Neg', ['x']]], 'minus')), '');
});
