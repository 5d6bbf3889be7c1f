/**
 * Runs the records of a later delivery. A record that ends the function, or never ends, is found by its runs: those that began
 * and got no outcome are counted, and after `most` of them the record ends. A delivery in which the record did not run does not
 * count: Redis, S3 or the model was away, or no time was left.
 */

import { type ErrorCode, ServingError } from '../contract/errors.ts';
import { elementAt } from '../contract/present.ts';
import type { Outcome, Runner } from '../contract/values.ts';
import { exceeded } from './dead-letters.ts';
import { type Deadline, deadlineCheck } from './deadline.ts';
import type { QueuedRecord } from './decode.ts';
import { assertOneEach } from './outcomes.ts';
import { runRedelivered } from './poison-isolation.ts';

export type CountedRecord = Pick<QueuedRecord, 'uri' | 'enqueue' | 'attempts'>;

export interface RunCounts {
  /** The runs without an outcome after which a record is not run again. */
  readonly most: number;
  /** @returns the runs of each record, or why they are not known. @throws results_unavailable when none are known */
  read(records: readonly CountedRecord[]): Promise<readonly (number | ServingError)[]>;
  /** Counts this delivery, once however often it is called. @throws results_unavailable */
  begin(records: readonly CountedRecord[]): Promise<void>;
  /** This delivery does not count after all. Never throws. */
  takeBack(records: readonly CountedRecord[]): Promise<void>;
}

/** Without a store each delivery is taken for a run, and no record ends by that. */
const UNCOUNTED: RunCounts = {
  most: Number.POSITIVE_INFINITY,
  read: async (records) => records.map(({ attempts }) => attempts - 2),
  begin: async () => undefined,
  takeBack: async () => undefined,
};

interface RanCounted {
  readonly outcomes: Outcome[];
  /**
   * Takes back the runs that have ended; never throws. Called after their outcomes are saved, because saving may end the function
   * too. Also where S3 or Redis did not take an outcome: its run is not at fault.
   */
  readonly settle: () => Promise<void>;
}

/** @throws results_unavailable, and errors of opening the model */
export async function runCounted(
  records: readonly QueuedRecord[],
  runner: Runner,
  deadline: Deadline,
  runs: RunCounts = UNCOUNTED,
): Promise<RanCounted> {
  const counts = new Map<QueuedRecord, number | ServingError>();
  for (const [i, count] of (await runs.read(records)).entries())
    counts.set(elementAt(records, i, 'records'), count);
  // False for an unknown count too.
  const allowed = records.filter((record) => Number(counts.get(record)) < runs.most);
  const begun = new Set<QueuedRecord>();
  const begin = async (some: readonly QueuedRecord[]) => {
    const uncounted = some.filter((record) => !begun.has(record));
    if (uncounted.length > 0) await runs.begin(uncounted);
    for (const record of uncounted) begun.add(record);
  };
  const before = Math.max(0, ...allowed.map((record) => Number(counts.get(record))));
  // A record that has one run has it alone.
  const attempts = runs.most === 1 ? 3 : before + 2;
  const ran = await runAllowed(allowed, { runner, deadline, attempts, begin });
  assertOneEach(ran, allowed);
  const outcomes = new Map(allowed.map((record, i) => [record, elementAt(ran, i, 'ran')]));
  const isOpen = (record: QueuedRecord) => begun.has(record) && isUnfinished(outcomes.get(record), runner);
  return {
    outcomes: records.map((record) => {
      const count = counts.get(record) ?? 0;
      const outcome = outcomes.get(record);
      if (count instanceof ServingError) return failed(count);
      const runsNow = isOpen(record) ? count + 1 : count;
      if (outcome && runsNow < runs.most) return outcome;
      const last = outcome?.ok === false ? outcome.error : undefined;
      return failed(exceeded(record.id, runs.most, last));
    }),
    async settle() {
      const ended = [...begun].filter((record) => !isOpen(record));
      if (ended.length > 0) await runs.takeBack(ended);
    },
  };
}

interface Run {
  readonly runner: Runner;
  readonly deadline: Deadline;
  readonly attempts: number;
  readonly begin: (some: readonly QueuedRecord[]) => Promise<void>;
}

async function runAllowed(
  records: readonly QueuedRecord[],
  { runner, deadline, attempts, begin }: Run,
): Promise<Outcome[]> {
  const inputs = records.map((record) => record.inputs);
  const runIsolated = runner.runIsolated?.bind(runner);
  if (!runIsolated) {
    await begin(records);
    return runner.run(inputs, { isOver: deadlineCheck(deadline.remainingMs) });
  }
  return runRedelivered(inputs, runIsolated, deadline, attempts, (places) =>
    begin(places.map((i) => elementAt(records, i, 'records'))),
  );
}

/** Errors of a runner with processes of its own: the record waited for one and got none. */
const WAITED: ReadonlySet<ErrorCode> = new Set(['timeout', 'model_unavailable']);

/** True if a run began without an outcome: it was ended, or it failed in a way that a later one may not. */
function isUnfinished(outcome: Outcome | undefined, runner: Runner): boolean {
  if (!outcome || outcome.ok || !outcome.error.retryable) return false;
  return runner.runIsolated !== undefined || !WAITED.has(outcome.error.code);
}

function failed(error: ServingError): Outcome {
  return { ok: false, error };
}
