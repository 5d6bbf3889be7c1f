/** Which runs are reported as running, and what is awaited of a report. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunningReports } from '../../../lib/results/running.ts';
import { enqueued } from '../../support/enqueue.ts';

const recordsOf = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ uri: `u${i}`, enqueue: enqueued(`e${i}`) }));

function open(markRunning?: () => Promise<void>) {
  const clock = { ms: 5 };
  const marked: (readonly [count: number, timeoutMs: number])[] = [];
  const states = {
    markRunning: async (records: readonly unknown[], timeoutMs: number) => {
      marked.push([records.length, timeoutMs]);
      await markRunning?.();
    },
  };
  const reports = new RunningReports(states, 7_000, () => clock.ms);
  const run = async (count: number, tookMs: number) => {
    const end = await reports.begin(recordsOf(count));
    clock.ms += tookMs;
    await end();
  };
  return { marked, run, reports };
}

test('the first run is reported, and then each that will take 100 ms as the last one went', async () => {
  const { marked, run } = open();
  await run(2, 100);
  assert.deepEqual(marked.splice(0), [[2, 7_000]], 'nothing is known of the first');
  // A record takes 50 ms.
  await run(1, 50);
  assert.deepEqual(marked.splice(0), []);
  await run(2, 20);
  assert.deepEqual(marked.splice(0), [[2, 7_000]]);
  // A record takes 10 ms.
  await run(9, 90);
  assert.deepEqual(marked.splice(0), []);
  await run(10, 100);
  assert.deepEqual(marked.splice(0), [[10, 7_000]]);
  // A run of no records tells nothing of a record.
  await run(0, 10_000);
  await run(9, 90);
  assert.deepEqual(marked.splice(0), []);
});

test('a run waits for its report for a second at most, and its end for the whole', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let answer: () => void = () => undefined;
  const { reports } = open(() => new Promise((resolve) => (answer = resolve)));
  const seen: string[] = [];
  const begun = Promise.resolve(reports.begin(recordsOf(1))).then((end) => {
    seen.push('begun');
    return end;
  });
  t.mock.timers.tick(999);
  await new Promise(setImmediate);
  assert.equal(seen.length, 0);
  t.mock.timers.tick(1);
  const ended = (await begun)().then(() => void seen.push('ended'));
  await new Promise(setImmediate);
  assert.deepEqual(seen, ['begun']);
  answer();
  await ended;
  assert.deepEqual(seen, ['begun', 'ended']);
});
