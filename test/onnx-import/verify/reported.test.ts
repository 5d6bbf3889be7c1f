/** Models that were verified and answered wrongly: what they answer now, imported and asked as a client asks. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { importModel } from '../../../release/import.ts';
import { fixture } from '../../support/fixtures.ts';
import { models } from '../../support/models.ts';
import { type ModelSpec, onnxModel, type ValueSpec, type WeightSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { throughPredict } from '../../support/three-paths.ts';

/** Imports a model, and opens what the import made as a function opens it. */
async function served(t: TestContext, bytes: Uint8Array) {
  const path = join(await temporaryFolder(t), 'model');
  await mkdir(path);
  await writeFile(join(path, 'model.onnx'), bytes);
  const out = join(await temporaryFolder(t), 'out');
  const options = { version: '1', measure: false, process: models, out };
  const { importReport } = await importModel(path, options);
  const { verification } = importReport;
  const settings = { threads: 1, batchSize: 32, inputAlreadyBatched: false, image: {}, verification };
  const runner = await openOnnx(join(out, 'model.onnx'), 'test', settings);
  t.after(() => runner.close());
  return { importReport, runner, verification };
}

const fill = (value: unknown) => Array.from({ length: 64 }, () => value);
/** The file, its record, and the first number of the right answer (see README.md there). */
const REPORTED: readonly (readonly [string, unknown, number])[] = [
  ['mmi_u8s8', fill(255), 255 * 127 * 64],
  ['qdq_pascal', fill(101_325), 8_272_281.5],
  ['gather_range_mean', [1, 2, 3, 4, 5], 10 / 3],
  ['skip_text', fill('1.0'), 81.28],
];

for (const [name, x, expected] of REPORTED) {
  test(`the reported ${name} answers rightly`, async (t) => {
    const bytes = await fixture(t, `corpus/reported/proofs/${name}.onnx`);
    if (!bytes) return;
    const { runner, importReport, verification } = await served(t, bytes);
    assert.deepEqual([importReport.check.runs, verification?.comparison], [true, 'agrees']);
    for (const records of [[{ x }], [{ x }, { x }, { x }]]) {
      for (const [answer] of await throughPredict(runner, records)) {
        const got = Number(answer?.data.flat(9)[0]);
        assert.ok(Math.abs(got - expected) < 1e-5 * expected, `${got}, expected ${expected}`);
      }
    }
  });
}

const number = (name: string, value: number): WeightSpec => ({
  name,
  dtype: 'float32',
  shape: [1],
  data: Float32Array.of(value),
});
const y: ValueSpec = { name: 'y', dtype: 'float32', shape: ['N', 1, 1, 1] };
/** Up by 1e30 in a convolution, and down again: more than 3e8 is infinite in between, unless the two become one. */
const overflowing = (input: string): ModelSpec['nodes'] => [
  { op: 'Reshape', inputs: [input, 'picture'], outputs: ['p'] },
  { op: 'Conv', inputs: ['p', 'up'], outputs: ['large'] },
  { op: 'Mul', inputs: ['large', 'down'], outputs: ['y'] },
];
const WEIGHTS: readonly WeightSpec[] = [
  { ...number('up', 1e30), shape: [1, 1, 1, 1] },
  { ...number('down', 1e-30), shape: [1, 1, 1] },
  { name: 'picture', dtype: 'int64', shape: [4], data: BigInt64Array.of(-1n, 1n, 1n, 1n) },
  { ...number('low', 0), shape: [] },
  { ...number('high', 2e9), shape: [] },
];

test('a rewrite that is wrong only for values that a Clip names is found', async (t) => {
  const { runner, verification } = await served(
    t,
    onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
      outputs: [y],
      nodes: [{ op: 'Clip', inputs: ['x', 'low', 'high'], outputs: ['c'] }, ...overflowing('c')],
      weights: WEIGHTS,
    }),
  );
  assert.deepEqual(verification?.runtime.disabledOptimizers, ['ConvMulFusion']);
  const answers = await throughPredict(runner, [{ x: [2] }]);
  assert.ok(Math.abs(Number(answers[0]?.[0]?.data.flat(9)[0]) - 2) < 1e-5);
});

test('a rewrite of a model whose texts are numbers is found', async (t) => {
  const { verification, importReport } = await served(
    t,
    onnxModel({
      inputs: [{ name: 'x', dtype: 'string', shape: ['N', 1] }],
      outputs: [y],
      nodes: [
        { op: 'Cast', inputs: ['x'], outputs: ['f'], attributes: { to: 1 } },
        { op: 'Clip', inputs: ['f', 'low', 'high'], outputs: ['c'] },
        ...overflowing('c'),
      ],
      weights: WEIGHTS,
    }),
  );
  assert.equal(importReport.check.runs, true);
  assert.deepEqual(
    [verification?.comparison, verification?.runtime.disabledOptimizers],
    ['agrees', ['ConvMulFusion']],
  );
});

test('a Range from the end is gathered rightly at every length', async (t) => {
  const scalar = (name: string, value: bigint): WeightSpec => ({
    name,
    dtype: 'int64',
    shape: [],
    data: BigInt64Array.of(value),
  });
  const { runner } = await served(
    t,
    onnxModel({
      inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 'K'] }],
      outputs: [{ name: 'y', dtype: 'float32', shape: ['N'] }],
      nodes: [
        { op: 'Shape', inputs: ['x'], outputs: ['shape'] },
        { op: 'Gather', inputs: ['shape', 'one'], outputs: ['length'] },
        { op: 'Sub', inputs: ['length', 'seven'], outputs: ['from'] },
        { op: 'Range', inputs: ['from', 'length', 'one'], outputs: ['places'] },
        { op: 'Gather', inputs: ['x', 'places'], outputs: ['last'], attributes: { axis: 1 } },
        { op: 'ReduceSum', inputs: ['last', 'columns'], outputs: ['y'], attributes: { keepdims: 0 } },
      ],
      weights: [scalar('one', 1n), scalar('seven', 7n), { ...scalar('columns', 1n), shape: [1] }],
    }),
  );
  // Seven places that end at the last one; those below 0 count from the end.
  for (const [x, sum] of [
    [[9, 1, 2, 3, 4, 5, 6, 7], 28],
    [[1, 2, 3, 4, 5, 6, 7], 28],
    [[8, 1, 2, 3, 4, 5], 5 + 23],
    [[5, 4, 3, 2], 4 + 3 + 2 + 14],
  ] as const) {
    const [answer] = await throughPredict(runner, [{ x }]);
    assert.deepEqual(answer?.[0]?.data.flat(9), [sum], x.join());
  }
});
