/**
 * 100 tree models of XGBoost, LightGBM, scikit-learn and CatBoost answer through POST /predict what the libraries answer: the
 * same label, and each number to 1e-6 of itself. libraries.gz is made by libraries.py.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
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

test('there are 100 models of four libraries', () => {
  const libraries = new Set(CASES.map(({ library }) => library));
  assert.deepEqual([CASES.length, libraries.size], [100, 4]);
});

let start = HEAD + 1;
for (const [i, { library, file, bytes, rows, answers }] of CASES.entries()) {
  const model = CONTENT.subarray(start, start + bytes);
  start += bytes;
  test(`${i}: a model of ${library} answers as its library`, async (t) => {
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
  });
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
