/** When a replay is good, which decides whether a version is published, and what a person reads of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReplayedOutput } from '../../../release/replay/output-sums.ts';
import { problemsOf, replayText } from '../../../release/replay/report.ts';
import type { Replay } from '../../../release/replay/tally.ts';

const OUTPUT: ReplayedOutput = {
  output: 'p',
  records: 100,
  otherForm: 0,
  median: 0,
  largest: 0,
  distribution: [],
  flips: 0,
  classes: undefined,
};
const GOOD: Replay = {
  lines: 100,
  versions: { v1: 100 },
  from: Date.UTC(2030, 0, 1),
  to: Date.UTC(2030, 0, 2, 3, 4, 5, 678),
  compared: 100,
  bits: { records: 100, differ: 0 },
  tolerance: { records: 0, differ: 0 },
  because: [],
  settings: [],
  outputs: [OUTPUT],
  flips: 0,
  worst: [],
  failures: { records: 0, differ: 0 },
  otherEnds: [],
  notReplayable: 0,
  leftOut: [],
  unreadable: 0,
  unread: [],
  lost: 0,
  slices: undefined,
};

const problems = (changed: Partial<Replay>, version = 'v1', maxFlips?: number) =>
  problemsOf({ ...GOOD, ...changed }, { version, maxFlips });

test('the version that answered must answer the same: bits, values, ends and settings', () => {
  assert.deepEqual(problems({}), []);
  assert.deepEqual(problems({ bits: { records: 100, differ: 1 } }), [
    '1 of 100 answers have other bits, though nothing else has changed: the runtime has drifted',
  ]);
  assert.deepEqual(problems({ tolerance: { records: 9, differ: 2 } }), [
    '2 of 9 answers differ by more than 0.0001 of the spread',
  ]);
  assert.deepEqual(problems({ failures: { records: 9, differ: 1 } }), [
    '1 requests and records end in another way',
  ]);
  assert.deepEqual(problems({ settings: ['image: a -> b'] }), ['setting image: a -> b']);
  assert.equal(problems({ bits: { records: 1, differ: 1 }, failures: { records: 1, differ: 1 } }).length, 2);
});

test('of another version, or a folder, the share of records with another first class, form or end is judged', () => {
  const changed = { bits: { records: 100, differ: 100 }, flips: 2, failures: { records: 100, differ: 1 } };
  const text = (count: number, part: string) =>
    `${count} of 200 captured records have another first class, form or end: ${part}, over release.maxFlips 1.49 %`;
  assert.deepEqual(problems(changed, 'v2'), []);
  assert.deepEqual(problems(changed, 'v2', 0.015), []);
  assert.deepEqual(problems(changed, 'v2', 0.0149), [text(3, '1.5 %')]);
  const forms = [{ ...OUTPUT, otherForm: 4 }, OUTPUT];
  assert.deepEqual(problems({ ...changed, outputs: forms }, 'v2', 0.0149), [text(5, '2.5 %')]);
  assert.equal(problemsOf({ ...GOOD, ...changed }, { version: undefined, maxFlips: 0.0149 }).length, 1);
  // Answers of several versions are not those of one.
  assert.equal(problems({ ...changed, versions: { v1: 1, v2: 1 } }, 'v1', 0.0149).length, 1);
});

test('a replay of nothing is not good, and says what the records lack', () => {
  assert.deepEqual(problems({ compared: 0, lines: 7 }), [
    'none of 7 captured requests and records can be replayed',
  ]);
  assert.deepEqual(problems({ compared: 0, lines: 7, leftOut: ['a', 'b'] }, 'v2'), [
    'none of 7 captured requests and records can be replayed: they lack a, b',
  ]);
  assert.deepEqual(problems({ compared: 0, failures: { records: 1, differ: 0 } }), []);
});

test('a report says what was compared, how far answers are apart, and the verdict', () => {
  assert.equal(
    replayText(GOOD, []),
    [
      'captured   100 requests and records, 2030-01-01 00:00:00 to 2030-01-02 03:04:05: 100 by v1',
      'compared   100 records',
      '           100 of 100 the same bit for bit',
      'answers    p: first class differs in 0 of 100 (0 %); differs by 0 % of the spread in the median, 0 % at most',
      'verdict    good',
    ].join('\n'),
  );
  const classes = Array.from({ length: 8 }, (_, i) => ({
    name: `c${i}`,
    before: 10 + i,
    after: 20,
    flips: i,
  }));
  const bad: Replay = {
    ...GOOD,
    versions: { v1: 60, v2: 40 },
    from: undefined,
    bits: { records: 0, differ: 0 },
    tolerance: { records: 50, differ: 1 },
    because: ['a', 'b'],
    settings: ['x: 1 -> 2'],
    outputs: [
      { ...OUTPUT, flips: undefined, otherForm: 1, median: 0.001, largest: 0.5, classes },
      { ...OUTPUT, output: 'q', classes: classes.slice(0, 1) },
      { ...OUTPUT, output: 'r', classes: classes.slice(0, 2) },
    ],
    worst: [
      { id: 'one', at: 0, output: 'p', distance: 0.5 },
      { id: 'two', at: 1_000, output: 'p', distance: null },
    ],
    failures: { records: 5, differ: 1 },
    otherEnds: [{ id: 'three', at: 2_000, was: 'timeout', is: 'an answer' }],
    slices: Array.from({ length: 11 }, (_, i) => ({ value: `s${i}`, records: 4, flips: 1, differ: 2 })),
    notReplayable: 3,
    leftOut: ['a', 'b'],
    lost: 4,
    unreadable: 6,
    unread: [{ place: 'file:3', text: 'no JSON' }],
  };
  assert.equal(
    replayText(bad, ['first', 'second']),
    [
      'captured   100 requests and records: 60 by v1, 40 by v2',
      'compared   100 records',
      '           49 of 50 the same within 0.0001 of the spread (a; b)',
      'setting    x: 1 -> 2',
      'answers    p: another form in 1 of 100 (1 %); differs by 0.1 % of the spread in the median, 50 % at most',
      'classes    p: c0 10 % -> 20 %, c1 11 % -> 20 %, c2 12 % -> 20 %, c3 13 % -> 20 %, c4 14 % -> 20 %, c5 15 % -> 20 %, 2 more (each ± 7.36 %)',
      'answers    q: first class differs in 0 of 100 (0 %); differs by 0 % of the spread in the median, 0 % at most',
      'answers    r: first class differs in 0 of 100 (0 %); differs by 0 % of the spread in the median, 0 % at most',
      'classes    r: c0 10 % -> 20 %, c1 11 % -> 20 % (each ± 6.13 %)',
      'worst      one (1970-01-01 00:00:00): p, 50 %',
      'worst      two (1970-01-01 00:00:01): p, another form',
      'failures   4 of 5 the same as before',
      '           three (1970-01-01 00:00:02): timeout -> an answer',
      ...Array.from({ length: 10 }, (_, i) => `slice      s${i}: 1 of 4 (25 %) flip, 2 differ`),
      'left out   3 records lack a, b and are not replayed',
      'lost       4 were drawn and could not be stored',
      'unread     6 lines of no capture of this job',
      '           file:3: no JSON',
      'verdict    first\n           second',
    ].join('\n'),
  );
});
