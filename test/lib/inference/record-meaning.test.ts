/** A record means the same to the model on every path, and the shape of its answer does not depend on the data. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeBase64 } from '../../../lib/codecs/encode-base64.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Value } from '../../../lib/contract/values.ts';
import { encodeArrowRecord } from '../../support/arrow-record.ts';
import { toNested } from '../../support/npy.ts';
import { onnxModel } from '../../support/onnx.ts';
import { openModelBytes } from '../../support/runner.ts';
import { runMessageBodies, throughPredict, throughQueue, throughV2 } from '../../support/three-paths.ts';

const floats = (shape: readonly number[], ...values: number[]): Tensor => ({
  dtype: 'float32',
  shape,
  data: Float32Array.from(values),
});

/** The sum over the first axis of an input whose rank is not declared, as frozen graphs have it. */
const summing = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: undefined }],
  outputs: [{ name: 'y', dtype: 'float32', shape: undefined }],
  nodes: [{ op: 'CumSum', inputs: ['x', 'axis'], outputs: ['y'] }],
  weights: [{ name: 'axis', dtype: 'int32', shape: [], data: Int32Array.of(0) }],
});

test('a record for an input of unknown rank means the same on every path', async (t) => {
  const runner = await openModelBytes(t, summing, { batching: 'proven' });
  const record = floats([2, 3], 1, 2, 3, 4, 5, 6);
  const [inferred] = await throughV2(runner, { x: { ...record, shape: [1, 2, 3] } });
  const [predicted] = await throughPredict(runner, [{ x: toNested(record) }]);
  const [queued] = await throughQueue(runner, [{ x: record }]);
  assert.deepEqual(inferred, { shape: [1, 2, 3], data: [1, 2, 3, 4, 5, 6] });
  assert.deepEqual(predicted?.[0]?.data, inferred.data);
  assert.deepEqual(queued, predicted);
});

test('a number for an input of unknown rank is a scalar, and a list of one number is a row', async (t) => {
  const shapeOf = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: undefined }],
    outputs: [{ name: 'y', dtype: 'int64', shape: undefined }],
    nodes: [{ op: 'Shape', inputs: ['x'], outputs: ['y'] }],
  });
  const runner = await openModelBytes(t, shapeOf, { inputAlreadyBatched: false, batching: 'never' });
  const shapes = await throughPredict(runner, [{ x: 5 }, { x: [5] }, { x: [5, 6] }]);
  assert.deepEqual(
    shapes.map(([y]) => y?.data),
    [[], [1, 1], [1, 2]],
  );
});

const echo = onnxModel({
  inputs: [{ name: 'x', dtype: 'string', shape: undefined }],
  outputs: [{ name: 'y', dtype: 'string', shape: undefined }],
  nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
});

/** A message as the Python client writes it, where a list of texts is one cell. */
function arrowMessage(items: readonly string[]): string {
  const text: Value = { kind: 'text', text: items.join('|') };
  return JSON.stringify({ uri: 'u', data: encodeBase64(encodeArrowRecord(new Map([['x', text]]))) });
}

for (const items of [['123', '456'], ['abc']]) {
  test(`the list of texts ${JSON.stringify(items)} is ${items.length} for an input of unknown shape, however it comes`, async (t) => {
    const runner = await openModelBytes(t, echo, { batching: 'proven' });
    const [fromJson] = await throughPredict(runner, [{ x: items }]);
    const tensor: Tensor = { dtype: 'string', shape: [items.length], data: items };
    const [fromSdk] = await throughQueue(runner, [{ x: tensor }]);
    const [fromPython] = await runMessageBodies(runner, [arrowMessage(items)]);
    const [fromV2] = await throughV2(runner, { x: { ...tensor, shape: [1, items.length] } });
    assert.deepEqual(fromV2?.data, items);
    for (const [path, answer] of Object.entries({ fromJson, fromSdk, fromPython })) {
      assert.deepEqual(answer?.[0], { shape: fromJson?.[0]?.shape, data: items }, path);
    }
  });
}

/** The rows of `x` that are above zero: as many as the data says. @param batch the name of the output's first axis */
const detector = (first: string | undefined) =>
  onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 3] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: first === undefined ? undefined : [first] }],
    nodes: [
      { op: 'Greater', inputs: ['x', 'zero'], outputs: ['isFound'] },
      { op: 'Reshape', inputs: ['isFound', 'all'], outputs: ['flat'] },
      { op: 'Compress', inputs: ['x', 'flat'], outputs: ['y'] },
    ],
    weights: [
      { name: 'zero', dtype: 'float32', shape: [], data: Float32Array.of(0) },
      { name: 'all', dtype: 'int64', shape: [1], data: BigInt64Array.of(-1n) },
    ],
  });

for (const first of ['M', '', undefined]) {
  test(`an output whose first axis is ${first === undefined ? 'not declared' : `"${first}"`} keeps it for any number of detections`, async (t) => {
    const runner = await openModelBytes(t, detector(first));
    const answers = await throughPredict(runner, [
      { x: [1, -1, -1] },
      { x: [1, 2, -1] },
      { x: [-1, -1, -1] },
    ]);
    assert.deepEqual(answers, [
      [{ shape: [1], data: [1] }],
      [{ shape: [2], data: [1, 2] }],
      [{ shape: [0], data: [] }],
    ]);
  });
}

test('an output that is declared to follow the rows, and does not, is refused with the setting that helps', async (t) => {
  const runner = await openModelBytes(t, detector('N'));
  const outcomes = await runner.run(
    [
      [1, -1, -1],
      [1, 2, -1],
    ].map((x) => new Map<string, Value>([['x', { kind: 'json', value: x }]])),
  );
  assert.deepEqual(
    outcomes.map((outcome) => outcome.ok && outcome.outputs[0]?.shape),
    [[], false],
  );
  const error = outcomes[1]?.ok === false ? outcomes[1].error : undefined;
  assert.equal(error?.code, 'model_failed');
  assert.match(error.message, /output "y" \[2\].*outputs: \{"y": \{batchAxis: none\}\}/);
});

for (const [batch, first, rest] of [
  ['N', 'N', 3],
  ['N', 'N', 'N'],
  ['', '', 3],
  [4, 4, 3],
  [1, 1, 3],
] as const) {
  test(`where [${batch},3] gives [${first},${rest}], the first axis is the batch`, async (t) => {
    const doubling = onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: [batch, 3] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: [first, rest] }],
      nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
    });
    const runner = await openModelBytes(t, doubling);
    const answers = await throughPredict(runner, [{ x: [1, 2, 3] }, { x: [4, 5, 6] }]);
    assert.deepEqual(answers, [[{ shape: [3], data: [2, 4, 6] }], [{ shape: [3], data: [8, 10, 12] }]]);
  });
}
