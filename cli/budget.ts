/** Writes how much of the budget of a job was spent. */
import type { ShownBudget } from '../lib/metrics/budget.ts';

export function budgetText({ day, month, overshoot, refusesUntil }: ShownBudget): string {
  const spent = [
    ['today', day],
    ['this month', month],
  ] as const;
  const parts = spent.map(([when, { spent: dollars, limit }]) => {
    const of = limit === undefined ? '' : ` of ${amount(limit)}`;
    return `${amount(dollars)}${of} dollars ${when}`;
  });
  const refused = refusesUntil === undefined ? '' : `; requests are refused until ${refusesUntil}`;
  const over = `each function environment at work may exceed a limit by ${amount(overshoot)}`;
  return `budget  ${parts.join(', ')} (UTC)${refused}; ${over}`;
}

/** To a cent, and below one with two digits: what little traffic costs is not nothing. */
function amount(dollars: number): string {
  return dollars === 0 || dollars >= 0.01
    ? dollars.toFixed(2)
    : dollars.toLocaleString('en-US', { maximumSignificantDigits: 2 });
}
