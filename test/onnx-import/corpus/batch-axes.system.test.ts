/**
 * Models of the shared corpus that no record reached without batch axes, on every path: imported, with the lines that the
 * import proposes in config.yaml.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { axesOf } from '../../../lib/config/job.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { withoutAxis } from '../../../lib/pipeline/batch/batch-axes.ts';
import { importModel } from '../../../release/import.ts';
import { parseConfig } from '../../support/config.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { readNpy, toNested } from '../../support/npy.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { type Answer, throughPredict, throughQueue, throughV2 } from '../../support/three-paths.ts';

type Tensors = Readonly<Record<string, Tensor>>;

interface Case {
  readonly model: string;
  /** Proposed by the import. */
  readonly config: string;
  readonly output: string;
  /** What the record gives, from the reference with its batch of one. */
  readonly recordOf: (inputs: Tensors) => Tensors;
  readonly shape: readonly number[];
  /** Of the other outputs. */
  readonly others: readonly (readonly number[])[];
}

const without = (tensor: Tensor | undefined, axis: number): Tensor => {
  assert.ok(tensor?.shape[axis] === 1);
  return { ...tensor, shape: withoutAxis(tensor.shape, axis) };
};

const CASES: readonly Case[] = [
  {
    model: 'onnx/silero_vad_16k',
    config: 'inputs:\n  state: {batchAxis: 1}\n  sr: {batchAxis: none}',
    output: 'out_output.npy',
    recordOf: ({ input, state, sr }) => ({
      input: without(input, 0),
      state: without(state, 1),
      sr: without(sr, 0),
    }),
    shape: [1],
    others: [[2, 128]],
  },
  {
    model: 'caffe/net_roi_pooling',
    config: 'inputs:\n  input: {batchAxis: none}\n  rois: {batchAxis: none}',
    output: 'out_out.npy',
    recordOf: (inputs) => inputs,
    shape: [100, 3, 6, 6],
    others: [],
  },
];

function assertClose(answer: Answer | undefined, expected: Tensor, shape: readonly number[], path: string) {
  assert.deepEqual(answer?.shape, shape, path);
  assert.equal(answer.data.length, expected.data.length, path);
  for (const [i, value] of answer.data.entries()) {
    const want = Number(expected.data[i]);
    const got = Number(value);
    assert.ok(Math.abs(got - want) <= 1e-3 + 1e-3 * Math.abs(want), `${path}[${i}]: ${got}, not ${want}`);
  }
}

async function check(
  t: TestContext,
  { model, config, output, recordOf, shape, others }: Case,
): Promise<void> {
  const folder = sharedPath(`corpus/${model}`);
  const out = join(await temporaryFolder(t), 'out');
  const { importReport } = await importModel(folder, { out, version: '0.0.0', measure: false });
  assert.equal(importReport.config.join('\n'), config);
  const job = parseConfig(config, 'test');
  const { verification } = importReport;
  const settings = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {}, ...axesOf(job) };
  const runner = await openOnnx(join(out, 'model.onnx'), 'v', { ...settings, verification });
  t.after(() => runner.close());
  const read = (file: string) => readNpy(readFileSync(join(folder, file)));
  const given = Object.fromEntries(runner.inputs.map(({ name }) => [name, read(`in_${name}.npy`)]));
  const record = recordOf(given);
  const instance = Object.fromEntries(
    Object.entries(record).map(([name, tensor]) => [name, toNested(tensor)]),
  );
  const expected = read(output);
  for (const answers of [
    await throughPredict(runner, [instance, instance]),
    await throughQueue(runner, [record, record]),
  ]) {
    assert.equal(answers.length, 2);
    for (const [answer, ...rest] of answers) {
      assertClose(answer, expected, shape, model);
      assert.deepEqual(
        rest.map((other) => other.shape),
        others,
      );
    }
  }
  const [inferred] = await throughV2(runner, given);
  assertClose(inferred, expected, expected.shape, `${model} /v2`);
}

for (const one of CASES) {
  const isHere = existsSync(sharedPath(`corpus/${one.model}`));
  const skip = isHere ? false : `needs ../shared/corpus/${one.model}, which is not on this machine`;
  test(`${one.model} answers on every path with the axes that its import proposes`, { skip }, (t) =>
    check(t, one),
  );
}
