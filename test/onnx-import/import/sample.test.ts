/** The request in an import report: what a person pastes is what the model answered. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { modelSettings } from '../../../lib/compose/model.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { DEFAULT_JOB, type JobConfig } from '../../../lib/config/job.ts';
import type { Conversion } from '../../../onnx-import/formats/conversion.ts';
import { GraphBuilder } from '../../../onnx-import/graph/builder.ts';
import type { Imported } from '../../../onnx-import/import/import.ts';
import { importReportText } from '../../../onnx-import/report/import-report.ts';
import { sampleLines } from '../../../onnx-import/report/sample-text.ts';
import { endpointsOf } from '../../../release/gate/endpoints.ts';
import { importModel } from '../../../release/import.ts';
import { SERVICE } from '../../../release/service-words.ts';
import { models } from '../../support/models.ts';
import { identityModel, onnxModel, type ValueSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { folderOf } from '../support/folder.ts';

type Files = Readonly<Record<string, string | Uint8Array>>;

async function imported(t: TestContext, files: Files, job: JobConfig = DEFAULT_JOB): Promise<Imported> {
  const out = join(await temporaryFolder(t), 'out');
  const directory = await folderOf(t, files);
  return importModel(directory, { out, version: '1', measure: false, process: models, job });
}

const identity = (...values: readonly ValueSpec[]) => ({ 'model.onnx': identityModel(values) });
const float = (name: string, ...shape: (number | string)[]) => ({ name, dtype: 'float32', shape }) as const;

/** What a shell makes of the line before the command that sends it. */
function printed(line: string | undefined): string {
  const [print, ...rest] = line?.split(' | npx cluster-serving predict ') ?? [];
  assert.equal(rest.length, 1, line);
  const path = `${dirname(process.execPath)}:/usr/bin:/bin`;
  return execFileSync('/bin/sh', ['-c', print as string], {
    encoding: 'utf8',
    env: { PATH: path },
  }).trimEnd();
}

/** Sends what the lines print, as a client does. */
async function assertAnswered({ directory, importReport }: Imported): Promise<readonly string[]> {
  const { sample, measured } = importReport;
  assert.ok(sample && measured.sampleAnswer !== undefined);
  const file = join(directory, 'model.onnx');
  const runner = await openOnnx(file, 'v', modelSettings(DEFAULT_JOB, 1));
  try {
    const endpoints = endpointsOf({ use: (work) => work(runner) }, undefined);
    const lines = sampleLines(sample, measured.sampleAnswer, SERVICE).filter(
      (line) => !/^#|photo/.test(line),
    );
    assert.equal(lines.length, sample.csv === undefined ? 1 : 2);
    for (const [i, line] of lines.entries()) {
      const answer = await endpoints.predict(printed(line), i === 0 ? 'application/json' : 'text/csv');
      assert.equal(answer?.slice(0, 160), measured.sampleAnswer.replace(/…$/, ''));
    }
    assert.ok(
      importReportText(importReport, SERVICE).includes(
        `\`\`\`sh\n${sampleLines(sample, measured.sampleAnswer, SERVICE).join('\n')}\n`,
      ),
    );
    return lines;
  } finally {
    await runner.close();
  }
}

test('numbers, halves and texts are written out, with quotes that a shell takes', async (t) => {
  const texts = { name: "it's", dtype: 'string', shape: ['N', 2] } as const;
  const made = await imported(
    t,
    identity(float('x', 'N', 3), texts, { ...float('h', 'N', 2), dtype: 'float16' }),
  );
  const body = JSON.parse(made.importReport.sample?.body ?? '') as {
    instances: readonly Record<string, unknown[]>[];
  };
  assert.deepEqual(Object.keys(body.instances[0] ?? {}), ['x', "it's", 'h']);
  assert.ok(body.instances[0]?.['x']?.every((value) => Number(value) * 8 === Math.round(Number(value) * 8)));
  await assertAnswered(made);
});

test('long values are a line of Node that prints them, beside short ones as they are', async (t) => {
  const made = await imported(
    t,
    identity(float('long', 'N', 30, 40), float('short', 'N', 2), float('line', 'N', 20)),
  );
  const { sample } = made.importReport;
  assert.equal(sample?.body, undefined);
  assert.match(sample?.script ?? '', /\{"long":f\(0\.5,30,40\),"short":\[[-\d.,]+\],"line":f\(0\.5,20\)\}/);
  await assertAnswered(made);
});

test('columns go by their names, in JSON and in CSV', async (t) => {
  const sex = { name: 'sex, or none', dtype: 'string', shape: ['N', 1] } as const;
  const apart = await imported(t, identity(float('age', 'N', 1), sex));
  assert.match(apart.importReport.sample?.csv ?? '', /^age,"sex, or none"\n/);
  assert.equal((await assertAnswered(apart)).length, 2);
  const columns = { columns: { x: ['age', 'fare', 'f"x'] }, labels: {} };
  const files = { ...identity(float('x', 'N', 3)), 'names.json': JSON.stringify(columns) };
  const together = await imported(t, files);
  assert.match(together.importReport.sample?.body ?? '', /"age":[-\d.]+,"fare":[-\d.]+,"f\\"x":/);
  assert.equal((await assertAnswered(together)).length, 2);
});

test('a picture is sent where the model takes one, by the settings of the job', async (t) => {
  const alone = await imported(t, identity(float('image', 'N', 3, 32, 32)));
  assert.match(
    alone.importReport.sample?.body ?? '',
    /^\{"instances":\[\{"image":\{"b64":"[\w+/=]+"\}\}\]\}$/,
  );
  assert.equal(alone.importReport.sample?.picture, true);
  await assertAnswered(alone);
  const beside = await imported(t, identity(float('image', 'N', 3, 'h', 'w'), float('size', 'N', 2)));
  assert.match(beside.importReport.sample?.body ?? '', /"b64".*"size":\[/);
  assert.equal(beside.importReport.sample?.picture, false);
  await assertAnswered(beside);
  const batched = { ...DEFAULT_JOB, inputAlreadyBatched: true };
  const dense = await imported(t, identity(float('image', 'N', 3, 2, 2)), batched);
  assert.match(dense.importReport.sample?.body ?? '', /\{"image":\[\[\[\[/);
});

test('no picture is shown where config.yaml needs a line for it first', async (t) => {
  const converter = async (): Promise<Conversion> => {
    const builder = new GraphBuilder();
    builder.output('y', builder.one('Relu', [builder.input('x', 'float32', ['N', 16, 16, 'c'])]));
    return { graph: builder.finish(), files: [], notes: [], image: { layout: 'hwc', channels: 'rgb' } };
  };
  const directory = await folderOf(t, { 'saved_model.pb': 'x' });
  const shared = { version: '1', measure: false, process: models, converter };
  const first = await importModel(directory, { ...shared, out: join(await temporaryFolder(t), 'a') });
  assert.deepEqual(first.importReport.config, ['image:', '  layout: hwc']);
  assert.match(first.importReport.sample?.script ?? '', /"x":f\(0\.5,16,16,\d+\)/);
  const job: JobConfig = { ...DEFAULT_JOB, image: { layout: 'hwc' } };
  const next = await importModel(directory, { ...shared, job, out: join(await temporaryFolder(t), 'b') });
  assert.match(next.importReport.sample?.body ?? '', /"b64"/);
});

test('a model that takes nothing made up has no sample', async (t) => {
  const ten = onnxModel({
    inputs: [float('x', 'N', 'L')],
    outputs: [float('y', 'N', 2)],
    nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
    weights: [{ name: 'w', dtype: 'float32', shape: [10, 2], data: new Float32Array(20) }],
  });
  const { importReport } = await imported(t, { 'model.onnx': ten });
  assert.equal(importReport.sample, undefined);
  assert.doesNotMatch(importReportText(importReport, SERVICE), /To ask it/);
});
