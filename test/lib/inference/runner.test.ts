import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import type { Inputs, NamedTensor, Outcome } from '../../../lib/contract/values.ts';
import { type Element, identityModel, onnxModel } from '../../support/onnx.ts';
import { openModelBytes, temporaryFolder } from '../../support/runner.ts';

const json = (instances: readonly unknown[]) => decodeInstances(JSON.stringify({ instances }));

function outputsOf(outcome: Outcome | undefined): readonly NamedTensor[] {
  assert.ok(outcome);
  if (!outcome.ok) throw outcome.error;
  return outcome.outputs;
}

function messageOf(outcome: Outcome | undefined): string {
  assert.ok(outcome && !outcome.ok);
  return outcome.error.message;
}

/** y = 2x over rows of two numbers. */
const double = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 2] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2] }],
  nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
});

test('records are stacked, run and split again in their order', async (t) => {
  const runner = await openModelBytes(t, double, { batchSize: 4 });
  const records = json(Array.from({ length: 11 }, (_, i) => ({ x: [i, i + 0.5] })));
  const outcomes = await runner.run(records);
  assert.equal(outcomes.length, 11);
  for (const [i, outcome] of outcomes.entries()) {
    const [y] = outputsOf(outcome);
    assert.deepEqual([...(y?.data as Float32Array)], [2 * i, 2 * i + 1]);
    assert.deepEqual(y?.shape, [2]);
    assert.equal(y?.name, 'y');
  }
});

test('a record that does not fit fails alone and its neighbours get their results', async (t) => {
  const runner = await openModelBytes(t, double);
  const outcomes = await runner.run(
    json([{ x: [1, 2] }, { x: [1, 2, 3] }, { x: 'no image' }, { x: [3, 4] }]),
  );
  assert.deepEqual([...(outputsOf(outcomes[0])[0]?.data as Float32Array)], [2, 4]);
  assert.equal(messageOf(outcomes[1]), 'input "x": expected float32 [2], got shape [3]');
  assert.equal(messageOf(outcomes[2]), 'input "x": expected float32 [2], got text or an image');
  assert.deepEqual([...(outputsOf(outcomes[3])[0]?.data as Float32Array)], [6, 8]);
});

test('a record that makes the model fail does not take the rest of its run with it', async (t) => {
  // Gather throws for an index out of range: only that record may fail.
  const model = onnxModel({
    inputs: [{ name: 'index', dtype: 'int64', shape: ['N'] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N'] }],
    nodes: [{ op: 'Gather', inputs: ['table', 'index'], outputs: ['y'] }],
    weights: [{ name: 'table', dtype: 'float32', shape: [3], data: Float32Array.of(10, 11, 12) }],
  });
  const runner = await openModelBytes(t, model);
  const outcomes = await runner.run(
    json([{ index: 0 }, { index: 2 }, { index: 7 }, { index: 1 }, { index: 0 }]),
  );
  assert.deepEqual(
    outcomes.map((outcome) => (outcome.ok ? outcome.outputs[0]?.data[0] : outcome.error.code)),
    [10, 12, 'model_failed', 11, 10],
  );
});

const DTYPES: [Element, unknown, unknown[]][] = [
  ['float32', [1.5, -2], [1.5, -2]],
  ['float64', [0.1, 1e300], [0.1, 1e300]],
  ['int8', [-128, 127], [-128, 127]],
  ['uint8', [0, 255], [0, 255]],
  ['int16', [-32768, 32767], [-32768, 32767]],
  ['uint16', [0, 65535], [0, 65535]],
  ['int32', [-2147483648, 2147483647], [-2147483648, 2147483647]],
  ['uint32', [0, 4294967295], [0, 4294967295]],
  ['int64', [-5, 9007199254740991], [-5n, 9007199254740991n]],
  ['uint64', [0, 9007199254740991], [0n, 9007199254740991n]],
  ['bool', [true, 0], [1, 0]],
  ['float16', [1.5, -0.25], [0x3e00, 0xb400]],
  ['string', ['héllo', ''], ['héllo', '']],
];

for (const [dtype, given, expected] of DTYPES) {
  test(`a ${dtype} input reaches the model as exactly what the JSON says`, async (t) => {
    const runner = await openModelBytes(t, identityModel([{ name: 'x', dtype, shape: ['N', 2] }]));
    const [output] = outputsOf((await runner.run(json([{ x: given }])))[0]);
    assert.equal(output?.dtype, dtype);
    assert.deepEqual([...(output?.data as Iterable<unknown>)], expected);
  });
}

for (const [rank, value] of [3, [3, 4], [[3, 4]], [[[3, 4]]], [[[[3], [4]]]]].entries()) {
  test(`a value of rank ${rank} keeps its shape through a batch of two`, async (t) => {
    const shape = ['N', ...Array.from({ length: rank }, (_, axis) => `d${axis}`)];
    const runner = await openModelBytes(t, identityModel([{ name: 'x', dtype: 'float32', shape }]));
    const outcomes = await runner.run(json([{ x: value }, { x: value }]));
    for (const outcome of outcomes) {
      const [output] = outputsOf(outcome);
      assert.equal(output?.shape.length, rank);
      assert.deepEqual([...(output?.data as Float32Array)], [value].flat(5));
    }
  });
}

const REFUSED: [Element, unknown, RegExp][] = [
  ['uint8', [256, 0], /expected 0 to 255 \(uint8\), got 256/],
  ['int32', [1.5, 0], /expected a whole number \(int32\), got 1.5/],
  ['int64', '[9007199254740993.0,0]', /beyond 2\^53/],
  ['float32', [1e39, 0], /out of the range of float32/],
  ['float64', '[1e309,0]', /out of the range of float64/],
  ['bool', [2, 0], /expected true, false, 0 or 1, got 2/],
  ['float32', [1, 'a'], /expected a number, got "a"/],
  ['float32', [1, null], /got null, a missing value, which only columns with names \(names\.json\) have/],
  ['float32', [[1], [2, 3]], /arrays do not agree in shape/],
  ['float32', [1, [2]], /arrays do not agree in shape/],
  ['float32', [[1], 2], /arrays do not agree in shape/],
  ['string', ['a', 1], /expected text, got 1/],
  ['float32', [], /is empty/],
  ['float32', { foo: 1 }, /got an object with \["foo"\]/],
];

for (const [dtype, given, expected] of REFUSED) {
  test(`${JSON.stringify(given)} is refused by a ${dtype} input with what was expected and what came`, async (t) => {
    const runner = await openModelBytes(t, identityModel([{ name: 'x', dtype, shape: ['N', 2] }]));
    const text = typeof given === 'string' ? given : JSON.stringify(given);
    const [outcome] = await runner.run(decodeInstances(`{"instances":[{"x":${text}}]}`));
    assert.match(messageOf(outcome), expected);
    assert.match(messageOf(outcome), /^input "x": /);
  });
}

const twoInputs = identityModel([
  { name: 'a', dtype: 'float32', shape: ['N', 1] },
  { name: 'b', dtype: 'int64', shape: ['N', 2] },
]);

test('inputs bind by name in any order, and by position when no name matches and the body says so', async (t) => {
  const runner = await openModelBytes(t, twoInputs);
  const body = { instances: [{ p: [0.5], q: [1, 2] }], bindByPosition: true };
  const records = [...json([{ b: [1, 2], a: [0.5] }]), ...decodeInstances(JSON.stringify(body))];
  const outcomes = await runner.run(records);
  for (const outcome of outcomes) {
    const [a, b] = outputsOf(outcome);
    assert.deepEqual([...(a?.data as Float32Array)], [0.5]);
    assert.deepEqual([...(b?.data as BigInt64Array)], [1n, 2n]);
  }
});

test('a name that is nearly right is refused, with the names the model has', async (t) => {
  const runner = await openModelBytes(t, twoInputs);
  const outcomes = await runner.run(json([{ a: [1], c: [1, 2] }, { a: [1] }, { a: [1], b: [1, 2], c: 3 }]));
  const expects = 'the model expects "a" float32 [1], "b" int64 [2]';
  assert.deepEqual(outcomes.map(messageOf), [
    `missing input "b", unknown input "c"; ${expects}`,
    `missing input "b"; ${expects}`,
    `unknown input "c"; ${expects}`,
  ]);
});

test('a single number is taken for an input of one element', async (t) => {
  const runner = await openModelBytes(t, identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]));
  const [output] = outputsOf((await runner.run(json([{ x: 7 }])))[0]);
  assert.deepEqual([output?.shape, output?.data[0]], [[1], 7]);
});

test('a sparse tensor reaches the model dense, in either orientation of its indices', async (t) => {
  const runner = await openModelBytes(
    t,
    identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2, 3] }]),
  );
  const points = {
    shape: [2, 3],
    data: [5, 6, 7],
    indices: [
      [0, 1],
      [1, 0],
      [1, 2],
    ],
  };
  const axes = {
    shape: [2, 3],
    data: [5, 6, 7],
    indices: [
      [0, 1, 1],
      [1, 0, 2],
    ],
  };
  for (const outcome of await runner.run(json([{ x: points }, { x: axes }]))) {
    assert.deepEqual([...(outputsOf(outcome)[0]?.data as Float32Array)], [0, 5, 0, 6, 0, 7]);
  }
});

test('a sparse tensor that is out of range, doubled, or too large is refused before it is expanded', async (t) => {
  const runner = await openModelBytes(
    t,
    identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 'a', 'b'] }]),
  );
  const outcomes = await runner.run(
    json([
      { x: { shape: [2, 3], data: [5], indices: [[0, 3]] } },
      {
        x: {
          shape: [2, 3],
          data: [5, 6],
          indices: [
            [0, 1],
            [0, 1],
          ],
        },
      },
      { x: { shape: [1e9, 1e9], data: [5], indices: [[0, 0]] } },
      { x: { shape: [2, 3], data: [5], indices: [[0, 1, 2]] } },
      { x: { shape: [-2, 3], data: [5], indices: [[0, 1]] } },
    ]),
  );
  assert.match(messageOf(outcomes[0]), /sparse index 3 of dimension 1: expected 0 to 2/);
  assert.match(messageOf(outcomes[1]), /the same point is named twice/);
  assert.match(messageOf(outcomes[2]), /over the limit of 67108864 elements/);
  assert.match(messageOf(outcomes[3]), /sparse indices: expected \[1,2\] or \[2,1\]/);
  assert.match(messageOf(outcomes[4]), /sparse shape: expected whole numbers/);
});

test('a sparse shape that does not fit is refused for its shape, not for its size', async (t) => {
  const runner = await openModelBytes(
    t,
    identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2, 3] }]),
  );
  const [outcome] = await runner.run(json([{ x: { shape: [67_108_864], data: [1], indices: [[0]] } }]));
  assert.match(messageOf(outcome), /expected float32 \[2,3\], got shape \[67108864\]/);
});

test('a model with a fixed batch of four runs fewer records and drops the padding', async (t) => {
  const fixed = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: [4, 2] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: [4, 2] }],
    nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
  });
  const runner = await openModelBytes(t, fixed);
  const outcomes = await runner.run(json(Array.from({ length: 6 }, (_, i) => ({ x: [i, i] }))));
  assert.deepEqual(
    outcomes.map((outcome) => outputsOf(outcome)[0]?.data[0]),
    [0, 2, 4, 6, 8, 10],
  );
});

test('a model with a fixed batch of one takes a record with or without the batch dimension', async (t) => {
  const runner = await openModelBytes(t, identityModel([{ name: 'x', dtype: 'float32', shape: [1, 2] }]));
  const outcomes = await runner.run(json([{ x: [1, 2] }, { x: [[3, 4]] }]));
  assert.deepEqual(outputsOf(outcomes[0])[0]?.shape, [2]);
  assert.deepEqual(outputsOf(outcomes[1])[0]?.shape, [1, 2]);
});

test('a model whose output does not follow the rows is run one record at a time', async (t) => {
  // [N,2] -> sum over everything: stacking two records would mix them.
  const summing = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 2] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: [1, 1] }],
    nodes: [{ op: 'ReduceSum', inputs: ['x'], outputs: ['y'] }],
  });
  const runner = await openModelBytes(t, summing);
  const outcomes = await runner.run(json([{ x: [1, 2] }, { x: [3, 4] }]));
  assert.deepEqual(
    outcomes.map((outcome) => outputsOf(outcome)[0]?.data[0]),
    [3, 7],
  );
});

test('an already batched record brings its own rows and keeps its batch dimension', async (t) => {
  const runner = await openModelBytes(t, double, { inputAlreadyBatched: true });
  const outcomes = await runner.run(
    json([
      {
        x: [
          [1, 2],
          [3, 4],
        ],
      },
      { x: [[5, 6]] },
      { x: [7, 8] },
    ]),
  );
  assert.deepEqual(outputsOf(outcomes[0])[0]?.shape, [2, 2]);
  assert.deepEqual([...(outputsOf(outcomes[0])[0]?.data as Float32Array)], [2, 4, 6, 8]);
  assert.deepEqual([...(outputsOf(outcomes[1])[0]?.data as Float32Array)], [10, 12]);
  assert.match(messageOf(outcomes[2]), /expected float32 \[N,2\], got shape \[2\]/);
});

test('the error of a record with an unexpected batch dimension says how to send it', async (t) => {
  const runner = await openModelBytes(t, double);
  const [outcome] = await runner.run(json([{ x: [[1, 2]] }]));
  assert.match(messageOf(outcome), /got shape \[1,2\] \(send one record without the batch dimension/);
});

test('old text cells become strings, split at the bar, for a string input', async (t) => {
  const runner = await openModelBytes(t, identityModel([{ name: 'x', dtype: 'string', shape: ['N', 'n'] }]));
  const record: Inputs = new Map([['x', { kind: 'text', text: 'hello|world' }]]);
  assert.deepEqual(outputsOf((await runner.run([record]))[0])[0]?.data, ['hello', 'world']);
});

test('a file that is not a model is refused with the reason of onnxruntime', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, '<html>404</html>');
  const settings = { threads: 1, batchSize: 1, inputAlreadyBatched: false, image: {} };
  await assert.rejects(openOnnx(file, 'v', settings), {
    code: 'model_unavailable',
    message: /cannot load the model/,
  });
});
