import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { openSession, type Session, threadsForMemory } from '../../../lib/inference/session.ts';
import { fixedBatch, RUN_BYTES, warmUp } from '../../../lib/inference/warm-up.ts';
import { type Element, type ModelSpec, onnxModel } from '../../support/onnx.ts';
import { openModelBytes, temporaryFolder } from '../../support/runner.ts';

const WIDTH = 4;

function model(
  dtype: Element,
  nodes: ModelSpec['nodes'],
  weights: ModelSpec['weights'] = [],
  rows: number | string = 'N',
): Uint8Array {
  const shape = [rows, WIDTH];
  return onnxModel({
    inputs: [{ name: 'x', dtype, shape }],
    outputs: [{ name: 'y', dtype: dtype === 'int64' ? 'float32' : dtype, shape }],
    nodes,
    weights: [...weights],
  });
}

const square = Int8Array.from({ length: WIDTH * WIDTH }, (_, i) => ((i * 37) % 101) - 50);

/** What onnxruntime's dynamic quantization makes of a layer: one scale for all rows of a run. */
const quantized = model(
  'float32',
  [
    { op: 'DynamicQuantizeLinear', inputs: ['x'], outputs: ['q', 'scale', 'zero'] },
    { op: 'MatMulInteger', inputs: ['q', 'w', 'zero'], outputs: ['sum'] },
    { op: 'Cast', inputs: ['sum'], outputs: ['float'], attributes: { to: 1 } },
    { op: 'Mul', inputs: ['float', 'scale'], outputs: ['y'] },
  ],
  [{ name: 'w', dtype: 'int8', shape: [WIDTH, WIDTH], data: square }],
);

const centred = (dtype: Element, rows: number | string = 'N') =>
  model(
    dtype,
    [
      { op: 'ReduceMean', inputs: ['x'], outputs: ['mean'], attributes: { axes: [0], keepdims: 1 } },
      { op: 'Sub', inputs: ['x', 'mean'], outputs: ['y'] },
    ],
    [],
    rows,
  );

const doubled = (dtype: Element, rows: number | string = 'N') =>
  model(dtype, [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }], [], rows);

const table = (rows: number) =>
  model(
    'int64',
    [{ op: 'Gather', inputs: ['table', 'x'], outputs: ['y'] }],
    [{ name: 'table', dtype: 'float32', shape: [rows], data: new Float32Array(rows).fill(7) }],
  );

const noisy = model('float32', [
  { op: 'RandomNormalLike', inputs: ['x'], outputs: ['noise'] },
  { op: 'Add', inputs: ['x', 'noise'], outputs: ['y'] },
]);

async function shares(t: TestContext, bytes: Uint8Array): Promise<boolean> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, bytes);
  const session = await openSession(file, { threads: 1 });
  t.after(() => session.close());
  return warmUp(session, fixedBatch(session.inputs), {});
}

const CASES: readonly (readonly [string, Uint8Array, boolean])[] = [
  ['each row by itself', doubled('float32'), true],
  ['each row by itself, in half precision', doubled('float16'), true],
  ['each row by itself, four fixed rows', doubled('float32', 4), true],
  ['one fixed row', centred('float32', 1), true],
  ['one scale for all rows', quantized, false],
  ['the mean of all rows', centred('float32'), false],
  ['the mean of all rows, in half precision', centred('float16'), false],
  ['the mean of four fixed rows', centred('float32', 4), false],
  ['places in a table', table(9), true],
  ['places in a table of one, where 1 is none', table(1), true],
  ['random numbers', noisy, true],
];

for (const [what, bytes, expected] of CASES) {
  test(`${what}: records ${expected ? 'share a run' : 'run one by one'}`, async (t) => {
    assert.equal(await shares(t, bytes), expected);
  });
}

test('the answer of a record is the same beside any neighbour, also where the model has one scale for all rows', async (t) => {
  const runner = await openModelBytes(t, quantized, { batchSize: 8 });
  const small = { x: [0.1, -0.2, 0.3, 0.4] };
  const large = { x: [1000, -500, 200, 300] };
  const run = async (instances: readonly unknown[]) => {
    const outcomes = await runner.run(decodeInstances(JSON.stringify({ instances })));
    return outcomes.map((outcome) => {
      if (!outcome.ok) throw outcome.error;
      return [...(outcome.outputs[0]?.data as Float32Array)];
    });
  };
  const [alone] = await run([small]);
  assert.ok(alone?.every((value) => value !== 0));
  const together = await run([small, large, small]);
  assert.deepEqual([together[0], together[2]], [alone, alone]);
});

type Run = (x: Float32Array, rows: number) => readonly number[];

/** A session of one free input and one output of one column, which this function computes. */
function sessionOf(run: Run): Session {
  const spec = { name: 'x', dtype: 'float32' as const, shape: ['N', 2] };
  return {
    inputs: [spec],
    outputs: [{ ...spec, name: 'y' }],
    async run([x]) {
      const data = Float32Array.from(run(x?.data as Float32Array, x?.shape[0] as number));
      return [{ name: 'y', dtype: 'float32', shape: [data.length, 1], data }];
    },
    close: async () => undefined,
  };
}

test('an output that has one row, or two, whatever goes in, is no batch to share', async () => {
  assert.equal(
    await warmUp(
      sessionOf(() => [7]),
      undefined,
      {},
    ),
    false,
  );
  assert.equal(
    await warmUp(
      sessionOf(() => [7, 7]),
      undefined,
      {},
    ),
    false,
  );
  assert.equal(
    await warmUp(
      sessionOf((_, rows) => Array<number>(rows).fill(7)),
      undefined,
      {},
    ),
    true,
  );
});

test('a scale that rows of a like size would not show is found by a row that is a thousand times as large', async () => {
  // It rounds to a step of the largest value of all rows, as quantization does.
  const quantizing: Run = (x, rows) => {
    const step = 10 ** Math.floor(Math.log10(Math.max(...x))) / 100;
    return Array.from({ length: rows }, (_, row) => Math.round((x[2 * row] as number) / step) * step);
  };
  assert.equal(await warmUp(sessionOf(quantizing), undefined, {}), false);
});

test('a run has at most 128 MiB of inputs, and one thread for each whole vCPU, but one at least', () => {
  assert.equal(RUN_BYTES, 134_217_728);
  assert.deepEqual([128, 1_769, 3_537, 3_538, 10_240].map(threadsForMemory), [1, 1, 1, 2, 5]);
});
