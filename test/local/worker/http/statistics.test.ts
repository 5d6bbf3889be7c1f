/** The counters of a service, its last samples and its last hour, by a clock that the test moves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { escaped } from '../../../../lib/codecs/html.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import type { Outcome } from '../../../../lib/contract/values.ts';
import { summary } from '../../../../lib/observe/samples.ts';
import { together } from '../../../../lib/observe/together.ts';
import { observeRun } from '../../../../lib/pipeline/observed.ts';
import { resultSink } from '../../../../lib/results/sink.ts';
import { statPage } from '../../../../local/worker/stat-page.ts';
import { ServiceStatistics } from '../../../../local/worker/statistics.ts';

type Numbers = Readonly<Record<string, number>>;

function openStatistics(options: { readonly busyMs?: () => number; readonly workers?: () => number } = {}) {
  const clock = { ms: 5_000 };
  const statistics = new ServiceStatistics(() => clock.ms);
  statistics.follow(options);
  return { clock, statistics, told: together(statistics.observers, () => clock.ms) };
}

/** The first has failed. */
const outcomesOf = (count: number): Outcome[] =>
  Array.from({ length: count }, (_, i) =>
    i === 0 ? { ok: false, error: new ServingError('bad_input', 'no') } : { ok: true, outputs: [] },
  );

const finishedOf = (outcome: Outcome, i = 0) => ({
  id: String(i),
  uri: 'u',
  enqueue: { identity: 'i', sentAt: 1, replays: 0 },
  outcome,
});

const others = (statistics: ServiceStatistics) =>
  statistics.status().statistic_postsink['others'] as Readonly<Record<string, Numbers>>;

test('a summary is of all samples', () => {
  assert.deepEqual(summary([4, 1, 2, 5]), { avg: 3, min: 1, max: 5, std: Math.sqrt(2.5), med: 3 });
  assert.deepEqual(summary([7]), { avg: 7, min: 7, max: 7, std: 0, med: 7 });
  assert.equal(summary([]), undefined);
});

test('the last 1,000 samples of a key count, and a value that is not a number does not', () => {
  const { statistics, told } = openStatistics();
  for (let i = 0; i < 1_500; i++)
    told.runEnded?.({ records: i, tookMs: 1, samples: { own: [i, Number.NaN] } });
  assert.deepEqual(
    [others(statistics)['sys_batchsize']?.['min'], others(statistics)['own']?.['min']],
    [500, 500],
  );
  assert.equal(others(statistics)['own']?.['max'], 1_499);
});

test('a worker cannot record more than 100 keys', () => {
  const { statistics, told } = openStatistics();
  for (let i = 0; i < 200; i++) told.runEnded?.({ records: 1, tookMs: 1, samples: { [`key ${i}`]: [1] } });
  assert.equal(Object.keys(others(statistics)).length, 100);
});

test('steps of ten seconds hold what happened in them, and an hour of them is kept', () => {
  const { clock, statistics, told } = openStatistics();
  told.recordsArrived?.({ source: 'queue', records: 20 });
  told.recordsRan?.({ source: 'queue', outcomes: outcomesOf(5), tookMs: 12 });
  told.recordsStored?.({ finished: outcomesOf(5).map(finishedOf), unsaved: [], model: 'v' });
  assert.deepEqual(statistics.history(), []);
  clock.ms += 10_000;
  told.recordsArrived?.({ source: 'queue', records: 10 });
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

test('records of requests that succeed, fail and throw are counted', async () => {
  const { statistics, told } = openStatistics();
  await observeRun(3, async () => outcomesOf(3), 'request', told);
  const away = new ServingError('model_unavailable', 'no');
  await assert.rejects(
    observeRun(1, () => Promise.reject(away), 'request', told),
    away,
  );
  const { total_processed_job, num_exception, total_job_in_queue } = statistics.status()
    .statistic_postsink as Numbers;
  assert.deepEqual([total_processed_job, num_exception, total_job_in_queue], [4, 2, 0]);
  const { finished, failed } = statistics.counts.totals();
  assert.deepEqual([finished, failed], [4, 2]);
  assert.deepEqual(
    statistics.counts.records.values.map(({ labels, value }) => [...Object.values(labels), value]),
    [
      ['request', 'bad_input', 1],
      ['request', 'succeeded', 2],
      ['request', 'model_unavailable', 1],
    ],
  );
});

test('the latency of a record is that of its run, for any outcome, and it is in the queue meanwhile', async () => {
  const { clock, statistics, told } = openStatistics();
  const run = async (records: number, error?: ServingError) =>
    observeRun(
      records,
      async () => {
        clock.ms += 30 * records;
        assert.equal(statistics.counts.inQueue, records);
        if (error) throw error;
        return outcomesOf(records);
      },
      'request',
      told,
    );
  await run(3);
  await run(2);
  await assert.rejects(run(1, new ServingError('model_unavailable', 'no')));
  assert.deepEqual(others(statistics)['latency'], summary([90, 90, 90, 60, 60, 30]));
  assert.equal(statistics.counts.inQueue, 0);
});

const BLOCKED = new ServingError('results_unavailable', 'the key holds something else');

test('a record of the queue has its outcome once its result is stored, and the last hour and Prometheus count it then', async () => {
  const { clock, statistics, told } = openStatistics();
  const good: Outcome = { ok: true, outputs: [] };
  await observeRun(1, async () => [good], 'queue', told);
  assert.equal(statistics.counts.totals().finished, 0);
  const sink = resultSink(
    { save: async (_all, _model, _timers, onBlocked) => (onBlocked?.('not stored', BLOCKED), 1) },
    { observer: told },
  );
  const record = finishedOf(good);
  await sink.save(
    ['stored', 'not stored'].map((id) => ({ ...record, id, uri: id })),
    'v',
  );
  assert.equal(statistics.counts.totals().finished, 1);
  clock.ms += 10_000;
  // An event after the end of a step belongs to the next one, even if nothing has asked for the step.
  await sink.save([{ ...record, id: 'later', uri: 'later' }], 'v');
  assert.deepEqual(
    statistics.history().map(({ finished }) => finished),
    [1],
  );
});

test('requests that ask for predictions are those of the last hour, refused ones included, over any protocol', () => {
  const { statistics, told } = openStatistics();
  const { counts } = statistics;
  const routes = [
    { method: 'POST', route: '/predict', functionName: 'predict' },
    { method: 'POST', route: '/inference.GRPCInferenceService/ModelInfer', functionName: 'predict' },
    { method: 'GET', route: '/predict', functionName: 'predict' },
    { method: 'GET', route: '/metrics', functionName: 'status' },
  ] as const;
  for (const request of routes) told.requestAnswered?.({ ...request, status: 429, tookMs: 1 });
  const none = { method: 'none', route: 'none', functionName: undefined };
  told.requestAnswered?.({ ...none, status: 404, tookMs: 1 });
  assert.equal(counts.requests.values.length, 5);
  assert.equal(counts.totals().requests, 2);
});

test('the most items that waited stay known, and a caller who left before a run does not count as a failure', async () => {
  const { statistics, told } = openStatistics();
  const codes = ['cancelled', 'timeout', 'cancelled'] as const;
  const failures: Outcome[] = codes.map((code) => ({ ok: false, error: new ServingError(code, 'no') }));
  const records = { source: 'request', records: 3 } as const;
  const done: Outcome[] = codes.map(() => ({ ok: true, outputs: [] }));
  told.recordsArrived?.(records);
  told.recordsRan?.({ ...records, outcomes: done, tookMs: 1 });
  await observeRun(3, async () => failures, 'request', told);
  const { maximum_job_in_queue, total_job_in_queue, num_exception } = statistics.status()
    .statistic_postsink as Numbers;
  assert.deepEqual([maximum_job_in_queue, total_job_in_queue, num_exception], [3, 0, 1]);
});

test('clients are counted, ten thousand of them', () => {
  const { clock, statistics, told } = openStatistics();
  const predict = { method: 'POST', route: '/predict', functionName: 'predict' };
  const ask = (client: string, bytes: number) => told.requestAccepted?.({ ...predict, client, bytes });
  const perClient = () => {
    const of = statistics.status().statistic as Numbers;
    return ['avg', 'min', 'max'].map((name) => of[`${name}_request_per_client`]);
  };
  assert.deepEqual(perClient(), [0, 0, 0]);
  ask('a', 10);
  clock.ms += 200_000;
  ask('b', 20);
  ask('b', 30);
  const { num_total_client, num_active_client, max_request_per_client } = statistics.status()
    .statistic as Numbers;
  assert.deepEqual([num_total_client, num_active_client, max_request_per_client], [2, 1, 2]);
  assert.deepEqual(perClient(), [1.5, 1, 2]);
  assert.equal(others(statistics)['sys_input_byte']?.['avg'], 20);
  for (let i = 0; i < 10_001; i++) ask(String(i), 1);
  assert.equal(statistics.status().statistic['num_total_client'], 10_000);
  // Who asks again is not the next to be forgotten.
  ask('1', 1);
  ask('new', 1);
  assert.equal(statistics.status().statistic['max_request_per_client'], 2);
});

test('the page shows the numbers, escapes the name and needs nothing from elsewhere', () => {
  const { clock, statistics, told } = openStatistics();
  told.recordsArrived?.({ source: 'request', records: 1_234 });
  clock.ms += 93_784_000;
  const page = statPage(statistics, { job: `<img src=x onerror="a('b')">&`, workers: 3, batchSize: 10 });
  assert.match(page, /<dt>∑Request<\/dt><dd>1,234<\/dd>/);
  assert.match(page, /<dt>Uptime<\/dt><dd>1 d 2:03:04<\/dd>/);
  assert.match(page, /http-equiv="refresh" content="10"/);
  assert.equal(page.split('<polyline').length, 4);
  assert.doesNotMatch(page, /<img|<script|https?:/);
  assert.equal(escaped(`<a>&"'`), '&lt;a&gt;&amp;&quot;&#39;');
});
