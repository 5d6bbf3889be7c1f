/** The limits of a job's budget, in dollars of a day and a month of UTC (lib/metrics/spent.ts). */

/** 0: no limit. */
export interface BudgetLimits {
  readonly perDay: number;
  readonly perMonth: number;
}

/** The sums when they were last asked for. */
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

/** The interval in which a function environment adds its costs to the sums and reads them, so they are this old at most. */
export const BUDGET_DELIVERY_SECONDS = 5;
/** How often the function `throttle` looks whether the queue has to be slower. */
export const BUDGET_LOOK_SECONDS = 60;
/** The least concurrency that Lambda gives a queue. */
export const LEAST_CONCURRENCY = 2;

export function hasBudget({ perDay, perMonth }: BudgetLimits): boolean {
  return perDay > 0 || perMonth > 0;
}
