/** Replays of captures that a runner made: the same again gives no difference, and a change is found, by replay or by diff. */
import assert from 'node:assert/strict';
import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { modelSettings } from '../../../lib/compose/model.ts';
import { openOnnx, RUNTIME } from '../../../lib/compose/onnx.ts';
import { answerSettings, type JobConfig } from '../../../lib/config/job.ts';
import { breaksOf } from '../../../release/diff/breaks.ts';
import { faceOf } from '../../../release/diff/face.ts';
import type { Side } from '../../../release/diff/run.ts';
import { objectLine } from '../../../release/replay/file.ts';
import { problemsOf } from '../../../release/replay/report.ts';
import { type ReplayRun, runReplay } from '../../../release/replay/run.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { type Choice, CLASSES, capture, JOB, job, LABELS, model, RECORDS } from './made-day.ts';

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
    runReplay({
      ...side,
      version: 'v1',
      job: job(),
      captured: { job: JOB },
      captures,
      by: undefined,
      ...options,
    });

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
