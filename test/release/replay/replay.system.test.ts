/** Replays of captures that a runner made: the same again gives no difference, and a change is found, by replay or by diff. */
import assert from 'node:assert/strict';
import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { captureLine, headerLine } from '../../../lib/codecs/capture/write.ts';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { modelSettings } from '../../../lib/compose/model.ts';
import { openOnnx, RUNTIME } from '../../../lib/compose/onnx.ts';
import { answerSettings, type JobConfig } from '../../../lib/config/job.ts';
import type { Inputs, Outcome } from '../../../lib/contract/values.ts';
import { verify } from '../../../onnx-import/index.ts';
import { breaksOf } from '../../../release/diff/breaks.ts';
import { faceOf } from '../../../release/diff/face.ts';
import type { Side } from '../../../release/diff/run.ts';
import { proofOptions } from '../../../release/options.ts';
import { objectLine } from '../../../release/replay/file.ts';
import { problemsOf } from '../../../release/replay/report.ts';
import { type ReplayRun, runReplay } from '../../../release/replay/run.ts';
import { parseConfig } from '../../support/config.ts';
import { models } from '../../support/models.ts';
import { onnxModel } from '../../support/onnx.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';

const JOB = 'made-day';
const CONFIG = `jobName: ${JOB}`;
const RECORDS = 96;
const CLASSES = 4;
const LABELS = ['ant', 'bee', 'cat', 'dog'];

interface Choice {
  /** Changes a weight. */
  readonly weight?: (value: number, i: number) => number;
  readonly labels?: readonly string[];
  /** Names of the output. */
  readonly output?: string;
  readonly tail?: 'Softmax' | 'Sigmoid' | 'Relu';
}

/** x: float32 [N, 8] -> p: float32 [N, 4] */
async function model(
  folder: string,
  { weight, labels = LABELS, output = 'p', tail = 'Softmax' }: Choice = {},
) {
  await mkdir(folder, { recursive: true });
  const values = (count: number, from: number) =>
    Float32Array.from({ length: count }, (_, i) => Math.sin(from + i * 1.7));
  const last = values(32 * CLASSES, 3).map((value, i) => weight?.(value, i) ?? value);
  const bytes = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 8] }],
    outputs: [{ name: output, dtype: 'float32', shape: ['N', CLASSES] }],
    weights: [
      { name: 'a', dtype: 'float32', shape: [8, 32], data: values(8 * 32, 1) },
      { name: 'b', dtype: 'float32', shape: [32, CLASSES], data: last },
    ],
    nodes: [
      { op: 'MatMul', inputs: ['x', 'a'], outputs: ['h'] },
      { op: 'Tanh', inputs: ['h'], outputs: ['t'] },
      { op: 'MatMul', inputs: ['t', 'b'], outputs: ['z'] },
      { op: tail, inputs: ['z'], outputs: [output], ...(tail === 'Softmax' && { attributes: { axis: 1 } }) },
    ],
  });
  await writeFile(join(folder, 'model.onnx'), bytes);
  await writeFile(join(folder, 'labels.txt'), `${labels.join('\n')}\n`);
  const file = join(folder, 'model.onnx');
  return { file, verification: await verify(file, { ...proofOptions(job()), process: models }) };
}

function job(more = ''): JobConfig {
  return parseConfig(`${CONFIG}\n${more}`, 'test');
}

function recordOf(i: number): Inputs {
  const row = Array.from({ length: 8 }, (_, column) => Math.cos(i * 8 + column));
  const [record] = decodeInstances(JSON.stringify({ instances: [{ x: row }] }));
  assert.ok(record);
  return record;
}

/** Captures a made day: runs of many sizes, as a service has them. */
async function capture(file: string, side: Side, settings: JobConfig, version = 'v1', threads = 1) {
  const runner = await openOnnx(side.file, version, {
    ...modelSettings(settings, threads),
    verification: side.verification,
  });
  const header = {
    capture: 1,
    job: JOB,
    version,
    settings: answerSettings(settings),
    runtime: { ...RUNTIME, threads },
    lost: 0,
  } as const;
  const lines = [
    objectLine(`captures/${JOB}/${version}/2026-11-28/000000000-0a1b2c3d-0.ndjson.gz`),
    headerLine(header),
  ];
  for (let i = 0, size = 1; i < RECORDS; i += size, size = (size % 7) + 1) {
    const records = Array.from({ length: size }, (_, k) => recordOf(i + k));
    const outcomes: Outcome[] = await runner.run(records);
    for (const [k, record] of records.entries()) {
      const facts = { at: 1_795_000_000_000 + i, source: 'queue', id: `uri-${i + k}` } as const;
      const outcome = outcomes[k];
      assert.ok(outcome);
      lines.push(captureLine(facts, [record], [outcome], { include: [], leaveOut: [] }));
    }
  }
  await runner.close();
  await writeFile(file, `${lines.join('\n')}\n`);
}

describe('a made day', () => {
  const hooks: (() => unknown)[] = [];
  const scope: Hooks = { after: (hook) => void hooks.push(hook) };
  let folder: string;
  let captures: string;
  let first: Side;

  before(async () => {
    folder = await temporaryFolder(scope);
    captures = join(folder, 'captures.ndjson');
    first = await model(join(folder, 'first'));
    await capture(captures, first, job());
  });

  const replay = (side: Side, options: Partial<ReplayRun> = {}) =>
    runReplay({ ...side, version: 'v1', job: job(), captured: JOB, captures, by: undefined, ...options });

  test('is answered bit for bit by the same version, sixty times', async () => {
    for (let i = 0; i < 60; i++) {
      const found = await replay(first);
      assert.deepEqual(found.bits, { records: found.compared, differ: 0 });
      assert.ok(found.compared >= RECORDS);
      assert.deepEqual(problemsOf(found, { version: 'v1', maxFlips: undefined }), []);
    }
  });

  test('with other threads is compared within the tolerance, and the report says why', async () => {
    const found = await replay(first, { job: job('threadPerModel: 2') });
    assert.equal(found.bits.records, 0);
    assert.equal(found.tolerance.differ, 0);
    assert.match(found.because.join(), /threads 1 -> 2/);
  });

  test('sixty changes are found, by replay or by the comparison of what clients see', async (t) => {
    const changes: { readonly name: string; readonly choice?: Choice; readonly settings?: string }[] = [
      ...Array.from({ length: 40 }, (_, i) => ({
        name: `weight ${i * 3} by ${i % 2 === 0 ? '1e-3' : '1 %'}`,
        choice: {
          weight: (value: number, at: number) =>
            at === i * 3 ? (i % 2 === 0 ? value + 1e-3 : value * 1.01) : value,
        },
      })),
      ...LABELS.slice(1).map((_, i) => ({
        name: `labels ${i} and ${i + 1} are exchanged`,
        choice: { labels: LABELS.with(i, LABELS[i + 1] ?? '').with(i + 1, LABELS[i] ?? '') },
      })),
      { name: 'a label is another', choice: { labels: LABELS.with(2, 'cow') } },
      { name: 'columns of the weight are exchanged', choice: { weight: exchanged } },
      { name: 'the output has another name', choice: { output: 'q' } },
      { name: 'sigmoid instead of softmax', choice: { tail: 'Sigmoid' } },
      { name: 'relu instead of softmax', choice: { tail: 'Relu' } },
      { name: 'float16 weights', choice: { weight: (value) => Number(Float16Array.of(value)[0]) } },
      { name: 'weights of 8 bits', choice: { weight: (value) => Math.round(value * 127) / 127 } },
      ...[
        'postProcessing: topN(1)',
        'postProcessing: topN(2)',
        'batching: never',
        'batchSize: 8',
        'inputAlreadyBatched: true',
        'image: torch',
        'image: {scale: 2}',
        'image: {channels: rgb}',
        'image: {mean: 1}',
        'outputs: {p: {batchAxis: none}}',
      ].map((settings) => ({ name: settings, settings })),
    ];
    assert.equal(changes.length, 60);
    const face = await faceWith(first, job());
    for (const [i, { name, choice, settings }] of changes.entries()) {
      await t.test(name, async () => {
        const side = choice ? await model(join(folder, `change-${i}`), choice) : first;
        const found = await replay(side, { job: job(settings) });
        const problems = problemsOf(found, { version: 'v1', maxFlips: undefined });
        const breaks = breaksOf(face, await faceWith(side, job(settings)));
        assert.ok(problems.length + breaks.length > 0, JSON.stringify(found));
      });
    }
  });

  test('of another version is judged by the records whose first class changes', async () => {
    const side = await model(join(folder, 'worse'), {
      weight: (value, i) => (i % CLASSES === 0 ? -value : value),
    });
    const found = await replay(side, { version: undefined });
    const [output] = found.outputs;
    assert.equal(output?.records, found.compared);
    assert.equal(output?.flips, found.flips);
    assert.ok(found.flips > 10);
    assert.deepEqual(problemsOf(found, { version: undefined, maxFlips: undefined }), []);
    assert.match(
      problemsOf(found, { version: undefined, maxFlips: 0.01 }).join(),
      /another first class.*over release.maxFlips 1 %/,
    );
    assert.deepEqual(problemsOf(found, { version: undefined, maxFlips: 1 }), []);
    const distances = found.worst.map(({ distance }) => distance ?? Infinity);
    assert.deepEqual(
      distances,
      distances.toSorted((a, b) => b - a),
    );
    assert.equal(distances.length, 10);
  });

  test('of which no record can be replayed is never good', async () => {
    const without = join(folder, 'without.ndjson');
    const runtime = { ...RUNTIME, threads: 1 };
    const header = { capture: 1, job: JOB, version: 'v1', settings: answerSettings(job()), runtime, lost: 0 };
    const left = '{"at":1,"source":"request","id":"a","records":[{"inputs":{},"left":["x"],"outputs":[]}]}';
    await writeFile(without, `${[objectLine('o'), JSON.stringify(header), left, left].join('\n')}\n`);
    const found = await replay(first, { captures: without });
    for (const [version, maxFlips] of [
      ['v1', undefined],
      [undefined, 0.5],
      [undefined, undefined],
    ] as const)
      assert.match(
        problemsOf(found, { version, maxFlips }).join(),
        /^none of 2 captured requests and records can be replayed: they lack x/,
      );
  });

  test('with lines of something else names each with its place, and replays the rest', async () => {
    const damaged = join(folder, 'damaged.ndjson');
    const other = { capture: 1, job: 'other', version: 'v1', settings: {}, runtime: RUNTIME, lost: 0 };
    await capture(damaged, first, job());
    const left = `{"at":1,"source":"request","id":"a","records":[{"inputs":{},"left":["name"],"outputs":[]}]}`;
    const failed = `{"at":1,"source":"request","id":"b","error":"bad_input","records":[{"inputs":{"x":[1]}}]}`;
    const ended = `{"at":1,"source":"request","id":"c","error":"timeout","records":[{"inputs":{"x":[1,2,3,4,5,6,7,8]}}]}`;
    const lines = [
      '{"at":',
      left,
      failed,
      ended,
      '{"problem":"cut"}',
      objectLine('o'),
      JSON.stringify(other),
      '{}',
    ];
    await appendFile(damaged, `${lines.join('\n')}\n`);
    const found = await replay(first, { captures: damaged });
    const whole = await replay(first);
    assert.equal(found.bits.records, whole.bits.records);
    assert.deepEqual(found.failures, { records: 2, differ: 1 });
    assert.deepEqual(found.otherEnds, [{ id: 'c', at: 1, was: 'timeout', is: 'an answer' }]);
    assert.deepEqual([found.notReplayable, found.leftOut], [1, ['name']]);
    assert.deepEqual(
      found.unread.map(({ place, text }) => `${place.replace(/.*-/, '')} ${text.slice(0, 30)}`),
      [
        `0.ndjson.gz:${whole.lines + 2} not JSON: Unexpected end of JS`,
        `0.ndjson.gz:${whole.lines + 6} cut`,
        'o:1 a capture of the job other',
      ],
    );
  });
});

function exchanged(_: number, i: number): number {
  const column = [1, 0, 2, 3][i % CLASSES] ?? 0;
  return Math.fround(Math.sin(3 + (Math.floor(i / CLASSES) * CLASSES + column) * 1.7));
}

async function faceWith(side: Side, settings: JobConfig) {
  const runner = await openOnnx(side.file, 'v1', {
    ...modelSettings(settings, 1),
    verification: side.verification,
  });
  try {
    return await faceOf(side.file, runner);
  } finally {
    await runner.close();
  }
}
