/** The counters of a service, its last samples and its last hour, by a clock that the test moves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Outcome, Runner } from '../../../lib/contract/values.ts';
import { escaped } from '../../../lib/http/page.ts';
import { statPage } from '../../../local/worker/stat-page.ts';
import { ServiceStatistics, summary, withStatistics } from '../../../local/worker/statistics.ts';

type Numbers = Readonly<Record<string, number>>;

function openStatistics(options: { readonly busyMs?: () => number; readonly workers?: () => number } = {}) {
  const clock = { ms: 5_000 };
  const statistics = new ServiceStatistics(() => clock.ms);
  statistics.follow(options);
  return { clock, statistics };
}

/** The first has failed. */
const outcomesOf = (count: number): Outcome[] =>
  Array.from({ length: count }, (_, i) =>
    i === 0 ? { ok: false, error: new ServingError('bad_input', 'no') } : { ok: true, outputs: [] },
  );

const others = (statistics: ServiceStatistics) =>
  statistics.status().statistic_postsink['others'] as Readonly<Record<string, Numbers>>;

test('a summary is of all samples', () => {
  assert.deepEqual(summary([4, 1, 2, 5]), { avg: 3, min: 1, max: 5, std: Math.sqrt(2.5), med: 3 });
  assert.deepEqual(summary([7]), { avg: 7, min: 7, max: 7, std: 0, med: 7 });
  assert.equal(summary([]), undefined);
});

test('the last 1,000 samples of a key count, and what is no number does not', () => {
  const { statistics } = openStatistics();
  for (let i = 0; i < 1_500; i++) statistics.batch(i, 1, { own: [i, Number.NaN] });
  assert.deepEqual(
    [others(statistics)['sys_batchsize']?.['min'], others(statistics)['own']?.['min']],
    [500, 500],
  );
  assert.equal(others(statistics)['own']?.['max'], 1_499);
});

test('a worker cannot record more than 100 keys', () => {
  const { statistics } = openStatistics();
  for (let i = 0; i < 200; i++) statistics.batch(1, 1, { [`key ${i}`]: [1] });
  assert.equal(Object.keys(others(statistics)).length, 100);
});

test('steps of ten seconds hold what happened in them, and an hour of them is kept', () => {
  const { clock, statistics } = openStatistics();
  statistics.arrived(20);
  statistics.finished(5, 1, 12);
  for (const outcome of outcomesOf(5)) statistics.figures.record('queue', outcome);
  assert.deepEqual(statistics.history(), []);
  clock.ms += 10_000;
  statistics.arrived(10);
  assert.deepEqual(
    statistics.history().map(({ arrived, finished, failed, util }) => ({ arrived, finished, failed, util })),
    [{ arrived: 20, finished: 5, failed: 1, util: 0 }],
  );
  clock.ms += 20_000;
  assert.deepEqual(
    statistics.history().map(({ arrived }) => arrived),
    [20, 10, 0],
  );
  const { statistic, statistic_postsink: finished } = statistics.status() as { [key: string]: Numbers };
  assert.deepEqual(
    [
      statistic?.['num_data_request'],
      statistic?.['avg_request_per_second'],
      statistic?.['max_request_per_second'],
    ],
    [30, 1, 2],
  );
  assert.deepEqual(
    [finished?.['num_data_request'], finished?.['num_exception'], finished?.['total_job_in_queue']],
    [5, 1, 25],
  );
  clock.ms += 7 * 3_600_000;
  assert.equal(statistics.history().length, 360);
});

test('util is the share of time that the workers were busy', () => {
  let busyMs = 0;
  const { clock, statistics } = openStatistics({ busyMs: () => busyMs, workers: () => 2 });
  clock.ms += 10_000;
  busyMs += 5_000;
  assert.equal(statistics.history().at(-1)?.util, 0.25);
  busyMs += 40_000;
  clock.ms += 20_000;
  assert.deepEqual(
    statistics.history().map(({ util }) => util),
    [0.25, 1, 1],
  );
  // New workers took over, which count from 0.
  busyMs = 2_000;
  clock.ms += 10_000;
  assert.equal(statistics.history().at(-1)?.util, 0.1);
});

test('a model with statistics counts records that succeed, fail and throw, and says of itself what the model says', async () => {
  const { statistics } = openStatistics();
  const names = { columns: { x: ['age'] }, labels: {} };
  const runner: Runner = {
    version: 'v',
    inputs: [],
    outputs: [],
    names,
    run: async (records) => {
      if (records.length === 1) throw new ServingError('model_unavailable', 'no');
      return outcomesOf(records.length);
    },
    close: async () => undefined,
  };
  const model = withStatistics({ use: (work) => work(runner) }, statistics, 'request');
  await model.use((counted) => counted.run([new Map(), new Map(), new Map()]));
  await assert.rejects(model.use((counted) => counted.run([new Map()])));
  const facts = await model.use(async (counted) => [counted.inputs, counted.outputs, counted.names]);
  assert.deepEqual(facts, [[], [], names]);
  const { total_processed_job, num_exception, total_job_in_queue } = statistics.status()
    .statistic_postsink as Numbers;
  assert.deepEqual([total_processed_job, num_exception, total_job_in_queue], [4, 2, 0]);
  const { finished, failed } = statistics.figures.totals();
  assert.deepEqual([finished, failed], [4, 2]);
  assert.deepEqual(
    statistics.figures.records.values.map(({ labels, value }) => [...Object.values(labels), value]),
    [
      ['request', 'bad_input', 1],
      ['request', 'succeeded', 2],
      ['request', 'model_unavailable', 1],
    ],
  );
});

test('a model with statistics counts how long each record took, whatever became of it, and those that run', async () => {
  const { clock, statistics } = openStatistics();
  const run = async (records: readonly unknown[]) => {
    clock.ms += 30 * records.length;
    assert.equal(statistics.inQueue, records.length);
    if (records.length === 1) throw new ServingError('model_unavailable', 'no');
    return outcomesOf(records.length);
  };
  const runner: Runner = { version: 'v', run, runIsolated: run, close: async () => undefined };
  const model = withStatistics({ use: (work) => work(runner) }, statistics, 'request');
  await model.use((counted) => counted.run([new Map(), new Map(), new Map()]));
  await model.use(async (counted) => counted.runIsolated?.([new Map(), new Map()], 1));
  await assert.rejects(model.use((counted) => counted.run([new Map()])));
  assert.deepEqual(others(statistics)['latency'], summary([90, 90, 90, 60, 60, 30]));
  assert.equal(statistics.inQueue, 0);
});

test('a record of the queue has its outcome once its result is stored, and the last hour and Prometheus count it then', async () => {
  const { clock, statistics } = openStatistics();
  const [outcome] = outcomesOf(2).toReversed();
  const runner: Runner = {
    version: 'v',
    run: async () => [outcome as Outcome],
    close: async () => undefined,
  };
  const model = withStatistics({ use: (work) => work(runner) }, statistics, 'queue');
  await model.use((counted) => counted.run([new Map()]));
  assert.equal(statistics.figures.totals().finished, 0);
  const sink = statistics.figures.countedSink({ save: async () => ['not stored'] });
  const record = { uri: 'u', enqueue: { identity: 'i', sentAt: 1, replays: 0 }, outcome: outcome as Outcome };
  await sink.save(
    ['stored', 'not stored'].map((id) => ({ ...record, id })),
    'v',
  );
  assert.equal(statistics.figures.totals().finished, 1);
  clock.ms += 10_000;
  // What happens after the end of a step is of the next one, also where nothing has asked for the step.
  await sink.save([{ ...record, id: 'later' }], 'v');
  assert.deepEqual(
    statistics.history().map(({ finished }) => finished),
    [1],
  );
});

test('requests that ask for predictions are those of the last hour, refused ones included, whatever their protocol', () => {
  const { statistics } = openStatistics();
  const { figures } = statistics;
  const routes = [
    { method: 'POST', path: '/predict', functionName: 'predict' },
    { method: 'POST', path: '/inference.GRPCInferenceService/ModelInfer', functionName: 'predict' },
    { method: 'GET', path: '/predict', functionName: 'predict' },
    { method: 'GET', path: '/metrics', functionName: 'status' },
  ] as const;
  for (const route of routes) figures.observe({ route })(429, 1);
  figures.observe({})(404, 1);
  assert.equal(figures.requests.values.length, 5);
  assert.equal(figures.totals().requests, 2);
});

test('the most items that waited stay known, and who left before a run is no failure', async () => {
  const { statistics } = openStatistics();
  const codes = ['cancelled', 'timeout', 'cancelled'] as const;
  const run: Runner['run'] = async () =>
    codes.map((code) => ({ ok: false, error: new ServingError(code, 'no') }));
  const runner: Runner = { version: 'v', run, close: async () => undefined };
  statistics.arrived(3);
  statistics.finished(3, 0, 1);
  await withStatistics({ use: (work) => work(runner) }, statistics, 'request').use((counted) =>
    counted.run(codes.map(() => new Map())),
  );
  const { maximum_job_in_queue, total_job_in_queue, num_exception } = statistics.status()
    .statistic_postsink as Numbers;
  assert.deepEqual([maximum_job_in_queue, total_job_in_queue, num_exception], [3, 0, 1]);
});

test('clients are counted, ten thousand of them', () => {
  const { clock, statistics } = openStatistics();
  statistics.request('a', 10);
  clock.ms += 200_000;
  statistics.request('b', 20);
  statistics.request('b', 30);
  const { num_total_client, num_active_client, max_request_per_client } = statistics.status()
    .statistic as Numbers;
  assert.deepEqual([num_total_client, num_active_client, max_request_per_client], [2, 1, 2]);
  assert.equal(others(statistics)['sys_input_byte']?.['avg'], 20);
  for (let i = 0; i < 10_001; i++) statistics.request(String(i), 1);
  assert.equal(statistics.status().statistic['num_total_client'], 10_000);
  // Who asks again is not the next to be forgotten.
  statistics.request('1', 1);
  statistics.request('new', 1);
  assert.equal(statistics.status().statistic['max_request_per_client'], 2);
});

test('the page shows the numbers, escapes the name and needs nothing from elsewhere', () => {
  const { clock, statistics } = openStatistics();
  statistics.arrived(1_234);
  clock.ms += 93_784_000;
  const page = statPage(statistics, { job: `<img src=x onerror="a('b')">&`, workers: 3, batchSize: 10 });
  assert.match(page, /<dt>∑Request<\/dt><dd>1,234<\/dd>/);
  assert.match(page, /<dt>Uptime<\/dt><dd>1 d 2:03:04<\/dd>/);
  assert.match(page, /http-equiv="refresh" content="10"/);
  assert.equal(page.split('<polyline').length, 4);
  assert.doesNotMatch(page, /<img|<script|https?:/);
  assert.equal(escaped(`<a>&"'`), '&lt;a&gt;&amp;&quot;&#39;');
});
