/** Decides which sums belong to a day and a month of UTC, and whether they reach a limit of the budget. */
import type { BudgetLimits, Reached, Spent } from '../contract/budget.ts';

/** A client may come back earlier than the limit ends: somebody may have raised it. */
const LONGEST_RETRY_SECONDS = 3_600;

/** The day of UTC of a time, and the month that the day begins with: "2026-11-29" and "2026-11". */
export function dayOf(nowMs: number): { readonly date: string; readonly month: string } {
  const date = new Date(nowMs).toISOString().slice(0, 10);
  return { date, month: date.slice(0, 7) };
}

/** @returns what was spent in the day and the month of `nowMs`, of what was spent at some time */
export function spentNow(spent: Spent | undefined, nowMs: number): Spent {
  const { date, month } = dayOf(nowMs);
  return {
    date,
    day: spent?.date === date ? spent.day : 0,
    month: spent?.date.startsWith(month) ? spent.month : 0,
  };
}

/** @returns the limit that ends last; undefined where none is reached */
export function reachedLimit(
  { perDay, perMonth }: BudgetLimits,
  spent: Spent | undefined,
  nowMs: number,
): Reached | undefined {
  const { day, month } = spentNow(spent, nowMs);
  const now = new Date(nowMs);
  const [year, monthIndex] = [now.getUTCFullYear(), now.getUTCMonth()];
  if (perMonth > 0 && month >= perMonth)
    return { setting: 'budget.perMonth', untilMs: Date.UTC(year, monthIndex + 1) };
  if (perDay > 0 && day >= perDay)
    return { setting: 'budget.perDay', untilMs: Date.UTC(year, monthIndex, now.getUTCDate() + 1) };
  return undefined;
}

export function retryAfterSeconds({ untilMs }: Reached, nowMs: number): number {
  return Math.min(LONGEST_RETRY_SECONDS, Math.max(1, Math.ceil((untilMs - nowMs) / 1000)));
}

/** For a caller, who need not know the amounts. */
export function reachedText({ setting, untilMs }: Reached): string {
  const period = setting === 'budget.perDay' ? 'day' : 'month';
  return `the job's budget of the ${period} is used up (${setting}); requests are answered again from ${new Date(untilMs).toISOString()} on`;
}
