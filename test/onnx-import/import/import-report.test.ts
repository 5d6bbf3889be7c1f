/** What an import report says of Lambda's limits, and which lines it asks for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MemoryReport } from '../../../onnx-import/check/memory.ts';
import { configLines, type ImportReport } from '../../../onnx-import/report/import-report.ts';
import { lambdaFit, lambdaText } from '../../../onnx-import/report/lambda-fit.ts';

const MB = 1024 * 1024;

/** Pairs of rows and MB; `rows` are those of a run, by default the most that were measured. */
function memory(
  points: readonly (readonly [number, number])[],
  rows = points.at(-1)?.[0] ?? 1,
): MemoryReport {
  return { rows, points: points.map(([count, mb]) => ({ rows: count, peakBytes: mb * MB })), shapes: [] };
}

test('a small model fits, and so does twice of it in /tmp', () => {
  const fit = lambdaFit(10 * MB, memory([[1, 40]]));
  assert.deepEqual([fit.fits, fit.fitsDefault, fit.memoryMB], [true, true, 192]);
  assert.ok(fit.limits.every((limit) => limit.fits));
  assert.equal(lambdaText(fit), 'fits, needs 192 MB of memory for runs of one row, as measured here');
});

test('a model over a limit says which, and by how much; what is only good to know does not keep it out', () => {
  const large = lambdaFit(300 * MB, memory([[1, 700]]));
  assert.equal(large.fits, true);
  assert.match(
    lambdaText(large),
    /^fits, .*over the limit: \/tmp while a new version takes over: 600 of 512 MB, unzipped/,
  );
  const tooLarge = lambdaFit(513 * MB, memory([[1, 700]]));
  assert.equal(tooLarge.fits, false);
  assert.match(lambdaText(tooLarge), /^DOES NOT FIT.*\/tmp, where the model is downloaded to: 513 of 512 MB/);
  const tooHungry = lambdaFit(100 * MB, memory([[1, 9_000]]));
  assert.equal(tooHungry.fits, false);
  assert.match(lambdaText(tooHungry), /memory of a function: 11378 of 10240 MB/);
});

const importReportOf = (report: MemoryReport | undefined) =>
  ({ config: ['image:'], measured: { lambda: lambdaFit(MB, report) } }) as unknown as ImportReport;

test('a model that needs more than the default memory asks for it in config.yaml', () => {
  assert.deepEqual(configLines(importReportOf(memory([[1, 100]]))), ['image:']);
  assert.deepEqual(configLines(importReportOf(memory([[1, 2_000]]))), [
    'image:',
    'function:',
    '  memoryMB: 2688',
  ]);
});

test('the rows of a run of the default settings count, not one row', () => {
  const hungry = memory([
    [1, 41],
    [10, 500],
    [32, 1_600],
  ]);
  const fit = lambdaFit(MB, hungry);
  assert.deepEqual([fit.fits, fit.fitsDefault, fit.memoryMB, fit.rows], [true, false, 2_176, 32]);
  // 128 + 1.25 * (500 + 16 * 50) MB: one row more is over 1769.
  assert.equal(fit.batchSizeAtDefault, 26);
  assert.match(
    lambdaText(fit),
    /needs 2176 MB of memory for runs of 32 rows, .*, or batchSize: 26 with the default/,
  );
  assert.deepEqual(configLines(importReportOf(hungry)), ['image:', 'function:', '  memoryMB: 2176']);
});

test('what this machine could not run is a straight line through what it could, and says so', () => {
  const partly = memory(
    [
      [1, 300],
      [2, 350],
      [4, 450],
    ],
    32,
  );
  const fit = lambdaFit(MB, partly);
  // 450 + 28 * 50
  assert.deepEqual([fit.extrapolated, fit.memoryMB], [true, Math.ceil((128 + 1_850 * 1.25) / 64) * 64]);
  assert.match(lambdaText(fit), /runs of 32 rows, extrapolated from fewer/);
  const loadHidesRuns = memory(
    [
      [1, 300],
      [2, 300],
      [4, 400],
    ],
    32,
  );
  assert.equal(lambdaFit(MB, loadHidesRuns).memoryMB, Math.ceil((128 + (400 + 28 * 50) * 1.25) / 64) * 64);
});

test('where no function holds the default batchSize, the lines say one that a function does hold', () => {
  const huge = memory([
    [1, 1_000],
    [32, 32_000],
  ]);
  const fit = lambdaFit(MB, huge);
  assert.deepEqual([fit.fits, fit.fitsDefault, fit.batchSize, fit.rows], [true, false, 8, 8]);
  assert.deepEqual(configLines(importReportOf(huge)), [
    'image:',
    'batchSize: 8',
    'function:',
    '  memoryMB: 10176',
  ]);
  assert.match(lambdaText(fit), /more than batchSize: 8 is too much for any function/);
});

test('of a model that was not run nothing is claimed', () => {
  const fit = lambdaFit(MB, undefined);
  assert.deepEqual(
    [fit.fits, fit.fitsDefault, fit.memoryMB, fit.limits[0]?.needsMB],
    [null, null, null, null],
  );
  assert.match(lambdaText(fit), /^unknown; /);
  assert.doesNotMatch(lambdaText(fit), /fits|as measured/);
  assert.deepEqual(configLines(importReportOf(undefined)), ['image:']);
  assert.equal(lambdaFit(513 * MB, undefined).fits, false);
});
