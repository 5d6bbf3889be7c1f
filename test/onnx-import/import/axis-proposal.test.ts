import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axisLines, proposedAxes } from '../../../onnx-import/batching/axis-proposal.ts';

type Shapes = Readonly<Record<string, readonly (number | string)[]>>;

const CASES: readonly [what: string, shapes: Shapes, expected: Readonly<Record<string, number | 'none'>>][] =
  [
    ['inputs that all have their batch first', { a: ['N', 2], b: ['N'] }, {}],
    ['free first sizes of different names', { a: ['N', 2], b: ['M', 3] }, {}],
    ['inputs that are fixed to the same number of rows', { a: [4, 2], b: [4] }, {}],
    ['a free batch at another axis', { x: ['batch', 'T'], h: [2, 'batch', 8] }, { h: 1 }],
    ['a scalar', { x: ['batch', 2], rate: [] }, { rate: 'none' }],
    ['a fixed input beside a free one', { x: ['N', 4], table: [10, 4] }, { table: 'none' }],
    ['fixed inputs that differ', { input: [4, 3], rois: [100, 5] }, { input: 'none', rois: 'none' }],
    ['unnamed sizes', { x: ['', 4], h: [2, '', 4] }, { h: 1 }],
    ['a batch that may be either axis', { x: ['N', 4], h: [2, 'N', 'N'] }, { h: 'none' }],
  ];

for (const [what, shapes, expected] of CASES) {
  test(`for ${what} the import proposes ${JSON.stringify(expected)}`, () => {
    const inputs = Object.entries(shapes).map(([name, shape]) => ({
      name,
      dtype: 'float32' as const,
      shape,
    }));
    assert.deepEqual(proposedAxes(inputs, []), expected);
  });
}

test('of an input of unknown rank nothing is proposed', () => {
  const inputs = [{ name: 'x', dtype: 'float32' as const, shape: [] }];
  assert.deepEqual(proposedAxes(inputs, ['x']), {});
  assert.deepEqual(proposedAxes(inputs, []), { x: 'none' });
});

test('the lines are YAML for any name', () => {
  assert.deepEqual(axisLines({ state: 1, 'sr:0': 'none' }), [
    'inputs:',
    '  state: {batchAxis: 1}',
    '  "sr:0": {batchAxis: none}',
  ]);
  assert.deepEqual(axisLines({}), []);
});
