/** The sums and the limits of a budget, as GET /ready and GET /metrics show it. */
import { BUDGET_DELIVERY_SECONDS, type BudgetLimits, type Spent } from '../contract/budget.ts';
import { type FunctionSize, timeCost } from './cost.ts';
import type { Family } from './exposition/families.ts';
import { reachedLimit } from './spent.ts';

/** Dollars of a day or a month of UTC. */
interface ShownPeriod {
  readonly spent: number;
  /** Absent where there is none. */
  readonly limit?: number;
}

export interface ShownBudget {
  readonly day: ShownPeriod;
  readonly month: ShownPeriod;
  /** The dollars by which each environment at work may exceed a limit, because it delivers every few seconds. */
  readonly overshoot: number;
  /** Present while requests are refused. */
  readonly refusesUntil?: string;
}

/** @param size of the functions that run a model */
export function shownBudget(
  limits: BudgetLimits,
  spent: Spent,
  size: FunctionSize,
  nowMs: number,
): ShownBudget {
  const reached = reachedLimit(limits, spent, nowMs);
  const period = (dollars: number, limit: number) => ({ spent: dollars, ...(limit > 0 && { limit }) });
  return {
    day: period(spent.day, limits.perDay),
    month: period(spent.month, limits.perMonth),
    overshoot: timeCost(BUDGET_DELIVERY_SECONDS * 1000, size),
    ...(reached && { refusesUntil: new Date(reached.untilMs).toISOString() }),
  };
}

export function budgetFamilies({ day, month, refusesUntil }: ShownBudget): Family[] {
  const periods = Object.entries({ day, month });
  const values = (of: 'spent' | 'limit') =>
    periods.flatMap(([period, shown]) => {
      const value = shown[of];
      return value === undefined ? [] : [{ labels: { period }, value }];
    });
  return [
    {
      name: 'cluster_serving_budget_spent_dollars',
      type: 'gauge',
      help: 'What requests and records have cost in this day and this month of UTC.',
      values: values('spent'),
    },
    {
      name: 'cluster_serving_budget_limit_dollars',
      type: 'gauge',
      help: 'The limits of the budget.',
      values: values('limit'),
    },
    {
      name: 'cluster_serving_budget_exceeded',
      type: 'gauge',
      help: '1 while requests are refused because a limit of the budget is reached.',
      values: [{ labels: {}, value: refusesUntil === undefined ? 0 : 1 }],
    },
  ];
}
