/** A real BigDL model, from its folder to an answer of the service, compared with its reference. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readNpy } from '../../../onnx-import/files/npy.ts';
import { compare } from '../../../onnx-import/samples/compare.ts';
import { importModel } from '../../../release/import.ts';
import { serviceFolder } from '../../cli/cli.ts';
import { warmCli, warmCliJson } from '../../cli/warm.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { models } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { readCases, tensorOf } from '../support/bigdl/cases.ts';

const LENET = sharedPath('corpus/bigdl/bigdl_lenet');
const MISSING = existsSync(LENET)
  ? false
  : 'needs ../shared/corpus/bigdl/bigdl_lenet, which is not on this machine';
const TOLERANCE = { atol: 1e-5, rtol: 1e-4 };

for (const shape of [
  [1, 784],
  [64, 28, 28],
])
  test(`bigdl_lenet with an input of ${String(shape)} is imported; its rows are independent`, {
    skip: MISSING,
  }, async (t) => {
    const out = join(await temporaryFolder(t), 'out');
    const { importReport } = await importModel(LENET, {
      out,
      version: '1',
      measure: false,
      process: models,
      convert: { inputShapes: { input: shape } },
      ...(shape.length === 2 ? { reference: LENET, tolerance: TOLERANCE } : {}),
    });
    assert.equal(importReport.source.format, 'bigdl');
    assert.equal(importReport.check.reference, shape.length === 2 ? 'agrees' : 'none given');
    assert.equal(importReport.verification?.batching.verdict, 'proven');
    assert.equal(importReport.check.runs, true);
  });

test('without a shape it is refused with what to give', { skip: MISSING }, async (t) => {
  const out = join(await temporaryFolder(t), 'out');
  await assert.rejects(importModel(LENET, { out, version: '1', process: models }), {
    code: 'bad_model',
    message: /model\.model: .*--input input:<shape>/,
  });
  assert.ok(!existsSync(out));
});

test('the command imports it, and the service that starts with it answers as the reference', {
  skip: MISSING,
}, async (t) => {
  const cwd = await serviceFolder(t);
  await cp(LENET, join(cwd, 'net'), { recursive: true });
  const made = await warmCliJson(['model', 'import', 'net', '--input', 'input:1,784', '--out', 'lenet'], {
    cwd,
  });
  assert.equal(made.code, 0, JSON.stringify(made.json));
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: lenet\n');
  const { code, stdout, stderr } = await warmCli(['start', '--port', '0'], { cwd });
  assert.equal(code, 0, stderr);
  const url = /ready (\S+)/.exec(stdout)?.[1] as string;
  const [input, wanted] = await Promise.all(
    ['in.npy', 'out.npy'].map(async (name) => readNpy(await readFile(join(LENET, name)), name)),
  );
  const rows = [0, 1].map((row) => Array.from(input?.data as Float32Array).slice(784 * row, 784 * (row + 1)));
  const response = await fetch(`${url}/v2/models/serving_stream/infer`, {
    method: 'POST',
    body: JSON.stringify({
      inputs: [{ name: 'input', shape: [2, 784], datatype: 'FP32', data: rows.flat() }],
    }),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const { outputs } = JSON.parse(text) as { outputs: [{ shape: number[]; data: number[] }] };
  const got = {
    dtype: 'float32' as const,
    shape: outputs[0].shape,
    data: Float32Array.from(outputs[0].data),
  };
  assert.ok(wanted && compare(got, wanted, TOLERANCE).agrees);
  await warmCli(['stop'], { cwd });
});

test('a table of indices from 1 is imported and served, and refuses the index 0', async (t) => {
  const cwd = await serviceFolder(t);
  const one = readCases().find(({ name }) => name === 'Lookup');
  assert.ok(one);
  await mkdir(join(cwd, 'net'));
  await writeFile(join(cwd, 'net', 'lookup.bigdl'), Buffer.from(one.model, 'base64'));
  const made = await warmCliJson(['model', 'import', 'net', '--input', 'input:1,3', '--out', 'onnx'], {
    cwd,
  });
  assert.equal(made.code, 0, JSON.stringify(made.json));
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: onnx\n');
  const { code, stdout, stderr } = await warmCli(['start', '--port', '0'], { cwd });
  assert.equal(code, 0, stderr);
  const url = /ready (\S+)/.exec(stdout)?.[1] as string;
  const ask = async (data: readonly unknown[]) =>
    fetch(`${url}/v2/models/serving_stream/infer`, {
      method: 'POST',
      body: JSON.stringify({ inputs: [{ name: 'input', shape: [2, 3], datatype: 'FP32', data }] }),
    });
  const response = await ask(one.inputs[0]?.data ?? []);
  assert.equal(response.status, 200);
  const { outputs } = (await response.json()) as { outputs: [{ shape: number[]; data: number[] }] };
  const [wanted] = one.outputs.map(tensorOf);
  const got = {
    dtype: 'float32' as const,
    shape: outputs[0].shape,
    data: Float32Array.from(outputs[0].data),
  };
  assert.ok(wanted && compare(got, wanted, TOLERANCE).agrees);
  const refused = await ask([0, 1, 2, 3, 4, 5]);
  assert.ok(refused.status >= 400, String(refused.status));
  await refused.text();
  await warmCli(['stop'], { cwd });
});
