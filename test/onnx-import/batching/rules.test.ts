/** Single rules, by small graphs: what they must not prove, and what they must. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { type InputAxes, proofOf } from '../../../onnx-import/batching/proof.ts';
import { MOST_TEXTS } from '../../../onnx-import/graph/rows/node.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { ML, node, prove, type Sample } from './prove-sample.ts';

/** The operator that ends the proof. */
const ENDED: readonly (readonly [title: string, operator: string, sample: Sample])[] = [
  [
    'a reshape that takes parts of two rows',
    'Reshape',
    { inputs: { x: ['N', 3] }, nodes: [node('Reshape', 'x s', 'y')], ints: { s: [-1, 6] } },
  ],
  [
    'a reshape of time and rows in the wrong order',
    'Reshape',
    {
      inputs: { x: ['N', 3, 4] },
      nodes: [node('Transpose', 'x', 't', { perm: [1, 0, 2] }), node('Reshape', 't s', 'y')],
      ints: { s: [-1, 3, 4] },
    },
  ],
  ['a squeeze of whatever has the size 1', 'Squeeze', { nodes: [node('Squeeze', 'x', 'y')] }],
  ['a squeeze of the batch axis', 'Squeeze', { nodes: [node('Squeeze', 'x a', 'y')], ints: { a: [0] } }],
  [
    'a softmax over axes 0 and on, before operator set 13',
    'Softmax',
    { opset: 11, nodes: [node('Softmax', 'x', 'y', { axis: 0 })] },
  ],
  [
    'a split of the rows',
    'Split',
    { inputs: { x: [4, 2] }, nodes: [node('Split', 'x', 'y z', { axis: 0 })] },
  ],
  [
    'a split of free rows that are put together in another order',
    'Split',
    { nodes: [node('Split', 'x', 'a b', { axis: -2 }), node('Concat', 'b a', 'y', { axis: 1 })] },
  ],
  [
    'a layer normalized over all axes, the rows among them',
    'LayerNormalization',
    { nodes: [node('LayerNormalization', 'x w', 'y', { axis: 0 })], floats: { w: [4] } },
  ],
  [
    'the mean over all axes that a normalized layer gives beside it',
    'LayerNormalization',
    {
      outputs: ['m'],
      nodes: [node('LayerNormalization', 'x w', 'y m', { axis: -2 })],
      floats: { w: [4] },
    },
  ],
  [
    'another matrix for each of three fixed rows',
    'MatMul',
    { inputs: { x: [3, 2, 4] }, nodes: [node('MatMul', 'x w', 'y')], floats: { w: [3, 4, 2] } },
  ],
  [
    'another matrix for each of three free rows',
    'MatMul',
    { inputs: { x: ['N', 2, 4] }, nodes: [node('MatMul', 'w x', 'y')], floats: { w: [3, 4, 2] } },
  ],
  [
    'a squeeze with an empty list of axes, which squeezes all',
    'Squeeze',
    { nodes: [node('Squeeze', 'x a', 'y')], ints: { a: [] } },
  ],
  [
    'three equal rows of a constant that are expanded to as many as share the run',
    'Expand',
    {
      nodes: [
        node('ConstantOfShape', 'three', 'ones'),
        node('Shape', 'x', 's'),
        node('Expand', 'ones s', 'e'),
        node('Add', 'x e', 'y'),
      ],
      ints: { three: [3, 4] },
    },
  ],
  [
    'as many rows less as there are, which is what is left where one runs alone',
    'Reshape',
    {
      nodes: [
        node('Shape', 'x', 's', { start: 0, end: 1 }),
        node('Neg', 's', 'n'),
        node('Concat', 'n four', 'shape', { axis: 0 }),
        node('Reshape', 'x shape', 'r'),
        node('Concat', 's four', 'back', { axis: 0 }),
        node('Reshape', 'r back', 'y'),
      ],
      ints: { four: [4] },
    },
  ],
  [
    'a model without a version of the standard operators',
    'Softmax',
    { opset: 0, nodes: [node('Softmax', 'x', 'y')] },
  ],
  ['a gather of the first row', 'Gather', { nodes: [node('Gather', 'x a', 'y')], ints: { a: [0] } }],
  ['a slice of the rows', 'Slice', { nodes: [node('Slice', 'x a b a', 'y')], ints: { a: [0], b: [1] } }],
  [
    'as many features as there are rows',
    'Slice',
    {
      nodes: [
        node('Shape', 'x', 's', { start: 0, end: 1 }),
        node('Slice', 'x a s b', 'part'),
        node('ReduceMean', 'part', 'y', { axes: [1] }),
      ],
      ints: { a: [0], b: [1] },
    },
  ],
  [
    'a product of the rows with each other',
    'MatMul',
    { nodes: [node('Transpose', 'x', 't', { perm: [1, 0] }), node('MatMul', 'x t', 'y')] },
  ],
  [
    'rows added to themselves, turned over',
    'Add',
    {
      inputs: { x: ['N', 1] },
      nodes: [node('Transpose', 'x', 't'), node('Add', 'x t', 'y')],
    },
  ],
  ['a constant for each of four rows', 'Add', { floats: { c: [4, 1] }, nodes: [node('Add', 'x c', 'y')] }],
  [
    'a constant for each of the four fixed rows',
    'Add',
    { inputs: { x: [4, 3] }, floats: { c: [4, 1] }, nodes: [node('Add', 'x c', 'y')] },
  ],
  [
    'the places that MaxPool counts through all images',
    'MaxPool',
    {
      inputs: { x: ['N', 1, 4, 4] },
      outputs: ['i'],
      nodes: [node('MaxPool', 'x', 'y i', { kernel_shape: [2, 2] })],
    },
  ],
  [
    'statistics of all rows by default axes',
    'MeanVarianceNormalization',
    {
      inputs: { x: ['N', 2, 4, 4] },
      nodes: [node('MeanVarianceNormalization', 'x', 'y')],
    },
  ],
  [
    'a scale for each row',
    'QuantizeLinear',
    {
      inputs: { x: [4, 3] },
      floats: { s: [4] },
      nodes: [
        node('QuantizeLinear', 'x s', 'q', { axis: 0 }),
        node('DequantizeLinear', 'q s', 'y', { axis: 0 }),
      ],
    },
  ],
  [
    'a state that is a constant for each row',
    'RNN',
    {
      inputs: { x: [3, 4, 2] },
      axes: new Map([['x', 1]]),
      floats: { w: [1, 2, 2], r: [1, 2, 2], h: [1, 4, 2] },
      nodes: [node('RNN', 'x w r - - h', 'all y', { hidden_size: 2 })],
    },
  ],
  [
    'a vector that a tree takes for one row',
    'TreeEnsembleRegressor',
    {
      inputs: { x: ['N'] },
      nodes: [node('TreeEnsembleRegressor', 'x', 'y', { n_targets: 1 }, ML)],
    },
  ],
  [
    'columns that one row chooses of all rows',
    'ArrayFeatureExtractor',
    {
      nodes: [
        node('ArgMax', 'x', 'best', { axis: 1, keepdims: 0 }),
        node('ArrayFeatureExtractor', 'x best', 'y', {}, ML),
      ],
    },
  ],
  [
    'classes of each row that are taken together',
    'Reshape',
    {
      floats: { classes: [4] },
      ints: { shape: [2, -1] },
      nodes: [
        node('ArgMax', 'x', 'best', { axis: 1, keepdims: 0 }),
        node('ArrayFeatureExtractor', 'classes best', 'chosen', {}, ML),
        node('Reshape', 'chosen shape', 'y'),
      ],
    },
  ],
  ['classes as maps', 'ZipMap', { nodes: [node('ZipMap', 'x', 'y', {}, ML)] }],
  ['an operator that no rule knows', 'Mystery', { nodes: [node('Mystery', 'x', 'y', {}, 'local')] }],
  [
    'an operator of its own on constants alone, which may draw numbers',
    'Mystery',
    {
      floats: { c: [4] },
      nodes: [node('Mystery', 'c', 'd', {}, 'local'), node('Add', 'x d', 'y')],
    },
  ],
  [
    'random numbers',
    'RandomUniform',
    { nodes: [node('RandomUniform', '', 'r', { shape: [1, 4] }), node('Add', 'x r', 'y')] },
  ],
  [
    'random numbers of the shape of the input',
    'RandomUniformLike',
    { nodes: [node('RandomUniformLike', 'x', 'y')] },
  ],
  ['an output without rows', 'Relu', { floats: { c: [4] }, nodes: [node('Relu', 'c', 'y')] }],
  ['an output with its rows on its second axis', 'Transpose', { nodes: [node('Transpose', 'x', 'y')] }],
  [
    'an output with two places for each row',
    'Reshape',
    { nodes: [node('Reshape', 'x s', 'y')], ints: { s: [-1, 2] } },
  ],
  [
    'one input with five rows beside a free one',
    'input',
    { inputs: { x: ['N', 4], z: [5, 4] }, nodes: [node('Add', 'x z', 'y')] },
  ],
  ['an operator set that is newer than the rules', 'Relu', { opset: 99, nodes: [node('Relu', 'x', 'y')] }],
  [
    'arithmetic of operator set 6, which broadcasts in another way',
    'Add',
    { opset: 6, floats: { c: [4] }, nodes: [node('Add', 'x c', 'y')] },
  ],
  [
    'rows repeated as often as there are rows',
    'Expand',
    {
      inputs: { x: ['N', 1] },
      nodes: [
        node('Shape', 'x', 's', { start: 0, end: 1 }),
        node('Concat', 's s', 'ss', { axis: 0 }),
        node('Expand', 'x ss', 'e'),
        node('ReduceSum', 'e a', 'y'),
      ],
      ints: { a: [1] },
    },
  ],
  [
    'one row that all rows take from',
    'GatherND',
    { inputs: { x: ['N', 4], i: ['N', 1] }, nodes: [node('GatherND', 'x i', 'y')] },
  ],
];

for (const [title, operator, sample] of ENDED) {
  test(`not proven: ${title}`, async (t) => {
    const { end } = await prove(t, sample);
    assert.ok(end, 'it is proven');
    assert.equal(end.operator, operator, end.message);
  });
}

const PROVEN: readonly (readonly [title: string, sample: Sample])[] = [
  ['a scalar, which all rows share', { inputs: { x: ['N', 4], z: [] }, nodes: [node('Add', 'x z', 'y')] }],
  [
    'a reshape by the sizes of the input',
    {
      inputs: { x: ['N', 'T', 6] },
      nodes: [
        node('Shape', 'x', 's'),
        node('Gather', 's z', 'n'),
        node('Concat', 'n rest', 'shape', { axis: 0 }),
        node('Reshape', 'x shape', 'y'),
      ],
      ints: { z: [0], rest: [-1, 3, 2] },
    },
  ],
  [
    'heads folded into the batch and back',
    {
      inputs: { x: ['N', 'T', 6] },
      nodes: [
        node('Reshape', 'x split', 'h'),
        node('Transpose', 'h', 't', { perm: [0, 2, 1, 3] }),
        node('Shape', 'x', 's'),
        node('Gather', 's one', 'time'),
        node('Concat', 'minus time two', 'folded', { axis: 0 }),
        node('Reshape', 't folded', 'f'),
        node('Softmax', 'f', 'm'),
        node('Concat', 'minus three time two', 'back', { axis: 0 }),
        node('Reshape', 'm back', 'y'),
      ],
      ints: { split: [0, 0, 3, 2], minus: [-1], one: [1], two: [2], three: [3] },
    },
  ],
  [
    'sequence first, with time and rows folded and back',
    {
      inputs: { x: ['N', 5, 4] },
      floats: { w: [4, 3] },
      nodes: [
        node('Transpose', 'x', 't', { perm: [1, 0, 2] }),
        node('Reshape', 't flat', 'f'),
        node('MatMul', 'f w', 'm'),
        node('Reshape', 'm back', 'b'),
        node('Transpose', 'b', 'y', { perm: [1, 0, 2] }),
      ],
      ints: { flat: [-1, 4], back: [5, -1, 3] },
    },
  ],
  [
    'the same states for all rows of a recurrent operator',
    {
      inputs: { x: [3, 'N', 2] },
      axes: new Map([['x', 1]]),
      floats: { w: [1, 2, 2], r: [1, 2, 2] },
      nodes: [
        node('Shape', 'x', 's', { start: 1, end: 2 }),
        node('Concat', 'one s two', 'shape', { axis: 0 }),
        node('ConstantOfShape', 'shape', 'h'),
        node('RNN', 'x w r - - h', 'all last', { hidden_size: 2 }),
        node('Squeeze', 'last zero', 'y'),
      ],
      ints: { one: [1], two: [2], zero: [0] },
    },
  ],
  [
    'an input that is the same for all rows',
    {
      inputs: { x: ['N', 4], z: [] },
      axes: new Map([['z', 'none']]),
      nodes: [node('Mul', 'x z', 'y')],
    },
  ],
  [
    'rows of ids that choose from a table',
    {
      inputs: { i: ['N', 'T'] },
      floats: { table: [10, 4] },
      nodes: [node('Gather', 'table i', 'e'), node('ReduceMean', 'e', 'y', { axes: [1] })],
    },
  ],
  [
    'the four fixed rows',
    { inputs: { x: [4, 3] }, nodes: [node('Reshape', 'x s', 'y')], ints: { s: [4, 3, 1] } },
  ],
  [
    'one fixed row, whatever is done to it',
    { inputs: { x: [1, 3] }, nodes: [node('Softmax', 'x', 'y', { axis: 0 })] },
  ],
  [
    'what mixes rows, where no output needs it',
    { nodes: [node('Softmax', 'x', 'unused', { axis: 0 }), node('Relu', 'x', 'y')] },
  ],
  [
    'a tree on a table',
    {
      inputs: { x: ['N', 4] },
      nodes: [node('TreeEnsembleRegressor', 'x', 'y', { n_targets: 1 }, ML)],
    },
  ],
  [
    'the name of the best class of each row, as classifiers of scikit-learn look it up',
    {
      floats: { classes: [4] },
      ints: { shape: [-1] },
      nodes: [
        node('ArgMax', 'x', 'best', { axis: 1, keepdims: 1 }),
        node('ArrayFeatureExtractor', 'classes best', 'chosen', {}, ML),
        node('Reshape', 'chosen shape', 'y'),
      ],
    },
  ],
  [
    'values of the nearest neighbours of each row, from a fixed list',
    {
      inputs: { i: ['N', 3] },
      floats: { values: [300] },
      ints: { shape: [-1, 3] },
      nodes: [
        node('ArrayFeatureExtractor', 'values i', 'chosen', {}, ML),
        node('Reshape', 'chosen shape', 'y'),
      ],
    },
  ],
];

for (const [title, sample] of PROVEN) {
  test(`proven: ${title}`, async (t) => {
    const { end } = await prove(t, sample);
    assert.equal(end && `${end.operator}: ${end.message}`, undefined);
  });
}

test('outputs on another axis are proven where the caller asks for them, with the axis', async (t) => {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'model.onnx');
  writeFileSync(
    file,
    onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: [2, 'N', 3] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: [2, 'N', 3] }],
      nodes: [node('Relu', 'x', 'y')],
    }),
  );
  const axes: InputAxes = new Map([['x', 1]]);
  assert.match(proofOf(readModel(file), axes).end?.message ?? '', /has its rows on axis 1/);
  const { end, outputAxes } = proofOf(readModel(file), axes, true);
  assert.equal(end, undefined);
  assert.deepEqual([...outputAxes], [['y', 1]]);
});

for (const count of [3, 70_000]) {
  const isKnown = count === 3;
  test(`the width of ${count} categories is ${isKnown ? 'known' : 'not counted, and a reshape by another one not proven'}`, async (t) => {
    const strings = Array.from({ length: count }, (_, i) => `${i}`);
    const { end } = await prove(t, {
      inputs: { x: ['N', 1] },
      nodes: [
        {
          op: 'OneHotEncoder',
          domain: ML,
          inputs: ['x'],
          outputs: ['hot'],
          attributes: { cats_strings: { strings }, zeros: 1 },
        },
        { op: 'Reshape', inputs: ['hot', 'ishape'], outputs: ['y'] },
      ],
      ints: { ishape: [-1, isKnown ? count : MOST_TEXTS] },
    });
    assert.equal(end === undefined, isKnown, end?.message);
  });
}
