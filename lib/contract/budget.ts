/** The limits of a job's budget, in dollars of a day and a month of UTC, and whether they are reached. */

/** 0: no limit. */
export interface BudgetLimits {
  readonly perDay: number;
  readonly perMonth: number;
}

/** What the counter had when it was last asked. */
export interface Spent {
  /** As "2026-11-29". */
  readonly date: string;
  /** Dollars of that day. */
  readonly day: number;
  /** Dollars of its month. */
  readonly month: number;
}

/** A limit that is reached. */
export interface Reached {
  readonly setting: 'budget.perDay' | 'budget.perMonth';
  /** When the day or the month is over, in ms since 1970. */
  readonly untilMs: number;
}

/** How often a function environment delivers what it has cost, and asks what all have: the longest that it may not know. */
export const BUDGET_DELIVERY_SECONDS = 5;
/** How often the function `throttle` looks whether the queue has to be slower. */
export const BUDGET_LOOK_SECONDS = 60;
/** The least concurrency that Lambda gives a queue. */
export const LEAST_CONCURRENCY = 2;
/** A client may come back earlier than the limit ends: somebody may have raised it. */
const LONGEST_RETRY_SECONDS = 3_600;

export function hasBudget({ perDay, perMonth }: BudgetLimits): boolean {
  return perDay > 0 || perMonth > 0;
}

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
