/** The days and months of a budget, and when a limit is reached. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasBudget } from '../../../lib/contract/budget.ts';
import { dayOf, reachedLimit, reachedText, retryAfterSeconds, spentNow } from '../../../lib/metrics/spent.ts';

const at = (text: string) => Date.parse(text);
const LIMITS = { perDay: 5, perMonth: 100 };

test('a budget without a limit is none', () => {
  assert.deepEqual(
    [
      [0, 0],
      [1, 0],
      [0, 1],
    ].map(([perDay = 0, perMonth = 0]) => hasBudget({ perDay, perMonth })),
    [false, true, true],
  );
});

test('a day and a month are those of UTC', () => {
  assert.deepEqual(dayOf(at('2026-11-30T23:59:59.999Z')), { date: '2026-11-30', month: '2026-11' });
  assert.deepEqual(dayOf(at('2026-12-01T00:30:00+01:00')), { date: '2026-11-30', month: '2026-11' });
});

test('a limit is reached at its amount, and until its day or its month is over', () => {
  const nowMs = at('2026-11-29T12:00:00Z');
  const reached = (day: number, month: number, limits = LIMITS) =>
    reachedLimit(limits, { date: '2026-11-29', day, month }, nowMs);
  assert.equal(reached(4.99, 99.99), undefined);
  assert.deepEqual(reached(5, 5), { setting: 'budget.perDay', untilMs: at('2026-11-30T00:00:00Z') });
  assert.deepEqual(reached(0, 100), { setting: 'budget.perMonth', untilMs: at('2026-12-01T00:00:00Z') });
  assert.equal(reached(7, 100)?.setting, 'budget.perMonth', 'the one that ends last');
  assert.equal(reached(1e6, 1e6, { perDay: 0, perMonth: 0 }), undefined);
  assert.equal(reachedLimit(LIMITS, undefined, nowMs), undefined);
});

test('the last day of a year ends in the next', () => {
  const nowMs = at('2026-12-31T23:00:00Z');
  const spent = { date: '2026-12-31', day: 5, month: 100 };
  assert.equal(reachedLimit({ perDay: 5, perMonth: 0 }, spent, nowMs)?.untilMs, at('2027-01-01T00:00:00Z'));
  assert.equal(reachedLimit(LIMITS, spent, nowMs)?.untilMs, at('2027-01-01T00:00:00Z'));
});

test('what was spent yesterday counts in the month only, and nothing of the last month counts', () => {
  const spent = { date: '2026-11-29', day: 5, month: 50 };
  assert.deepEqual(spentNow(spent, at('2026-11-30T00:00:00Z')), { date: '2026-11-30', day: 0, month: 50 });
  assert.deepEqual(spentNow(spent, at('2026-12-01T00:00:00Z')), { date: '2026-12-01', day: 0, month: 0 });
  assert.equal(reachedLimit(LIMITS, spent, at('2026-11-30T00:00:00Z')), undefined);
});

test('a client reads the end, and comes back within an hour', () => {
  const reached = { setting: 'budget.perDay', untilMs: at('2026-11-30T00:00:00Z') } as const;
  const after = (time: string) => retryAfterSeconds(reached, at(time));
  assert.deepEqual(
    [
      after('2026-11-29T00:00:00Z'),
      after('2026-11-29T23:30:00Z'),
      after('2026-11-29T23:59:59.999Z'),
      after('2026-11-30T00:00:00Z'),
    ],
    [3_600, 1_800, 1, 1],
  );
  assert.match(
    reachedText(reached),
    /budget of the day .*budget\.perDay.* from 2026-11-30T00:00:00\.000Z on$/,
  );
});
