/**
 * Models of XGBoost and LightGBM predict what the libraries predict, also for values on thresholds, missing values and
 * unknown categories. models.json.gz is of generate.py, with XGBoost 1.7.6, 2.1.4 and 3.2 and LightGBM 4.7:
 * `TREES=<folder>` compares the models of that script in a folder instead.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { openSession } from '../../../lib/inference/session.ts';
import { convertModel } from '../../../onnx-import/formats/convert.ts';
import { onnxBytes } from '../../../onnx-import/onnx/write.ts';
import type { ConvertOptions } from '../../../onnx-import/source/convert-options.ts';
import { detectModel } from '../../../onnx-import/source/detect.ts';
import { temporaryFolder } from '../../support/runner.ts';

interface Case {
  readonly file: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly dtype: 'float32' | 'float64';
  readonly columns: readonly string[];
  /** Base64 of the model's file; undefined where it lies beside the case. */
  readonly model?: string;
  readonly inputShape: readonly number[];
  /** Base64 of float64. */
  readonly input: string;
  readonly outputShape: readonly number[];
  readonly expected: string;
}

const FOLDER = process.env['TREES'];

function* cases(): Generator<readonly [name: string, Case, Uint8Array]> {
  if (FOLDER === undefined) {
    const all = JSON.parse(
      gunzipSync(readFileSync(new URL('models.json.gz', import.meta.url))).toString(),
    ) as Case[];
    for (const [i, each] of all.entries()) yield [`${i}`, each, Buffer.from(each.model ?? '', 'base64')];
    return;
  }
  for (const name of readdirSync(FOLDER)) {
    const path = join(FOLDER, name, 'case.json');
    if (!existsSync(path)) continue;
    const each = JSON.parse(readFileSync(path, 'utf8')) as Case;
    yield [name, each, readFileSync(join(FOLDER, name, each.file))];
  }
}

function numbers(base64: string): Float64Array {
  return new Float64Array(Uint8Array.from(Buffer.from(base64, 'base64')).buffer);
}

async function converted(
  t: TestContext,
  file: string,
  content: Uint8Array | string,
  options: ConvertOptions = {},
) {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, file), content);
  return { folder, ...(await convertModel(await detectModel(folder), options)) };
}

/** 1e-5 of the spread of the answers, and the rounding of sums of float32. */
function assertClose(found: Float32Array, expected: Float64Array): void {
  const finite = expected.filter(Number.isFinite);
  const mean = finite.reduce((sum, value) => sum + value, 0) / finite.length;
  const spread = Math.sqrt(finite.reduce((sum, value) => sum + (value - mean) ** 2, 0) / finite.length);
  for (const [i, value] of found.entries()) {
    const wanted = expected[i] as number;
    if (Object.is(value, Math.fround(wanted))) continue;
    const allowed = 1e-5 * (Number.isFinite(spread) ? spread : 0) + 3e-6 * Math.abs(wanted) + 1e-12;
    assert.ok(Math.abs(value - wanted) <= allowed, `element ${i}: ${value}, expected ${wanted}`);
  }
}

let count = 0;
for (const [name, each, model] of cases()) {
  count += 1;
  test(`${name}: ${each.file}, ${JSON.stringify(each.params)}`, async (t) => {
    const made = await converted(t, each.file, model);
    assert.deepEqual(made.names?.columns, { features: each.columns });
    await assertAnswers(made, each, numbers(each.input));
  });
}

/** @param input values of the rows of the case */
async function assertAnswers(
  { graph, folder }: Awaited<ReturnType<typeof converted>>,
  each: Case,
  input: Float64Array,
): Promise<void> {
  const path = join(folder, 'made.onnx');
  await writeFile(path, onnxBytes(graph));
  const session = await openSession(path, { threads: 1 });
  try {
    const data = each.dtype === 'float32' ? Float32Array.from(input) : input;
    const [output] = await session.run([{ dtype: each.dtype, shape: each.inputShape, data }]);
    assert.deepEqual(output?.shape, each.outputShape);
    assertClose(output?.data as Float32Array, numbers(each.expected));
  } finally {
    await session.close();
  }
}

test('there are models to compare', () => assert.ok(count > 0));

test('a number that stands for a missing value is one, in every model of XGBoost', async (t) => {
  let compared = 0;
  for (const [, each, model] of cases()) {
    const input = numbers(each.input);
    if (each.params['xgboost'] === undefined || !input.some(Number.isNaN)) continue;
    const made = await converted(t, each.file, model, { missing: -999 });
    assert.match(made.notes.join(), /-999 stands for a missing value/);
    await assertAnswers(
      made,
      each,
      input.map((value, i) => (Number.isNaN(value) && i % 2 === 0 ? -999 : value)),
    );
    compared += 1;
    const plain = await converted(t, each.file, model);
    assert.match(plain.notes.join(), /pass --missing=-999/);
  }
  assert.ok(compared > 3, `${compared} models`);
});
