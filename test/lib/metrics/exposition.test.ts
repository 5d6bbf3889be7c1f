import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Counter, type Family, Histogram } from '../../../lib/metrics/exposition/families.ts';
import { infoFamilies, timerFamilies } from '../../../lib/metrics/exposition/shared.ts';
import { exposition, formatFor } from '../../../lib/metrics/exposition/text.ts';
import { Timers } from '../../../lib/metrics/timers.ts';
import { DeliveredTimers } from '../../../lib/observe/timers.ts';

test('a client gets the format that it names first, and everybody else the JSON of the contract', () => {
  const prometheus2 =
    'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1';
  for (const [accept, expected] of [
    [undefined, undefined],
    ['', undefined],
    ['*/*', undefined],
    ['text/html,application/xhtml+xml,*/*;q=0.8', undefined],
    ['application/json, text/plain, */*', undefined],
    ['text/plain;q=0.4, application/json;q=0.9', undefined],
    ['text/plain;q=0', undefined],
    ['text/plain;q=no', undefined],
    ['text/plain; version=0.0.4', 'prometheus'],
    ['TEXT/PLAIN', 'prometheus'],
    ['application/json;q=0.1, text/plain;q=0.2', 'prometheus'],
    ['application/openmetrics-text; version=1.0.0', 'openmetrics'],
    [prometheus2, 'openmetrics'],
    ['constructor', undefined],
  ] as const)
    assert.equal(formatFor(accept), expected, accept);
});

function families(): Family[] {
  const requests = new Counter();
  requests.add({ route: '/a', status: '200' });
  requests.add({ route: '/a', status: '200' }, 2);
  requests.add({ route: '/b "\\\n', status: '503' });
  const seconds = new Histogram([0.5, 1, 2.5]);
  for (const value of [0.5, 0.25, 2, 9]) seconds.observe({}, value);
  return [
    { name: 'x_requests', type: 'counter', help: 'All\n"of" them.', values: requests.values },
    { name: 'x_seconds', type: 'histogram', unit: 'seconds', help: 'Time.', values: seconds.values },
    { name: 'x_depth', type: 'gauge', help: 'Now.', values: [{ labels: {}, value: 0 }] },
    { name: 'x_none', type: 'gauge', help: 'Nothing.', values: [] },
    { name: 'x_build', type: 'info', help: 'What.', values: [{ labels: { version: '1' }, value: 1 }] },
  ];
}

const SAMPLES = `x_seconds_bucket{le="0.5"} 2
x_seconds_bucket{le="1.0"} 2
x_seconds_bucket{le="2.5"} 3
x_seconds_bucket{le="+Inf"} 4
x_seconds_sum 11.75
x_seconds_count 4`;

test('Prometheus gets whole names, gauges for infos, and cumulative buckets', () => {
  assert.equal(
    exposition(families(), 'prometheus'),
    `# HELP x_requests_total All\\n"of" them.
# TYPE x_requests_total counter
x_requests_total{route="/a",status="200"} 3
x_requests_total{route="/b \\"\\\\\\n",status="503"} 1
# HELP x_seconds Time.
# TYPE x_seconds histogram
${SAMPLES}
# HELP x_depth Now.
# TYPE x_depth gauge
x_depth 0
# HELP x_build_info What.
# TYPE x_build_info gauge
x_build_info{version="1"} 1
`,
  );
});

test('OpenMetrics gets names of families, units, infos and an end', () => {
  assert.equal(
    exposition(families(), 'openmetrics'),
    `# HELP x_requests All\\n\\"of\\" them.
# TYPE x_requests counter
x_requests_total{route="/a",status="200"} 3
x_requests_total{route="/b \\"\\\\\\n",status="503"} 1
# HELP x_seconds Time.
# TYPE x_seconds histogram
# UNIT x_seconds seconds
${SAMPLES}
# HELP x_depth Now.
# TYPE x_depth gauge
x_depth 0
# HELP x_build What.
# TYPE x_build info
x_build_info{version="1"} 1
# EOF
`,
  );
});

test('the timers of all environments become histograms in seconds whose bounds are those of their buckets', () => {
  const timers = new Timers();
  for (const ms of [0.3, 1, 3, 3, 400_000]) timers.record('zoo.serving.request.predict', ms);
  const [family] = timerFamilies(timers.take());
  assert.equal(family?.name, 'cluster_serving_inference_seconds');
  assert.ok(family.type === 'histogram');
  const [{ buckets, count, sum } = assert.fail()] = family.values;
  assert.deepEqual([count, sum], [5, 400.0073]);
  const upTo = new Map(buckets);
  assert.deepEqual(
    [0.000512, 0.001024, 0.002048, 0.004096].map((bound) => upTo.get(bound)),
    [1, 2, 2, 4],
  );
  assert.deepEqual(buckets.at(-1), [268.435456, 4]);
});

test('a model that cannot serve has no version', () => {
  const [model, share, build] = infoFamilies('job', undefined, '1.2.3');
  assert.deepEqual([model?.values, share?.values], [[], []]);
  assert.deepEqual(build?.values, [{ labels: { version: '1.2.3' }, value: 1 }]);
});

test('timers are delivered once a second, and half a minute after a failure, with what was measured meanwhile', async (t) => {
  let nowMs = 0;
  let isAway = true;
  const counts: (number | undefined)[] = [];
  const logged = t.mock.method(process.stdout, 'write', () => true).mock;
  const reporter = new DeliveredTimers({
    now: () => nowMs,
    deliver: async (timers) => {
      const taken = timers.take();
      counts.push(taken.get('zoo.serving.redis.put')?.count);
      if (!isAway) return;
      timers.restore(taken);
      throw new Error('away');
    },
  });
  const at = async (ms: number) => {
    nowMs = ms;
    await reporter.flush();
  };
  await at(5_000);
  assert.deepEqual(counts, []);
  nowMs = 0;
  reporter.stepEnded({ step: 'write', tookMs: 999 });
  await at(999);
  assert.deepEqual(counts, []);
  await at(1_000);
  assert.deepEqual([counts, logged.callCount()], [[1], 1]);
  reporter.timers.record('zoo.serving.redis.put', 1);
  await at(30_999);
  assert.equal(counts.length, 1);
  isAway = false;
  await at(31_000);
  assert.deepEqual([counts, logged.callCount()], [[1, 2], 1]);
  reporter.timers.record('zoo.serving.redis.put', 1);
  await at(31_999);
  assert.equal(counts.length, 2);
  await at(32_000);
  assert.deepEqual([counts, reporter.timers.empty], [[1, 2, 1], true]);
});
