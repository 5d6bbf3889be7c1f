/** What the proof of batching must hold on many graphs, on all models of the shared corpus, and for a large file. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { verificationNotes } from '../../../lib/contract/verification-text.ts';
import { openSession } from '../../../lib/inference/session.ts';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { proofOf } from '../../../onnx-import/batching/proof.ts';
import { convertModel } from '../../../onnx-import/formats/convert.ts';
import { writeOnnx } from '../../../onnx-import/onnx/write.ts';
import { hintsOf } from '../../../onnx-import/samples/hints.ts';
import { FREE_SIZES } from '../../../onnx-import/samples/inputs.ts';
import { INTEGER_RANGES, madeUpRow } from '../../../onnx-import/samples/probe-values.ts';
import { detectModel } from '../../../onnx-import/source/detect.ts';
import { verifyModel } from '../../../onnx-import/verify/verify.ts';
import { bytes, integer, message, text } from '../../../onnx-import/wire/chunk.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { assertLengthsAgree } from './assert-lengths.ts';
import { assertPlantedNeverProven, assertProofsHold } from './assert-proofs.ts';
import { type Company, compareRows } from './compare-rows.ts';
import { assertExpressionsHold } from './known-elements.ts';

test('of 2,000 random graphs, every one that is proven answers alone as in company', async (t) => {
  await assertProofsHold(t, { from: 1_000, count: 2_000 });
});

test('of 1,000 random graphs with an operator that mixes rows, none is proven', async (t) => {
  await assertPlantedNeverProven(t, { from: 1_000, count: 1_000 });
});

const GRAPHS = Number(process.env.LENGTH_GRAPHS ?? 500);

test(`of ${GRAPHS} random graphs on sequences of three lengths, those that are proven answer alone as in company, and all as they are optimized`, async (t) => {
  await assertLengthsAgree(t, { from: 1_000, count: GRAPHS });
});

test('of 3,000 random expressions of sizes and constants, each known element is what onnxruntime computes at three lengths', async (t) => {
  await assertExpressionsHold(t, { from: 1_000, count: 3_000 });
});

const CORPUS = sharedPath('corpus');
const LEAST_PROVEN = 0.95;
const BATCHES = 200;
const ROWS = 8;

/** Models that can be imported, as ONNX files. */
async function corpusModels(t: TestContext): Promise<(readonly [name: string, file: string])[]> {
  const folder = await temporaryFolder(t);
  const found: (readonly [string, string])[] = [];
  const under = (path: string, inner = '') =>
    readdirSync(join(CORPUS, path)).map(
      (name) => [`${path}/${name}`, join(CORPUS, path, name, inner)] as const,
    );
  for (const [name, path] of [...under('onnx'), ...under('fresh/sk')])
    found.push([name, join(path, 'model.onnx')]);
  for (const name of readdirSync(join(CORPUS, 'batching')).filter((file) => file.endsWith('.onnx'))) {
    found.push([`batching/${name}`, join(CORPUS, 'batching', name)]);
  }
  const converted = ['caffe', 'tf_frozen', 'tf_saved_model', 'tf_checkpoint'].flatMap((path) => under(path));
  for (const [name, path] of [...converted, ...under('fresh/tf', 'm')]) {
    const file = join(folder, `${name.replaceAll('/', '_')}.onnx`);
    try {
      const { graph } = await convertModel(await detectModel(path), {});
      await writeOnnx(graph, file, { producerVersion: '1' });
      found.push([name, file]);
    } catch {
      // Refused, as test/onnx-import/corpus/imports.system.test.ts holds.
    }
  }
  return found;
}

/** Rows that the model takes, of the first sizes and values that it takes; undefined where it takes none. */
async function rowsFor(file: string, fixedRows: number | undefined): Promise<Tensor[][] | undefined> {
  const session = await openSession(file, { threads: 1 });
  const hints = hintsOf(file);
  try {
    for (const integers of INTEGER_RANGES) {
      // Small ones first: these are 200 runs of each model.
      for (const sizes of FREE_SIZES.toSorted((a, b) => a.spatial - b.spatial)) {
        const rows = Array.from({ length: ROWS }, (_, row) =>
          session.inputs.map((spec, input) =>
            madeUpRow(spec, { axis: 0, sizes, integers, hints, isCareful: false, row, input }),
          ),
        );
        const first = rows[0] as Tensor[];
        if (
          fixedRows !== undefined ||
          (await session.run(first).then(
            () => true,
            () => false,
          ))
        )
          return rows;
      }
    }
    return undefined;
  } finally {
    await session.close();
  }
}

/** Whether rows of the model are independent: none differs in any of the random batches. */
async function companyOf(file: string, fixedRows: number | undefined): Promise<Company> {
  const rows = await rowsFor(file, fixedRows);
  return rows
    ? compareRows(file, rows, BATCHES, fixedRows)
    : { kind: 'fails', what: 'it takes no made-up row' };
}

/** Models of which a record has no batch axis to share: scalars, and inputs whose shape is not declared. */
function cannotShare(file: string): boolean {
  const { inputs } = readModel(file).graph;
  return inputs.some(({ shape }) => shape === undefined || shape.length === 0);
}

test('95 % of the corpus models whose rows are independent are proven', async (t) => {
  if (!existsSync(CORPUS)) return t.skip('needs ../shared/corpus, which is not on this machine');
  const found = { proven: 0, independent: 0, mixing: 0, single: 0, unable: 0 };
  for (const [name, file] of await corpusModels(t)) {
    const { fixedRows, end } = proofOf(readModel(file), new Map());
    if (fixedRows === 1) found.single += 1;
    else if (cannotShare(file)) {
      found.unable += 1;
      t.diagnostic(`${name} has no batch axis: ${end?.message}`);
    } else {
      const company = await companyOf(file, fixedRows).catch(
        (error: Error): Company => ({ kind: 'fails', what: error.message }),
      );
      if (company.kind === 'differs') {
        found.mixing += 1;
        assert.ok(end, `${name} is proven, and mixes rows: ${company.what}`);
      } else if (company.kind === 'same') {
        found.independent += 1;
        const verification = await verifyModel(file, { maxRows: ROWS });
        if (verification.batching.verdict === 'proven') found.proven += 1;
        else t.diagnostic(`${name} is independent: ${verificationNotes(verification).join()}`);
      } else t.diagnostic(`${name} does not run: ${company.what}`);
    }
  }
  t.diagnostic(JSON.stringify(found));
  // 80, but for fresh/sk/tfidf, which onnxruntime opens only where the system has the locale en_US.UTF-8.
  assert.ok(found.independent >= 79, JSON.stringify(found));
  assert.ok(found.proven >= LEAST_PROVEN * found.independent, JSON.stringify(found));
});

/** A model whose first weight is a hole of `size` bytes in the file, followed by its graph. */
function largeModel(file: string, size: number): void {
  const small = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 4] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 4] }],
    nodes: Array.from({ length: 2_000 }, (_, i) => ({
      op: 'Relu',
      inputs: [i === 0 ? 'x' : `v${i}`],
      outputs: [i === 1_999 ? 'y' : `v${i + 1}`],
    })),
  });
  // Protobuf merges a graph that comes in two pieces; the second holds the weight alone.
  const raw = Buffer.concat([Buffer.from([0x4a]), varint(size)]);
  const head = message([integer(1, size / 4), integer(2, 1), text(8, 'weight')]);
  const tensor = head.length + raw.length + size;
  const tensorHead = Buffer.concat([Buffer.from([0x2a]), varint(tensor)]);
  const graphHead = Buffer.concat([Buffer.from([0x3a]), varint(tensorHead.length + tensor)]);
  const start = Buffer.concat([small, graphHead, tensorHead, ...bytes(0, head).parts.slice(1), raw]);
  writeFileSync(file, start);
  truncateSync(file, start.length + size);
}

function varint(value: number): Buffer {
  const parts: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    parts.push(rest >= 128 ? (rest % 128) | 0x80 : rest);
    if (rest < 128) return Buffer.from(parts);
  }
}

test('the proof of a model of 500 MB takes under 1 s and 100 MB', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  largeModel(file, 500 * 1024 * 1024);
  const url = (path: string) => JSON.stringify(new URL(`../../../${path}`, import.meta.url).href);
  const script = `
    import { peakMemory } from ${url('lib/inference/peak-memory.ts')};
    import { readModel } from ${url('onnx-import/batching/model.ts')};
    import { proofOf } from ${url('onnx-import/batching/proof.ts')};
    const before = process.memoryUsage.rss();
    const start = performance.now();
    const { end } = proofOf(readModel(${JSON.stringify(file)}), new Map());
    const ms = performance.now() - start;
    const peak = peakMemory() - before;
    console.log(JSON.stringify({ end: end?.message ?? null, ms, peak }));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  const { end, ms, peak } = JSON.parse(stdout) as { end: string | null; ms: number; peak: number };
  t.diagnostic(`${ms.toFixed(0)} ms, ${(peak / 2 ** 20).toFixed(0)} MB`);
  assert.equal(end, null);
  assert.ok(ms < 1_000, `${ms} ms`);
  assert.ok(peak < 100 * 1024 * 1024, `${peak} bytes`);
});
