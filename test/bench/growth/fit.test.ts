/** How a curve is judged: bench/growth/fit.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fitGrowth, judgeCurve } from '../../../bench/growth/fit.ts';

const SIZES = [1, 10, 100, 1_000, 10_000];
const curveOf = (y: (x: number) => number) => SIZES.map((x) => ({ x, y: y(x) }));

function near(actual: number | undefined, expected: number, allowed = 1e-9): void {
  assert.ok(
    actual !== undefined && Math.abs(actual - expected) <= allowed,
    `${actual}, expected ${expected}`,
  );
}

test('the exponent of a power of the size is that power', () => {
  for (const power of [0, 0.5, 1, 1.5, 2]) {
    near(fitGrowth(curveOf((x) => 3 * x ** power))?.exponent, power);
  }
});

test('only the upper half of the sizes is fitted, the one in the middle included', () => {
  const fit = fitGrowth(curveOf((x) => (x < 100 ? 1_000 : x ** 2)));
  near(fit?.exponent, 2);
  assert.equal(fit?.from, 100);
});

test('a curve that turns quadratic at its end shows it in the last step', () => {
  const fit = fitGrowth(curveOf((x) => Math.max(x, x ** 2 / 1_000)));
  near(fit?.lastStep, 2);
  assert.ok((fit?.exponent ?? 0) > 1.4);
});

test('of sizes that lie uneven the last two are fitted when the upper half has one alone', () => {
  const fit = fitGrowth([
    { x: 1, y: 5 },
    { x: 2, y: 5 },
    { x: 1_000, y: 2_500 },
  ]);
  assert.equal(fit?.from, 2);
  near(fit?.exponent, 1);
});

test('values under the floor have no slope, and those above it are seen from there', () => {
  const noise = [0, 7, 0, 90, 40];
  near(
    fitGrowth(
      SIZES.map((x, i) => ({ x, y: noise[i] as number })),
      100,
    )?.exponent,
    0,
  );
  const grown = fitGrowth(
    SIZES.map((x, i) => ({ x, y: i === 4 ? 10_000 : 0 })),
    100,
  );
  near(grown?.lastStep, 2);
});

test('a size of 0 and a value that was not measured are left out', () => {
  const values = [{ x: 0, y: 4 }, ...curveOf((x) => 2 * x), { x: 1e6, y: Number.NaN }];
  const fit = fitGrowth(values);
  near(fit?.exponent, 1);
  near(fit?.lastStep, 1);
});

test('fewer than two sizes have no exponent', () => {
  assert.equal(fitGrowth([]), undefined);
  assert.equal(fitGrowth([{ x: 5, y: 1 }]), undefined);
  assert.equal(
    fitGrowth([
      { x: 0, y: 1 },
      { x: 5, y: 1 },
    ]),
    undefined,
  );
});

const spread = (low: number, median: number) => ({ low, median, high: median * 2 });

test('a quadratic time is a defect, also of one series among others', () => {
  const points = (power: number) => SIZES.map((x) => ({ x, values: { ms: spread(x ** power, x ** power) } }));
  const judged = judgeCurve({
    metrics: [{ key: 'ms', label: 'time', unit: 'ms', atMost: 1.1 }],
    series: [
      { name: 'good', points: points(1) },
      { name: 'bad', points: points(2) },
    ],
  });
  assert.deepEqual(
    judged.map(({ series, isDefect }) => [series, isDefect]),
    [
      ['good', false],
      ['bad', true],
    ],
  );
});

test('a time is judged by the lowest of its repeats, memory by the median, and what has no limit not at all', () => {
  const values = (x: number) => ({
    ms: spread(x, x ** 2),
    bytes: spread(x, x ** 2),
    told: spread(x ** 3, x ** 3),
  });
  const judged = judgeCurve({
    metrics: [
      { key: 'ms', label: 'time', unit: 'ms', atMost: 1.1 },
      { key: 'bytes', label: 'memory', unit: 'bytes', atMost: 1.1 },
      { key: 'told', label: 'told', unit: 'ms' },
    ],
    series: [{ name: 'one', points: SIZES.map((x) => ({ x, values: values(x) })) }],
  });
  assert.deepEqual(
    judged.map(({ metric, isDefect }) => [metric.key, isDefect]),
    [
      ['ms', false],
      ['bytes', true],
    ],
  );
});

test('linear memory is a defect where it has to be constant', () => {
  const [judged] = judgeCurve({
    metrics: [{ key: 'bytes', label: 'memory', unit: 'bytes', atMost: 0.25 }],
    series: [{ name: 'one', points: SIZES.map((x) => ({ x, values: { bytes: spread(x, x) } })) }],
  });
  near(judged?.exponent, 1);
  assert.equal(judged?.isDefect, true);
});

test('what steps up on its way and is linear at its end is not a defect; what bends up at its end is one', () => {
  const isDefect = (y: (x: number) => number) =>
    judgeCurve({
      metrics: [{ key: 'ms', label: 'time', unit: 'ms', atMost: 1.1 }],
      series: [{ name: 'one', points: SIZES.map((x) => ({ x, values: { ms: spread(y(x), y(x)) } })) }],
    }).map((judged) => judged.isDefect);
  assert.deepEqual(
    isDefect((x) => (x < 1_000 ? x : 4 * x)),
    [false],
  );
  assert.deepEqual(
    isDefect((x) => x + x ** 2 / 1_000),
    [true],
  );
});
