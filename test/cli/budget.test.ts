/** The lines of `status` and `doctor` about a budget. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { budgetText } from '../../cli/budget.ts';
import { budgetFacts, budgetText as doctorText } from '../../infra/doctor/budget.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';

test('status says what was spent of which limit, also little, and until when requests are refused', () => {
  const day = { spent: 0.000_002_345, limit: 5 };
  const shown = { day, month: { spent: 20.104 }, overshoot: 0.000_143_96 };
  assert.equal(
    budgetText(shown),
    'budget  0.0000023 of 5.00 dollars today, 20.10 dollars this month (UTC); each function environment at work may exceed a limit by 0.00014',
  );
  assert.match(
    budgetText({ ...shown, refusesUntil: '2026-11-30T00:00:00.000Z' }),
    /\(UTC\); requests are refused until 2026-11-30T00:00:00\.000Z; each/,
  );
});

test('doctor says by how much a limit may be exceeded, and what the queues cost when it is reached', () => {
  const factsOf = (queue: object, jobs: object, arch: 'x86_64' | 'arm64' = 'x86_64') =>
    budgetFacts(
      { arch },
      {
        ...DEFAULT_JOB,
        budget: { perDay: 5, perMonth: 100 },
        queue: { ...DEFAULT_JOB.queue, ...queue },
        jobs: { ...DEFAULT_JOB.jobs, ...jobs },
      },
    );
  assert.equal(budgetFacts({ arch: 'x86_64' }, DEFAULT_JOB), null);
  const facts = factsOf({}, {});
  assert.ok(facts);
  // Two functions of 1,769 MB that never rest.
  const second = (1_769 / 1_024) * 0.000_016_666_7;
  assert.ok(Math.abs(facts.overshoot - 5 * second) < 1e-12);
  assert.ok(Math.abs(facts.slowestPerDay - 2 * 86_400 * second) < 1e-9);
  assert.equal(
    doctorText(facts),
    'budget: 5 a day, 100 a month in dollars of use, beside what is idle; each function environment at work may exceed a limit by 0.00014; at the limit queues cost at most 4.98 a day',
  );
  const more = factsOf({ highShare: 0.5 }, { maximumConcurrency: 3 });
  assert.ok(Math.abs((more?.slowestPerDay ?? 0) - 3 * facts.slowestPerDay) < 1e-9);
});
