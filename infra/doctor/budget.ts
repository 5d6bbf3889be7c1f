/** A line of doctor with the dollars that the budget of a job does not stop. */
import type { JobConfig } from '../../lib/config/job.ts';
import {
  BUDGET_DELIVERY_SECONDS,
  type BudgetLimits,
  hasBudget,
  LEAST_CONCURRENCY,
} from '../../lib/contract/budget.ts';
import { timeCost } from '../../lib/metrics/cost.ts';
import { eventSources } from '../template/budget.ts';
import type { Settings } from '../template/config.ts';

export interface BudgetFacts extends BudgetLimits {
  /** The cost of an environment between two deliveries. */
  readonly overshoot: number;
  /** The most that the functions of slow queues cost in a day. */
  readonly slowestPerDay: number;
}

const DAY_SECONDS = 86_400;

/** @returns null for a job without a budget */
export function budgetFacts({ arch }: Pick<Settings, 'arch'>, job: JobConfig): BudgetFacts | null {
  if (!hasBudget(job.budget)) return null;
  const second = timeCost(1_000, { memoryMB: job.function.memoryMB, arch });
  return {
    ...job.budget,
    overshoot: BUDGET_DELIVERY_SECONDS * second,
    slowestPerDay: eventSources(job).length * LEAST_CONCURRENCY * DAY_SECONDS * second,
  };
}

export function budgetText({ perDay, perMonth, overshoot, slowestPerDay }: BudgetFacts): string {
  const limits = [
    ...(perDay > 0 ? [`${perDay} a day`] : []),
    ...(perMonth > 0 ? [`${perMonth} a month`] : []),
  ];
  return [
    `budget: ${limits.join(', ')} in dollars of use, beside what is idle`,
    `each function environment at work may exceed a limit by ${overshoot.toPrecision(2)}`,
    `at the limit queues cost at most ${slowestPerDay.toFixed(2)} a day`,
  ].join('; ');
}
