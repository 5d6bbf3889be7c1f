/**
 * In: the model as the queue's batches use it, and the line before the model. Out: the same model, whose runs wait in
 * that line and are cut into portions of bounded time, so that a request waits for a portion and not for a batch.
 * Trap: how long records take is known only afterwards, and a run of many may take as long as a run of one: the next
 * portion is as large as the last one's records would fit into the time.
 */
import type { Inputs, Outcome, Runner, RunOptions } from '../lib/contract/values.ts';
import type { ModelHost } from '../lib/model/host.ts';
import type { RunQueue } from './run-queue.ts';

type Model = Pick<ModelHost, 'use'>;
type Line = Pick<RunQueue, 'runPortion' | 'portionLimitMs'>;

/** Below it a clock says nothing. */
const LEAST_RECORD_MS = 0.001;

/**
 * What runs behind the fence has a process of its own and does not wait in the line.
 * @param now a clock in ms
 */
export function inPortions(model: Model, line: Line, now: () => number): Model {
  /** Of a record in the last portion; before there was one, a portion is one record. */
  let recordMs = Number.POSITIVE_INFINITY;

  const portion = async (runner: Runner, left: readonly Inputs[], options?: RunOptions) => {
    const count = Math.max(1, Math.floor(line.portionLimitMs / recordMs));
    const records = left.slice(0, count);
    const startedMs = now();
    const outcomes = await runner.run(records, options);
    // Records that fail at once say nothing of the next ones: a portion is at most twice the last.
    const least = Number.isFinite(recordMs) ? recordMs / 2 : LEAST_RECORD_MS;
    recordMs = Math.max(LEAST_RECORD_MS, least, (now() - startedMs) / records.length);
    return { outcomes, left: left.slice(records.length) };
  };
  const run = async (runner: Runner, records: readonly Inputs[], options?: RunOptions) => {
    const all: Outcome[] = [];
    for (let left = records; left.length > 0; ) {
      const ran = await line.runPortion(() => portion(runner, left, options));
      all.push(...ran.outcomes);
      left = ran.left;
    }
    return all;
  };
  return { use: (work) => model.use((runner) => work(replaced(runner, run))) };
}

/** The same runner with another `run`. It may be an instance of somebody's class, whose methods a copy would lose. */
function replaced(
  runner: Runner,
  run: (runner: Runner, records: readonly Inputs[], options?: RunOptions) => Promise<Outcome[]>,
): Runner {
  const fenced = runner.fenced?.bind(runner);
  return {
    version: runner.version,
    run: (records, options) => run(runner, records, options),
    ...(fenced ? { fenced } : {}),
    close: () => runner.close(),
  };
}
