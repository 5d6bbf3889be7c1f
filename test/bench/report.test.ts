import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { chartsOf } from '../../bench/charts.ts';
import { coresOf } from '../../bench/cores.ts';
import { pairwise, quantile, spreadOf } from '../../bench/measure.ts';
import { NOT_INSTALLED, PEER_NAMES, pinsOf } from '../../bench/peers/installed.ts';
import { svgOf } from '../../bench/plot.ts';
import { familyOf, readStat } from '../../bench/processor.ts';
import { type Line, type Row, tableText, verdict } from '../../bench/report.ts';
import { judge, TARGETS, targetsText } from '../../bench/targets.ts';

const spread = (median: number, low = median, high = median) => ({ median, low, high });

function row(fields: Partial<Row>): Row {
  return { scenario: 'http', name: 'a row', metric: 'x', unit: 'x', value: spread(1), ...fields };
}

describe('what the repeats say', () => {
  test('a quantile is the nearest rank: a value that was measured', () => {
    const hundred = Float64Array.from({ length: 100 }, (_, i) => i + 1);
    assert.equal(quantile(hundred, 0.5), 50);
    assert.equal(quantile(hundred, 0.99), 99);
    assert.equal(quantile(hundred, 0), 1);
    assert.equal(quantile(hundred, 1), 100);
    assert.equal(quantile(Float64Array.of(7), 0.99), 7);
    assert.throws(() => quantile(new Float64Array(0), 0.5), /nothing was measured/);
  });

  test('a spread is the median, the lowest and the highest', () => {
    assert.deepEqual(spreadOf([5, 1, 4, 2, 3]), spread(3, 1, 5));
  });

  test('ratios are of the same repeat, not of the medians', () => {
    const ratio = pairwise([10, 40, 30], [10, 20, 30], (a, b) => a / b);
    assert.deepEqual(ratio, spread(1, 1, 2));
  });
});

describe('the verdict', () => {
  test('is by the median, on either side', () => {
    assert.equal(verdict(spread(4), { atLeast: 4 }), 'yes');
    assert.equal(verdict(spread(3.99), { atLeast: 4 }), 'no');
    assert.equal(verdict(spread(1.1), { atMost: 1.1 }), 'yes');
    assert.equal(verdict(spread(1.11), { atMost: 1.1 }), 'no');
    assert.equal(verdict(spread(1), undefined), '');
  });

  test('says when the target lies within the spread', () => {
    assert.equal(verdict(spread(4.1, 3.9, 4.3), { atLeast: 4 }), 'yes, within the spread');
    assert.equal(verdict(spread(3.9, 3.5, 4.3), { atLeast: 4 }), 'no, within the spread');
  });
});

describe('the table of targets', () => {
  const fastapi = TARGETS.find(({ about }) => about.includes('FastAPI'));
  const name = 'MLP, 64 floats as JSON, gateway against FastAPI, 32 connections';
  const judged = (...lines: Line[]) => judge(fastapi ?? assert.fail('no such target'), lines).judged;

  test('a target is met by its row and by no other', () => {
    assert.equal(judged(row({ name, value: spread(5), target: { atLeast: 4 } })), 'met');
    assert.equal(judged(row({ name, value: spread(3), target: { atLeast: 4 } })), 'not met');
    const fastify = name.replace('FastAPI', 'fastify');
    assert.equal(judged(row({ name: fastify, value: spread(5), target: { atLeast: 4 } })), 'not measured');
  });

  test('one bad row of several misses the target, one without a number leaves it open', () => {
    const good = row({ name, value: spread(5), target: { atLeast: 4 } });
    assert.equal(judged(good, row({ name, value: spread(3), target: { atLeast: 4 } })), 'not met');
    assert.equal(judged(good, { scenario: 'http', name, skipped: NOT_INSTALLED }), 'not measured');
  });

  test('a scenario that did not run judges nothing', () => {
    assert.equal(judged(), 'not run');
    assert.equal(judged(row({ scenario: 'batch' })), 'not run');
  });

  test('every target has a line, also in a run of nothing', () => {
    const text = targetsText([]);
    for (const { about } of TARGETS) assert.ok(text.includes(about), about);
    assert.match(text, /0 of 11 targets met/);
  });
});

describe('tables and pictures', () => {
  test('what was not measured shows why and no number', () => {
    const text = tableText([{ scenario: 'http', name: 'against FastAPI', skipped: NOT_INSTALLED }]);
    assert.match(text, /not measured: run npm run bench:install/);
    assert.doesNotMatch(text.split('\n')[2] ?? '', /\d/);
  });

  test('a peer that was not measured has no bar, and one bar alone is no picture', () => {
    const gateway = row({
      scenario: 'server',
      name: 'MLP, gateway',
      metric: 'highest rate with p99 <= 50 ms',
      value: spread(9),
    });
    const skipped = { scenario: 'server', name: 'MLP, FastAPI', skipped: NOT_INSTALLED };
    assert.deepEqual(chartsOf([gateway, skipped]), []);
    const [chart] = chartsOf([gateway, { ...gateway, name: 'MLP, FastAPI', value: spread(3) }]);
    assert.deepEqual(
      chart?.bars.map(({ label, value }) => [label, value]),
      [
        ['cluster-serving, local gateway', 9],
        ['FastAPI', 3],
      ],
    );
  });

  test('the longest bar ends where the number begins, and names are escaped', () => {
    const bars = [
      { label: 'a <b> & "c"', value: 10, isOurs: true },
      { label: 'half', value: 5, isOurs: false },
    ];
    const svg = svgOf({ name: 'x', title: 'T', subtitle: 's', unit: 'ms', bars });
    assert.ok(svg.includes('a &lt;b&gt; &amp; &quot;c&quot;'));
    const widths = [...svg.matchAll(/<rect [^>]*width="([\d.]+)"/g)].map((match) => Number(match[1]));
    assert.equal(widths.length, 2);
    assert.equal(widths[0], 2 * (widths[1] ?? 0));
  });
});

test('a list of cores is read as the system writes it', () => {
  assert.deepEqual(coresOf('0-2,5'), [0, 1, 2, 5]);
  assert.deepEqual(coresOf('3'), [3]);
  assert.deepEqual(coresOf(''), []);
});

test('every peer pins each of its own packages to one version', () => {
  for (const name of PEER_NAMES) {
    const pins = pinsOf(name);
    const versions = pins.startsWith('{')
      ? Object.values((JSON.parse(pins) as { dependencies: Record<string, string> }).dependencies)
      : pins
          .trim()
          .split('\n')
          .map((line) => line.split('==')[1] ?? '');
    assert.ok(versions.length > 0, name);
    for (const version of versions) assert.match(version, /^\d+(\.\d+)+$/, name);
  }
});

test('the processor time of a server is that of all it started, whatever their names', () => {
  const line = (pid: number, name: string, parent: number, session: number) =>
    readStat(`${pid} (${name}) S ${parent} ${pid} ${session} 0 -1 4194304 1 2 3 4 30 12 0 0 20 0 1`);
  const leader = line(100, 'server', 1, 100);
  assert.deepEqual(leader, { pid: 100, parent: 1, session: 100, ticks: 42 });
  const worker = line(101, 'a) R 7 (b', 100, 101);
  const workersOwn = line(102, 'thread pool', 101, 101);
  const orphan = line(103, 'daemon', 1, 100);
  const outsider = line(200, 'other', 1, 200);
  const family = familyOf([leader, worker, workersOwn, orphan, outsider], 100);
  assert.deepEqual(
    family.map(({ pid }) => pid),
    [100, 101, 102, 103],
  );
});
