/** F13, the short form: statuses and counts. How long it takes is the long form's business (test/long). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertSound } from './support/judge.ts';
import { overload } from './support/overload.ts';
import { startService } from './support/service.ts';

const ROUNDS = 10_000;
test('ten times of what it can serve: the excess gets 429 with Retry-After, what is accepted is served, the queue drains', async (t) => {
  const report = await overload(await startService(t), {
    rounds: ROUNDS,
    measureSeconds: 1,
    overloadSeconds: 2,
    times: 10,
    recordsPerSecond: 50,
  });
  assertSound(report);
});

test('ten times of tokensPerSecond: what the bucket does not let through gets 429 with Retry-After', async (t) => {
  const config = ['http:', '  tokenBucketEnabled: true', '  tokensPerSecond: 30'];
  const report = await overload(await startService(t, config), {
    rounds: 1,
    measureSeconds: 1,
    overloadSeconds: 2,
    times: 10,
    recordsPerSecond: 50,
    limitPerSecond: 30,
  });
  assertSound(report);
  // A second's tokens may go at once, and one waits for each of the last tenth of a second.
  const most = 30 * (report.overloadMs / 1000 + 1.1);
  const served = report.overloaded.statuses[200] ?? 0;
  assert.ok(served <= most, `${served} served, ${most} tokens`);
});
