import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { coresOf } from '../../bench/cores.ts';
import { renderDocs, withBlocks } from '../../bench/docs.ts';
import { pairwise, quantile, spreadOf } from '../../bench/measure.ts';
import { NOT_INSTALLED, PEER_NAMES, pinsOf } from '../../bench/peers/installed.ts';
import { coldPicture, throughputPicture } from '../../bench/pictures.ts';
import { familyOf, readStat } from '../../bench/processor.ts';
import { type Line, type Row, tableText } from '../../bench/report.ts';
import { judge, TARGETS, targetsText, verdict } from '../../bench/targets.ts';

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
  });

  test('says when the target lies within the spread', () => {
    assert.equal(verdict(spread(4.1, 3.9, 4.3), { atLeast: 4 }), 'yes, within the spread');
    assert.equal(verdict(spread(3.9, 3.5, 4.3), { atLeast: 4 }), 'no, within the spread');
  });
});

describe('the table of targets', () => {
  const targetOf = (about: string) =>
    TARGETS.find((each) => each.about === about) ?? assert.fail(`no target ${about}`);
  const fastapi = targetOf('local HTTP against FastAPI');
  const name = 'MLP, 64 floats as JSON, gateway against FastAPI, 32 connections';
  const judged = (...lines: Line[]) => judge(fastapi, lines);

  test('a target is met by its row and by no other', () => {
    assert.equal(judged(row({ name, value: spread(5) })), 'met');
    assert.equal(judged(row({ name, value: spread(2) })), 'not met');
    for (const other of [name.replace('FastAPI', 'fastify'), name.replace('32', '8')])
      assert.equal(judged(row({ name: other, value: spread(5) })), 'not measured');
  });

  test('one bad row of several misses the target, one without a number leaves it open', () => {
    const zips = targetOf('zip without onnxruntime');
    const zip = (of: string, kB: number) =>
      row({ scenario: 'zip', name: `${of}, without onnxruntime`, value: spread(kB) });
    assert.equal(judge(zips, [zip('status', 220), zip('submit', 240)]), 'met');
    assert.equal(judge(zips, [zip('status', 220), zip('submit', 260)]), 'not met');
    const skipped = { scenario: 'zip', name: 'submit, without onnxruntime', skipped: 'it failed' };
    assert.equal(judge(zips, [zip('status', 220), skipped]), 'not measured');
  });

  test('a cold start is judged as a multiple of the raw process beside it', () => {
    const cold = targetOf('cold start of predict, 5 MB');
    const started = (ms: number) =>
      row({
        scenario: 'cold',
        name: 'predict, model of 5 MB from S3',
        metric: 'spawn to first answer',
        raw: 100,
        value: spread(ms),
      });
    assert.equal(judge(cold, [started(140)]), 'met');
    assert.equal(judge(cold, [started(141)]), 'not met');
    assert.match(targetsText([started(141)]), /\| 1\.41 x raw \|/);
  });

  test('of the rows of a function, each target has its own', () => {
    const rows = (way: string, metrics: Readonly<Record<string, number>>) =>
      Object.entries(metrics).map(([metric, value]) =>
        row({ scenario: 'cold', name: way, metric, raw: 100, value: spread(value) }),
      );
    const lines = [
      ...rows('predict, model of 5 MB from S3', { 'spawn to first answer': 139, 'warm p50': 2, memory: 121 }),
      ...rows('predict against Python + boto3', { 'cold start': 0.35, memory: 9, 'cost with one vCPU': 0.5 }),
    ];
    assert.equal(judge(targetOf('cold start of predict, 5 MB'), lines), 'met');
    assert.equal(judge(targetOf('memory of predict, warm'), lines), 'not met');
    assert.equal(judge(targetOf('cold start, 5 MB, against Python + boto3'), lines), 'met');
    assert.equal(judge(targetOf('a million, one vCPU, against Python + boto3'), lines), 'met');
    const cost = targetOf('a million, least memory, against Python + boto3');
    assert.equal(judge(cost, lines), 'not measured');
    const dearer = rows('predict against Python + boto3', { 'cost with the least memory': 1.01 });
    assert.equal(judge(cost, [...lines, ...dearer]), 'not met');
    assert.match(targetsText([...lines, ...dearer], true), /against Python[^|]*\| +1\.01 x/);
  });

  test('a scenario that did not run judges nothing', () => {
    assert.equal(judged(), 'not run');
    assert.equal(judged(row({ scenario: 'batch' })), 'not run');
  });

  test('every target has a line, also in a run of nothing', () => {
    const text = targetsText([]);
    for (const { about } of TARGETS) assert.ok(text.includes(about), about);
    assert.match(text, /0 of 28 targets met/);
  });
});

test('what was not measured shows why and no number', () => {
  const text = tableText([{ scenario: 'http', name: 'against FastAPI', skipped: NOT_INSTALLED }]);
  assert.match(text, /not measured: run npm run bench:install/);
  assert.doesNotMatch(text.split('\n')[2] ?? '', /\d/);
});

test('the pages on performance show what bench/results holds', async () => {
  for (const [path, content] of Object.entries(await renderDocs()))
    assert.equal(
      await readFile(new URL(`../../${path}`, import.meta.url), 'utf8'),
      content,
      `run node bench/docs.ts: ${path}`,
    );
});

describe('the pictures', () => {
  const cold = (name: string, ms: number, metric = 'spawn to first answer') =>
    row({ scenario: 'cold', name, metric, unit: 'ms', value: spread(ms) });

  test('have a bar for each row that there is, as long as its number, and none for another', () => {
    const lines = [cold('predict, model of 5 MB from S3', 100), cold('Python + boto3', 200)];
    const svg = coldPicture([...lines, cold('Rust', 1, 'warm p50')]);
    const bars = [...svg.matchAll(/class="(ours|other)" x="250" y="\d+" width="([\d.]+)"/g)];
    assert.deepEqual(
      bars.map(([, kind, width]) => [kind, Number(width)]),
      [
        ['ours', 190],
        ['other', 380],
      ],
    );
    assert.match(svg, /<title id="title">[^<]+<\/title>\n<desc id="about">[^<]*Python \+ boto3: 200 ms/);
    assert.doesNotMatch(svg, /Rust|NaN/);
  });

  test('say how much a peer serves while ours serves 100', () => {
    const name = 'MLP, 64 floats as JSON, gateway against A<B, 32 connections';
    const lines: Line[] = [row({ name, value: spread(4) }), row({ name: name.replace('32', '8') })];
    const svg = throughputPicture([...lines, { scenario: 'http', name, skipped: NOT_INSTALLED }]);
    assert.match(svg, /this project: 100; A&lt;B: 25\.0\./);
    assert.equal(svg.match(/class="other"/g)?.length, 1);
  });

  test('of a run of nothing are pictures without a bar', () => {
    assert.doesNotMatch(coldPicture([]), /NaN|Infinity|class="o/);
  });
});

test('a block of a page is replaced between its markers, and the rest stays', () => {
  const page = 'a\n<!-- x -->\nold\n<!-- /x -->\nb\n';
  const once = withBlocks(page, { x: 'new $1' });
  assert.equal(once, 'a\n<!-- x -->\nnew $1\n<!-- /x -->\nb\n');
  assert.equal(withBlocks(once, { x: 'new $1' }), once);
  assert.throws(() => withBlocks(page, { y: '' }), /no <!-- y -->/);
});

test('a list of cores is read as the system writes it', () => {
  assert.deepEqual(coresOf('0-2,5'), [0, 1, 2, 5]);
  assert.deepEqual(coresOf('3'), [3]);
  assert.deepEqual(coresOf(''), []);
});

test('every peer pins each of its own packages to one version', () => {
  for (const name of PEER_NAMES) {
    const versions = Object.values(pinsOf(name));
    assert.ok(versions.length > 0, name);
    for (const version of versions) assert.match(version, /^\d+(\.\d+)+(-rc\.\d+)?$/, name);
  }
});

test('the processor time of a server is that of all processes it started, under any name', () => {
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
