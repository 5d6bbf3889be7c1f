/** Loads the code that counts costs, where it is needed. */
import type { Environment } from '../config/environment.ts';
import { hasBudget } from '../contract/budget.ts';

/** @returns undefined for a job without a budget, and for a function that cannot reach the sums */
export async function loadBudget({ job, hasResults }: Environment) {
  return hasBudget(job.budget) && hasResults ? import('./budget.ts') : undefined;
}
