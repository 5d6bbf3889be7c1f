/** Which outputs TensorFlow Serving's API cuts into rows: those that are known to follow them, never those of a fitting length. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openCopied, openVerified } from '../../onnx-import/support/verified.ts';
import type { NodeSpec, ValueSpec, WeightSpec } from '../../support/onnx.ts';
import { onnxModel } from '../../support/onnx.ts';
import { servingOf } from '../../support/tensorflow-serving.ts';
import { throughPredict } from '../../support/three-paths.ts';

const int64 = (name: string, ...values: number[]): WeightSpec => ({
  name,
  dtype: 'int64',
  shape: [values.length],
  data: BigInt64Array.from(values, BigInt),
});
const zero: WeightSpec = { name: 'zero', dtype: 'float32', shape: [], data: Float32Array.of(0) };

interface Case {
  readonly what: string;
  readonly nodes: readonly NodeSpec[];
  readonly output: Omit<ValueSpec, 'name'>;
  /** As many outputs as rows, of any kind. */
  readonly rows: readonly (readonly number[])[];
  readonly expected: readonly unknown[];
}

const found: readonly NodeSpec[] = [
  { op: 'Greater', inputs: ['x', 'zero'], outputs: ['isFound'] },
  { op: 'NonZero', inputs: ['isFound'], outputs: ['places'] },
];
const detections: readonly NodeSpec[] = [
  ...found,
  { op: 'Transpose', inputs: ['places'], outputs: ['y'], attributes: { perm: [1, 0] } },
];

const CASES: readonly Case[] = [
  ...([['M', 2], ['', ''], ['N', 2], undefined] as const).map((shape) => ({
    what: `detections of shape ${JSON.stringify(shape)}`,
    nodes: detections,
    output: { dtype: 'int64' as const, shape },
    rows: [[1, 0, 1], [0, 0, 0]],
    expected: [[[0, 0], [0, 2]], []],
  })),
  {
    what: 'places on two axes',
    nodes: [...found, { op: 'Identity', inputs: ['places'], outputs: ['y'] }],
    output: { dtype: 'int64', shape: [2, 'M'] },
    rows: [[0, 1, 0], [0, 0, 1]],
    expected: [[[0], [1]], [[0], [2]]],
  },
  {
    what: 'a sum over the rows, which has three columns',
    nodes: [{ op: 'ReduceSum', inputs: ['x', 'first'], outputs: ['y'], attributes: { keepdims: 0 } }],
    output: { dtype: 'float32', shape: [3] },
    rows: [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    expected: [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
  },
  {
    what: 'a sum over the rows, of a free size',
    nodes: [{ op: 'ReduceSum', inputs: ['x', 'first'], outputs: ['y'], attributes: { keepdims: 0 } }],
    output: { dtype: 'float32', shape: ['K'] },
    rows: [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    expected: [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
  },
  {
    what: 'rows that are columns',
    nodes: [{ op: 'Transpose', inputs: ['x'], outputs: ['y'] }],
    output: { dtype: 'float32', shape: [3, 'N'] },
    rows: [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    expected: [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
  },
]; // biome-ignore format: short

const modelOf = ({ nodes, output }: Case) =>
  onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 3] }],
    outputs: [{ name: 'y', ...output }],
    nodes,
    weights: [zero, int64('first', 0)],
  });

for (const each of CASES)
  for (const [how, open] of [
    ['verified', openVerified],
    ['copied', openCopied],
  ] as const) {
    test(`${each.what} of a ${how} model are given to the row that they are of`, async (t) => {
      const { rows, expected } = each;
      const runner = await open(t, modelOf(each));
      const ask = servingOf(runner);
      for (const count of [rows.length, 1]) {
        // A copy declares one element for each row, so a record with another number of elements is refused.
        if (how === 'copied' && each.output.shape?.[0] === 'N') {
          const refused = await ask('half:predict', { instances: rows });
          assert.deepEqual([refused.status, /expected 1 on axis 0/.test(refused.text)], [422, true]);
          continue;
        }
        const instances = rows.slice(0, count);
        const { status, text } = await ask('half:predict', { instances });
        assert.equal(status, 200, text);
        assert.deepEqual(JSON.parse(text), { predictions: expected.slice(0, count) });
        // As each record is answered by the other endpoints.
        const predicted = await throughPredict(
          runner,
          instances.map((x) => ({ x })),
        );
        assert.deepEqual(
          predicted.map(([y]) => y?.data.flat()),
          expected.slice(0, count).map((one) => [one].flat(3)),
        );
      }
    });
  }

test('an output with one place for a single row, and for three, follows no rows', async (t) => {
  // The first row of a run, and no other.
  const firstRow = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 3] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['K', 3] }],
    nodes: [{ op: 'Compress', inputs: ['x', 'isFirst'], outputs: ['y'], attributes: { axis: 0 } }],
    weights: [{ name: 'isFirst', dtype: 'bool', shape: [1], data: Uint8Array.of(1) }],
  });
  const runner = await openVerified(t, firstRow);
  assert.equal(runner.outputs[0]?.batchAxis, 'none');
  const { text } = await servingOf(runner)('half:predict', { instances: [[1, 2, 3], [3, 4, 5]] }); // biome-ignore format: short
  assert.deepEqual(JSON.parse(text), { predictions: [[[1, 2, 3]], [[3, 4, 5]]] });
});
