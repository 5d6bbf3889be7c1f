/** The figures of one service on this machine, by value, and the table of its sample. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceCounts } from '../../lib/observe/counts.ts';
import { type LiveFigures, serviceFamilies } from '../../local/description/figures.ts';
import { sampleTable } from '../../local/service/sample.ts';

function figures(live: Partial<LiveFigures> = {}) {
  const queue = () => ({ waiting: 1, running: 2, delayed: 3, oldestMs: undefined });
  const families = serviceFamilies(new ServiceCounts(), { load: {}, queue, ...live });
  const valueOf = (name: string) => {
    const [first] = families.find((one) => one.name === name)?.values ?? [];
    return first && 'value' in first ? first.value : undefined;
  };
  return { families, valueOf };
}

test('the load of the processes is what they say, or that of one that does nothing', () => {
  const names = ['workers', 'records_waiting', 'worker_busy_seconds'].map(
    (name) => `cluster_serving_${name}`,
  );
  assert.deepEqual(names.map(figures().valueOf), [1, 0, 0]);
  const load = { workers: () => 3, waiting: () => 4, busyMs: () => 5_500 };
  assert.deepEqual(names.map(figures({ load }).valueOf), [3, 4, 5.5]);
});

test('the queue has its messages by their state, and how long the first has been there', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 10_000 });
  const { families, valueOf } = figures();
  const messages = families.find(({ name }) => name === 'cluster_serving_queue_messages');
  assert.deepEqual(messages?.values, [
    { labels: { state: 'waiting' }, value: 1 },
    { labels: { state: 'running' }, value: 2 },
    { labels: { state: 'delayed' }, value: 3 },
  ]);
  assert.equal(valueOf('cluster_serving_queue_age_seconds'), 0);
  for (const [oldestMs, seconds] of [
    [7_500, 2.5],
    [10_001, 0],
  ] as const) {
    const queue = () => ({ waiting: 1, running: 0, delayed: 0, oldestMs });
    assert.equal(figures({ queue }).valueOf('cluster_serving_queue_age_seconds'), seconds);
  }
});

test('the process says its processor time, its memory and its start, each in its unit', (t) => {
  t.mock.method(process, 'cpuUsage', () => ({ user: 1_500_000, system: 500_000 }));
  const { families, valueOf } = figures();
  assert.equal(valueOf('process_cpu_seconds'), 2);
  assert.ok((valueOf('process_resident_memory_bytes') as number) > 1_000_000);
  assert.equal(valueOf('process_start_time_seconds'), performance.timeOrigin / 1_000);
  const units = families.flatMap(({ name, unit }) => (unit === undefined ? [] : [`${name} ${unit}`]));
  for (const one of units) assert.ok(one.split(' ')[0]?.endsWith(`_${one.split(' ')[1]}`), one);
  assert.deepEqual(
    families.filter(({ type }) => type === 'counter').map(({ name }) => name),
    [
      'cluster_serving_requests',
      'cluster_serving_records',
      'cluster_serving_worker_busy_seconds',
      'process_cpu_seconds',
    ],
  );
});

test('the table of the sample marks what is wrong', () => {
  const answer = (of: number) => ({ class: of, probability: 0.51236, ms: 1.26 });
  const row = (label: number, predict: number, queue: number) => ({
    image: 'i.png',
    uri: 'u',
    label,
    predict: answer(predict),
    queue: answer(queue),
  });
  const line = (predict: number, queue: number, mark = '') =>
    `  i.png  predict class ${predict} p 0.5124    1.3 ms   queue class ${queue} p 0.5124    1.3 ms   u${mark}`;
  const rows = [row(3, 3, 3), row(3, 4, 3), row(3, 3, 4)];
  assert.deepEqual(sampleTable({ rows, right: 1 }).split('\n'), [
    line(3, 3),
    line(4, 3, '  WRONG, it is a 3'),
    line(3, 4, '  WRONG, it is a 3'),
    '  1 of 3 right, both ways the same',
  ]);
});
