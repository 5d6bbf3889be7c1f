/** The report of two versions that were compared. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Face, Port } from '../../../release/diff/face.ts';
import { reportOf, reportText } from '../../../release/diff/report.ts';
import type { Diff } from '../../../release/diff/run.ts';

const port = (name: string, shape: Port['shape']): Port => ({
  name,
  dtype: 'float32',
  shape,
  isText: false,
  optional: false,
});
const FACE: Face = {
  inputs: [port('x', ['', 3])],
  outputs: [port('p', ['', 2]), port('q', ['', 1])],
  names: { columns: {}, labels: {} },
  image: {},
  text: {},
  sharesRuns: true,
};
const SAME: Diff = {
  before: FACE,
  after: FACE,
  golden: undefined,
  answers: 'no row was answered',
  time: undefined,
  size: 1,
  memory: undefined,
};

test('versions that are alike have a line for each thing that is as before', () => {
  const ports = 'p: float32 [?, 2], q: float32 [?, 1]';
  assert.equal(
    reportText(reportOf(SAME)),
    [
      'inputs    x: float32 [?, 3], as before',
      `outputs   ${ports}, as before`,
      'batching  records share runs, as before',
      'golden    no golden request',
      'answers   no row was answered',
      'size      1.00 times that of before',
      'memory    too small to compare',
      'time      too short to compare',
      'breaks    none',
    ].join('\n'),
  );
});

test('what differs is said with its numbers, and an order that has changed is a break', () => {
  const after = { ...FACE, inputs: [port('x', ['', 4])], sharesRuns: false };
  const sums = { rows: 32, otherForm: 0, median: 0.01, largest: 0.25, worstRow: 7 };
  const report = reportOf({
    ...SAME,
    after,
    golden: [
      { name: 'a', tolerance: 0 },
      { name: 'b', tolerance: 0, error: 'no answer' },
    ],
    answers: [
      { ...sums, output: 'p', flips: 8, order: [0, 2, 1] },
      { ...sums, output: 'q', order: [0, 1] },
    ],
    time: 1.234,
    size: 0.5,
    memory: 2,
  });
  const [first, ...others] = report.breaks;
  assert.ok(first && others.length > 0);
  assert.deepEqual(report.breaks.at(-1), {
    name: 'answers:p',
    text: 'output "p" has the same values in another order: number 1 is number 2 now',
  });
  assert.equal(
    reportText(report),
    [
      'inputs    x: float32 [?, 3] -> x: float32 [?, 4]',
      'outputs   p: float32 [?, 2], q: float32 [?, 1], as before',
      'batching  records share runs -> records run one by one',
      'golden    1 of 2 as before',
      '          b: failed: no answer',
      'answers   p, 32 made-up rows: first class differs in 8 of 32 (25 %); differs by 1 % of the spread in the median, 25 % at most (row 7)',
      'answers   q, 32 made-up rows: differs by 1 % of the spread in the median, 25 % at most (row 7)',
      'size      0.50 times that of before',
      'memory    2.00 times that of before',
      'time      1.23 times that of before for one row',
      ...report.breaks.map(({ name, text }) => `breaks    ${name}: ${text}`),
    ].join('\n'),
  );
});
