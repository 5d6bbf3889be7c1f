/** Observes the running of records, wherever they come from. */
import { ServingError } from '../contract/errors.ts';
import { elementAt } from '../contract/present.ts';
import type { Inputs, Outcome, Runner, RunPolicy } from '../contract/values.ts';
import type { QueuedRecord } from './decode.ts';
import type { Observers, Source } from './observer.ts';

/** Tells that records wait and have run. */
export async function observeRun(
  records: number,
  run: () => Promise<Outcome[]>,
  source: Source,
  observers: Observers,
): Promise<Outcome[]> {
  if (!observers.recordsRan && !observers.recordsArrived) return run();
  const startedMs = observers.now();
  const end = (outcomes: readonly Outcome[]) =>
    observers.recordsRan?.({ source, outcomes, tookMs: observers.now() - startedMs });
  observers.recordsArrived?.({ source, records });
  try {
    const outcomes = await run();
    end(outcomes);
    return outcomes;
  } catch (error) {
    // They fail as a whole.
    const failed: Outcome = { ok: false, error: ServingError.from(error) };
    end(Array.from({ length: records }, () => failed));
    throw error;
  }
}

/** Tells the answer of a request, or its failure. */
export async function observeRequest(
  answer: () => Promise<Outcome[]>,
  { records, runner, policy }: AskedRecords,
  observers: Observers,
): Promise<Outcome[]> {
  const { requestId = () => '' } = policy;
  const common = { source: 'request', model: runner.version, id: requestId, traceId: undefined } as const;
  try {
    const outcomes = await answer();
    observers.recordsAnswered?.({ ...common, policy, records, outcomes });
    return outcomes;
  } catch (error) {
    observers.recordsAnswered?.({ ...common, policy, records, outcomes: ServingError.from(error) });
    throw error;
  }
}

interface AskedRecords {
  readonly records: readonly Inputs[];
  readonly runner: Pick<Runner, 'version'>;
  readonly policy: RunPolicy;
}

/** Tells the outcome of each record of the queue that has one: those that are delivered again will have theirs. */
export function observeRecords(
  records: readonly QueuedRecord[],
  outcomes: readonly Outcome[],
  model: string,
  observers: Observers,
): void {
  for (const [i, { uri, enqueue, inputs }] of records.entries()) {
    const outcome = elementAt(outcomes, i, 'outcomes');
    if (!outcome.ok && outcome.error.retryable) continue;
    observers.recordsAnswered?.({
      source: 'queue',
      model,
      id: () => uri,
      traceId: enqueue.trace?.traceId,
      policy: {},
      records: [inputs],
      outcomes: [outcome],
    });
  }
}
