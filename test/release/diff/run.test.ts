/** Two versions are asked the same made-up rows: of as many axes as the first one takes, also where the file says none, and within its tables. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { reportOf, reportText } from '../../../release/diff/report.ts';
import { runDiff } from '../../../release/diff/run.ts';
import { parseConfig } from '../../support/config.ts';
import { type ModelSpec, onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

async function diff(t: TestContext, ...models: readonly ModelSpec[]) {
  const folder = await temporaryFolder(t);
  const sides = models.map(async (model, i) => {
    const file = join(folder, `${i}.onnx`);
    await writeFile(file, onnxModel(model));
    return { file, verification: undefined };
  });
  const [before = assert.fail(), after = assert.fail()] = await Promise.all(sides);
  const ran = await runDiff({ before, after, job: parseConfig('', 'config.yaml'), requests: [] });
  return reportOf({ ...ran, memory: undefined });
}

/** Gemm takes two axes and no other number of them. */
const scaled = (factor: number): ModelSpec => ({
  inputs: [{ name: 'x', dtype: 'float32', shape: undefined }],
  outputs: [{ name: 'y', dtype: 'float32', shape: undefined }],
  weights: [{ name: 'w', dtype: 'float32', shape: [1, 2], data: Float32Array.of(factor, -factor) }],
  nodes: [{ op: 'Gemm', inputs: ['x', 'w'], outputs: ['y'] }],
});

test('made-up rows have as many axes as the model takes', async (t) => {
  const { answers, refused } = await diff(t, scaled(2), scaled(3));
  assert.ok(typeof answers !== 'string', JSON.stringify(answers));
  assert.deepEqual(
    answers.map(({ output, rows }) => [output, rows]),
    [['y', 32]],
  );
  // A difference of x is a quarter of the row from -2 x to 2 x.
  assert.ok(Math.abs((answers[0]?.median ?? 0) - 0.25) < 1e-6);
  assert.equal(refused, undefined);
});

/** A table of words. */
const table = (words: number, axes: readonly (string | number)[] = ['N', 1]): ModelSpec => ({
  inputs: [{ name: 'word', dtype: 'int64', shape: axes }],
  outputs: [{ name: 'y', dtype: 'float32', shape: [...axes, 2] }],
  weights: [
    {
      name: 'w',
      dtype: 'float32',
      shape: [words, 2],
      data: Float32Array.from({ length: 2 * words }, (_, i) => i),
    },
  ],
  nodes: [{ op: 'Gather', inputs: ['w', 'word'], outputs: ['y'] }],
});

for (const [words, what] of [
  [8, 'some'],
  [1, 'most'],
] as const)
  test(`${what} rows that only the first version answers are a break`, async (t) => {
    const report = await diff(t, table(16), table(words));
    const { refused, answers, breaks } = report;
    assert.ok(refused && refused.rows > 0 && refused.rows <= refused.of, JSON.stringify(report));
    assert.match(refused.why, /out of data bounds/);
    if (typeof answers !== 'string') assert.equal(answers[0]?.rows, refused.of - refused.rows);
    const [found, ...others] = breaks;
    assert.deepEqual([found?.name, others], ['rows', []]);
    assert.match(
      reportText(report),
      /breaks {4}rows: \d+ of \d+ made-up rows that were answered before are refused: .*out of data bounds/,
    );
  });

test('rows that the first version does not answer count for nothing, and a larger table breaks nothing', async (t) => {
  const { refused, breaks } = await diff(t, table(8), table(16));
  assert.deepEqual([refused, breaks], [undefined, []]);
});

test('an input of another size is one break, not two', async (t) => {
  const { breaks } = await diff(t, table(16, ['N', 1]), table(16, ['N', 3]));
  assert.deepEqual(
    breaks.map(({ name }) => name),
    ['input:word', 'output:y'],
  );
});
