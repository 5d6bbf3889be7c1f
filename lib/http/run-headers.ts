/** The headers by which an answer names what made it: bits of a number may follow the runtime and the rows of a run. */
import type { Outcome, Runner } from '../contract/values.ts';

export type RunHeaders = Readonly<Record<string, string>>;

/** Sizes of runs that are named; a request of thousands of records has more. */
const MOST_RUNS = 8;

export function runHeaders(
  { version, runtime }: Pick<Runner, 'version' | 'runtime'>,
  outcomes: readonly Outcome[],
): RunHeaders {
  const rows = new Set<number>();
  for (const outcome of outcomes)
    if (outcome.ok && outcome.place && rows.size < MOST_RUNS) rows.add(outcome.place.rows);
  return {
    'model-version': version,
    ...(runtime !== undefined && { 'model-runtime': runtime }),
    ...(rows.size > 0 && { 'run-rows': [...rows].join(', ') }),
  };
}
