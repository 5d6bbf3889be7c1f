/**
 * Runs the queue's batches in pieces of bounded time, each of which waits in the run queue, so that a request waits for
 * a piece and not for a batch. How long records take is known only afterwards, so the next piece is as large as fits by
 * the last one. Time in the run queue does not count as the function's; otherwise good records would run out of time
 * and of tries.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Inputs, Outcome, Runner, RunPolicy } from '../lib/contract/values.ts';
import type { ModelManager } from '../lib/inference/model-manager.ts';
import type { RunQueue } from './run-queue.ts';

type Model = Pick<ModelManager, 'use'>;
type Line = Pick<RunQueue, 'runPortion' | 'portionLimitMs'>;

/** Below it a clock says nothing. */
const LEAST_RECORD_MS = 0.001;

interface Portions {
  readonly model: Model;
  /** Runs an invocation on a clock of its own. */
  readonly invoke: <T>(work: () => Promise<T>) => Promise<T>;
  /** Within an invocation: ms without those for which one of its portions waited in the line. */
  readonly functionClock: () => number;
}

/** How long an invocation has waited in the line, ms; and since when it waits now. */
interface Waits {
  waitedMs: number;
  sinceMs?: number | undefined;
}

/**
 * What runs in an isolated process does not wait in the line.
 * @param now a clock in ms
 */
export function inPortions(model: Model, line: Line, now: () => number): Portions {
  const invocations = new AsyncLocalStorage<Waits>();
  const begin = (waits: Waits) => {
    waits.sinceMs = now();
  };
  const end = (waits: Waits) => {
    waits.waitedMs += now() - (waits.sinceMs ?? now());
    waits.sinceMs = undefined;
  };
  /** Of a record in the last portion; before there was one, a portion is one record. */
  let recordMs = Number.POSITIVE_INFINITY;

  const portion = async (runner: Runner, left: readonly Inputs[], options?: RunPolicy) => {
    const count = Math.max(1, Math.floor(line.portionLimitMs / recordMs));
    const records = left.slice(0, count);
    const startedMs = now();
    const outcomes = await runner.run(records, options);
    // Records that fail at once say nothing of the next ones: a portion is at most twice the last.
    const least = Number.isFinite(recordMs) ? recordMs / 2 : LEAST_RECORD_MS;
    recordMs = Math.max(LEAST_RECORD_MS, least, (now() - startedMs) / records.length);
    return { outcomes, left: left.slice(records.length) };
  };
  const run = async (runner: Runner, records: readonly Inputs[], options?: RunPolicy) => {
    const all: Outcome[] = [];
    const waits: Waits = invocations.getStore() ?? { waitedMs: 0 };
    const taken = async (left: readonly Inputs[]) => {
      end(waits);
      try {
        return await portion(runner, left, options);
      } finally {
        // The next one may have the thread before we hear that ours has ended.
        begin(waits);
      }
    };
    begin(waits);
    try {
      for (let left = records; left.length > 0; ) {
        const ran = await line.runPortion(() => taken(left));
        all.push(...ran.outcomes);
        left = ran.left;
      }
      return all;
    } finally {
      end(waits);
    }
  };
  return {
    model: { use: (work) => model.use((runner) => work(replaced(runner, run))) },
    invoke: (work) => invocations.run({ waitedMs: 0 }, work),
    functionClock: () => {
      const { waitedMs = 0, sinceMs } = invocations.getStore() ?? {};
      return (sinceMs ?? now()) - waitedMs;
    },
  };
}

/** The same runner with another `run`. It may be an instance of somebody's class, whose methods a copy would lose. */
function replaced(
  runner: Runner,
  run: (runner: Runner, records: readonly Inputs[], options?: RunPolicy) => Promise<Outcome[]>,
): Runner {
  const runIsolated = runner.runIsolated?.bind(runner);
  return {
    version: runner.version,
    run: (records, options) => run(runner, records, options),
    ...(runIsolated ? { runIsolated } : {}),
    close: () => runner.close(),
  };
}
