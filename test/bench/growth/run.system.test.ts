/** The samples, models and table of the growth bench. */
import assert from 'node:assert/strict';
import { platform } from 'node:os';
import { before, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { MeasuredCurve } from '../../../bench/growth/fit.ts';
import { growingModel } from '../../../bench/growth/models.ts';
import { curveTable } from '../../../bench/growth/run.ts';
import { samplePoint } from '../../../bench/sample.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const MB = 1e6;

before(() => {
  setFlagsFromString('--expose-gc');
  globalThis.gc = runInNewContext('gc') as typeof globalThis.gc;
});

const work = { input: async (): Promise<unknown> => undefined, check: (): unknown => undefined };

test('memory that is let go of counts for the peak and not for what is kept', async (t) => {
  if (platform() !== 'linux') return t.skip('the peak is read from /proc, which only Linux has');
  const call = async () => Buffer.alloc(96 * MB, 1).length;
  const sample = await samplePoint({ ...work, call, once: true }, 1);
  assert.ok((sample['peakBytes'] ?? 0) > 80 * MB, `${sample['peakBytes']}`);
  assert.ok((sample['keptBytes'] ?? 0) < 40 * MB, `${sample['keptBytes']}`);
});

test('what arrives at a call and what it answers count for the peak and not for what is kept', async (t) => {
  if (platform() !== 'linux') return t.skip('the peak is read from /proc, which only Linux has');
  const make = async () => Buffer.alloc(48 * MB, 1);
  const sample = await samplePoint({ ...work, input: make, call: make, once: true }, 1);
  assert.ok((sample['peakBytes'] ?? 0) > 80 * MB, `${sample['peakBytes']}`);
  assert.ok((sample['keptBytes'] ?? 0) < 40 * MB, `${sample['keptBytes']}`);
});

test('memory that stays counts as kept', async () => {
  const kept: Buffer[] = [];
  const call = async () => kept.push(Buffer.alloc(96 * MB, 1));
  const sample = await samplePoint({ ...work, call, once: true }, 1);
  assert.ok((sample['keptBytes'] ?? 0) > 80 * MB, `${sample['keptBytes']}`);
  assert.equal(kept.length, 1);
});

test('what can be done once is called once; else its code is warmed, one call is checked and at least three are timed', async () => {
  const calls: string[] = [];
  const counted = {
    input: async (isWarm: boolean) => calls.push(isWarm ? 'warm input' : 'input'),
    call: async () => calls.push('call'),
    check: () => calls.push('check'),
  };
  await samplePoint({ ...counted, once: true }, 1);
  assert.deepEqual(calls.splice(0), ['input', 'call', 'check']);
  await samplePoint(counted, 0);
  const measured = calls.slice(calls.indexOf('input'));
  assert.ok(calls.indexOf('input') >= 6, 'it was warmed three times');
  const again = ['input', 'call'];
  assert.deepEqual(measured, [...again, 'check', ...again, ...again, ...again]);
});

test('a wrong answer ends the point', async () => {
  const check = () => Promise.reject(new Error('another row'));
  await assert.rejects(samplePoint({ ...work, call: async () => 1, check, once: true }, 1), /another row/);
});

test('a model with that many layers has the requested size, and answers with numbers', async (t) => {
  const model = await growingModel('layers', 12 * MB, await temporaryFolder(t));
  assert.ok(Math.abs(model.bytes / (12 * MB) - 1) < 0.1, `${model.bytes}`);
  const settings = { threads: 1, batchSize: 1, inputAlreadyBatched: false, image: {} };
  const runner = await openOnnx(model.path, 'v', settings);
  const data = new Float32Array(1_024).fill(1);
  const tensor = { dtype: 'float32', shape: [1_024], data } as const;
  const [outcome] = await runner.run([new Map([[model.input, { kind: 'tensor', tensor }]])]);
  await runner.close();
  assert.ok(outcome?.ok);
  const values = outcome.outputs[0]?.data as Float32Array;
  assert.ok(values.every((value) => Number.isFinite(value) && Math.abs(value) > 1e-6));
});

test('a table has a line for each number: at both ends, and how it grows', () => {
  const spread = (ms: number) => ({ ms: { median: ms, low: ms, high: ms } });
  const curve: MeasuredCurve = {
    name: 'one',
    xLabel: 'size',
    metrics: [{ key: 'ms', label: 'time', unit: 'ms', atMost: 1.1 }],
    series: [
      {
        name: 'quadratic',
        points: [
          { x: 10, values: spread(0.5) },
          { x: 1_000, values: spread(5_000) },
        ],
      },
    ],
    repeats: 1,
    seconds: 1,
  };
  const [, , line] = curveTable(curve).split('\n');
  const cells = line?.split('|').map((cell) => cell.trim());
  assert.deepEqual(cells?.slice(1, -1), [
    'quadratic',
    'time, ms',
    '0.500 at 10',
    '5,000 at 1,000',
    '2.00',
    '2.00',
    '1.1',
    'over',
  ]);
});
