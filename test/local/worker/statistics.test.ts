/** The statistics of a service on one machine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceStatistics } from '../../../local/worker/statistics.ts';

test('no step ends before the start of its service, also when the process pauses while it tells both', () => {
  let pauseMs = 1;
  let clock = 0;
  const statistics = new ServiceStatistics(() => (clock += pauseMs));
  pauseMs = 50;
  const { since, endedAt, steps } = statistics.live();
  assert.deepEqual(steps, []);
  assert.ok(Date.parse(since) <= endedAt, `${since} ${endedAt}`);
});
