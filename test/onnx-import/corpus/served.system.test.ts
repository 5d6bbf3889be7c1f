/**
 * Models as their frameworks write them today: imported, served by the local service, and asked in every way that clients
 * have. Each answer is what the framework itself answers.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { allocate, type NumericDType, type Tensor } from '../../../lib/contract/tensor.ts';
import { readNames } from '../../../lib/registry/names.ts';
import { readNpz } from '../../../onnx-import/files/npy.ts';
import type { ConvertOptions } from '../../../onnx-import/source/convert-options.ts';
import { importModel } from '../../../release/import.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { models } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { answersOf, type Output } from '../../support/service-paths.ts';
import { testStack } from '../../support/stack.ts';

/** Another folder of the same form, for models that are made to be compared once. */
const FOLDER = process.env['FRESH'] ?? sharedPath('corpus/fresh');

/** Exported with augmentation left on: each call draws new numbers, and TensorFlow gives no answer twice. */
const RANDOM: ReadonlySet<string> = new Set(['tf/preproc_img', 'tf/x_randomflip']);

/** Texts are split into words, of which a run pads all to the longest: each record runs alone. */
const SPLITS_TEXTS: ReadonlySet<string> = new Set(['sk/tfidf', 'tf/textvec']);

/** Of numbers of trees and of scikit-learn, which are probabilities or of the order of 1. */
const ABSOLUTE = 1e-5;
/** Of networks: of the standard deviation of an output. */
const OF_SPREAD = 1e-4;

/** What an output should be. */
interface Wanted extends Output {
  readonly name?: string;
}

interface Case {
  readonly count: number;
  readonly inputs: Readonly<Record<string, Tensor>>;
  readonly shared?: readonly string[];
  /** Where all have a name, those that are missing are not compared. */
  readonly outputs: readonly Wanted[];
}

interface Entry {
  readonly name: string;
  readonly source: string;
  readonly convert?: ConvertOptions;
  readonly tolerance: 'absolute' | 'of spread';
  /** @param names of the model's inputs */
  readonly cases: (inputs: readonly { readonly name: string; readonly dtype: string }[]) => readonly Case[];
}

interface Values {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** null: NaN. */
  readonly data: readonly (number | string | null)[];
}

function tensorOf({ dtype, shape, data }: Values, as = dtype): Tensor {
  if (as === 'object') return { dtype: 'string', shape, data: data.map(String) };
  const array = allocate(as as NumericDType, data.length) as Float32Array;
  const isBig = as.endsWith('int64');
  array.set(
    data.map((value) =>
      isBig ? (BigInt(value ?? 0) as unknown as number) : value === null ? NaN : Number(value),
    ),
  );
  return { dtype: as as NumericDType, shape, data: array };
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}

/** Exports of scikit-learn. What ZipMap makes of probabilities is a list of maps. */
type Reference = readonly {
  readonly rows: number;
  readonly inputs: Readonly<Record<string, Values>>;
  readonly outputs: Readonly<Record<string, Values | readonly Readonly<Record<string, number>>[]>>;
}[];

function sklearnCases(reference: Reference): Case[] {
  return reference.map(({ rows, inputs, outputs }) => ({
    count: rows,
    inputs: Object.fromEntries(Object.entries(inputs).map(([name, values]) => [name, tensorOf(values)])),
    outputs: Object.entries(outputs).map(([name, values]): Wanted => {
      if (!Array.isArray(values)) return { name, ...(values as Values) };
      const maps = values as readonly Readonly<Record<string, number>>[];
      const labels = Object.keys(maps[0] ?? {});
      return { name, shape: [rows, labels.length], data: maps.flatMap((map) => Object.values(map)), labels };
    }),
  }));
}

/** The corpus has no reference for it: the words decide, whatever their case. */
const TFIDF: Reference = [
  {
    rows: 3,
    inputs: {
      text: {
        dtype: 'object',
        shape: [3, 1],
        data: ['good nice movie', 'bad awful film', 'GOOD Nice École Movie'],
      },
    },
    outputs: { label: { dtype: 'int64', shape: [3], data: [1, 0, 1] } },
  },
];

function treeCases(file: string, dtype: string): Case[] {
  const { input, expected } = readJson(file) as { readonly input: Values; readonly expected: Values };
  const table = (rows: number, { shape, data, ...rest }: Values): Values => {
    const size = data.length / (shape[0] as number);
    return { ...rest, shape: [rows, ...shape.slice(1)], data: data.slice(0, rows * size) };
  };
  return [1, 3, input.shape[0] as number].map((count) => ({
    count,
    inputs: { features: tensorOf(table(count, input), dtype) },
    outputs: [table(count, expected)],
  }));
}

/** `temp` divides the logits of the signature `warm`, which follow from the probabilities without it. */
function tempered(one: Case, temperature: number): Case {
  const { inputs, outputs, count } = one;
  const [scores] = outputs as readonly [Wanted];
  const powers = scores.data.map((value) => Number(value) ** (1 / temperature));
  const row = (i: number) => powers.slice(Math.floor(i / 3) * 3, Math.floor(i / 3) * 3 + 3);
  const data = powers.map((value, i) => value / row(i).reduce((sum, each) => sum + each, 0));
  const best = Array.from({ length: count }, (_, i) => row(3 * i).indexOf(Math.max(...row(3 * i))));
  return {
    count,
    inputs: { ...inputs, temp: { dtype: 'float32', shape: [], data: Float32Array.of(temperature) } },
    shared: ['temp'],
    outputs: [
      { ...scores, data },
      { name: 'arg', shape: [count], data: best },
    ],
  };
}

function npzCase(file: string, count: number): Case {
  const tensors = [...readNpz(readFileSync(file), file)];
  const of = (prefix: string) =>
    tensors.flatMap(([name, tensor]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), tensor] as const] : [],
    );
  return {
    count,
    inputs: Object.fromEntries(of('in_')),
    outputs: of('out_').map(([name, { shape, data }]) => ({
      name,
      shape,
      data: Array.from(data as ArrayLike<unknown>),
    })),
  };
}

function* entries(): Generator<Entry> {
  const folders = (kind: string) =>
    existsSync(join(FOLDER, kind)) ? readdirSync(join(FOLDER, kind)).map((name) => `${kind}/${name}`) : [];
  for (const name of folders('sk')) {
    const source = join(FOLDER, name);
    const reference = join(source, 'reference.json');
    const cases = () => sklearnCases(name === 'sk/tfidf' ? TFIDF : (readJson(reference) as Reference));
    yield { name, source, tolerance: 'absolute', cases };
  }
  for (const name of folders('trees')) {
    const source = join(FOLDER, name);
    const cases: Entry['cases'] = ([input]) =>
      treeCases(join(source, 'reference.json'), input?.dtype as string);
    yield { name, source, tolerance: 'absolute', cases };
  }
  for (const name of folders('tf')) {
    const source = join(FOLDER, name, 'm');
    const cases = () => [1, 3].map((rows) => npzCase(join(FOLDER, name, `ref${rows}.npz`), rows));
    const entry = { name, source, tolerance: 'of spread', cases } as const;
    yield entry;
    if (name !== 'tf/multisig') continue;
    yield { ...entry, name: `${name} score`, convert: { signature: 'score' } };
    const warm = () => cases().map((one) => tempered(one, 0.5));
    yield { ...entry, name: `${name} warm`, convert: { signature: 'warm' }, cases: warm };
  }
}

function assertSame(found: Output, wanted: Wanted, { tolerance }: Entry, what: string): void {
  assert.deepEqual(found.shape, wanted.shape, what);
  assert.equal(found.data.length, wanted.data.length, what);
  const numbers = wanted.data.map(Number);
  const mean = numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  const spread = Math.sqrt(numbers.reduce((sum, value) => sum + (value - mean) ** 2, 0) / numbers.length);
  const allowed = tolerance === 'absolute' ? ABSOLUTE : OF_SPREAD * spread;
  for (const [i, expected] of wanted.data.entries()) {
    const value = found.data[i];
    if (typeof expected !== 'string') {
      const off = Math.abs(Number(value) - Number(expected));
      assert.ok(off <= allowed, `${what}, element ${i}: ${String(value)}, expected ${String(expected)}`);
    } else assert.equal(value, expected, `${what}, element ${i}`);
  }
}

/** Imports the model, starts the service and compares the answers. */
async function serve(t: TestContext, entry: Entry): Promise<void> {
  const out = join(await temporaryFolder(t), 'model');
  const options = { out, version: '1', process: models, measure: false, convert: entry.convert };
  const { importReport } = await importModel(entry.source, options);
  const { inputs, outputs, config, verification } = importReport;
  if (!SPLITS_TEXTS.has(entry.name)) assert.equal(verification?.batching.verdict, 'proven');
  const { columns } = await readNames(out, []);
  const stack = await testStack(t, { modelDirectory: out, config: config.join('\n') });
  const [first] = inputs;
  for (const one of entry.cases(inputs)) {
    const rows = { ...one, columns: columns[first?.name as string] };
    for await (const [path, found] of answersOf(t, stack, rows)) {
      assert.equal(found.length, outputs.length, path);
      for (const wanted of one.outputs) {
        const i = outputs.length === 1 ? 0 : outputs.findIndex(({ name }) => name === wanted.name);
        const what = `${path}, ${one.count} rows, output ${wanted.name ?? ''}`;
        assert.ok(i >= 0, what);
        assertSame(found[i] as Output, wanted, entry, what);
        const { labels } = found[i] as Output;
        if (labels && wanted.labels) assert.deepEqual(labels, wanted.labels, what);
      }
    }
  }
}

test('there are models to ask', (t) => {
  if (!existsSync(FOLDER)) t.skip('needs ../shared/corpus/fresh, which is not on this machine');
});

for (const entry of entries()) {
  if (!RANDOM.has(entry.name))
    test(`${entry.name} answers on every path as its framework does`, (t) => serve(t, entry));
  else
    test(`${entry.name} is refused, because its answers are random`, async (t) => {
      await assert.rejects(serve(t, entry), { message: /an augmentation is on, as in training/ });
    });
}
