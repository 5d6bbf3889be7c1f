/** Requirements on the outcomes of a run. */
import { ServingError } from '../contract/errors.ts';
import type { Outcome } from '../contract/values.ts';

/** Outcomes match records by position, so a runner that returns another number of them answers none. */
export function assertOneEach(outcomes: readonly Outcome[], records: readonly unknown[]): void {
  if (outcomes.length === records.length) return;
  const found = `the runner gave ${outcomes.length} outcomes for ${records.length} records`;
  throw new ServingError('internal', found);
}
