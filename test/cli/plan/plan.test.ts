/** Limits and bill of a plan against the hand calculations of the documents, and what the command refuses. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { callsOfRow, callsOfTimers, eventsOf } from '../../../cli/plan/calls.ts';
import { documentOf } from '../../../cli/plan/document.ts';
import { loadOf } from '../../../cli/plan/load.ts';
import { rateText } from '../../../cli/plan/report.ts';
import { BILLION, billionPlan, tablePrice } from '../../../docs/reference/generate/plans.ts';
import { readFacts } from '../../../infra/doctor/facts.ts';
import { IDLE_PRICES, USE_PRICES } from '../../../lib/contract/prices.ts';
import { emptyHistogram, report } from '../../../lib/metrics/timers.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { cli, ROOT } from '../cli.ts';

const documentText = (name: string) => readFile(join(ROOT, 'docs/explanation', name), 'utf8');
const SIZES = { peak: 1, bytes: 1_000, numbers: 10 };
const EVENTS = { records: 10, windowSeconds: 0, memoryMB: 1769 };

async function factsOf(root: string, stage: string, parameters: Readonly<Record<string, string>> = {}) {
  const none = { config: undefined, template: undefined, packageFolder: undefined };
  return (await readFacts({ ...none, root, project: ROOT, stage, parameters })).facts;
}

test('the limits of a billion a day are those of the hand calculation, in the order in which they break', async () => {
  const plan = await billionPlan();
  const perDay = 1e9;
  const peak = (perDay / 86_400) * 3;
  const batch = 3 + 32 * 50;
  const GiB = 2 ** 30;
  const byHand: Readonly<Record<string, readonly [needs: number, most: number]>> = {
    'requests of the HTTP API': [peak, 10_000],
    'environments of predict': [(peak * (3 + 50)) / 1_000, 1_000],
    'environments of batch': [((peak / 32) * batch) / 1_000, 1_000],
    'memory of Redis': [(perDay * (1_260 + 5 * 260)) / GiB, 0.75 * 419.09],
    'messages that are being answered': [peak * (1 + batch / 1_000), 120_000],
    'clients, if each waits for its result': [peak * (1 + batch / 1_000 + 0.105), 1_000],
  };
  const text = await documentText('a-billion-a-day.md');
  for (const [name, [needs, most]] of Object.entries(byHand)) {
    const limit = plan.limits.find((each) => each.name === name);
    assert.ok(limit, name);
    assert.ok(Math.abs(limit.needs / needs - 1) < 1e-9, `${name}: ${limit.needs} is not ${needs}`);
    assert.ok(Math.abs((limit.most ?? 0) / most - 1) < 1e-9, `${name}: ${limit.most} is not ${most}`);
    const row = text.split('\n').find((line) => line.startsWith(`| ${shortName(name)} |`)) ?? '';
    assert.ok(row.includes(Math.round(needs).toLocaleString('en-US')), `${name}: ${row}`);
    const millions = Math.floor((perDay / needs) * (most / 1e6) + 1e-6).toLocaleString('en-US');
    assert.ok(row.includes(`| ${millions} M a day |`), row);
  }
  const known = plan.limits.flatMap(({ breaksAt }) => breaksAt ?? []);
  assert.deepEqual(
    known,
    known.toSorted((a, b) => a - b),
  );
  assert.equal(plan.limits[0]?.name, 'memory of Redis');
  assert.equal(plan.fits, false);
  assert.deepEqual(plan.beyond.slice(0, 3), [
    'clients, if each waits for its result',
    'memory of Redis',
    'requests of the HTTP API',
  ]);
  assert.deepEqual([BILLION.ms, BILLION.records, BILLION.peak], [50, 32, 3]);
  const [dollars = ''] = /[\d,]+ dollars a month/.exec(plan.notes.join('\n')) ?? [];
  assert.ok(text.includes(`holds the results of a billion a day for ${dollars}`), dollars);
});

/** As the page has it, with code in backquotes. */
function shortName(name: string): string {
  return name.replace(/ of (predict|batch)$/, ' of `$1`').replace(/waits for its result$/, 'waits');
}

test('the bill of 10 million is the one of docs/explanation/costs.md, part by part', async (t) => {
  const facts = await factsOf(await temporaryFolder(t), 'prod');
  const events = { ...EVENTS, records: 32, windowSeconds: 1 };
  const load = loadOf('1e7/month', SIZES);
  const { parts } = documentOf('1e7/month', load, callsOfRow(1.1, 3, events, '--ms'), facts).bill;
  const [, examples = ''] = (await documentText('costs.md')).split('## Examples, a month each');
  const rows = new Map(
    (examples.split('\n## ')[0] ?? '')
      .split('\n')
      .map((line) => line.split('|').map((cell) => cell.trim()))
      .map((cells) => [cells[1], [cells[4] ?? '', cells[5] ?? '']] as const),
  );
  const told = (cell = '') => Number(/([\d.]+)$/.exec(cell)?.[1] ?? 0);
  const names = {
    Redis: 'Redis',
    'the stack, idle': 'alarms, dashboard',
    'HTTP API': 'HTTP API',
    'SQS, and S3 for large records': 'SQS',
    'Lambda, requests': 'Lambda, requests',
    'Lambda, time': 'Lambda, time',
    logs: 'logs, written',
    'metrics of our own': 'metrics of our own',
    traces: 'traces',
  };
  for (const [what, row] of Object.entries(names)) {
    const part = parts.find((each) => each.what === what);
    const [requests, queue] = rows.get(row) ?? assert.fail(row);
    for (const [is, should] of [
      [part?.requests, told(requests)],
      [part?.queue, told(queue)],
    ] as const)
      assert.ok(typeof is === 'number' && Math.abs(is - should) <= 0.02, `${what}: ${is} is not ${should}`);
  }
});

test('prices by use are those of docs/explanation/costs.md and stores.md', async () => {
  const costs = await documentText('costs.md');
  assert.ok(costs.includes(`| ${USE_PRICES.logsPerGB.toFixed(2)} per GB written`));
  assert.ok(costs.includes(`| ${USE_PRICES.metric.toFixed(2)} per metric and month |`));
  assert.ok(costs.includes(`| ${USE_PRICES.tracesPerMillion.toFixed(2)} per million |`));
  assert.ok(costs.includes(`${USE_PRICES.serverlessCacheGBHour} per GB-hour`));
  const stores = await documentText('stores.md');
  const { tableWritesPerMillion, tableReadsPerMillion, tableGBMonth } = USE_PRICES;
  assert.ok(stores.includes(`${tableWritesPerMillion} and ${tableReadsPerMillion} dollars`));
  assert.ok(stores.includes(`and ${tableGBMonth} for a GB and month`));
});

test('a table is cheaper than the smallest node below the rate that docs/explanation/stores.md says', async () => {
  const [, thousands = ''] = /Below some ([\d,]+) records a day/.exec(await documentText('stores.md')) ?? [];
  const rate = Number(thousands.replace(',', ''));
  const node = 730 * IDLE_PRICES.cacheNodeHour['cache.t4g.micro'];
  assert.ok(
    tablePrice(rate * 0.99) < node && tablePrice(rate * 1.01) > node,
    `${tablePrice(rate)} and ${node}`,
  );
});

test('a rate has a count and a time, and anything else is refused with both', () => {
  const perDay = (text: string) => loadOf(text, SIZES).perDay;
  assert.deepEqual(['1/s', '1e3/day', '2.5/min', '24/h'].map(perDay), [86_400, 1_000, 3_600, 576]);
  assert.equal(Math.round(perDay('730/month')), 24);
  for (const text of ['', '5', '0/day', '-1/day', '1e13/day', '1/week', 'x/day', '1e99/s', '1/constructor'])
    assert.throws(() => loadOf(text, SIZES), {
      code: 'bad_config',
      message: /^--rate: expected records and a time/,
    });
});

test('an event has no more records than fit into 6 MB, and a window where it has more than ten', () => {
  assert.deepEqual(eventsOf({ ...EVENTS, records: 32 }, 400), { ...EVENTS, records: 32, windowSeconds: 1 });
  assert.equal(eventsOf({ ...EVENTS, records: 1_000 }, 1_048_576).records, 5);
  assert.equal(eventsOf({ ...EVENTS, records: 10 }, 33_554_432).records, 1);
});

test('a node that does not hold the results has no price, and a note says what would', async (t) => {
  const facts = await factsOf(await temporaryFolder(t), 'dev');
  const of = (rate: string) => documentOf(rate, loadOf(rate, SIZES), callsOfRow(1, 3, EVENTS, '--ms'), facts);
  assert.equal(of('1e5/day').bill.parts[0]?.queue?.toFixed(2), '9.34');
  const large = of('1e6/day');
  assert.deepEqual([large.bill.parts[0]?.queue, large.bill.isWhole, large.fits], [null, false, false]);
  assert.match(
    large.notes.join('\n'),
    /node of Redis does not hold .* redis=serverless would cost 158 dollars/,
  );
});

test('a small rate has smaller events than the bill, and a note says how much dearer they are', async (t) => {
  const facts = await factsOf(await temporaryFolder(t), 'dev');
  const { notes } = documentOf('1/s', loadOf('1/s', SIZES), callsOfRow(1, 3, EVENTS, '--ms'), facts);
  assert.match(notes.join('\n'), /full events of 10; at this rate one has about 1\.0, .* up to 10\.0 times/);
});

test('settings move the limit where they say', async (t) => {
  const facts = await factsOf(await temporaryFolder(t), 'dev', {
    redis: 'serverless',
    redisMaxGB: '100',
    requestsPerSecond: '20000',
  });
  const { limits } = documentOf('1e8/day', loadOf('1e8/day', SIZES), callsOfRow(1, 3, EVENTS, '--ms'), facts);
  const of = (name: string) => limits.find((each) => each.name === name);
  assert.deepEqual([of('memory of Redis')?.has, of('memory of Redis')?.most], [100, 5_000]);
  assert.deepEqual(
    [of('requests of the HTTP API')?.has, of('requests of the HTTP API')?.most],
    [20_000, 20_000],
  );
});

test('the times of a service that runs are its own, and one that has run nothing is refused', () => {
  const histogram = (mean: number) => ({
    ...emptyHistogram(),
    count: 4,
    sum: 4 * mean,
    squares: 4 * mean * mean,
  });
  const timers = [
    report('zoo.serving.request.predict', histogram(20), 60),
    report('zoo.serving.request.overall', histogram(25), 60),
  ];
  const calls = callsOfTimers(timers, 3, EVENTS, 'my-stack');
  assert.deepEqual([calls.predictMs, calls.batchMs, calls.from], [28, 203, 'my-stack, as it runs']);
  assert.throws(() => callsOfTimers([], 3, EVENTS, 'my-stack'), {
    code: 'not_found',
    message: /run nothing yet/,
  });
});

test('a rate is rounded down, so that none is promised that does not fit', () => {
  assert.deepEqual([157_286.9, 1_999_999, 5_749_999].map(rateText), [
    '157,286/day',
    '1.99 M/day',
    '5.74 M/day',
  ]);
});

test('the command needs a rate and one source of times, and reads what tune printed', async (t) => {
  const cwd = await temporaryFolder(t);
  const refused = async (...args: string[]) => {
    const { code, stderr } = await cli(['plan', ...args], { cwd });
    assert.equal(code, 2, stderr);
    return stderr;
  };
  assert.match(await refused(), /which rate\?/);
  assert.match(await refused('--rate', '5/day'), /how long does the model take\? Give --ms/);
  assert.match(await refused('--rate', '5/day', '--ms', '1', '--tune', 'x.json'), /give one of them/);
  assert.match(await refused('--rate', '5/day', '--tune', 'x.json'), /x\.json cannot be read/);
  await writeFile(join(cwd, 'x.json'), '{"recommendations": [{"predict": {"ms": 1}}]}');
  assert.match(await refused('--rate', '5/day', '--tune', 'x.json'), /recommends nothing for both ways/);
  await writeFile(join(cwd, 'x.json'), 'no');
  assert.match(await refused('--rate', '5/day', '--tune', 'x.json'), /is not JSON/);
  const setting = { memoryMB: 512 };
  const recommendation = { predict: { ms: 3.2 }, batch: { ms: 4.2, records: 8 }, setting };
  await writeFile(join(cwd, 'x.json'), JSON.stringify({ recommendations: [recommendation] }));
  const { stdout } = await cli(['plan', '--rate', '5/s', '--tune', 'x.json', '--json'], { cwd });
  const { calls } = JSON.parse(stdout) as ReturnType<typeof documentOf>;
  assert.deepEqual([calls.predictMs, calls.batchMs, calls.records, calls.memoryMB], [3.2, 4.2, 8, 512]);
  const text = (await cli(['plan', '--rate', '5/s', '--ms', '2'], { cwd })).stdout;
  assert.match(
    text,
    /^rate +5\/s: 432,000 records a day[\s\S]*First: memory of Redis, at 157,286\/day[\s\S]*\ntogether/,
  );
});
