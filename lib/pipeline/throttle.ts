/**
 * Slows the queues of a job down while a limit of its budget is reached, and gives them their concurrency back when the day or
 * the month is over, or the limit was raised. It compares what is with what should be, so that a look that failed is made
 * up for by the next one.
 */
import { LEAST_CONCURRENCY, type Spent } from '../contract/budget.ts';
import { allEnded } from '../contract/under-way.ts';

/** A queue that calls a function. */
export interface EventSource {
  /** The id of its mapping in Lambda. */
  readonly id: string;
  /** Functions at the same time, as the settings say. */
  readonly concurrency: number;
}

export interface ThrottleDeps {
  readonly sources: readonly EventSource[];
  /** The sums with which a function found a limit reached; undefined when none has since the last `forget`. */
  readonly readMark: () => Promise<Spent | undefined>;
  /** True while those sums reach a limit. */
  readonly isReached: (spent: Spent) => boolean;
  readonly forget: () => Promise<void>;
  readonly concurrencyOf: (id: string) => Promise<number | undefined>;
  readonly setConcurrency: (id: string, most: number) => Promise<void>;
  /** Logs a change. */
  readonly onChanged: (text: string, facts: Readonly<Record<string, unknown>>) => void;
}

export const throttle = (deps: ThrottleDeps) => async (): Promise<{ readonly isSlow: boolean }> => {
  const spent = await deps.readMark();
  if (!spent) return { isSlow: false };
  const isSlow = deps.isReached(spent);
  await allEnded(deps.sources.map((source) => (isSlow ? slowDown(source, deps) : restore(source, deps))));
  // Kept until all have their concurrency again: a failure above is repeated.
  if (!isSlow) await deps.forget();
  return { isSlow };
};

async function slowDown({ id }: EventSource, { concurrencyOf, setConcurrency, onChanged }: ThrottleDeps) {
  const current = await concurrencyOf(id);
  if (current !== undefined && current <= LEAST_CONCURRENCY) return;
  await setConcurrency(id, LEAST_CONCURRENCY);
  onChanged('a limit of the budget is reached: the queue is slowed down', { eventSource: id, was: current });
}

/** A concurrency that a person has set meanwhile stays. */
async function restore(
  { id, concurrency }: EventSource,
  { concurrencyOf, setConcurrency, onChanged }: ThrottleDeps,
) {
  if (concurrency <= LEAST_CONCURRENCY || (await concurrencyOf(id)) !== LEAST_CONCURRENCY) return;
  await setConcurrency(id, concurrency);
  onChanged('the queue has its concurrency again', { eventSource: id, concurrency });
}
