/**
 * 100 tree models of XGBoost, LightGBM, scikit-learn and CatBoost answer through POST /predict what the libraries answer: the
 * same label, and each number to 1e-6 of itself. libraries.gz is made by libraries.py. `npm test` has some of every kind.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { importModel } from '../../../release/import.ts';
import { models } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { throughPredict } from '../../support/three-paths.ts';

interface Case {
  readonly library: string;
  readonly file: string;
  /** The size of its file; the files follow the cases. */
  readonly bytes: number;
  /** Base64 of float32. */
  readonly rows: string;
  /** By output: labels, or base64 of float64. */
  readonly answers: Readonly<Record<string, readonly (number | string)[] | string>>;
}

const CONTENT = gunzipSync(readFileSync(new URL('libraries.gz', import.meta.url)));
const HEAD = CONTENT.indexOf('\n');
const CASES = JSON.parse(CONTENT.toString('utf8', 0, HEAD)) as Case[];
const COLUMNS = 4;
const SETTINGS = { threads: 2, batchSize: 8, inputAlreadyBatched: false, image: {} };

const bytesOf = (base64: string) => Uint8Array.from(Buffer.from(base64, 'base64')).buffer;

/** Of each library. The first have every kind: two and three classes, flat and steep, dart, regression, labels as texts. */
const FIRST = 7;
const LIBRARIES = ['xgboost', 'lightgbm', 'scikit-learn', 'catboost'];

export function libraryTests(part: 'first' | 'others'): void {
  const places = new Map(LIBRARIES.map((name) => [name, 0]));
  let start = HEAD + 1;
  let tested = 0;
  for (const [i, { library, file, bytes, rows, answers }] of CASES.entries()) {
    const model = CONTENT.subarray(start, start + bytes);
    start += bytes;
    const place = places.get(library) ?? 0;
    places.set(library, place + 1);
    if ((place < FIRST ? 'first' : 'others') !== part) continue;
    tested++;
    test(`${i}: a model of ${library} answers as its library`, (t) =>
      check(t, model, { file, rows, answers }));
  }
  test('there are 100 models of four libraries', () => {
    assert.deepEqual(
      [...places],
      LIBRARIES.map((name) => [name, 25]),
    );
    assert.equal(tested, LIBRARIES.length * (part === 'first' ? FIRST : 25 - FIRST));
  });
}

async function check(
  t: TestContext,
  model: Uint8Array,
  { file, rows, answers }: Pick<Case, 'file' | 'rows' | 'answers'>,
): Promise<void> {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, 'model'));
  await writeFile(join(folder, 'model', file), model);
  const out = join(folder, 'out');
  const { importReport } = await importModel(join(folder, 'model'), {
    out,
    version: '1',
    process: models,
    measure: false,
  });
  assert.doesNotMatch(importReport.notes.join(), /not compared/);
  const { verification } = importReport;
  const runner = await openOnnx(join(out, 'model.onnx'), 'v', { ...SETTINGS, verification });
  t.after(() => runner.close());
  const table = Array.from(new Float32Array(bytesOf(rows)));
  const [input] = runner.inputs;
  const records = Array.from({ length: table.length / COLUMNS }, (_, row) => ({
    [input?.name as string]: table.slice(row * COLUMNS, (row + 1) * COLUMNS),
  }));
  const found = await throughPredict(runner, records);
  for (const [at, output] of Object.keys(answers).entries()) {
    const values = found.flatMap((outputs) => outputs[at]?.data ?? []);
    assertEqual(values, answers[output] as Case['answers'][string], output);
  }
}

function assertEqual(found: readonly unknown[], wanted: Case['answers'][string], output: string): void {
  if (typeof wanted !== 'string') return assert.deepEqual(found, wanted, output);
  const expected = new Float64Array(bytesOf(wanted));
  assert.equal(found.length, expected.length, output);
  for (const [i, value] of expected.entries()) {
    const got = found[i] as number;
    const difference = Math.abs(got - value);
    assert.ok(difference <= 1e-6 * Math.abs(value), `${output}[${i}]: ${got}, expected ${value}`);
  }
}
