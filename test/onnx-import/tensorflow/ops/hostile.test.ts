/** Nodes no TensorFlow would write: the conversion ends, and with our error or with a graph. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import type { TfAttribute, TfGraph } from '../../../../onnx-import/formats/tensorflow/graph.ts';
import { OPS } from '../../../../onnx-import/formats/tensorflow/ops/table.ts';
import {
  attribute as a,
  constant,
  floats,
  graphOf,
  int32s,
  makeFunction,
  type NodeSpec,
  noisy,
  tensor,
} from './graph.ts';

const ROUNDS = 25;

function generator(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const CONSTANTS: readonly NodeSpec[] = [
  constant('c0', int32s([], [0])),
  constant('c1', int32s([], [-1])),
  constant('c2', int32s([2], [1, 2])),
  constant('c3', int32s([4, 2], [0, 0, 1, 1, 1, 1, 0, 0])),
  constant('c4', floats([], [0.5])),
  constant('c5', floats([4], [1, 2, 3, 4])),
  constant('c6', noisy([3, 3, 2, 4])),
  constant('c7', tensor('bool', [], [1])),
  constant('c8', int32s([0], [])),
  constant('c9', int32s([4], [99, -99, 0, 3])),
  constant('c10', tensor('uint8', [2, 3], [1, 2, 3, 4, 5, 6])),
  constant('c11', floats([1], [Number.NaN])),
  constant('c12', int32s([4], [0, 3, 1, 2])),
];

const INPUTS = {
  x: noisy([2, 4, 4, 2]),
  y: noisy([2, 3]),
  n: int32s([3], [0, 1, 2]),
  s: floats([], [1]),
  f: tensor('bool', [2], [1, 0]),
};
const TENSORS = [...Object.keys(INPUTS), ...CONSTANTS.map(([name]) => name)];
const NAMES =
  'strides dilations padding ksize data_format axis keep_dims num T dtype N block_size mode perm body cond then_branch ' +
  'else_branch branches num_split squeeze_dims begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask ' +
  'explicit_paddings equation DstT value out_type fused_ops is_training epsilon depth_radius element_dtype';
const VALUES: readonly TfAttribute[] = [
  a.int(0),
  a.int(-3),
  a.int(2),
  a.int(2 ** 31),
  a.float(Number.NaN),
  a.flag(true),
  a.text('SAME'),
  a.text('VALID'),
  a.text('NCHW'),
  a.text('ij,jk->'),
  a.ints([1, 2, 2, 1]),
  a.ints([]),
  a.ints([0, 0, 0, 0]),
  a.ints([1, 1, 2 ** 31, 1]),
  a.texts(['BiasAdd', 'Nothing']),
  a.type('float64'),
  a.type({ unsupported: 'variant' }),
  a.shape(undefined),
  a.shape([-1, 3]),
  a.tensor(floats([1], [1])),
  a.func('inner'),
  a.func('missing'),
  a.funcs(['inner', 'inner']),
];

const INNER = makeFunction(
  'inner',
  { p: 'float32', q: 'float32' },
  [['r', 'AddV2', ['p', 'q']]],
  ['r', 'q:0'],
);

function hostileGraph(op: string, next: (limit: number) => number): TfGraph {
  const names = NAMES.split(' ');
  const inputs = Array.from({ length: next(7) }, () => TENSORS[next(TENSORS.length)] as string);
  const attributes = Object.fromEntries(
    Array.from({ length: next(5) }, () => [names[next(names.length)], VALUES[next(VALUES.length)]]),
  ) as Record<string, TfAttribute>;
  const nodes: NodeSpec[] = [...CONSTANTS, ['node', op, inputs, attributes], ['after', 'Identity', ['node']]];
  return graphOf(
    { inputs: INPUTS, nodes, outputs: ['after'], functions: [INNER] },
    (['fixed', 'free', 'batch'] as const)[next(3)] as 'fixed',
  );
}

test('a hostile node of any operation is converted or refused, never crashed on', () => {
  const next = generator(7);
  const crashed = new Set<string>();
  let refused = 0;
  for (const op of [...Object.keys(OPS), 'Switch', 'Merge', 'Enter', 'Exit'])
    for (let round = 0; round < ROUNDS; round++) {
      const graph = hostileGraph(op, next);
      try {
        convertTensorflow(graph, {});
      } catch (error) {
        if (error instanceof ServingError && error.code === 'bad_model') refused += 1;
        else
          crashed.add(
            `${op}: ${error instanceof Error ? (error.stack ?? '').split('\n').slice(0, 4).join(' ') : String(error)}`,
          );
      }
    }
  assert.deepEqual([...crashed], []);
  assert.ok(refused > 1000);
});

test('a node with an input that has no producer is refused', () => {
  const graph = graphOf(
    { inputs: { x: noisy([1]) }, nodes: [['y', 'Add', ['x', 'nowhere']]], outputs: ['y'] },
    'fixed',
  );
  assert.throws(() => convertTensorflow(graph, {}), { code: 'bad_model', message: /tensor "y:0"/ });
});

test('loops without a way back, a condition or an end are refused', () => {
  const frame = { frame_name: a.text('f') };
  const cases: NodeSpec[][] = [
    [
      ['e', 'Enter', ['x'], frame],
      ['y', 'Exit', ['e']],
    ],
    [
      ['e', 'Enter', ['x'], frame],
      ['m', 'Merge', ['e', 'x']],
      ['s', 'Switch', ['m', 'x']],
      ['y', 'Exit', ['s:0']],
    ],
    [
      ['e', 'Enter', [], frame],
      ['y', 'Exit', ['e']],
    ],
    [
      ['e', 'Enter', ['x']],
      ['y', 'Exit', ['e']],
    ],
  ];
  for (const nodes of cases) {
    const graph = graphOf({ inputs: { x: noisy([1]) }, nodes, outputs: ['y'] }, 'fixed');
    assert.throws(() => convertTensorflow(graph, {}), { code: 'bad_model' });
  }
});

test('functions that call functions twice, deep down, end', () => {
  const levels = Array.from({ length: 30 }, (_, i) =>
    makeFunction(
      `level${i}`,
      { p: 'bool', v: 'float32' },
      [
        [
          'r',
          'If',
          ['p', 'p', 'v'],
          { then_branch: a.func(`level${i + 1}`), else_branch: a.func(`level${i + 1}`), Tout: a.ints([]) },
        ],
      ],
      ['r'],
    ),
  );
  const graph = graphOf(
    {
      inputs: { x: noisy([1]), p: tensor('bool', [], [1]) },
      nodes: [['y', 'If', ['p', 'p', 'x'], { then_branch: a.func('level0'), else_branch: a.func('level0') }]],
      outputs: ['y'],
      functions: levels,
    },
    'fixed',
  );
  assert.throws(() => convertTensorflow(graph, {}), { code: 'bad_model' });
});
