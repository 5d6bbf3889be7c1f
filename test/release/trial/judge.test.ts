/** When a canary is rolled back by what it has answered. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TrialMeter, type TrialSums, trialSums } from '../../../lib/metrics/trial.ts';
import { atLeast, endedEnvironments, judge, moreFailures } from '../../../release/trial/judge.ts';

interface Answered {
  readonly answers?: number;
  readonly failures?: number;
  /** Times of requests, in ms. */
  readonly took?: readonly number[];
}

function sumsOf(sides: { readonly serving: Answered; readonly canary: Answered }): TrialSums {
  const meter = new TrialMeter();
  for (const side of ['serving', 'canary'] as const) {
    const { answers = 0, failures = 0, took = [] } = sides[side];
    meter.answered(side, answers);
    for (let i = 0; i < failures; i++) meter.failed(side, 'model_failed');
    for (const ms of took) meter.took(side, ms);
  }
  return trialSums(meter.take());
}

/** A generator that gives the same numbers in each run. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test('below 200 answers of either version it says "not enough", whatever they are', () => {
  for (const [serving, canary] of [
    [199, 100_000],
    [100_000, 199],
    [0, 0],
  ] as const) {
    const { verdict, reason, looks } = judge(
      sumsOf({ serving: { answers: serving }, canary: { failures: canary } }),
      0,
    );
    assert.deepEqual([verdict, looks], ['not enough', 0]);
    assert.match(reason, /200 of each are needed/);
  }
});

test('a canary that fails each time goes at the first look, and one as good as the other stays', () => {
  const bad = judge(sumsOf({ serving: { answers: 4_000 }, canary: { failures: 200 } }), 0);
  assert.equal(bad.verdict, 'roll back');
  assert.match(
    bad.reason,
    /fails more often: 200 answers of the canary, 4000 .* 100 % failed \(200 model_failed\) against 0 % failed/,
  );
  const same = judge(
    sumsOf({ serving: { answers: 3_600, failures: 400 }, canary: { answers: 180, failures: 20 } }),
    0,
  );
  assert.deepEqual([same.verdict, same.looks], ['no worse', 1]);
  const better = judge(sumsOf({ serving: { failures: 4_000 }, canary: { answers: 200 } }), 0);
  assert.equal(better.verdict, 'no worse');
});

test('the number of looks grows with the doublings of the answers, and between them nothing is decided', () => {
  const at = (answers: number, looks: number) =>
    judge(
      sumsOf({ serving: { answers: 10 * answers }, canary: { answers: answers - 30, failures: 30 } }),
      looks,
    );
  assert.equal(at(399, 1).verdict, 'no worse', 'it was looked at already');
  assert.equal(at(400, 1).verdict, 'roll back');
  assert.equal(judge(sumsOf({ serving: { answers: 6_400 }, canary: { answers: 6_400 } }), 0).looks, 6);
});

test('a canary whose slowest twentieth takes over 1.5 times as long goes, and one that takes 1.4 times as long stays', () => {
  const times = (factor: number, count: number) =>
    Array.from({ length: count }, (_, i) => (10 + (i % 100) / 10) * factor);
  const at = (factor: number) =>
    judge(
      sumsOf({
        serving: { answers: 2_000, took: times(1, 2_000) },
        canary: { answers: 400, took: times(factor, 400) },
      }),
      0,
    );
  assert.equal(at(1).verdict, 'no worse');
  assert.equal(at(1.4).verdict, 'no worse');
  const slow = at(2);
  assert.equal(slow.verdict, 'roll back');
  assert.match(slow.reason, /of 400 are slower than 1\.5 times the 95th percentile/);
  // Half of them are slow: the median does not show it.
  const some = times(1, 380).concat(times(5, 80));
  const sums = sumsOf({
    serving: { answers: 2_000, took: times(1, 2_000) },
    canary: { answers: 460, took: some },
  });
  assert.equal(judge(sums, 0).verdict, 'roll back');
});

test('requests that are few are not compared by their time', () => {
  const sums = sumsOf({
    serving: { answers: 2_000, took: Array.from({ length: 2_000 }, () => 10) },
    canary: { answers: 400, took: Array.from({ length: 199 }, () => 1_000) },
  });
  assert.equal(judge(sums, 0).verdict, 'no worse');
});

test('of 100 canaries that are as good, looked at each minute, at most one in twenty is rolled back', () => {
  const random = randomOf(1);
  let gone = 0;
  for (let canary = 0; canary < 100; canary++) {
    const meter = new TrialMeter();
    const counts = new Map<string, number>();
    let looks = 0;
    for (let minute = 0; minute < 40 && looks >= 0; minute++) {
      for (const [side, answers] of [
        ['serving', 190],
        ['canary', 25],
      ] as const)
        for (let i = 0; i < answers; i++) {
          if (random() < 0.05) meter.failed(side, 'model_failed');
          else meter.answered(side, 1);
          meter.took(side, 10 * 2 ** (random() + random() + random()));
        }
      for (const [name, count] of meter.take()) counts.set(name, (counts.get(name) ?? 0) + count);
      const judged = judge(trialSums(counts), looks);
      looks = judged.looks;
      if (judged.verdict !== 'roll back') continue;
      gone++;
      looks = -1;
    }
  }
  assert.ok(gone <= 5, `${gone} of 100`);
});

test('of canaries that fail twice as often as one in twenty, nearly all are found within two hours', () => {
  const random = randomOf(2);
  let found = 0;
  for (let canary = 0; canary < 20; canary++) {
    const answered = { serving: { answers: 0, failures: 0 }, canary: { answers: 0, failures: 0 } };
    let looks = 0;
    for (let minute = 0; minute < 120; minute++) {
      for (const [side, answers, rate] of [
        ['serving', 190, 0.05],
        ['canary', 25, 0.1],
      ] as const)
        for (let i = 0; i < answers; i++)
          if (random() < rate) answered[side].failures++;
          else answered[side].answers++;
      const judged = judge(sumsOf(answered), looks);
      looks = judged.looks;
      if (judged.verdict !== 'roll back') continue;
      found++;
      break;
    }
  }
  assert.ok(found >= 19, `${found} of 20`);
});

test('environments that refuse it, or end while they open it, end the canary; those that are opening it do not', () => {
  const sums = (began: number, opened: number, refused: number) => ({
    ...sumsOf({ serving: {}, canary: {} }),
    openings: { began, opened, refused },
  });
  assert.equal(judge(sums(3, 0, 3), 0).verdict, 'roll back');
  assert.match(judge(sums(9, 1, 8), 0).reason, /8 of 9 environments could not open it/);
  assert.equal(judge(sums(100, 95, 5), 0).verdict, 'not enough', 'few of many');
  assert.equal(judge(sums(2, 0, 2), 0).verdict, 'not enough');
  assert.equal(endedEnvironments(sums(100, 0, 0), 0), undefined, 'all of them are opening it');
  assert.match(endedEnvironments(sums(6, 0, 0), 4) ?? '', /6 of 6 environments ended/);
  assert.equal(endedEnvironments(sums(100, 96, 0), 4), undefined, 'frozen ones end, too');
});

/** Exact values: sums of fractions of whole numbers, made with Python's fractions.Fraction and math.comb. */
test('probabilities are those of exact fractions', () => {
  for (const [is, expected] of [
    [moreFailures(10, 200, 5, 200), 0.14621504931263177],
    [moreFailures(30, 200, 100, 4000), 1.0867452091069099e-13],
    [atLeast(20, 200, 0.05), 0.0026645795498294283],
    [moreFailures(0, 200, 0, 200), 1],
    [moreFailures(0, 200, 7, 200), 1],
    [atLeast(0, 200, 0.05), 1],
  ] as const)
    assert.ok(Math.abs(is / expected - 1) < 1e-8, `${is} is not ${expected}`);
  assert.equal(moreFailures(60_000, 1_000_000, 1_000_000, 20_000_000), 0, 'far below what a number can tell');
});
