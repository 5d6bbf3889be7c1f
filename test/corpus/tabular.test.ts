/** Models of scikit-learn, LightGBM and XGBoost as they are written by default: on every path the answers of their framework. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { importModel } from '../../convert/import.ts';
import { openOnnx } from '../../lib/compose/onnx.ts';
import { allocate, type NumericDType, type Tensor } from '../../lib/contract/tensor.ts';
import { models } from '../convert/support/models.ts';
import { sharedPath } from '../support/fixtures.ts';
import { toNested } from '../support/npy.ts';
import { temporaryFolder } from '../support/runner.ts';
import { type Answer, throughPredict, throughQueue, throughV2 } from '../support/three-paths.ts';

const FRESH = sharedPath('corpus/fresh');
const folders = (kind: string) => (existsSync(FRESH) ? readdirSync(join(FRESH, kind)) : []);
const SETTINGS = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} };

interface Values {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: readonly (number | string | null)[];
}

interface Reference {
  readonly rows: number;
  readonly inputs: Readonly<Record<string, Values>>;
  /** A list of maps is what ZipMap makes. */
  readonly outputs: Readonly<Record<string, Values | readonly Readonly<Record<string, number>>[]>>;
}

test('the models are here', (t) => {
  if (!existsSync(FRESH)) t.skip('needs ../shared/corpus/fresh, which is not on this machine');
});

function tensorOf({ dtype, shape, data }: Values, as = dtype): Tensor {
  if (as === 'object') return { dtype: 'string', shape, data: data.map(String) };
  const array = allocate(as as NumericDType, data.length) as Float32Array;
  array.set(data.map((value) => (value === null ? Number.NaN : Number(value))));
  return { dtype: as as NumericDType, shape, data: array };
}

/** Row `row` of a tensor. */
function rowOf({ dtype, shape, data }: Tensor, row: number): Tensor {
  const size = data.length / (shape[0] as number);
  return { dtype, shape: shape.slice(1), data: data.slice(row * size, (row + 1) * size) };
}

function wantedOf(output: Reference['outputs'][string]): readonly (number | string | null)[] {
  return Array.isArray(output)
    ? (output as readonly Readonly<Record<string, number>>[]).flatMap((row) => Object.values(row))
    : (output as Values).data;
}

function assertSame(
  found: readonly unknown[],
  wanted: readonly (number | string | null)[],
  what: string,
): void {
  assert.equal(found.length, wanted.length, what);
  for (const [i, value] of found.entries()) {
    const expected = wanted[i];
    if (typeof expected === 'string') assert.equal(value, expected, what);
    else
      assert.ok(
        Math.abs(Number(value) - Number(expected)) <= 1e-5,
        `${what} ${i}: ${String(value)}, not ${expected}`,
      );
  }
}

async function imported(t: TestContext, source: string) {
  const out = join(await temporaryFolder(t), 'model');
  const { importReport } = await importModel(source, { out, version: '1', process: models, measure: false });
  const { verification } = importReport;
  const runner = await openOnnx(join(out, 'model.onnx'), 'v', { ...SETTINGS, verification });
  t.after(() => runner.close());
  return { runner, importReport };
}

/** Asks on each path; the outputs in order, of all rows together. */
async function answers(
  runner: Awaited<ReturnType<typeof imported>>['runner'],
  inputs: Readonly<Record<string, Tensor>>,
  rows: number,
): Promise<Readonly<Record<string, readonly unknown[][]>>> {
  const record = (row: number) =>
    Object.fromEntries(Object.entries(inputs).map(([name, tensor]) => [name, rowOf(tensor, row)]));
  const records = Array.from({ length: rows }, (_, row) => record(row));
  const nested = records.map((each) =>
    Object.fromEntries(Object.entries(each).map(([name, tensor]) => [name, toNested(tensor)])),
  );
  const joined = (all: readonly (readonly Answer[])[]) =>
    runner.outputs.map((_, i) => all.flatMap((outputs) => outputs[i]?.data ?? []));
  return {
    predict: joined(await throughPredict(runner, nested)),
    v2: (await throughV2(runner, inputs)).map(({ data }) => [...data]),
    queue: joined(await throughQueue(runner, records)),
  };
}

for (const name of folders('sk').filter((each) => each !== 'tfidf')) {
  test(`sk/${name} answers as its framework does through /predict, /v2 and the queue`, async (t) => {
    const folder = join(FRESH, 'sk', name);
    const { runner, importReport } = await imported(t, folder);
    assert.equal(importReport.verification?.batching.verdict, 'proven');
    const references = JSON.parse(readFileSync(join(folder, 'reference.json'), 'utf8')) as Reference[];
    for (const { rows, inputs, outputs } of references) {
      const tensors = Object.entries(inputs).map(([key, value]) => [key, tensorOf(value)] as const);
      const found = await answers(runner, Object.fromEntries(tensors), rows);
      for (const [path, values] of Object.entries(found)) {
        for (const [i, output] of runner.outputs.entries()) {
          const wanted = outputs[output.name];
          assert.ok(wanted, output.name);
          assertSame(values[i] ?? [], wantedOf(wanted), `${path}, ${rows} rows, ${output.name}`);
        }
      }
    }
  });
}

test('sk/tfidf loads without locales and tells good from bad, whatever the case', async (t) => {
  if (folders('sk').length === 0) return t.skip('needs ../shared/corpus/fresh');
  const { runner } = await imported(t, join(FRESH, 'sk', 'tfidf'));
  const texts = ['good nice movie', 'bad awful film', 'GOOD Nice École Movie'];
  const inputs = { text: { dtype: 'string', shape: [3, 1], data: texts } } as const;
  for (const [path, [labels = []]] of Object.entries(await answers(runner, inputs, 3))) {
    assert.deepEqual(labels.map(String), ['1', '0', '1'], path);
  }
});

for (const name of folders('trees')) {
  test(`trees/${name} answers as its library does through /predict, /v2 and the queue`, async (t) => {
    const folder = join(FRESH, 'trees', name);
    const { runner, importReport } = await imported(t, folder);
    assert.equal(importReport.verification?.batching.verdict, 'proven');
    const { input, expected } = JSON.parse(readFileSync(join(folder, 'reference.json'), 'utf8')) as {
      readonly input: Values;
      readonly expected: { readonly shape: readonly number[]; readonly data: readonly number[] };
    };
    const rows = input.shape[0] as number;
    const found = await answers(runner, { features: tensorOf(input, runner.inputs[0]?.dtype) }, rows);
    for (const [path, [values = []]] of Object.entries(found)) assertSame(values, expected.data, path);
  });
}
