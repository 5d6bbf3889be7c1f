/** Reported models whose nodes onnxruntime answers wrongly: imported, and asked through POST /predict. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { needsImport } from '../../../onnx-import/source/detect.ts';
import { importModel } from '../../../release/import.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { models } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { type Answer, throughPredict } from '../../support/three-paths.ts';

type Rows = readonly Readonly<Record<string, unknown>>[];

/** The outputs of each row; undefined after a skip. */
async function asked(
  t: TestContext,
  name: string,
  file: string,
  rows: Rows,
): Promise<Answer[][] | undefined> {
  const folder = sharedPath(`corpus/reported/users/${name}`);
  if (!existsSync(folder)) {
    t.skip(`needs ../shared/corpus/reported/users/${name}, which is not on this machine`);
    return undefined;
  }
  const home = join(await temporaryFolder(t), 'model');
  mkdirSync(home);
  cpSync(join(folder, file), join(home, file));
  assert.equal(await needsImport(home), true);
  const out = `${home}-out`;
  const { importReport } = await importModel(home, { out, version: '1', process: models, measure: false });
  const { verification } = importReport;
  const settings = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {}, verification };
  const runner = await openOnnx(join(out, 'model.onnx'), 'v', settings);
  t.after(() => runner.close());
  return throughPredict(runner, rows);
}

function assertClose(found: readonly unknown[] | undefined, expected: readonly number[]): void {
  assert.equal(found?.length, expected.length);
  for (const [i, value] of expected.entries()) {
    const got = found?.[i] as number;
    assert.ok(Math.abs(got - value) <= 1e-6 * Math.abs(value), `${got}, not ${value}`);
  }
}

const logistic = (x: number) => 1 / (1 + Math.exp(-x));

test('E1-binary-trees-label: the label fits the probabilities of positive leaves', async (t) => {
  // Two trees of three leaves each, read from the file: what every row adds up to.
  const leaf = ([a, , , d]: readonly number[]) =>
    (a as number) < 0.017930308 ? ((d as number) < -0.38885376 ? 0 : 1) : 2;
  const sums = [0.12463768 + 0.11332517, 0.047887325 + 0.04325846, 0.18208955 + 0.16563033];
  const rows = [[0, 0, 0, 0], [0, 0, 0, -1], [1, 0, 0, 0], [-5, 2, 3, 4]]; // biome-ignore format: short
  const found = await asked(t, 'E1-binary-trees-label', 'model.onnx', rows.map((X) => ({ X }))); // biome-ignore format: short
  for (const [i, outputs] of (found ?? []).entries()) {
    const sum = sums[leaf(rows[i] as number[])] as number;
    assert.deepEqual(outputs[0]?.data, [1]);
    assertClose(outputs[1]?.data, [logistic(-sum), logistic(sum)]);
  }
});

test('E2-leaf-only: one positive leaf is the second class', async (t) => {
  const found = await asked(t, 'E2-leaf-only', 'model.onnx', [{ X: [1, 2, 3] }]);
  if (!found) return;
  assert.deepEqual(found[0]?.[0]?.data, [1]);
  assertClose(found[0]?.[1]?.data, [logistic(-0.4), logistic(0.4)]);
});

test('E4-normalizer-max: rows are divided by their largest magnitude', async (t) => {
  const found = await asked(t, 'E4-normalizer-max', 'model.onnx', [{ X: [-4, 1, 2] }, { X: [0, 0, 0] }]);
  if (!found) return;
  assert.deepEqual(
    found.map(([answer]) => answer?.data),
    [
      [-1, 0.25, 0.5],
      [0, 0, 0],
    ],
  );
});

test('F1-small-probabilities: small probabilities are those of XGBoost', async (t) => {
  const values = [10, 15, 18, 20, 25, 69];
  const rows = values.map((value) => ({ f0: -value / 10, f1: 0 }));
  const found = await asked(t, 'F1-small-probabilities', 'model.json', rows);
  for (const [i, value] of values.entries()) if (found) assertClose(found[i]?.[0]?.data, [logistic(-value)]);
});
