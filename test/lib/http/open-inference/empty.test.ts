/** Tensors without elements, and texts that end in NUL, as Triton takes them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Models } from '../../../functions/hostile/models.ts';
import { ALL_BINARY, endpointOf, floats } from '../../../support/inference-endpoint.ts';
import { onnxModel, type ValueSpec } from '../../../support/onnx.ts';
import { inferRequest, textBytes } from '../../../support/open-inference.ts';
import { openModelBytes } from '../../../support/runner.ts';

/** Answers each element with its negation, and each row with its sum. */
function sums(): Uint8Array {
  const value = (name: string, ...row: (number | string)[]): ValueSpec => ({
    name,
    dtype: 'float32',
    shape: ['N', ...row],
  });
  return onnxModel({
    inputs: [value('x', 'L')],
    outputs: [value('y', 'L'), value('sum', 1)],
    weights: [{ name: 'axis', dtype: 'int64', shape: [1], data: BigInt64Array.of(1n) }],
    nodes: [
      { op: 'Neg', inputs: ['x'], outputs: ['y'] },
      { op: 'ReduceSum', inputs: ['x', 'axis'], outputs: ['sum'] },
    ],
  });
}

test('rows without elements are fed to the model, as JSON and as bytes', async (t) => {
  const ask = endpointOf(await openModelBytes(t, sums()));
  for (const [shape, forms] of [
    [
      [1, 0],
      [[], [[]]],
    ],
    [
      [3, 0],
      [[], [[], [], []]],
    ],
  ] as const) {
    const rows = shape[0];
    const zeros = new Array<number>(rows).fill(0);
    for (const data of forms) {
      const answer = await ask(inferRequest([{ name: 'x', datatype: 'FP32', shape, data }]));
      assert.equal(answer.status, 200, answer.bytes.toString());
      assert.deepEqual(
        answer.received().outputs.map(({ name, shape: own, data: got }) => [name, own, got]),
        [
          ['y', [rows, 0], []],
          ['sum', [rows, 1], zeros],
        ],
      );
    }
    const sent = inferRequest([{ name: 'x', datatype: 'FP32', shape, bytes: Buffer.alloc(0) }], ALL_BINARY);
    const { outputs } = (await ask(sent)).received();
    assert.deepEqual(
      outputs.map(({ shape: own, bytes }) => [own, bytes]),
      [
        [[rows, 0], Buffer.alloc(0)],
        [[rows, 1], floats(...zeros)],
      ],
    );
  }
});

test('no rows, a size that the model fixes, and more rows than a request may have are refused', async (t) => {
  const ask = endpointOf(await openModelBytes(t, sums()));
  const refused = async (shape: readonly number[], on = ask) => {
    const answer = await on(inferRequest([{ name: 'x', datatype: 'FP32', shape, data: [] }]));
    assert.equal(answer.status, 400, answer.bytes.toString());
    return answer.error().error;
  };
  assert.match(await refused([0, 3]), /is empty \(shape \[0,3\]\)/);
  assert.match(await refused([0, 0]), /is empty \(shape \[0,0\]\)/);
  assert.match(await refused([1_001, 0]), /is empty \(shape \[1001,0\]\)/);
  assert.match(await refused([1_000_000_000, 0]), /is empty/);
  const pair = endpointOf(await new Models(t).runner('pair'));
  assert.match(await refused([1, 0], pair), /expected float32 \[N,2\], got shape \[1,0\]/);
  const nested = await ask(inferRequest([{ name: 'x', datatype: 'FP32', shape: [2, 0], data: [[], [1]] }]));
  assert.equal(nested.status, 400);
});

test('NUL behind a text is its end, and one within it or alone is refused', async (t) => {
  const ask = endpointOf(await new Models(t).runner('texts'));
  const texts = ['a\0\0', 'b\0', 'wörld', ''];
  const whole = ['a', 'b', 'wörld', ''];
  const input = { name: 'x', datatype: 'BYTES', shape: [2, 2] };
  for (const form of [{ data: texts }, { bytes: textBytes(texts) }]) {
    const answer = await ask(inferRequest([{ ...input, ...form }], ALL_BINARY));
    assert.equal(answer.status, 200, answer.bytes.toString());
    assert.deepEqual(answer.received().outputs[0]?.bytes, textBytes(whole));
  }
  for (const refused of [
    ['a\0b', 'c', '', ''],
    ['\0', 'c', '', ''],
  ]) {
    for (const form of [{ data: refused }, { bytes: textBytes(refused) }]) {
      const answer = await ask(inferRequest([{ ...input, ...form }]));
      assert.equal(answer.status, 400);
      assert.match(answer.error().error, /expected text without NUL characters/);
    }
  }
  const empty = await ask(inferRequest([{ ...input, shape: [2, 0], data: [] }]));
  assert.deepEqual(
    empty.received().outputs.map(({ shape, data }) => [shape, data]),
    [[[2, 0], []]],
  );
});
