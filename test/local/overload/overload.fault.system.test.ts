/** F13, the short form: statuses and counts. How long it takes is the long form's business (overload.fault.long.test.ts). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertSound, isOverload } from './support/judge.ts';
import { overload } from './support/overload.ts';
import { startService } from './support/service.ts';

const ROUNDS = 10_000;
/** Of what was measured just before. On a machine that was busy then and is not now, ten times is no overload. */
const TIMES = [10, 40, 160];

test('ten times of what it can serve: the excess gets 429 with Retry-After, what is accepted is served, the queue drains', async (t) => {
  for (const times of TIMES) {
    const report = await overload(await startService(t), {
      rounds: ROUNDS,
      measureSeconds: 1,
      overloadSeconds: 2,
      times,
      recordsPerSecond: 50,
    });
    const isLast = isOverload(report) || times === TIMES.at(-1);
    assertSound(report, isLast);
    if (isLast) break;
  }
});

/** Few: a machine too slow for ten times of it would have more time, and so more tokens, than the test means. */
const TOKENS = 5;

test('ten times of tokensPerSecond: what the bucket does not let through gets 429 with Retry-After', async (t) => {
  const config = ['http:', '  tokenBucketEnabled: true', `  tokensPerSecond: ${TOKENS}`];
  const report = await overload(await startService(t, config), {
    rounds: 1,
    measureSeconds: 1,
    overloadSeconds: 2,
    times: 10,
    recordsPerSecond: 50,
    limitPerSecond: TOKENS,
  });
  assertSound(report);
  // A second's tokens may go at once, and one waits for each of the last tenth of a second.
  const most = TOKENS * (report.overloadMs / 1000 + 1.1);
  const served = report.overloaded.statuses[200] ?? 0;
  assert.ok(served <= most, `${served} served, ${most} tokens`);
});
